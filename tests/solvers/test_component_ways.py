"""How searches for sparse components go, their bounds and starts (``ways.py``)."""

import numpy as np
import pytest
from ways import Setting, Ways, total

from jointsparse.solvers.sparse_component import (
    bound_admm,
    certificate,
    deflation,
    entries,
    gershgorin,
    many_features,
    nonnegative,
    open_part,
    part,
    primal,
    search,
    solve,
)
from jointsparse.solvers.sparse_component.joint import bound as joint_sums
from jointsparse.solvers.sparse_component.joint import part as joint_part
from jointsparse.solvers.sparse_component.joint import primal as joint_primal

KERNELS = (bound_admm, certificate, entries, gershgorin, many_features, nonnegative, open_part)
KERNELS += (part, primal, search, solve, joint_sums, joint_part, joint_primal)


def component(
    setting, k=5, shape=(30, 18), included=(), r=None, coarse=False, most=12, tol=1e-6, **options
):
    """Search for a component, or for several with the same features."""
    kind = {"nonnegative": options.pop("nonnegative")} if "nonnegative" in options else {}
    setting.change(KERNELS, options, coarse=coarse)
    for place in (primal, many_features, part):
        setting.count(place, "best_on")
    setting.count(part, "is_below", "upper_eigenvalue")
    for place in (bound_admm.Relaxation, joint_sums.JointRelaxation):
        setting.count(place, "_project")
    for place in (joint_primal, joint_part):
        setting.count(place, "best_jointly_on")
    S, included = setting.matrix(*shape), np.array(included, dtype=np.int64)
    if r is None:
        found = search.Search(S, k, included, tol=tol, **kind)
    else:
        found = search.JointSearch(S, k, r, included, tol=tol)
    way = [found.bound, found.best.value]
    found.run(max_nodes=most)
    way += [found.nodes, found.n_open, found.kept.size, setting.calls, found.closed, found.bound]
    return (*way, total([node.bound for node in found._heap]))


def bounded(setting, k=4, shape=(30, 14), included=(), r=None, coarse=False, steps=100, **options):
    """Make steps of a relaxation, and look at what its certificate says."""
    kind = {"nonnegative": options.pop("nonnegative")} if "nonnegative" in options else {}
    setting.change(KERNELS, options, coarse=coarse)
    S, mask = setting.matrix(*shape), np.isin(np.arange(shape[1]), included)
    if r is None:
        relaxation = bound_admm.Relaxation(S, k, mask, **kind)
    else:
        relaxation = joint_sums.JointRelaxation(S, k, r, mask)
    first = relaxation.certificate().value
    relaxation.advance(steps)
    state, found = relaxation.state(), relaxation.certificate()
    way = first, found.value, relaxation.rho, state.n_numbers
    if r is None:
        free = np.flatnonzero(~mask)
        sums = total(found.rows.with_each(free)), total(found.rows.without_feature(int(free[1])))
        return (*way, *sums, total(relaxation.chances() ** 2))
    return (*way, total(found.with_each()), total(found.without_each()), total(relaxation.z**2))


def eliminated(
    setting, k=4, shape=(30, 40), included=(), nonnegative=False, coarse=False, **constants
):
    """Let features leave by rows of the matrix, at several levels; and bound a nonnegative part."""
    setting.change(KERNELS, constants, coarse=coarse)
    S, mask = setting.matrix(*shape), np.isin(np.arange(shape[1]), included)
    best = primal.good_component(S, k, mask, nonnegative=nonnegative)
    found = [best.value]
    for share in (0.7, 0.9, 1.0, 1.2):
        kept, bound = gershgorin.eliminate(S, k, mask, share * best.value, nonnegative=nonnegative)
        found += [kept.size, bound]
    block = S[: 2 * k, : 2 * k] - S[: 2 * k, : 2 * k].mean()
    return (*found, nonnegative_bound(block))


def nonnegative_bound(block):
    return nonnegative.bound_on_faces(block, 0.1 * float(np.max(block)))


def by_products(setting, k=4, shape=(30, 60), included=(), coarse=False, mean=False, **options):
    """Let features leave by products with the samples, then search among the others."""
    kind = {"nonnegative": options.pop("nonnegative")} if "nonnegative" in options else {}
    setting.change(KERNELS, {"MOST_DENSE": 12, "PASSES": 3, **options}, coarse=coarse)
    setting.count(many_features, "best_on")
    X = setting.data(*shape) * (1 + 3 * (np.arange(shape[1]) % 9 == 2))
    shift = np.linspace(0, 1, shape[1]) if mean else None
    samples = entries.ScatterEntries(
        X, solve.power_of_two(float(np.sum(X**2, axis=0).max())), shift
    )
    everything, included = np.arange(shape[1]), np.array(included, dtype=np.int64)
    proof = solve.prove_samples(samples, k, everything, included, **kind)
    way = [proof.bound, proof.best.value, samples.error(k), samples.rounding]
    proof.run()
    many = proof.many
    way += [proof.bound, many.bound, many.kept.size, total(many.radii), total(many.weights)]
    return (*way, proof.gone, proof.idle, proof.nodes, setting.calls)


def deflated(setting, counts=(4, 3, 3), shape=(30, 10), dense=True):
    X = setting.data(*shape)
    setting.patch.setattr(deflation, "blocks", lambda n: [slice(0, 4), slice(4, n)])
    left = deflation.Deflated(X.T @ X) if dense else deflation.Deflated(None, X)
    found = deflation.components_by_deflation(left, counts, seconds=100.0, tol=1e-6)
    return total(found.values), total(found.bounds), found.nodes, total(np.abs(found.loadings))


CASES = {
    # name: (what is run, and with what)
    "component": (component, {}),
    "component, coarse": (component, {"coarse": True, "tol": 0.0001}),
    "component, nonnegative": (component, {"nonnegative": True, "shape": (30, 12)}),
    "component, included": (component, {"included": [2, 5]}),
    "component, many nodes": (
        component,
        {"shape": (60, 20), "k": 6, "CHUNKS": (2,), "OTHER_CHUNKS": (2,), "most": 30},
    ),
    "component, many nodes, nonnegative": (
        component,
        {
            "shape": (60, 11, 3, 1),
            "k": 4,
            "nonnegative": True,
            "CHUNKS": (2, 3),
            "OTHER_CHUNKS": (2,),
            "most": 30,
        },
    ),
    "component, cut in two": (
        component,
        {"shape": (60, 20, 3, 0), "k": 6, "CHUNKS": (2,), "OTHER_CHUNKS": (2,), "most": 4},
    ),
    "component, cut in two, included, coarse": (
        component,
        {
            "shape": (60, 18, 5, 0),
            "k": 6,
            "included": [3, 9],
            "CHUNKS": (3, 3),
            "OTHER_CHUNKS": (3,),
            "most": 5,
            "coarse": True,
        },
    ),
    "component, cut in two, nonnegative": (
        component,
        {
            "shape": (60, 10, 3, 0),
            "k": 4,
            "nonnegative": True,
            "CHUNKS": (3,),
            "OTHER_CHUNKS": (2,),
            "most": 2,
        },
    ),
    "component, all steps": (component, {"shape": (30, 12, 3, 0), "k": 4, "SLOW": 2.0, "most": 1}),
    "component of two": (component, {"k": 2}),
    "component, noise": (component, {"shape": (60, 18, 3, 0), "k": 6, "most": 8}),
    "component, noise, coarse": (
        component,
        {"shape": (60, 18, 4, 0), "k": 4, "most": 3, "tol": 0.0001, "coarse": True},
    ),
    "component, noise, included": (
        component,
        {
            "shape": (60, 18, 3, 0),
            "k": 4,
            "included": [7],
            "most": 5,
            "CHUNKS": (20, 20),
            "OTHER_CHUNKS": (2,),
        },
    ),
    "components, noise": (
        component,
        {"shape": (60, 16, 3, 0), "k": 5, "r": 2, "most": 5, "CHUNKS": (20, 20, 20)},
    ),
    "components, noise, a few steps": (
        component,
        {"shape": (60, 16, 5, 0), "k": 5, "r": 3, "most": 20, "CHUNKS": (5, 5, 5)},
    ),
    "components, all steps": (
        component,
        {"shape": (30, 10, 5, 0), "k": 4, "r": 2, "SLOW": 2.0, "most": 1},
    ),
    "components": (component, {"r": 2}),
    "components, coarse": (component, {"r": 2, "coarse": True, "tol": 0.0001}),
    "components, included": (component, {"r": 3, "included": [1, 4], "k": 6}),
    "components, many nodes": (component, {"r": 2, "CHUNKS": (5,), "most": 30}),
    "bound": (bounded, {}),
    "bound, coarse": (bounded, {"coarse": True}),
    "bound, few steps": (bounded, {"steps": 7, "k": 6}),
    "bound, included": (bounded, {"included": [2, 5], "coarse": True}),
    "bound, nonnegative": (bounded, {"nonnegative": True}),
    "bound, some eigenpairs": (bounded, {"SMALL": 5, "FEW": 0.9, "steps": 30}),
    "bound, balanced": (bounded, {"BALANCE_BEYOND": 1.1, "steps": 70}),
    "bound, balanced for a while": (
        bounded,
        {"BALANCE_BEYOND": 1.1, "BALANCE_UNTIL": 40, "steps": 70},
    ),
    "bound of two, balanced": (bounded, {"r": 2, "BALANCE_BEYOND": 1.1, "steps": 70}),
    "bound of two": (bounded, {"r": 2}),
    "bound of two, coarse": (bounded, {"r": 2, "coarse": True}),
    "bound of two, included": (bounded, {"r": 2, "included": [0, 9], "coarse": True}),
    "bound of two, few steps": (bounded, {"r": 2, "steps": 3, "k": 7}),
    "discs": (eliminated, {}),
    "discs, coarse": (eliminated, {"coarse": True}),
    "discs, nonnegative": (eliminated, {"nonnegative": True, "coarse": True}),
    "discs, few faces": (eliminated, {"MOST_FACES": 4}),
    "discs, included": (eliminated, {"included": [3, 11], "coarse": True}),
    "products": (by_products, {}),
    "products, coarse": (by_products, {"coarse": True}),
    "products, a mean, coarse": (by_products, {"coarse": True, "mean": True}),
    "products, nonnegative": (by_products, {"nonnegative": True, "k": 5}),
    "products, included": (by_products, {"included": [4, 20], "coarse": True}),
    "products, in blocks": (
        by_products,
        {"BLOCK_NUMBERS": 130, "coarse": True, "shape": (40, 50), "k": 3},
    ),
    "deflation": (deflated, {}),
    "deflation of samples": (deflated, {"dense": False}),
}


WAYS = Ways(CASES, __file__)


@pytest.mark.parametrize("name", CASES)
def test_no_search_goes_another_way(name, monkeypatch):
    WAYS.compare(name, Setting(monkeypatch))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_rounding_changes_no_way(name, seed, monkeypatch):
    WAYS.compare(name, Setting(monkeypatch, seed))


if __name__ == "__main__":
    WAYS.accept()

"""What must not change an answer: order, units, signs, offsets, and how copies are told.

One table taller than wide and one wider than tall; every method, by public names. What fails today
is marked, with the reason.
"""

import numpy as np
import pytest
from answers import subjects
from answers.tables import planted

TABLES = {"tall": planted(31, 60, 12, [3, 3], 1.5), "wide": planted(32, 24, 40, [6, 6], 1.5)}
METHODS = {  # penalties are relative, or numbers that suit every unit; a second word tells variants
    "SPCAPSD": {"alpha": 0.2, "eta": 0.1, "tol": 1e-6},
    "CSPCA": {"alpha": 0.2, "eta": 0.1, "tol": 1e-6},
    "CSPCA all": {"alpha": 0.2, "eta": 0.1, "psd": False, "tol": 1e-6},
    "AWSPCA": {"alpha": 0.2, "tol": 1e-6},
    "AWSPCA all": {"alpha": 0.2, "psd": False, "tol": 1e-6},
    "SPCAFS": {"alpha": 0.3, "n_components": 3, "tol": 1e-6},
    "LaplacianScore": {},
    "UDFS": {"alpha": 0.3, "n_clusters": 3, "tol": 1e-6},
    "SOGFS": {"alpha": 0.3, "n_clusters": 3, "n_components": 2, "tol": 1e-6},
    "RNE": {},
    "MCFS": {"alpha": 0.1, "n_clusters": 3},
    "GreedySelector": {},
    "SubsetSelector": {"search": "swap"},
    "SPCA": {"alpha": 0.2, "ridge": 1e-3, "tol": 1e-8},
    "SPCA limit": {"alpha": 0.5, "ridge": "inf", "tol": 1e-8},
    "SPCA count": {"n_nonzero": 4, "tol": 1e-8},
    "DictionarySPCA": {"alpha": 0.2, "tol": 1e-12},
    "JSPCA samples": {"alpha": 0.3, "loss": "samples", "tol": 1e-7},
    "JSPCA features": {"alpha": 0.3, "loss": "features", "tol": 1e-7},
    "JSPCA frobenius": {"alpha": 0.3, "loss": "frobenius", "tol": 1e-7},
    "FSSL": {"graph": "lpp", "mu": 10.0},
    "FSSL pca": {"graph": "pca", "mu": 10.0, "norm": "l11"},
    "FSSL equality": {"graph": "pca", "constraint": "equality", "tol": 1e-8},
    "KernelFSSL": {"graph": "lpp", "mu": 10.0},
    "RobustPCA": {"alpha": 1.0},
}
IN_TRACE = {  # penalties as multiples of tr S, in the units of the loss
    "SPCAPSD": {"alpha": 0.05, "eta": 0.05},
    "CSPCA": {"alpha": 0.05, "eta": 0.05},
    "AWSPCA": {"alpha": 0.05},
    "SPCAFS": {"alpha": 0.01},
    "UDFS": {"alpha": 0.02},
    "SOGFS": {"alpha": 0.02},
    "SPCA": {"alpha": 0.02, "ridge": 1e-3},
    "DictionarySPCA": {"alpha": 0.05},
    **{f"JSPCA {loss}": {"alpha": 0.05} for loss in ("samples", "features", "frobenius")},
}
TRACE = "'trace' is tr S, which grows with the square of the unit; the loss grows with the unit"
GAMMA = "gamma='scale' takes differences of the columns' means for variance"
FAILS = {  # (relation, method): why it fails today
    ("other units and penalties by trace", "CSPCA"): TRACE,
    ("other units and penalties by trace", "AWSPCA"): TRACE,
    ("other signs", "KernelFSSL"): GAMMA,
    ("other offsets", "KernelFSSL"): GAMMA,
}
RELATIONS = {}
KERNELS_HAVE_NO = ("weights are copies", "equal columns share", "declared batches")


def relation(check):
    RELATIONS[check.__name__.replace("_", " ")] = check
    return check


def answer(method, X, changed=None, **given):
    """Return objective and scores of a method."""
    name = method.partition(" ")[0]
    params = {**METHODS[method], **(changed or {})}
    if name in subjects.SELECTORS:
        params["n_features_to_select"] = 5
    fitted = subjects.fit(name, params, X, **given)
    return subjects.objective(fitted), subjects.scores(fitted)


def same(one, other, unit=1.0):
    """Compare objectives, and scores by the largest."""
    np.testing.assert_allclose(other[0], unit * one[0], rtol=4e-6, atol=1e-12)
    if one[1].shape == other[1].shape:  # those of a kernel method belong to its samples
        np.testing.assert_allclose(other[1], one[1], atol=1e-4 * one[1].max())


@relation
def samples_in_another_order(method, X):
    order = np.random.default_rng(1).permutation(len(X))
    one, other = answer(method, X), answer(method, X[order])
    same(one, (other[0], one[1] if method == "KernelFSSL" else other[1]))


@relation
def features_in_another_order(method, X):
    order = np.random.default_rng(2).permutation(X.shape[1])
    (objective, scores), other = answer(method, X), answer(method, X[:, order])
    same((objective, scores if method == "KernelFSSL" else scores[order]), other)


@relation
def other_signs(method, X):
    same(answer(method, X), answer(method, X * np.where(np.arange(X.shape[1]) % 2, 1.0, -1.0)))


@relation
def other_offsets(method, X):
    same(answer(method, X), answer(method, X + np.arange(X.shape[1]) - 5.0))


def scaled(method, X, changed=None):
    for unit in (1e-3, 1e4):
        (_, one), (_, other) = answer(method, X, changed), answer(method, unit * X, changed)
        assert one.any()
        np.testing.assert_allclose(other / other.max(), one / one.max(), atol=1e-4)


@relation
def other_units(method, X):
    scaled(method, X)


@relation
def other_units_and_penalties_by_trace(method, X):
    scaled(method, X, {**IN_TRACE[method], "penalty_scale": "trace"})


@relation
def weights_are_copies(method, X):
    # But for what is noise: copies say no more of it, whatever the other code takes them for.
    changed = {"target": "reconstruction"} if method == "GreedySelector" else None
    weights = np.random.default_rng(3).integers(1, 4, len(X))
    copies = answer(method, np.repeat(X, weights, axis=0), changed)
    same(copies, answer(method, X, changed, sample_weight=weights))


@relation
def equal_columns_share(method, X):
    _, scores = answer(method, np.hstack([X, X[:, :2]]))
    np.testing.assert_allclose(scores[-2:], scores[:2], atol=1e-4 * scores.max())


@relation
def declared_batches(method, X):
    batch = np.arange(len(X)) % 3
    shifts = np.random.default_rng(4).standard_normal((3, X.shape[1]))
    same(answer(method, X, batch=batch), answer(method, X + shifts[batch], batch=batch))


def applies(what, method):
    """Whether a method has such penalties; that of kernels knows neither weights nor scores."""
    if what == "other units and penalties by trace":
        return method in IN_TRACE
    return method != "KernelFSSL" or what not in KERNELS_HAVE_NO


@pytest.mark.parametrize("shape", ["tall", pytest.param("wide", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("what", "method"),
    [(what, method) for what in RELATIONS for method in METHODS if applies(what, method)],
)
def test_invariance(what, method, shape, request):
    if (what, method) in FAILS:
        request.applymarker(pytest.mark.xfail(reason=FAILS[what, method], strict=False))
    RELATIONS[what](method, TABLES[shape])

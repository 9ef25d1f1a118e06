"""Bounds on components with common features are proofs: each against all supports."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jointsparse.solvers.sparse_component.joint.bound import (
    JointRelaxation,
    joint_certificate,
    upper_sum,
)
from jointsparse.solvers.sparse_component.joint.primal import best_jointly_on, good_components
from jointsparse.solvers.sparse_component.search import JointSearch

REFEREE = np.longdouble
NOBODY = np.zeros(0, dtype=np.int64)


def attained(block, r):
    """What r orthonormal vectors attain, in extended precision: never above the optimum."""
    V = np.linalg.eigh(block)[1][:, -r:].astype(REFEREE)
    block = block.astype(REFEREE)
    for j in range(r):  # orthonormal to more digits
        for i in range(j):
            V[:, j] -= (V[:, i] @ V[:, j]) * V[:, i]
        V[:, j] /= np.sqrt(V[:, j] @ V[:, j])
    return np.sum(V * (block @ V))


def all_supports(S, k, r, included=()):
    free = [j for j in range(len(S)) if j not in included]
    found = []
    for chosen in itertools.combinations(free, k - len(included)):
        support = (*included, *chosen)
        found.append((attained(S[np.ix_(support, support)], r), set(support)))
    return found


KINDS = ["covariance", "indefinite", "integers", "copies", "scales", "eye"]


@st.composite
def problems(draw):
    p = draw(st.integers(2, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(
        st.sampled_from(["covariance", "indefinite", "integers", "copies", "scales", "eye"])
    )
    X = rng.standard_normal((5, p))
    if kind == "copies":
        X[:, rng.integers(0, p, p // 2)] = X[:, [0]]
    if kind == "scales":
        X *= 10.0 ** rng.integers(-4, 5, p)
    S = X.T @ X
    if kind == "indefinite":
        S = rng.standard_normal((p, p))
    if kind == "integers":
        S = rng.integers(-2, 3, (p, p)).astype(float)
    if kind == "eye":
        S = np.eye(p)
    S = (S + S.T) / 2
    S = S * 2.0 ** -np.ceil(np.log2(np.max(np.abs(S)) or 1.0))
    k = draw(st.integers(1, p))
    r = draw(st.integers(1, min(k, 3)))
    included = tuple(rng.permutation(p)[: draw(st.integers(0, min(k, 2)))].tolist())
    return S, k, r, included, rng


def as_mask(included, p):
    mask = np.zeros(p, dtype=bool)
    mask[list(included)] = True
    return mask


def check_certificate(found, supports, mask):
    assert found.value >= max(value for value, _ in supports)
    with_each, without_each = found.with_each(), found.without_each()
    for j in np.flatnonzero(~mask):
        assert with_each[j] >= max((v for v, s in supports if j in s), default=-np.inf)
        assert without_each[j] >= max((v for v, s in supports if j not in s), default=-np.inf)


@settings(max_examples=150, deadline=None)
@given(problems())
def test_any_certificate_is_above_every_support(problem):
    S, k, r, included, rng = problem
    mask, supports = as_mask(included, len(S)), all_supports(S, k, r, included)
    A = rng.standard_normal((len(S), rng.integers(1, len(S) + 1))) * rng.choice([1e-5, 0.3, 1.0])
    check_certificate(joint_certificate(S, A @ A.T, k, r, mask), supports, mask)
    # Also one that is not positive semidefinite: what is missing is charged.
    B = rng.standard_normal((len(S), len(S)))
    check_certificate(joint_certificate(S, B, k, r, mask), supports, mask)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_every_iterate_is_a_proof(problem):
    S, k, r, included, rng = problem
    if k == len(S) or len(included) == k:
        return
    mask, supports = as_mask(included, len(S)), all_supports(S, k, r, included)
    relaxation = JointRelaxation(S, k, r, mask)
    for _ in range(12):
        check_certificate(relaxation.certificate(), supports, mask)
        relaxation.advance(int(rng.integers(1, 8)))


@settings(max_examples=120, deadline=None)
@given(problems(), st.sampled_from([1e-9, 1e-6, 1e-2]), st.sampled_from([(2,), (8, 8), None]))
def test_a_search_is_right_after_every_node(problem, tol, chunks):
    S, k, r, included, _ = problem
    with pytest.MonkeyPatch.context() as patch:
        if chunks is not None:  # weak relaxations: more nodes, more of the search is tried
            patch.setattr("jointsparse.solvers.sparse_component.joint.part.CHUNKS", chunks)
        supports = all_supports(S, k, r, included)
        best = max(value for value, _ in supports)
        search = JointSearch(S, k, r, np.array(included, dtype=np.int64), tol=tol)
        bounds = [search.bound]
        while not search.proved and search.n_open:
            search.run(max_nodes=1)
            bounds.append(search.bound)
    assert min(bounds) >= best
    assert np.all(np.diff(bounds) <= 0)
    assert search.proved
    assert best - 1.01 * tol * max(abs(best), 1e-3) <= search.best.value <= best + 1e-14
    assert set(included) <= set(search.best.features.tolist())
    level = search.problem.level(search.best.value)
    assert all(support <= set(search.kept) for value, support in supports if value > level)


def test_a_sum_of_eigenvalues_is_bounded_closely():
    rng = np.random.default_rng(0)
    for p in (1, 6, 60):
        A = rng.standard_normal((p, p))
        A = (A + A.T) / 2
        for r in (1, 2, 5):
            if r <= p:
                exact = attained(A, r)
                assert exact <= upper_sum(A, r) <= exact + 1e-9
    assert upper_sum(np.eye(4), 2) >= 2
    assert upper_sum(np.full((3, 3), np.nan), 2) == np.inf


def test_equal_features_are_proved_at_once_by_their_variances():
    S = np.full((20, 20), 0.5)  # twenty copies of one feature
    search = JointSearch(S, 6, 2, NOBODY)
    assert search.proved
    assert search.nodes == 0


def test_one_component_is_that_of_the_other_search():
    X = np.random.default_rng(0).standard_normal((40, 9))
    S = X.T @ X / 128
    search = JointSearch(S, 3, 1, NOBODY)
    search.run()
    assert search.best.value == pytest.approx(float(max(v for v, _ in all_supports(S, 3, 1))))


def test_good_components_are_orthonormal_and_mostly_the_best():
    hits = 0
    for seed in range(20):
        X = np.random.default_rng(seed).standard_normal((20, 9))
        S = X.T @ X / 64
        found = good_components(S, 4, 2, np.zeros(9, dtype=bool))
        assert np.allclose(found.loadings.T @ found.loadings, np.eye(2))
        again = best_jointly_on(S, found.features, 2)
        assert again.value == pytest.approx(found.value)
        hits += found.value >= max(v for v, _ in all_supports(S, 4, 2)) - 1e-12
    assert hits >= 17


def test_an_interrupted_search_loses_nothing(monkeypatch):
    X = np.random.default_rng(3).standard_normal((40, 12))
    S = X.T @ X / 128
    monkeypatch.setattr("jointsparse.solvers.sparse_component.joint.part.CHUNKS", (2,))
    search = JointSearch(S, 5, 2, NOBODY)
    search.run(max_nodes=2)
    before = search.bound, search.n_open

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("jointsparse.solvers.sparse_component.joint.part.JointPart.work", interrupt)
        with pytest.raises(KeyboardInterrupt):
            search.run()
    assert (search.bound, search.n_open) == before
    search.run(time_limit=1e-9)
    search.run(time_limit=0.02)
    search.run()
    assert search.proved

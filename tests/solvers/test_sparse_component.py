"""Bounds on sparse components are proofs: every one of them against all supports."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jointsparse.operators.dense import DenseSamples
from jointsparse.operators.sparse import SparseSamples
from jointsparse.solvers.sparse_component.bound_admm import Relaxation
from jointsparse.solvers.sparse_component.certificate import (
    certificate,
    is_below,
    upper_eigenvalue,
)
from jointsparse.solvers.sparse_component.deflation import Deflated, components_by_deflation
from jointsparse.solvers.sparse_component.entries import ScatterEntries
from jointsparse.solvers.sparse_component.gershgorin import eliminate
from jointsparse.solvers.sparse_component.many_features import ManyFeatures
from jointsparse.solvers.sparse_component.nonnegative import bound_on_faces
from jointsparse.solvers.sparse_component.part import proved_needed, proved_useless
from jointsparse.solvers.sparse_component.primal import best_on, good_component, largest
from jointsparse.solvers.sparse_component.problem import Problem
from jointsparse.solvers.sparse_component.search import Search
from jointsparse.solvers.sparse_component.solve import prove_matrix, prove_samples

REFEREE = np.longdouble
NOBODY = np.zeros(0, dtype=np.int64)


def quotient(block, v):
    """Rayleigh quotient in extended precision: what v attains, whatever v is."""
    block, v = block.astype(REFEREE), v.astype(REFEREE)
    return v @ (block @ v) / (v @ v)


def best_nonnegative(block):
    """The best v >= 0: the best positive first eigenvector of all faces."""
    best = -np.inf
    for size in range(1, len(block) + 1):
        for face in itertools.combinations(range(len(block)), size):
            part = block[np.ix_(face, face)]
            v = np.linalg.eigh(part)[1][:, -1]
            v = v if v.sum() >= 0 else -v
            if v.min() >= -1e-12:
                best = max(best, quotient(part, np.maximum(v, 0)))
    return best


def all_supports(S, k, included=(), nonnegative=False):
    """Return [(value, support)] of every support."""
    free = [j for j in range(len(S)) if j not in included]
    found = []
    for chosen in itertools.combinations(free, k - len(included)):
        support = (*included, *chosen)
        block = S[np.ix_(support, support)]
        value = (
            best_nonnegative(block)
            if nonnegative
            else quotient(block, np.linalg.eigh(block)[1][:, -1])
        )
        found.append((value, set(support)))
    return found


KINDS = ["covariance", "indefinite", "integers", "copies", "zero", "equal", "scales", "identity",
         "negative"]  # fmt: skip


def matrix(kind, p, rng):
    X = rng.standard_normal((6, p))
    if kind == "copies":
        X[:, rng.integers(0, p, p // 2)] = X[:, [0]]
    if kind == "zero":
        X[:, rng.integers(0, p)] = 0
    if kind == "scales":
        X *= 10.0 ** rng.integers(-4, 5, p)
    S = X.T @ X
    if kind == "indefinite":
        S = rng.standard_normal((p, p))
    if kind == "integers":
        S = rng.integers(-2, 3, (p, p)).astype(float)
    if kind == "equal":
        S = np.full((p, p), 0.3) + np.diag(rng.random(p) * 0.01)
    if kind == "identity":
        S = np.eye(p)
    S = (S + S.T) / 2
    S = -S if kind == "negative" else S
    size = np.max(np.abs(S))
    return S if size == 0 else S * 2.0 ** -np.ceil(np.log2(size))


@st.composite
def problems(draw, largest=7):
    p = draw(st.integers(2, largest))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    S = matrix(draw(st.sampled_from(KINDS)), p, rng)
    k = draw(st.integers(1, p))
    included = tuple(rng.permutation(p)[: draw(st.integers(0, min(k, 2)))].tolist())
    return S, k, included, draw(st.booleans()), rng


def as_mask(included, p):
    mask = np.zeros(p, dtype=bool)
    mask[list(included)] = True
    return mask


@settings(max_examples=150, deadline=None)
@given(problems())
def test_any_certificate_is_above_every_support(problem):
    S, k, included, nonnegative, rng = problem
    p, mask = len(S), as_mask(included, len(S))
    supports = all_supports(S, k, included, nonnegative)
    size = rng.choice([1e-9, 0.1, 1.0])
    U, B = rng.standard_normal((2, p, p)) * size
    found = certificate(S, U, np.abs(B), k, mask, nonnegative=nonnegative)
    assert found.value >= max(value for value, _ in supports)
    for j in np.flatnonzero(~mask):
        with_j = [value for value, support in supports if j in support]
        without = [value for value, support in supports if j not in support]
        for values, sums in (
            (with_j, found.rows.with_feature(j)),
            (without, found.rows.without_feature(j)),
        ):
            if values:
                assert upper_eigenvalue(found.bounded(sums)) >= max(values)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_every_iterate_is_a_proof(problem):
    S, k, included, nonnegative, rng = problem
    if not 2 <= k < len(S) or len(included) == k:
        return
    best = max(value for value, _ in all_supports(S, k, included, nonnegative))
    relaxation = Relaxation(S, k, as_mask(included, len(S)), nonnegative=nonnegative)
    for _ in range(15):
        assert relaxation.certificate().value >= best
        relaxation.advance(int(rng.integers(1, 8)))


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from([0.7, 0.95, 1.0]))
def test_what_leaves_is_in_no_better_support(problem, share):
    S, k, included, nonnegative, _ = problem
    mask = as_mask(included, len(S))
    supports = all_supports(S, k, included, nonnegative)
    best = float(max(value for value, _ in supports))
    level = best - (1 - share) * abs(best)
    kept, bound = eliminate(S, k, mask, level, nonnegative=nonnegative)
    assert max(bound, level) >= best
    better = [support for value, support in supports if value > level]
    assert all(support <= set(kept) for support in better)
    if 2 <= k < len(S) and len(included) < k:
        relaxation = Relaxation(S, k, mask, nonnegative=nonnegative)
        relaxation.advance(40)
        found = relaxation.certificate()
        useless, needed = proved_useless(found, level), proved_needed(found, level)
        assert not any(useless[list(support)].any() for support in better)
        assert all(set(np.flatnonzero(needed)) <= support for support in better)


@settings(max_examples=120, deadline=None)
@given(problems(), st.sampled_from([1e-9, 1e-6, 1e-2]), st.sampled_from([(2,), (8, 8), None]))
def test_a_search_is_right_after_every_node(problem, tol, chunks):
    S, k, included, nonnegative, _ = problem
    with pytest.MonkeyPatch.context() as patch:
        if chunks is not None:  # weak relaxations: more nodes, more of the search is tried
            patch.setattr("jointsparse.solvers.sparse_component.part.CHUNKS", chunks)
        check_search(S, k, included, nonnegative, tol)


def check_search(S, k, included, nonnegative, tol):
    best = max(value for value, _ in all_supports(S, k, included, nonnegative))
    search = Search(S, k, np.array(included, dtype=np.int64), nonnegative=nonnegative, tol=tol)
    bounds = []
    while not search.proved and search.n_open:
        bounds.append(search.bound)
        search.run(max_nodes=1)
    bounds.append(search.bound)
    assert min(bounds) >= best
    assert np.all(np.diff(bounds) <= 0)
    assert search.best.value <= best + 1e-14
    assert search.proved
    assert search.best.value >= best - 1.01 * tol * max(abs(best), 1e-6)
    assert set(included) <= set(search.best.features.tolist())


def spiked(n=60, p=40, k=5, seed=0, strength=8.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, :k] += strength**0.5 * rng.standard_normal((n, 1))
    X -= X.mean(axis=0)
    return X / np.sqrt(n)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_the_unit_changes_nothing(scale):
    X = spiked(p=12)
    S = X.T @ X
    everything = np.arange(12)
    one, other = (prove_matrix(M, 4, everything, NOBODY) for M in (S, S * scale))
    one.run()
    other.run()
    assert one.best.features.tolist() == other.best.features.tolist()
    assert one.best.value / one.scale * scale == pytest.approx(other.best.value / other.scale)


def test_the_order_of_the_features_changes_nothing():
    X = spiked(p=14, strength=1.0)
    S = X.T @ X
    order = np.random.default_rng(1).permutation(14)
    proofs = [prove_matrix(M, 5, np.arange(14), NOBODY) for M in (S, S[np.ix_(order, order)])]
    for proof in proofs:
        proof.run()
    assert set(order[proofs[1].best.features]) == set(proofs[0].best.features)
    assert proofs[0].best.value == pytest.approx(proofs[1].best.value, rel=1e-12)


@pytest.fixture
def hard(monkeypatch):
    """A matrix without structure, and relaxations of few steps: a search of many nodes."""
    for name in ("CHUNKS", "OTHER_CHUNKS"):
        monkeypatch.setattr(f"jointsparse.solvers.sparse_component.part.{name}", (2,))
    X = np.random.default_rng(3).standard_normal((60, 20))
    S = X.T @ X / 60
    return S / 2 ** np.ceil(np.log2(S.max())), 6


def test_a_search_that_goes_on_equals_one_in_one_go(hard):
    S, k = hard
    whole, parts = Search(S, k, NOBODY), Search(S, k, NOBODY)
    whole.run(max_nodes=8)
    for _ in range(4):
        parts.run(max_nodes=2)
    assert (whole.nodes, whole.bound, whole.best.value) == (
        parts.nodes,
        parts.bound,
        parts.best.value,
    )
    whole.run()
    assert whole.proved
    assert whole.nodes > 8


def test_a_copy_leaves_the_search_as_it_is(hard):
    S, k = hard
    search = Search(S, k, NOBODY)
    search.run(max_nodes=3)
    before = search.nodes, search.bound, search.n_open
    search.copy().run(max_nodes=5)
    assert (search.nodes, search.bound, search.n_open) == before


def test_without_time_the_bound_still_holds_and_more_time_lowers_it(hard):
    S, k = hard
    search = Search(S, k, NOBODY)
    search.run(time_limit=0.0)
    first = search.bound
    search.run(time_limit=1e-3)  # over within the first node
    assert search.bound <= first
    search.run()
    assert search.proved
    assert search.kept.size <= len(S)


def test_a_callback_sees_every_node_and_can_stop(hard):
    S, k = hard
    seen = []
    began = time.perf_counter()
    search = Search(S, k, NOBODY)
    search.run(callback=lambda progress: seen.append(progress) or len(seen) == 4)
    elapsed = time.perf_counter() - began
    assert [progress.nodes for progress in seen] == [1, 2, 3, 4]
    seconds = [0.0, *(progress.seconds for progress in seen), elapsed]
    assert seconds == sorted(seconds)
    assert all(a.bound >= b.bound for a, b in itertools.pairwise(seen))
    assert not search.proved


def test_states_to_start_from_are_kept_only_while_there_is_room(hard, monkeypatch):
    S, k = hard
    monkeypatch.setattr("jointsparse.solvers.sparse_component.search.STATE_NUMBERS", 0)
    search = Search(S, k, NOBODY)
    search.run(max_nodes=3)
    assert search.n_open
    assert all(node.start is None for node in search._heap)


def test_an_eigenvalue_bound_is_close_and_above():
    rng = np.random.default_rng(0)
    for p in (1, 5, 50, 200):
        A = rng.standard_normal((p, p))
        A = (A + A.T) / 2 / p
        w, V = np.linalg.eigh(A)
        bound = upper_eigenvalue(A)
        assert quotient(A, V[:, -1]) <= bound <= w[-1] + 1e-10
        assert is_below(A, bound + 1e-10)
        assert not is_below(A, w[-1] * (1 - 1e-9))
    assert upper_eigenvalue(np.zeros((3, 3))) >= 0
    assert upper_eigenvalue(np.zeros((0, 0))) == -np.inf
    assert is_below(np.zeros((0, 0)), -1.0)


def test_what_is_not_finite_proves_nothing():
    for value in (np.nan, np.inf):
        matrix = np.full((2, 2), value)
        assert upper_eigenvalue(matrix) == np.inf
        assert not is_below(matrix, 1e9)


def test_an_eigenvalue_bound_holds_where_the_largest_ones_are_equal():
    for p in (3, 30):
        assert upper_eigenvalue(np.eye(p)) >= 1
        assert not is_below(np.eye(p), 1.0)  # rounding cannot tell


def test_faces_give_the_best_nonnegative_value():
    rng = np.random.default_rng(0)
    closed = 0
    for _ in range(40):
        A = rng.standard_normal((5, 5))
        S = A + A.T
        best = float(best_nonnegative(S))
        bound = bound_on_faces(S, best + 1e-9)
        assert bound >= best
        closed += bound <= best + 1e-9
    assert closed == 40


def test_faces_are_bounded_whatever_is_known():
    rng = np.random.default_rng(8)
    for size in (1, 2, 4, 5):
        plain = rng.standard_normal((size, size))
        for S in ((plain + plain.T) / 2, np.abs(plain + plain.T), np.diag(rng.random(size))):
            best = best_nonnegative(S)
            assert best <= bound_on_faces(S, -10.0) <= best + 1e-12
            assert bound_on_faces(S, float(best) + 1.0) == float(best) + 1.0


def test_faces_that_are_too_many_count_with_their_eigenvalue(monkeypatch):
    monkeypatch.setattr("jointsparse.solvers.sparse_component.nonnegative.MOST_FACES", 0)
    S = np.array([[1.0, -0.5], [-0.5, 1.0]])
    assert bound_on_faces(S, 1.0) >= 1.5


def test_good_components_are_the_best_on_small_tables():
    found = []
    for seed in range(30):
        S = matrix("covariance", 8, np.random.default_rng(seed))
        best = max(value for value, _ in all_supports(S, 3))
        found.append(good_component(S, 3, np.zeros(8, dtype=bool)).value >= best - 1e-12)
    assert np.mean(found) >= 0.9


def test_a_first_eigenvector_whose_entries_cancel_leaves_a_component_of_length_one():
    S = np.array([[-1.0, -0.5], [-0.5, -1.0]])
    found = best_on(S, np.arange(2), nonnegative=True)
    assert np.linalg.norm(found.loadings) == pytest.approx(1)
    assert found.value == pytest.approx(-1)


def test_a_nonnegative_component_is_nonnegative_and_attains_its_value():
    rng = np.random.default_rng(0)
    for _ in range(20):
        A = rng.standard_normal((7, 7))
        found = best_on(A + A.T, np.arange(7), nonnegative=True)
        assert found.loadings.min() >= 0
        assert quotient(A + A.T, found.loadings) == pytest.approx(found.value)
        assert np.linalg.norm(found.loadings) == pytest.approx(1)


def test_some_eigenpairs_lead_where_all_of_them_do(monkeypatch):
    X = spiked(n=100, p=80, k=6, strength=2.0)
    S = X.T @ X / 8
    values = []
    for share in (0.0, 0.9):  # none, or nearly always, only the positive ones
        monkeypatch.setattr("jointsparse.solvers.sparse_component.bound_admm.FEW", share)
        relaxation = Relaxation(S, 6, np.zeros(80, dtype=bool))
        relaxation.advance(60)
        values.append(relaxation.certificate().value)
    assert values[0] == pytest.approx(values[1], rel=1e-8)


def test_an_eigensolver_that_gives_up_on_some_is_replaced_by_one_for_all(monkeypatch):
    def gives_up(*_, **__):
        raise np.linalg.LinAlgError

    X = spiked(n=100, p=80, k=6, strength=2.0)
    S = X.T @ X / 8
    name = "jointsparse.solvers.sparse_component.bound_admm"
    monkeypatch.setattr(f"{name}.FEW", 0.9)
    monkeypatch.setattr(f"{name}.some_eigenpairs", gives_up)
    relaxation = Relaxation(S, 6, np.zeros(80, dtype=bool))
    relaxation.advance(30)
    assert relaxation.certificate().value < upper_eigenvalue(S)


def test_an_eigenvalue_that_is_too_low_is_raised_until_it_is_proved(monkeypatch):
    A = np.diag([1.0, 0.5])
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda matrix: np.array([0.0, 0.9]))
    assert 1.0 <= upper_eigenvalue(A) < 2.0


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_products_with_samples_lead_to_the_same_as_the_matrix(sparse, nonnegative, monkeypatch):
    import scipy.sparse as sp

    monkeypatch.setattr("jointsparse.solvers.sparse_component.solve.MOST_DENSE", 8)
    monkeypatch.setattr("jointsparse.solvers.sparse_component.many_features.BLOCK_NUMBERS", 100)
    rng = np.random.default_rng(0)
    X = spiked(p=30) * 8
    if sparse:
        X = X * (rng.random(X.shape) < 0.5) + 1.0 * (np.arange(30) % 2)
    mean = X.mean(axis=0)
    centred = X - mean
    S = centred.T @ centred
    scale = 2.0 ** -np.ceil(np.log2(S.max()))
    operator = SparseSamples(sp.csr_array(X), mean) if sparse else DenseSamples(centred)
    samples = ScatterEntries(operator, scale, operator.mean)
    exact = X.astype(np.longdouble) - X.astype(np.longdouble).mean(axis=0) if sparse else centred
    exact = scale * (exact.T.astype(np.longdouble) @ exact)
    found = samples.entries(np.arange(30), np.arange(30))
    allowed = samples.rounding * np.sqrt(np.outer(samples.raw, samples.raw))
    assert np.all(np.abs(found - exact) <= allowed)
    assert np.all(found <= np.outer(samples.lengths, samples.lengths))
    everything = np.arange(30)
    expected = prove_matrix(S, 4, everything, NOBODY, nonnegative=nonnegative)
    expected.run()
    found = prove_samples(samples, 4, everything, NOBODY, nonnegative=nonnegative)
    assert found.bound >= expected.best.value / expected.scale * scale  # before anything is done
    found.run()
    assert found.bound <= found.problem.goal(found.best.value)
    assert found.best.value / found.scale == pytest.approx(expected.best.value / expected.scale)
    assert found.best.features.tolist() == expected.best.features.tolist()


def test_features_leave_by_products_only_where_they_are_in_no_better_support():
    for seed in range(20):
        X = spiked(n=20, p=9, k=3, seed=seed, strength=1.0)
        samples = ScatterEntries(X)
        for nonnegative in (False, True):
            many = ManyFeatures(samples, 3, np.arange(9), np.array([4]), nonnegative=nonnegative)
            supports = all_supports(X.T @ X, 3, (4,), nonnegative)
            best = float(max(value for value, _ in supports))
            assert many.bound >= best
            assert many.best.value <= best + 1e-12
            for share in (0.8, 1.0):
                level = share * best
                for _ in range(3):
                    if many.kept.size == 0:
                        break
                    assert many.shrink(level, None)
                assert many.bound >= best
                better = [support for value, support in supports if value > level + 1e-12]
                assert all(support <= set(many.kept) for support in better)
                if many.kept.size:
                    many.improve()


def test_discs_lower_the_bound_of_many_features():
    samples = ScatterEntries(spiked(n=80, p=60, k=4, strength=20.0))
    many = ManyFeatures(samples, 4, np.arange(60), NOBODY, nonnegative=False)
    before, level = many.bound, many.best.value * (1 + 1e-6)
    assert before >= many.best.value
    assert many.shrink(level, None)
    assert many.best.value <= many.bound < before - 0.1
    again = many.bound
    for _ in range(3):
        many.shrink(level, None)
    assert many.best.value <= many.bound <= again
    assert set(many.best.features) <= set(many.kept) or many.kept.size == 0


def test_features_stay_where_the_time_is_over():
    many = ManyFeatures(ScatterEntries(spiked()), 5, np.arange(40), NOBODY, nonnegative=False)
    assert not many.shrink(many.best.value, deadline=0.0)
    assert many.kept.size == 40


def test_ten_thousand_features_without_their_scatter_matrix():
    X = spiked(n=200, p=10_000, k=8, strength=60.0)
    samples = ScatterEntries(X, 2.0**-6)
    proof = prove_samples(samples, 8, np.arange(10_000), NOBODY)
    proof.run()
    assert proof.best.features.tolist() == list(range(8))
    assert proof.bound <= proof.problem.goal(proof.best.value)
    assert proof.kept.size == 8


def test_the_largest_entries_are_by_size_or_from_above():
    x, free = np.array([0.5, -3.0, 2.0, 1.0]), np.zeros(4, dtype=bool)
    assert largest(x, 2, free, nonnegative=False).tolist() == [1, 2]
    assert largest(x, 2, free, nonnegative=True).tolist() == [2, 3]
    held = np.array([True, False, False, False])
    assert largest(x, 2, held, nonnegative=False).tolist() == [0, 1]


def test_the_tolerance_is_relative_down_to_a_thousandth_of_the_largest_entry():
    problem = Problem(np.diag([0.5, 0.25]), 1, False, 1e-2, error=0.1)
    assert problem.goal(-2.0) == pytest.approx(-2 + 0.02)
    assert problem.goal(1e-5) == pytest.approx(1e-5 + 1e-2 * 5e-4)
    assert problem.level(2.0) == pytest.approx(2 + 0.02 * (1 - 1e-6) - 0.1, abs=1e-12)
    assert Problem(np.zeros((2, 2)), 1, False, 1e-2).goal(0.0) == pytest.approx(1e-5)


def test_nothing_is_left_of_a_matrix_of_zeros():
    assert Deflated(np.zeros((3, 3))).is_empty
    assert not Deflated(np.eye(3)).is_empty


def test_samples_are_not_empty_because_thousands_of_features_are_constant():
    centred = np.zeros((2, 10_000))
    centred[:, 5000] = [3.0, -3.0]
    left = Deflated(None, centred)
    assert left.largest == 18
    assert not left.is_empty
    found = components_by_deflation(left, [1, 1], seconds=10.0, tol=1e-6)
    assert found.values.tolist() == [18]
    assert np.flatnonzero(found.loadings).tolist() == [5000]
    assert left.is_empty

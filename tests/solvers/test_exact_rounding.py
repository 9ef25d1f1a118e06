"""What is charged for rounding covers what rounding does: everything again in fractions."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import block_diag

from jointsparse.solvers.sparse_component.certificate import (
    SAFETY,
    UNIT,
    RowSums,
    _charge,
    certificate,
    upper_eigenvalue,
)
from jointsparse.solvers.sparse_component.entries import ScatterEntries
from jointsparse.solvers.sparse_component.gershgorin import Rows
from jointsparse.solvers.sparse_component.joint.bound import (
    JointCertificate,
    joint_certificate,
    upper_sum,
)
from jointsparse.solvers.sparse_component.many_features import ManyFeatures
from jointsparse.solvers.subset.constraints import Rules
from jointsparse.solvers.subset.joint_certificate import Multipliers, certify, frame_of
from jointsparse.solvers.subset.problem import problem_of_columns, set_value, span_of
from jointsparse.solvers.subset.ridge_bound import ridge_bound, ridge_value

SEEDS = range(12)  # half of all sums are rounded down, so that one of them tells


def exact(array):
    """Return the same numbers as fractions."""
    return np.vectorize(Fraction, otypes=[object])(np.asarray(array, dtype=np.float64))


def symmetric(rng, p):
    S = rng.standard_normal((p, p))
    return (S + S.T) / 2


def supports(p, k, included=()):
    free = [j for j in range(p) if j not in included]
    return [(*included, *more) for more in itertools.combinations(free, k - len(included))]


def as_mask(included, p):
    mask = np.zeros(p, dtype=bool)
    mask[list(included)] = True
    return mask


def solved(matrix, right):
    """Return the solution of a system of equations, in fractions."""
    rows = [[*row, *more] for row, more in zip(matrix.tolist(), right.tolist(), strict=True)]
    for i in range(len(rows)):
        pivot = next(k for k in range(i, len(rows)) if rows[k][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for k in range(len(rows)):
            if k != i:
                rows[k] = [a - rows[k][i] * b for a, b in zip(rows[k], rows[i], strict=True)]
    return np.array(rows, dtype=object)[:, len(rows) :]


@pytest.mark.parametrize(("k", "included"), [(4, ()), (4, (2,)), (4, (0, 4)), (3, (0, 4))])
def test_sums_of_rows_are_above_those_of_every_support(k, included):
    p = 6
    for seed in SEEDS:
        weights = np.abs(np.random.default_rng(seed).standard_normal((p, p)))
        weights *= 10.0 ** np.random.default_rng(seed).integers(-4, 4, (p, p))
        sums = RowSums(weights, k, as_mask(included, p))
        with_each = sums.with_each(np.arange(p))
        every, terms = supports(p, k, included), exact(weights)
        for i in range(p):
            of = {H: sum(terms[i, j] for j in H if j != i) for H in every if i in H}
            assert Fraction(sums.total[i]) >= max(of.values())
            for j in set(range(p)) - set(included):
                inside = [value for H, value in of.items() if j in H]
                if inside:
                    assert Fraction(with_each[i, j]) >= max(inside)
                else:  # there is no place for another
                    assert with_each[i, j] == -np.inf
                outside = [value for H, value in of.items() if j not in H]
                assert not outside or Fraction(sums.without_feature(j)[i]) >= max(outside)


def test_a_certificate_takes_off_no_more_than_it_adds():
    p, k = 6, 3
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        S, U, B = symmetric(rng, p), rng.standard_normal((p, p)), rng.random((p, p))
        found = certificate(S, U, B, k, as_mask((), p))
        taken, raised = exact(S) - exact(found.matrix), exact(found.weights)
        off = ~np.eye(p, dtype=bool)
        assert np.all((raised * raised.T >= taken * taken)[off])
        diagonal = exact(np.diagonal(found.bounded(found.rows.total)))
        assert np.all(diagonal >= exact(np.diagonal(S)) + exact(found.rows.total))


@pytest.mark.parametrize("p", [1, 7, 300])
def test_the_charge_for_an_eigenvalue_is_that_of_the_theorem(p):
    matrix = symmetric(np.random.default_rng(p), p)
    shift = float(np.linalg.eigvalsh(matrix)[-1]) + 1e-9
    gamma = (p + 1) * UNIT / (1 - (p + 1) * UNIT)
    trace = np.sum(np.abs(shift - np.diagonal(matrix)))
    assert _charge(matrix, shift) >= SAFETY * gamma / (1 - gamma) * trace
    assert _charge(matrix, shift) <= 1e-12 * p**2 * (1 + abs(shift))


@pytest.mark.parametrize("nonnegative", [False, True])
def test_discs_are_rounded_upwards(nonnegative):
    p, k = 7, 3
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        S, w = symmetric(rng, p), rng.uniform(0.1, 1, p)
        rows = Rows(S, p, k, as_mask((), p), w, nonnegative=nonnegative)
        size = exact(np.maximum(S, 0.0) if nonnegative else np.abs(S))
        terms = size * exact(w)[None, :] / exact(w)[:, None]
        with_each = rows.with_each()
        for i in range(p):
            others = sorted((terms[i, j] for j in range(p) if j != i), reverse=True)
            assert Fraction(rows.radii[i]) >= Fraction(S[i, i]) + sum(others[: k - 1])
            for j in set(range(p)) - {i}:
                rest = sorted((terms[i, m] for m in range(p) if m not in (i, j)), reverse=True)
                least = Fraction(S[i, i]) + terms[i, j] + sum(rest[: k - 2])
                assert Fraction(with_each[i, j]) >= least


def test_what_no_row_can_reach_is_above_every_row():
    k = 3
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        axis = rng.standard_normal((9, 1))
        X = (
            0.05 * axis * rng.uniform(0.1, 2, 6)
        )  # of one direction: entries as large as they can be
        many = ManyFeatures(ScatterEntries(X), k, np.arange(6), np.zeros(0, int), nonnegative=False)
        assert Fraction(many.bound) >= sum(sorted(exact(many.samples.diagonal))[-k:])
        many.weights = rng.uniform(0.1, 1, 6)
        reach = many._reach(many.samples.lengths)
        S, w = exact(X).T @ exact(X), exact(many.weights)
        for i in range(6):
            terms = sorted((abs(S[i, j]) * w[j] / w[i] for j in range(6) if j != i), reverse=True)
            assert Fraction(reach[i]) >= S[i, i] + sum(terms[: k - 1])
            assert reach[i] <= float(S[i, i] + sum(terms[:k])) * (1 + 1e-12)


def test_entries_are_off_by_no_more_than_is_charged():
    for seed in SEEDS:
        X = np.random.default_rng(seed).standard_normal((8, 5)) * [1, 10, 0.1, 1, 3]
        samples = ScatterEntries(X, 0.25)
        S = exact(X).T @ exact(X) / 4
        found, raw = samples.square(np.arange(5)), np.sqrt(samples.raw)
        off = np.abs(exact(found) - S).astype(float)
        assert np.all(off <= samples.rounding * np.outer(raw, raw))
        assert np.all(
            exact(np.abs(found)) <= exact(samples.lengths)[:, None] * exact(samples.lengths)
        )
        for k in (1, 3, 5):
            # γ times the largest squares, and no less than the theory asks for.
            least = (8 * UNIT) * np.sort(samples.diagonal)[-k:].sum()
            assert least <= samples.error(k)
            largest = np.sort(samples.raw)[-k:].sum()
            assert samples.error(k) == pytest.approx(samples.rounding * largest)


def test_prices_on_top_of_a_spectrum_are_rounded_upwards():
    p, k = 6, 3
    for seed, included in itertools.product(SEEDS, [(), (1,), (0, 3, 5)]):
        rng = np.random.default_rng(seed)
        prices = rng.random(p) * 10.0 ** rng.integers(-3, 3, p)
        found = JointCertificate(float(rng.standard_normal()), prices, k, as_mask(included, p))
        base, terms = Fraction(found.spectral), exact(prices)
        of = {H: base + sum(terms[j] for j in H) for H in supports(p, k, included)}
        assert Fraction(found.value) >= max(of.values())
        for j in set(range(p)) - set(included):
            inside = [value for H, value in of.items() if j in H]
            outside = [value for H, value in of.items() if j not in H]
            if inside:
                assert Fraction(found.with_each()[j]) >= max(inside)
            assert Fraction(found.without_each()[j]) >= max(outside)


@pytest.mark.parametrize("r", [1, 2, 3])
def test_a_joint_bound_that_is_attained_is_not_below_what_attains_it(r):
    # Equal blocks of ones on disjoint supports: every eigenvalue is a whole number.
    S = np.kron(np.eye(4), np.ones((2, 2))) / 2  # four eigenvalues of 1, four of 0
    for size in (0.0, 0.3, 7.0):
        found = joint_certificate(S, size * S, 2 * r, r, as_mask((), 8))
        assert Fraction(found.value) >= r
    assert joint_certificate(S, 0 * S, 2 * r, r, as_mask((), 8)).value == pytest.approx(r)


def share(X, Y, penalty=Fraction(0)):
    """Return what (ridge) regression on the columns of X explains of Y, by fractions."""
    X, Y = exact(X), exact(Y)
    inner = X.T @ X + np.diag(np.full(X.shape[1], penalty))
    cross = X.T @ Y
    return np.sum(cross * solved(inner, cross)) / np.sum(Y * Y)


def test_the_value_of_a_set_is_off_by_no_more_than_is_charged():
    for seed in SEEDS:
        X = np.random.default_rng(seed).integers(-3, 4, (7, 5)).astype(float)
        X[:, 4] = X[:, 3] + X[:, 0] / 2.0**10  # near copies lose digits
        problem = problem_of_columns(X)
        for features in ([0], [1, 2], [0, 1, 3], [2, 3, 4]):
            charge = problem.charge(span_of(problem, features).inverse_trace, len(features))
            value = share(X[:, features], X)
            assert abs(Fraction(set_value(problem, features)) - value) <= Fraction(charge)


def test_the_bound_for_ridge_regressions_is_not_below_what_attains_it():
    for seed, penalty in itertools.product(SEEDS, [2.0**-30, 0.125, 2.0]):
        X = np.random.default_rng(seed).choice([-1.0, 1.0], (4, 3))  # unit columns without rounding
        problem = problem_of_columns(X)
        attained = share(X, X, Fraction(4 * penalty))
        assert ridge_value(problem, [0, 1, 2], penalty) == pytest.approx(float(attained))
        assert Fraction(ridge_bound(problem, 3, penalty)[0]) >= attained  # all features: no choice


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_the_joint_bound_of_all_features_is_not_below_everything(size):
    # With all features in, G₂ is 0 and G₁ is singular: multipliers that cost nothing, and the
    # bound is what all of them explain, which is everything, but for rounding.
    for seed, count in itertools.product(SEEDS, (2, 4, 6)):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((20, count))
        X[:, 0] = X[:, 1] + 0.1 * X[:, 0]
        frame = frame_of(problem_of_columns(X), count, Rules.none(count))
        root = rng.standard_normal((2 * count, 3))
        zero = np.zeros((count, count))
        kernel = np.vstack([frame.columns, -np.eye(count)]) @ rng.standard_normal((count, 2))
        none = np.zeros((2 * count, 2 * count))
        # Eigenvalues count where they are positive: Λ₂ takes less off than there is.
        room = np.linalg.eigvalsh(frame.target)[0] / np.linalg.norm(root, 2) ** 2
        for first, second in (
            (none, none),
            (none, room / 2 * root @ root.T),
            (size * kernel @ kernel.T, none),
        ):
            bound = certify(frame, Multipliers(first, second, zero, zero, zero)).bound
            assert 1 <= bound <= 1 + 1e-7 * (1 + size)


@pytest.mark.parametrize("unit", [1.0, 1 / 3, 1e-5])
def test_sums_of_known_eigenvalues_are_not_below_them(unit):
    # Blocks of ones: their eigenvalues are their sizes.
    for sizes in ([5, 3, 3, 2, 1], [4, 4, 4], [7, 6, 1], [1, 1, 1, 1]):
        S = unit * block_diag(*(np.ones((size, size)) for size in sizes))
        for r in range(1, len(sizes) + 1):
            known = Fraction(unit) * sum(sorted(sizes)[-r:])
            assert known <= Fraction(upper_sum(S, r)) <= known * (1 + Fraction(1, 10**10))
        largest = Fraction(unit) * max(sizes)
        assert largest <= Fraction(upper_eigenvalue(S)) <= largest * (1 + Fraction(1, 10**10))

import numpy as np
import pytest

from jointsparse.eigen.davidson import davidson

SIZE = 700  # above the size up to which the operator is formed at once


class Operator:
    """B diag(weights) Bᵀ - diag(d), its products counted, with all eigenvalues known."""

    def __init__(self, weights, d, seed=0, size=SIZE):
        rng = np.random.default_rng(seed)
        basis = np.linalg.qr(rng.standard_normal((size, len(weights))))[0]
        self.matrix = (basis * np.asarray(weights)) @ basis.T - np.diag(d)
        self.diagonal = -d
        self.values, self.vectors = np.linalg.eigh(self.matrix)
        self.n_columns = 0

    def apply(self, block):
        self.n_columns += block.shape[1]
        return self.matrix @ block

    def count_above(self, bound):
        return int((self.values > bound).sum())

    def solve(self, start=None, *, count=True, **options):
        if start is None:
            start = np.zeros((SIZE, 0))
        count_above = self.count_above if count else None
        return davidson(self.apply, self.diagonal, start, count_above=count_above, **options)

    def check(self, pairs):
        expected = self.values[self.values > 0][::-1]
        np.testing.assert_allclose(pairs.values, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            pairs.vectors.T @ pairs.vectors, np.eye(len(expected)), atol=1e-11
        )
        positive = (self.vectors * np.maximum(self.values, 0)) @ self.vectors.T
        found = (pairs.vectors * pairs.values) @ pairs.vectors.T
        np.testing.assert_allclose(found, positive, atol=1e-9 * max(1, *expected, 0))


def random_diagonal(seed=0, low=0.0, high=0.5):
    return np.random.default_rng(seed).uniform(low, high, SIZE)


@pytest.mark.parametrize("count", [True, False])
@pytest.mark.parametrize("n", [1, 5, 20])
def test_equals_a_dense_decomposition(n, count):
    weights = np.concatenate([np.geomspace(1, 5, n), -np.geomspace(1, 5, n)])
    operator = Operator(weights, random_diagonal(n))
    assert operator.count_above(0) == n
    operator.check(operator.solve(count=count))
    assert operator.n_columns < SIZE // 2


@pytest.mark.parametrize("count", [True, False])
def test_some_of_the_low_rank_part_ends_below_zero(count):
    operator = Operator(np.linspace(0.02, 1.5, 20), random_diagonal(1))
    assert 0 < operator.count_above(0) < 20
    operator.check(operator.solve(count=count))


@pytest.mark.parametrize("count", [True, False])
def test_no_positive_eigenvalue(count):
    operator = Operator(np.linspace(0.01, 0.1, 10), random_diagonal(2, low=0.2))
    pairs = operator.solve(count=count)
    assert pairs.values.shape == (0,)
    assert pairs.vectors.shape == (SIZE, 0)


@pytest.mark.parametrize("count", [True, False])
def test_repeated_eigenvalues(count):
    operator = Operator([2.0] * 6 + [1.0] * 3 + [-1.0], np.full(SIZE, 0.25))
    assert operator.count_above(0) == 9
    operator.check(operator.solve(count=count))
    operator.check(operator.solve(operator.vectors[:, -1:], count=count))


@pytest.mark.parametrize("count", [True, False])
def test_the_zero_operator_and_one_of_low_rank(count):
    zero = Operator([0.0], np.zeros(SIZE))
    assert zero.solve(count=count).values.shape == (0,)
    low_rank = Operator([3.0, 2.0, -2.0], np.zeros(SIZE))
    pairs = low_rank.solve(count=count)
    np.testing.assert_allclose(pairs.values, [3, 2], rtol=1e-10)


def test_a_warm_start_saves_products():
    operator = Operator(np.linspace(0.5, 3, 12), random_diagonal(3))
    pairs = operator.solve()
    cold, operator.n_columns = operator.n_columns, 0
    operator.check(operator.solve(pairs.basis))
    assert operator.n_columns == pairs.basis.shape[1] < cold / 3


def test_a_count_uncovers_what_the_start_cannot_see():
    """A start that is an invariant space has zero residuals, so nothing leads out of it."""
    operator = Operator(np.linspace(0.5, 3, 12), random_diagonal(4))
    invariant = np.delete(operator.vectors[:, -16:], [9], axis=1)
    operator.check(operator.solve(invariant))


def test_dependent_start_vectors_do_no_harm():
    operator = Operator(np.linspace(0.5, 3, 6), random_diagonal(5))
    v = operator.vectors[:, -1:]
    operator.check(operator.solve(np.hstack([v, v, 1e-9 * v, 0 * v])))


@pytest.mark.parametrize(
    ("weights", "options"),
    [
        (np.linspace(1, 3, 5), {"max_steps": 1}),
        (np.linspace(1, 3, 5), {"dense_up_to": SIZE}),
        (np.linspace(1, 3, 200), {}),
    ],
)
def test_forms_the_operator_where_nothing_else_is_left(weights, options):
    operator = Operator(weights, random_diagonal(6))
    pairs = operator.solve(operator.vectors[:, ::2], **options)
    operator.check(pairs)
    assert operator.n_columns >= SIZE


def test_single_precision():
    operator = Operator(np.linspace(0.5, 3, 6), random_diagonal(7))
    matrix = operator.matrix.astype(np.float32)
    pairs = davidson(
        lambda block: matrix @ block,
        operator.diagonal.astype(np.float32),
        np.zeros((SIZE, 0), dtype=np.float32),
        count_above=operator.count_above,
    )
    assert pairs.vectors.dtype == np.float32
    np.testing.assert_allclose(pairs.values, operator.values[:-7:-1], rtol=1e-4)

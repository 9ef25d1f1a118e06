"""Entries far beyond the rest, drawn in: the problem is another one, and its solution the same."""

import numpy as np
import pytest

from jointsparse.solvers.pursuit_far import NEAR, FarEntries

LIMIT = 2.0


def table():
    """Entries up to 1 with a sample a thousand times as large."""
    X = np.random.default_rng(0).uniform(-1, 1, (12, 5))
    X[3] *= 1000
    return X


def drawn_in(X):
    return FarEntries(X, float(np.abs(X).max()), LIMIT)


@pytest.mark.parametrize("order", ["C", "F"])
def test_data_are_new_and_in_rows(order):
    X = np.array(np.random.default_rng(0).uniform(-1, 1, (12, 5)), order=order)
    largest = float(np.abs(X).max())
    far = FarEntries(X, largest, largest)
    np.testing.assert_array_equal(far.data, X / largest)
    assert far.data.flags.c_contiguous
    assert not np.shares_memory(far.data, X)


def test_without_entries_beyond_the_limit_nothing_is_drawn_in():
    X = table()
    largest = float(np.abs(X).max())
    far = FarEntries(X, largest, largest)
    assert not np.any(far.beyond)
    assert far.added_norm(X) == 0.0


def test_entries_are_at_most_the_limit_and_near_ones_stay():
    X = table()
    far = drawn_in(X)
    assert np.abs(far.data).max() == pytest.approx(1.0)
    near = np.abs(X) <= NEAR * LIMIT
    np.testing.assert_array_equal(far.data[near], X[near] / LIMIT)
    np.testing.assert_array_equal(np.sign(far.data), np.sign(X))
    order = np.argsort(np.abs(X), axis=None)  # larger entries stay larger
    assert np.all(np.diff(np.abs(far.data).ravel()[order]) >= 0)


def test_what_is_left_out_makes_up_the_difference():
    X = table()
    far = drawn_in(X)
    E = far.data.copy()
    far.add_to(E)
    np.testing.assert_allclose(E * LIMIT, X, rtol=1e-12)
    left_out = E - far.data
    assert far.added_norm(far.data) == pytest.approx(np.abs(E).sum() - np.abs(far.data).sum())
    Z = np.random.default_rng(1).standard_normal(X.shape)
    assert far.added_product(Z) == pytest.approx(np.sum(left_out * Z))


def test_errors_are_those_of_the_matrix_while_their_signs_are():
    far = drawn_in(table())
    assert far.is_kept(far.data)
    for changed in (0.0, -1.0):
        E = far.data.copy()
        E[tuple(places[0] for places in far.places)] *= changed
        assert not far.is_kept(E)

"""All eigenvalues and some vectors: those of the whole decomposition, whichever way they come."""

import logging

import numpy as np
import pytest
from scipy.linalg import lapack

from jointsparse.eigen import tridiagonal
from jointsparse.eigen.tridiagonal import KnownPairs, Tridiagonal, eigenpairs


def scatter(size, rank=None, seed=0):
    X = np.random.default_rng(seed).standard_normal((rank or 2 * size, size))
    return X.T @ X


def check(matrix, found, first, last):
    """Vectors are orthonormal, and belong to the eigenvalues counted from the largest."""
    vectors, values = found.leading(first, last), found.values[::-1][first:last]
    scale = max(float(found.values[-1]), 1e-300)
    np.testing.assert_allclose(matrix @ vectors / scale, vectors * (values / scale), atol=1e-13)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(last - first), atol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 24, 60])
def test_values_and_vectors_are_those_of_the_matrix(size):
    matrix = scatter(size)
    found = Tridiagonal(matrix.copy())
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(matrix), rtol=1e-11)
    check(matrix, found, 0, 1)
    check(matrix, found, 0, size // 6 + 1)  # few, one by one
    check(matrix, found, 1, size)  # all at once
    values, vectors = found.everything()
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, atol=1e-11 * values[-1])


def test_equal_eigenvalues_and_zeros_are_no_obstacle():
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((40, 40)))[0]
    equal = (basis * np.repeat([5.0, 1.0], [6, 34])) @ basis.T
    equal = (equal + equal.T) / 2
    check(equal, Tridiagonal(equal.copy()), 0, 6)
    apart = np.zeros((40, 40))
    apart[:20, :20] = apart[20:, 20:] = scatter(20)  # every eigenvalue twice, in two blocks
    check(apart, Tridiagonal(apart.copy()), 0, 6)
    check(apart, Tridiagonal(apart.copy()), 0, 40)
    nothing = np.diag([3.0, 2.0, *np.zeros(38)])
    check(nothing, Tridiagonal(nothing.copy()), 0, 2)


def test_what_was_asked_for_before_is_not_computed_again(monkeypatch):
    found = Tridiagonal(scatter(60))
    first = found.leading(0, 4)
    monkeypatch.setattr(Tridiagonal, "_of_tridiagonal", None)
    np.testing.assert_array_equal(found.leading(1, 3), first[:, 1:3])


def test_where_a_routine_gives_up_another_takes_over(monkeypatch, caplog):
    matrix = scatter(60)
    whole = Tridiagonal(matrix.copy())

    def gives_up(routine):
        return lambda *arguments: (*routine(*arguments)[:-1], 1)

    divided = "dstevd" if hasattr(lapack, "dstevd") else "dsbevd"  # SciPy 1.15 lacks the first
    for name in ("dstein", divided):
        monkeypatch.setattr(tridiagonal.lapack, name, gives_up(getattr(lapack, name)))
    with caplog.at_level(logging.INFO):
        check(matrix, whole, 0, 3)
    assert "now all of them" in caplog.text
    assert "again by QR iteration" in caplog.text
    monkeypatch.setattr(tridiagonal.lapack, "dsterf", gives_up(lapack.dsterf))
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        _ = Tridiagonal(matrix).values


@pytest.mark.parametrize("n", [25, 80, 200])
def test_all_vectors_without_the_routine_that_old_scipy_lacks(n, monkeypatch):
    matrix = scatter(n)
    values, vectors = Tridiagonal(matrix.copy()).everything()
    monkeypatch.delattr(tridiagonal.lapack, "dstevd", raising=False)
    values_before, vectors_before = Tridiagonal(matrix.copy()).everything()
    np.testing.assert_array_equal(values_before, values)
    np.testing.assert_array_equal(vectors_before, vectors)
    np.testing.assert_allclose((vectors_before * values_before) @ vectors_before.T, matrix)


def test_numbers_that_are_not_finite_are_refused_as_by_numpy():
    matrix = scatter(30)
    matrix[3, 3] = np.nan
    with pytest.raises(np.linalg.LinAlgError):
        _ = eigenpairs(matrix).values


def test_small_matrices_are_decomposed_whole():
    matrix = scatter(5)
    found = eigenpairs(matrix.copy())
    assert isinstance(found, KnownPairs)
    check(matrix, found, 1, 4)
    values, vectors = found.everything()
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix)

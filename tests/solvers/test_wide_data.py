import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from jointsparse.solvers.wide.data import DenseWide, SparseWide, as_wide


def raw_data(seed, n, p, filled=0.3):
    """Sparse counts with a mean that is not zero, one feature constant and one empty."""
    rng = np.random.default_rng(seed)
    R = rng.poisson(2.0, (n, p)) * (rng.random((n, p)) < filled) * rng.choice([0.5, 3.0], p)
    R[:, 0], R[:, 1] = 2.0, 0.0
    return R


def every_kind(R):
    mean = R.mean(axis=0)
    single = R.astype(np.float32)
    return {
        "centred": (DenseWide(R - mean), 1e-12),
        "implicit": (DenseWide(R, mean), 1e-12),
        "single": (DenseWide(single, single.mean(axis=0, dtype=np.float64)), 1e-5),
        "integers": (DenseWide((2 * R).astype(np.int16), 2 * mean), None),
        "csr": (SparseWide(sp.csr_array(R), mean), 1e-12),
        "csc": (SparseWide(sp.csc_matrix(R), mean), 1e-12),
    }


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 9), st.integers(3, 40))
def test_every_operation_equals_dense_numpy(seed, n, p):
    R = raw_data(seed, n, p)
    X = R - R.mean(axis=0)
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((p, 3)), rng.standard_normal((n, 2))
    chosen = rng.random(p) < 0.5
    for name, (data, accuracy) in every_kind(R).items():
        scale = 2.0 if accuracy is None else 1.0
        close = {"atol": 1e-4 if accuracy == 1e-5 else 1e-9, "err_msg": name}
        assert data.shape == (n, p)
        assert data.empty.shape == (p, 0)
        for part, here, rows in ((data, X, U), (data.columns(chosen), X[:, chosen], U[chosen])):
            np.testing.assert_allclose(part.times(rows), scale * here @ rows, **close)
            np.testing.assert_allclose(part.transposed_times(V), scale * here.T @ V, **close)
            squares = scale**2 * np.sum(here**2, axis=0)
            np.testing.assert_allclose(part.squared_lengths(), squares, **close)
            image = scale**2 * np.sum((here.T @ V) ** 2, axis=1)
            np.testing.assert_allclose(part.squared_lengths(V), image, **close)
            np.testing.assert_allclose(part.gram(), scale**2 * here @ here.T, **close)
            np.testing.assert_allclose(part.dense(), scale * here, **close)
        factors = rng.lognormal(0, 1, p)
        F = scale * X * factors
        np.testing.assert_allclose(data.scaled_gram(factors), F @ F.T, **close)
        rows, fourth = data.scaled_powers(factors)
        np.testing.assert_allclose(rows, np.sum(F**2, axis=1), **close)
        np.testing.assert_allclose(fourth, np.sum(F**4, axis=0), rtol=1e-4, atol=close["atol"])
        weighted = scale**2 * (X.T * V[:, 0] ** 2) @ X
        np.testing.assert_allclose(data.weighted_scatter(V[:, 0] ** 2), weighted, **close)


def test_blocks_are_put_together(monkeypatch):
    from jointsparse import linalg

    R = raw_data(1, 6, 50)
    X = R - R.mean(axis=0)
    monkeypatch.setattr(linalg, "BLOCK", 7)
    for name in ("centred", "implicit", "single", "csr", "csc"):
        data, _ = every_kind(R)[name]
        np.testing.assert_allclose(data.gram(), X @ X.T, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(data.dense(), X, atol=1e-5)


def test_results_are_double_and_solutions_are_as_the_data():
    R = raw_data(2, 5, 20).astype(np.float32)
    for data in (DenseWide(R, R.mean(axis=0, dtype=float)), SparseWide(sp.csr_array(R), R.mean(0))):
        assert data.empty.dtype == np.float32
        assert data.dense().dtype == np.float32
        assert data.gram().dtype == np.float64
        assert data.times(np.ones((20, 1))).dtype == np.float64
        assert data.gram() is data.gram()
        assert data.columns(np.ones(20, dtype=bool)) is data


def test_single_precision_is_summed_in_double():
    single = np.random.default_rng(0).standard_normal((6, 300)).astype(np.float32)
    exact = single.astype(np.float64)
    U, V = np.random.default_rng(1).standard_normal((300, 2)), exact[:, :3]
    data = DenseWide(single)
    np.testing.assert_allclose(data.times(U), exact @ U, rtol=1e-13)
    np.testing.assert_allclose(data.times(U.astype(np.float32)), exact @ U.astype(np.float32))
    np.testing.assert_allclose(data.transposed_times(V), exact.T @ V, rtol=1e-13, atol=1e-13)
    assert data.transposed_times(V.astype(np.float32)).dtype == np.float64
    np.testing.assert_allclose(data.gram(), exact @ exact.T, rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(data.squared_lengths(), np.sum(exact**2, axis=0), rtol=1e-13)


def test_arrays_are_wrapped_and_anything_else_is_left_alone():
    X = np.zeros((2, 3))
    wrapped = as_wide(X)
    assert isinstance(wrapped, DenseWide)
    assert wrapped.dense() is X
    assert as_wide(wrapped) is wrapped


def test_other_array_libraries():
    torch = pytest.importorskip("torch")
    R = raw_data(3, 5, 20)
    X = R - R.mean(axis=0)
    for dtype, accuracy in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
        data = DenseWide(torch.asarray(R, dtype=dtype), torch.asarray(R.mean(axis=0)))
        assert isinstance(data.gram(), torch.Tensor)
        np.testing.assert_allclose(data.gram().numpy(), X @ X.T, atol=accuracy)
        chosen = torch.arange(20) % 3 == 0
        np.testing.assert_allclose(data.columns(chosen).dense().numpy(), X[:, ::3], atol=accuracy)

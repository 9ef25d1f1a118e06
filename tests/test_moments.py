import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from jointsparse import Moments
from jointsparse.sources import base

RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 7)) * np.array([1, 2, 3, 1e-3, 10, 5, 1]) + np.arange(7)
SPARSE = sp.random_array((50, 7), density=0.3, rng=RNG, format="csr")


def reference(X):
    X = np.asarray(X, dtype=float)
    return X.mean(axis=0), (len(X) - 1) * np.cov(X.T)


@pytest.mark.parametrize(
    "wrap",
    [np.asarray, np.asfortranarray, pd.DataFrame, pl.DataFrame, list],
    ids=["C", "Fortran", "pandas", "polars", "list"],
)
def test_every_container_gives_the_covariance(wrap):
    m = Moments.from_data(wrap(X))
    mean, scatter = reference(X)
    np.testing.assert_allclose(m.mean, mean, rtol=1e-13)
    np.testing.assert_allclose(m.scatter, scatter, atol=1e-12 * scatter.max())
    assert (m.n_samples, m.n_features) == X.shape


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_sparse_equals_dense(form):
    m = Moments.from_data(SPARSE.asformat(form))
    dense = Moments.from_data(SPARSE.toarray())
    np.testing.assert_allclose(m.scatter, dense.scatter, atol=1e-14)


def test_memmap_and_integers(tmp_path):
    pixels = RNG.integers(0, 255, (40, 6), dtype=np.uint8)
    stored = np.memmap(tmp_path / "x.bin", dtype=np.uint8, mode="w+", shape=pixels.shape)
    stored[:] = pixels
    np.testing.assert_allclose(Moments.from_data(stored).scatter, reference(pixels)[1])


def test_float32_is_accumulated_in_float64():
    single = (X + 1000).astype(np.float32)
    m = Moments.from_data(single)
    assert m.scatter.dtype == np.float64
    np.testing.assert_allclose(m.scatter, reference(single.astype(float))[1], rtol=1e-9, atol=1e-9)


def test_several_blocks_equal_one(monkeypatch):
    whole = Moments.from_data(X)
    monkeypatch.setattr(base, "BLOCK_ENTRIES", 21)
    np.testing.assert_allclose(Moments.from_data(X).scatter, whole.scatter, rtol=1e-12)


def test_huge_offset_keeps_the_spread():
    m = Moments.from_data(X + 1e8)
    # The data themselves hold only 8 digits of their spread after adding 1e8.
    np.testing.assert_allclose(m.scatter, Moments.from_data(X).scatter, rtol=1e-5, atol=1e-5)


def test_constant_features_have_exactly_zero_scatter():
    Y = X.copy()
    Y[:, 2] = 0.1  # not a binary fraction: its mean is off by rounding
    for data in (Y, sp.csr_array(Y)):
        m = Moments.from_data(data)
        assert not m.scatter[2].any()
        assert not m.scatter[:, 2].any()


def test_data_are_not_modified():
    before = X.copy()
    Moments.from_data(X)
    np.testing.assert_array_equal(X, before)


@given(
    arrays(np.float64, (9, 3), elements=st.floats(-1e6, 1e6, width=32)),
    st.integers(1, 8),
)
def test_adding_and_partial_fit_equal_the_whole(data, cut):
    whole = Moments.from_data(data)
    parts = Moments.from_data(data[:cut]) + Moments.from_data(data[cut:])
    streamed = Moments.from_data(data[:cut]).partial_fit(data[cut:])
    scale = np.abs(data).max() ** 2 + 1e-300
    for m in (parts, streamed):
        assert m.n_samples == 9
        np.testing.assert_allclose(m.mean, whole.mean, atol=1e-12 * scale**0.5)
        np.testing.assert_allclose(m.scatter, whole.scatter, atol=1e-11 * scale)


def test_names_are_kept_and_shown():
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    m = Moments.from_data(frame)
    assert list(m.feature_names) == list("abcdefg")
    assert repr(m) == "Moments(n_samples=50, n_features=7)"
    assert Moments.from_data(X).feature_names is None


def test_from_scatter():
    m = Moments.from_scatter(np.eye(3), n_samples=10)
    assert m.total_variance == 3
    named = Moments.from_scatter(pd.DataFrame(np.eye(2), columns=["a", "b"]), n_samples=5)
    assert list(named.feature_names) == ["a", "b"]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "square; got 2 rows and 3 columns"),
        (np.array([[1.0, 2.0], [0.0, 1.0]]), "symmetric; two mirrored entries differ by 2"),
        (np.diag([1.0, -3.0]), "no negative diagonal entry; got -3"),
    ],
)
def test_from_scatter_refuses_what_is_no_scatter(matrix, message):
    with pytest.raises(ValueError, match=message):
        Moments.from_scatter(matrix, n_samples=5)


def test_adding_other_features_is_refused():
    with pytest.raises(ValueError, match="moments of 7 and of 2 features"):
        Moments.from_data(X) + Moments.from_data(X[:, :2])

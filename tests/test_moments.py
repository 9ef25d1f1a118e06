import contextlib
import gc
import weakref

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from jointsparse import GreedySelector, Moments
from jointsparse.moments import bytes_for_moments, check_memory
from jointsparse.running.workspace import Slot
from jointsparse.sources import as_source, base
from jointsparse.sources.in_memory import ArraySource

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


def test_a_mirrored_pair_may_differ_by_rounding_only():
    matrix = np.array([[2.0, 1.0], [1.0 + 1e-8, 2.0]])
    assert Moments.from_scatter(matrix, 5).scatter[0, 1] == pytest.approx(1 + 5e-9, abs=1e-15)
    matrix[1, 0] = 1 + 4e-8
    with pytest.raises(ValueError, match="symmetric"):
        Moments.from_scatter(matrix, 5)
    flat = Moments.from_scatter(np.zeros((2, 2)), 5)  # nothing negative about it
    assert flat.total_variance == 0
    assert flat.mean.tolist() == [0, 0]


def test_scaled_and_standardised_moments_are_those_of_scaled_data():
    factors = np.array([1, 2, 0.5, -1, 3, 1, 1])
    Y = X.copy()
    Y[:, 5] = 4.0
    for m in (Moments.from_data(Y), Moments.from_source(as_source(Y))):
        found, expected = m.scaled(factors), Moments.from_data(Y * factors)
        np.testing.assert_allclose(found.scatter, expected.scatter, atol=1e-9)
        np.testing.assert_allclose(found.mean, expected.mean)
        unit = m.standardised()
        assert unit.variances[5] == 0
        np.testing.assert_allclose(np.delete(unit.variances, 5), 50)
        assert (unit.halves is None) == (m.halves is None)
    halves = Moments.from_source(as_source(Y)).scaled(factors).halves
    total = halves[0] + halves[1]
    np.testing.assert_allclose(total.scatter, expected.scatter, atol=1e-9)
    kept = Moments.from_data(Y)
    assert kept.scatter is not None
    np.testing.assert_allclose(kept.scaled(factors).scatter, expected.scatter, atol=1e-9)


def test_halves_add_up_to_the_whole_and_follow_partial_fit():
    streamed = Moments.from_source(as_source(X))
    assert 0 < streamed.halves[0].n_samples < 50
    total = streamed.halves[0] + streamed.halves[1]
    assert total.n_samples == 50
    np.testing.assert_allclose(total.scatter, streamed.scatter, atol=1e-9)
    parts = Moments.from_source(as_source(X[:20])).partial_fit(X[20:])
    assert parts.halves[0].n_samples == streamed.halves[0].n_samples
    np.testing.assert_allclose(parts.halves[1].scatter, streamed.halves[1].scatter, atol=1e-9)
    both = Moments.from_source(as_source(X[:20])) + Moments.from_source(as_source(X[20:]))
    assert both.halves[0].n_samples + both.halves[1].n_samples == 50
    assert (Moments.from_data(X) + streamed).halves is None


def test_moments_of_no_sample_add_nothing():
    none = Moments(0, np.full(7, np.nan), np.full((7, 7), np.nan))
    some = Moments.from_data(X)
    assert none + some is some
    assert some + none is some


def test_partial_fit_forgets_what_it_had_computed():
    m = Moments.from_data(X[:30])
    first = m.variances, m.spectrum, m.thin_spectrum, m.centred_data
    assert first[3].shape == (30, 7)
    derived: Slot[int] = Slot("derived")
    m.workspace.keep(derived, 1)
    m.partial_fit(X[30:])
    whole = Moments.from_data(X)
    assert m.workspace.found(derived) is None
    assert not m.has_samples
    assert m.data is None
    np.testing.assert_allclose(m.variances, whole.variances)
    np.testing.assert_allclose(m.spectrum.values, whole.spectrum.values, atol=1e-12)
    assert m.thin_spectrum is m.spectrum
    with pytest.raises(ValueError, match="needs the samples themselves"):
        m.centred_data


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_the_thin_spectrum_of_wide_data_is_that_of_the_scatter_matrix(wrap):
    Y = X.T.copy() * (X.T > 0.5)
    Y[:, 3] = 0.1
    m = Moments.from_data(wrap(Y))
    thin, S = m.thin_spectrum, reference(Y)[1]
    assert thin.vectors.shape == (50, np.linalg.matrix_rank(S))
    rebuilt = (thin.vectors * thin.values) @ thin.vectors.T * thin.trace
    np.testing.assert_allclose(rebuilt, S, atol=1e-11 * S.max())
    np.testing.assert_allclose(m.variances, np.diag(S), atol=1e-12 * S.max())
    assert m.variances[3] == 0
    np.testing.assert_allclose(m.centred_data.T @ m.centred_data, S, atol=1e-11 * S.max())
    assert not m.centred_data[:, 3].any()
    square = Moments.from_data(wrap(Y[:, :7]))
    assert square.thin_spectrum is square.spectrum


def test_centred_data_keep_their_precision(monkeypatch):
    monkeypatch.setattr(base, "BLOCK_ENTRIES", 21)
    single = (X + 100).astype(np.float32)
    centred = Moments.from_data(single).centred_data
    assert centred.dtype == np.float32
    exact = single.astype(float) - single.astype(float).mean(axis=0)
    np.testing.assert_allclose(centred, exact, rtol=1e-6, atol=1e-6)
    assert Moments.from_data(X).centred_data.dtype == np.float64


def test_moments_need_something_to_be_computed_from():
    with pytest.raises(ValueError, match="a scatter matrix or samples"):
        Moments(5, np.zeros(3))


def test_the_memory_of_scatter_matrices_is_asked_for_first():
    assert bytes_for_moments(1000) == 24_000_000  # of all samples and of two halves

    class Narrow(type(as_source(X))):
        budget = 24 * 49

    check_memory(Narrow(X))
    Narrow.budget -= 1
    with pytest.raises(ValueError, match="has 7 columns, whose scatter matrices need"):
        check_memory(Narrow(X))


@pytest.mark.parametrize(
    ("value", "message"), [(np.nan, "missing value in"), (-np.inf, "infinite value -inf in")]
)
def test_a_value_that_is_no_number_is_found(value, message):
    Y = X.copy()
    Y[31, 4] = value
    with pytest.raises(ValueError, match=rf"{message} column number 5, data row 32"):
        Moments.from_source(ArraySource(Y))


def test_moments_and_their_samples_go_when_nobody_needs_them():
    for unit in (1.0, 1e-150):
        data = unit * X
        m = Moments.from_data(data)
        assert m.near_one.total_variance > 0
        assert m.near_one is m.near_one
        assert (m.near_one is m) == (unit == 1)
        fitted = GreedySelector(n_features_to_select=2).fit_moments(m)
        assert fitted.get_support().sum() == 2
        gone = weakref.ref(m)
        gc.disable()
        try:
            del m, fitted
            assert gone() is None
        finally:
            gc.enable()


@pytest.mark.parametrize("offset", [0.0, 0.5, 0.99, 1.01, 3.0, 1e6])
@pytest.mark.parametrize("order", ["C", "F"])
def test_scatter_and_variances_lose_no_digits_whatever_the_mean(offset, order):
    # Up to a mean as large as the spread it is taken off after the squares.
    rng = np.random.default_rng(0)
    X = np.asarray(rng.standard_normal((400, 6)) + offset, order=order)
    X[:, 5] = 0.0
    exact = X.astype(np.longdouble) - X.astype(np.longdouble).mean(axis=0)
    scatter = (exact.T @ exact).astype(float)
    accuracy = 1e-13 * max(1.0, offset)
    for moments in (Moments.from_data(X), Moments.from_data(X)):
        np.testing.assert_allclose(moments.variances, np.diagonal(scatter), rtol=accuracy)
        np.testing.assert_allclose(moments.scatter, scatter, atol=accuracy * scatter.max())
    np.testing.assert_array_equal(moments.scatter, moments.scatter.T)
    assert moments.variances[5] == 0
    assert not moments.scatter[5].any()
    assert np.array_equal(np.diagonal(Moments.from_data(X).scatter) == 0, np.arange(6) == 5)


def test_samples_of_which_the_first_mislead_about_the_mean():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((64, 3)) * 100, rng.standard_normal((4000, 3)) + 30])
    centred = X - X.mean(axis=0)
    moments = Moments.from_data(X)
    np.testing.assert_allclose(moments.variances, np.sum(centred**2, axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.scatter, centred.T @ centred, atol=1e-8)


def test_single_precision_is_left_where_it_cannot_hold_the_factors():
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((30, 4)) * 20).round().astype(np.float32) * np.float32(1e-44)
    near = Moments.from_data(X).near_one
    assert np.isfinite(near.variances).all()
    np.testing.assert_allclose(
        near.variances / near.variances[0], X.astype(float).var(0) / X.astype(float).var(0)[0]
    )
    assert Moments.from_data(X).scaled(np.full(4, 2.0)).data.dtype == np.float32


FILLED = {
    "array": (np.array, lambda X: X.fill(7)),
    "Fortran order": (np.asfortranarray, lambda X: X.fill(7)),
    "csr": (sp.csr_array, lambda X: X.data.fill(7)),
    "csc": (sp.csc_array, lambda X: X.data.fill(7)),
    "pandas": (pd.DataFrame, lambda X: X.to_numpy().fill(7)),
    "tensor": (lambda X: pytest.importorskip("torch").tensor(X), lambda X: X.fill_(7)),
}


@pytest.mark.parametrize("more", [{}, {"sample_weight": np.ones(6)}])
@pytest.mark.parametrize("shape", [(6, 2), (6, 9)])
@pytest.mark.parametrize("name", FILLED)
def test_samples_that_change_later_do_not_change_their_moments(name, shape, more):
    X = np.random.default_rng(0).standard_normal(shape)
    make, fill = FILLED[name]
    buffer = make(X.copy())
    first = Moments.from_data(buffer, **more)
    with contextlib.suppress(ValueError):  # pandas hands out arrays that cannot be written to
        fill(buffer)
    expected = np.cov(X.T) * (len(X) - 1)
    np.testing.assert_allclose(first.variances, np.diagonal(expected), rtol=1e-12)
    np.testing.assert_allclose(first.scatter, expected, rtol=1e-10, atol=1e-12)
    both = first + Moments.from_data(X)
    np.testing.assert_allclose(both.scatter, 2 * expected, rtol=1e-10, atol=1e-12)


def test_a_mapped_file_is_not_copied_into_memory(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(4))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert np.shares_memory(Moments.from_data(mapped).data, mapped)
    X = np.eye(4)
    assert np.shares_memory(Moments.from_data(X, copy=False).data, X)

"""Every home of the samples × every view × every question, against dense NumPy in long double."""

import numpy as np
import pytest
import scipy.sparse as sp

from jointsparse import linalg, open_source
from jointsparse.device import like, to_host
from jointsparse.operators.dense import DenseSamples, operator_of, scaled_columns
from jointsparse.operators.samples import Samples
from jointsparse.operators.sparse import SparseSamples, live_columns
from jointsparse.sources import base
from jointsparse.sources.dask.samples import DaskSamples
from jointsparse.sources.files.samples import FileSamples

N, P = 9, 23


def counts(rng):
    """Sparse counts with a mean that is not zero, one feature constant and one empty."""
    R = rng.poisson(2.0, (N, P)) * (rng.random((N, P)) < 0.4) * rng.choice([0.5, 3.0], P)
    R[:, 0], R[:, 1] = 2.0, 0.0
    return R


def far_from_zero(rng):
    """A spread of 1 at 1e8: all that is left of double precision is eight digits."""
    R = 1e8 + rng.standard_normal((N, P))
    R[:, 3] = 1e8
    return R


# What a table needs of double precision: the mean is rounded, too.
TABLES = {"counts": (counts, 1e-13), "far from zero": (far_from_zero, 2e-7)}


def mean_of(R):
    return R.mean(axis=0, dtype=np.float64)


def in_file(R, folder, memory):
    np.save(folder / "samples.npy", R)
    source = open_source(folder / "samples.npy", memory=1_000_000)
    return FileSamples(source, np.arange(P), memory=memory)


def on_cluster(R, memory):
    dask = pytest.importorskip("dask.array", reason="dask is not installed")
    return DaskSamples.of(dask.from_array(R, chunks=(4, 5)), memory=memory)


def of_library(name, R, dtype=None):
    library = pytest.importorskip(name, reason=f"{name} is not installed")
    kept = library.asarray(R.copy())
    kept = kept if dtype is None else library.asarray(R.copy(), dtype=getattr(library, dtype))
    return DenseSamples(kept, library.asarray(mean_of(R)))


SINGLE, WHOLE = np.float32, np.int16
KINDS = {  # how the table is stored, and what is made of it
    "centred": (None, lambda R, _: DenseSamples(R - mean_of(R))),
    "double": (None, lambda R, _: DenseSamples(R, mean_of(R))),
    "fortran": (None, lambda R, _: DenseSamples(np.asfortranarray(R), mean_of(R))),
    "single": (SINGLE, lambda R, _: DenseSamples(R, mean_of(R))),
    "integers": (WHOLE, lambda R, _: DenseSamples(R, mean_of(R))),
    "csr": (None, lambda R, _: SparseSamples(sp.csr_array(R), mean_of(R))),
    "csc": (None, lambda R, _: SparseSamples(sp.csc_matrix(R), mean_of(R))),
    "csr single": (SINGLE, lambda R, _: SparseSamples(sp.csr_array(R), mean_of(R))),
    "file": (None, lambda R, folder: in_file(R, folder, 0)),
    "file single": (SINGLE, lambda R, folder: in_file(R, folder, 0)),
    "file into memory": (None, lambda R, folder: in_file(R, folder, 10**9)),
    "dask": (None, lambda R, _: on_cluster(R, 0)),
    "dask single": (SINGLE, lambda R, _: on_cluster(R, 0)),
    "torch": (None, lambda R, _: of_library("torch", R)),
    "torch single": (SINGLE, lambda R, _: of_library("torch", R)),
    "strict": (None, lambda R, _: of_library("array_api_strict", R)),
    "strict single": (SINGLE, lambda R, _: of_library("array_api_strict", R)),
}

rng = np.random.default_rng(5)
THIN, ROWS, WEIGHTS = rng.standard_normal((P, 3)), rng.standard_normal((N, 2)), rng.random(N)
CHOSEN, FACTORS = rng.random(P) < 0.6, rng.lognormal(0, 1, P)
WEIGHTS[2] = 0.0


def weighted_mean(X):
    return WEIGHTS @ X / WEIGHTS.sum()


def about_mean(samples, X):
    mean = np.asarray(weighted_mean(X), dtype=np.float64)
    return samples.reweighted(like(WEIGHTS, samples.empty), like(mean, samples.empty))


def about_mean_dense(X):
    return np.sqrt(WEIGHTS)[:, None] * (X - weighted_mean(X))


VIEWS = {  # what is made of samples, and of the array
    "as they are": (lambda s, X: s, lambda X: X),
    "columns": (lambda s, X: s.columns(like(CHOSEN, s.empty)), lambda X: X[:, CHOSEN]),
    "all columns": (lambda s, X: s.columns(like(CHOSEN | True, s.empty)), lambda X: X),
    "no column": (lambda s, X: s.columns(like(CHOSEN & False, s.empty)), lambda X: X[:, :0]),
    "scaled": (lambda s, X: s.scaled(like(FACTORS, s.empty)), lambda X: X * FACTORS),
    "scaled twice": (
        lambda s, X: s.scaled(like(FACTORS, s.empty)).scaled(like(FACTORS, s.empty)),
        lambda X: X * FACTORS**2,
    ),
    "weighted": (
        lambda s, X: s.reweighted(like(WEIGHTS, s.empty)),
        lambda X: np.sqrt(WEIGHTS)[:, None] * X,
    ),
    "weighted about the mean": (about_mean, about_mean_dense),
    "weighted twice": (
        lambda s, X: about_mean(s, X).reweighted(like(WEIGHTS, s.empty)),
        lambda X: np.sqrt(WEIGHTS)[:, None] * about_mean_dense(X),
    ),
    "weighted, scaled": (
        lambda s, X: about_mean(s, X).scaled(like(FACTORS, s.empty)),
        lambda X: about_mean_dense(X) * FACTORS,
    ),
    "scaled, weighted": (
        lambda s, X: about_mean(s.scaled(like(FACTORS, s.empty)), X * FACTORS),
        lambda X: about_mean_dense(X) * FACTORS,
    ),
    "weighted, some columns": (
        lambda s, X: about_mean(s, X).columns(like(CHOSEN, s.empty)),
        lambda X: about_mean_dense(X)[:, CHOSEN],
    ),
}


def ends(p):
    return np.array([p - 1, 0][: 2 * p], dtype=int)


QUESTIONS = {  # what is asked of samples with p features, and the answer of an array
    "times": (lambda s, p: s.times(like(THIN[:p], s.empty)), lambda X, p: X @ THIN[:p]),
    "transposed_times": (
        lambda s, p: s.transposed_times(like(ROWS, s.empty)),
        lambda X, p: X.T @ ROWS,
    ),
    "scatter_times": (
        lambda s, p: s.scatter_times(like(THIN[:p], s.empty)),
        lambda X, p: X.T @ (X @ THIN[:p]),
    ),
    "scatter_lengths": (
        lambda s, p: s.scatter_lengths(),
        lambda X, p: np.sum((X.T @ X) ** 2, axis=0),
    ),
    "combined": (
        lambda s, p: s.combined(like(ROWS.T, s.empty)),
        lambda X, p: ROWS.T @ X,
    ),
    "inner": (
        lambda s, p: s.inner(like(ROWS, s.empty), slice(p // 9, p // 2)),
        lambda X, p: X[:, p // 9 : p // 2].T @ ROWS,
    ),
    "squared_lengths": (lambda s, p: s.squared_lengths(), lambda X, p: np.sum(X**2, axis=0)),
    "squared_lengths of images": (
        lambda s, p: s.squared_lengths(like(ROWS, s.empty)),
        lambda X, p: np.sum((ROWS.T @ X) ** 2, axis=0),
    ),
    "weighted_squares": (
        lambda s, p: s.weighted_squares(like(WEIGHTS, s.empty)),
        lambda X, p: WEIGHTS @ X**2,
    ),
    "row_squares": (lambda s, p: s.row_squares(), lambda X, p: np.sum(X**2, axis=1)),
    "second powers": (lambda s, p: s.powers()[0], lambda X, p: np.sum(X**2, axis=1)),
    "fourth powers": (lambda s, p: s.powers()[1], lambda X, p: np.sum(X**4, axis=0)),
    "gram": (lambda s, p: s.gram(), lambda X, p: X @ X.T),
    "scatter": (lambda s, p: s.scatter(), lambda X, p: X.T @ X),
    "weighted scatter": (
        lambda s, p: s.scatter(like(WEIGHTS, s.empty)),
        lambda X, p: (X.T * WEIGHTS) @ X,
    ),
    "block": (
        lambda s, p: s.block(ends(p), like(WEIGHTS, s.empty)),
        lambda X, p: (X[:, ends(p)].T * WEIGHTS) @ X[:, ends(p)],
    ),
    "entries": (
        lambda s, p: s.entries(ends(p), slice(p // 9, p // 2)),
        lambda X, p: X[:, ends(p)].T @ X[:, p // 9 : p // 2],
    ),
    "take": (lambda s, p: s.take(ends(p)), lambda X, p: X[:, ends(p)]),
    "take a part": (lambda s, p: s.take(slice(p // 9, p // 2)), lambda X, p: X[:, p // 9 : p // 2]),
    "rows": (lambda s, p: s.rows(slice(2, 5)), lambda X, p: X[2:5]),
    "dense": (lambda s, p: s.dense(), lambda X, p: X),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", TABLES)
def test_answers_are_those_of_the_array(table, kind, view, tmp_path, monkeypatch):
    make, accuracy = TABLES[table]
    stored, home = KINDS[kind]
    if stored is WHOLE and table != "counts":
        pytest.skip("does not fit in 16 bits")
    monkeypatch.setattr(linalg, "BLOCK", 7)
    monkeypatch.setattr(base, "BLOCK_ENTRIES", 6 * N)
    R = make(np.random.default_rng(0))
    R = R if stored is None else R.astype(stored)
    exact = R.astype(np.longdouble)
    X = exact - exact.mean(axis=0)
    here, there = VIEWS[view]
    samples, expected = here(home(R, tmp_path), X), there(X)
    assert samples.shape == expected.shape
    assert samples.empty.shape == (expected.shape[1], 0)
    single = stored is SINGLE
    for name, (question, answer) in QUESTIONS.items():
        # What is stored in single precision is as exact as if it were not; copies of it are not.
        copied = "columns" in view and view != "all columns"
        tolerance = max(accuracy, 4e-7 if single and (copied or name == "dense") else 0.0)
        found = to_host(question(samples, expected.shape[1]))
        wanted = np.asarray(answer(expected, expected.shape[1]), dtype=np.float64)
        assert found.shape == wanted.shape, name
        if name != "dense":
            assert found.dtype == np.float64, name
        size = np.max(np.abs(wanted), initial=0.0)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=40 * tolerance * size, err_msg=name)
    largest, most = float(np.max(np.abs(expected), initial=0.0)), 4 if samples.is_sparse else 1.1
    assert largest * (1 - 1e-6) <= samples.size() <= most * largest


@pytest.mark.parametrize("kind", KINDS)
def test_samples_say_what_they_are(kind, tmp_path):
    stored, home = KINDS[kind]
    R = counts(np.random.default_rng(0)).astype(stored or np.float64)
    samples = home(R, tmp_path)
    assert isinstance(samples, Samples)
    places = {"torch": "device", "file": "file", "dask": "cluster"}
    assert samples.home == places.get(kind.split()[0], "memory")
    assert samples.is_sparse == ("cs" in kind)
    assert samples.is_array == (samples.home in ("memory", "device") and not samples.is_sparse)
    assert to_host(samples.empty).dtype == (np.float32 if stored is SINGLE else np.float64)
    assert to_host(samples.dense()).dtype == to_host(samples.empty).dtype
    assert samples.gram() is samples.gram()
    assert samples.xp is linalg.array_namespace(samples.empty)
    weighted = samples.reweighted(like(WEIGHTS, samples.empty))
    assert weighted.gram() is weighted.gram()
    assert (weighted.home, weighted.is_sparse) == (samples.home, samples.is_sparse)


def test_the_gram_matrix_of_weighted_samples_needs_no_pass(monkeypatch):
    samples = DenseSamples(counts(np.random.default_rng(0)))
    samples.gram()
    monkeypatch.setattr(DenseSamples, "_results", None)
    assert samples.reweighted(WEIGHTS).gram().shape == (N, N)


def test_columns_that_fit_come_into_memory(tmp_path):
    R = counts(np.random.default_rng(0))
    for far in (in_file(R, tmp_path, 10**9), on_cluster(R, 10**9)):
        assert far.columns(CHOSEN).is_array
    for far in (in_file(R, tmp_path, 0), on_cluster(R, 0)):
        assert not far.columns(CHOSEN).is_array
        assert far.columns(CHOSEN | True) is far
    needed = int(CHOSEN.sum()) * R.shape[0] * R.dtype.itemsize
    for memory in (needed, needed - 1):
        far = in_file(R, tmp_path, memory)
        assert far.columns(CHOSEN).is_array == (memory == needed)


def test_arrays_are_wrapped_and_anything_else_is_left_alone():
    X = np.zeros((2, 3))
    wrapped = operator_of(X)
    assert isinstance(wrapped, DenseSamples)
    assert wrapped.dense() is X
    assert operator_of(wrapped) is wrapped
    assert wrapped.columns(np.ones(3, dtype=bool)) is wrapped


def test_constant_features_of_sparse_samples_become_zero():
    R = counts(np.random.default_rng(0))
    squares = np.sum((R - R.mean(axis=0)) ** 2, axis=0)
    found = live_columns(sp.csr_array(R), R.mean(axis=0), squares)
    np.testing.assert_array_equal(found.dense()[:, :2], 0.0)
    np.testing.assert_allclose(found.dense(), R - R.mean(axis=0), atol=1e-15)
    every = squares > 0
    again = live_columns(sp.csr_array(R[:, every]), R.mean(axis=0)[every], squares[every])
    np.testing.assert_allclose(again.dense(), found.dense()[:, every], atol=1e-15)


def test_samples_as_they_came_are_scaled_where_they_are(tmp_path):
    R = counts(np.random.default_rng(0))
    far = in_file(R, tmp_path, 0)
    np.testing.assert_allclose(scaled_columns(far, FACTORS).dense(), far.dense() * FACTORS)
    np.testing.assert_allclose(scaled_columns(sp.csr_array(R), FACTORS).toarray(), R * FACTORS)
    assert scaled_columns(R.astype(np.float32), FACTORS).dtype == np.float32
    assert scaled_columns(R.astype(np.float32), FACTORS * 1e31).dtype == np.float64


def test_squares_of_sparse_samples_of_which_all_entries_are_stored():
    rng = np.random.default_rng(0)
    R = 1e6 + rng.standard_normal((9, 3))  # a large mean would blow up rounding
    R[:, 1] *= rng.random(9) < 0.5
    weights = rng.uniform(0.5, 2, 9)
    X = R - R.mean(axis=0)
    found = SparseSamples(sp.csc_array(R), R.mean(axis=0))
    np.testing.assert_allclose(found.weighted_squares(weights), weights @ X**2, rtol=1e-9)
    np.testing.assert_allclose(found.squared_lengths(), np.sum(X**2, axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.powers()[1], np.sum(X**4, axis=0), rtol=1e-8)


@pytest.mark.parametrize("entries", [1, 20, 10**6])
def test_large_blocks_on_an_accelerator_hold_all_features(entries, monkeypatch):
    monkeypatch.setattr("jointsparse.operators.dense.on_accelerator", lambda array: True)
    monkeypatch.setattr("jointsparse.operators.dense.BLOCK_ENTRIES", entries)
    X = np.random.default_rng(0).standard_normal((9, 7))
    found = DenseSamples(X)
    np.testing.assert_allclose(found.squared_lengths(), np.sum(X**2, axis=0))
    rows = np.random.default_rng(1).standard_normal((9, 2))
    np.testing.assert_allclose(found.squared_lengths(rows), np.sum((X.T @ rows) ** 2, axis=1))
    np.testing.assert_allclose(found.gram(), X @ X.T)

"""Dask arrays and DataFrames as sources, on Dask's own threads; clusters are in test_dask_fits."""

import numpy as np
import pytest
import scipy.sparse as sp
from source_products import times, transposed_times

from jointsparse.sources import as_source, is_streamed
from jointsparse.sources.sums import add_halves, fold_halves, half_of

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas", reason="pandas is not installed")

NAMES = [f"f{j}" for j in range(40)]


@pytest.fixture(scope="module", name="X")
def samples():
    generator = np.random.default_rng(0)
    return generator.standard_normal((30_000, 40)) * np.arange(1, 41) + 100


def frame(X):
    return pd.DataFrame(X, columns=NAMES)


def unknown(array):
    """Return the same array with chunks whose lengths Dask does not know."""
    return array[array[:, 0] > -np.inf]


KINDS = {
    "chunks of rows": lambda X: da.from_array(X, chunks=(7000, 40)),
    "both ways": lambda X: da.from_array(X, chunks=(7000, 11)),
    "many small chunks": lambda X: da.from_array(X, chunks=(90, 40)),
    "unknown lengths": lambda X: unknown(da.from_array(X, chunks=(7000, 40))),
    "unknown both ways": lambda X: unknown(da.from_array(X, chunks=(7000, 11))),
    "sparse": lambda X: da.from_array(X, chunks=(7000, 40)).map_blocks(sp.csr_matrix),
    "data frame": lambda X: dd.from_pandas(frame(X), npartitions=4),
    "filtered data frame": lambda X: (lambda f: f[f.f0 > -np.inf])(
        dd.from_pandas(frame(X), npartitions=4)
    ),
    "nullable data frame": lambda X: dd.from_pandas(frame(X).convert_dtypes(), npartitions=4),
    "empty partitions": lambda X: dd.concat(
        [
            dd.from_pandas(frame(X[:0]), npartitions=1),
            dd.from_pandas(frame(X), npartitions=3),
            dd.from_pandas(frame(X[:0]), npartitions=1),
        ]
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_sums_and_products_are_those_of_the_array(X, kind):
    collection = KINDS[kind](X)
    source = as_source(collection)
    assert is_streamed(collection)
    assert source.n_features == 40
    first, second = source.reduce(fold_halves, add_halves)
    half = half_of(0, X.shape[0])
    assert source.n_samples == X.shape[0]
    for sums, rows in ((first, X[half]), (second, X[~half])):
        assert sums.n == rows.shape[0]
        np.testing.assert_allclose(sums.mean, rows.mean(axis=0), rtol=1e-12)
        expected = np.cov(rows.T) * (rows.shape[0] - 1)
        np.testing.assert_allclose(sums.complete(), expected, rtol=1e-9, atol=1e-5)
    mean, generator = X.mean(axis=0), np.random.default_rng(1)
    thin = generator.standard_normal((40, 3))
    centred = X - mean
    close = {"rtol": 1e-9, "atol": 1e-4}
    np.testing.assert_allclose(times(source, thin, mean), centred @ thin, rtol=1e-9, atol=1e-9)
    back = transposed_times(source, centred @ thin, mean)
    np.testing.assert_allclose(back, centred.T @ (centred @ thin), **close)
    read = source.read()
    np.testing.assert_array_equal(read.toarray() if sp.issparse(read) else read, X)


def test_small_chunks_are_brought_together_and_large_ones_stay(X):
    many, few = as_source(KINDS["many small chunks"](X)), as_source(KINDS["chunks of rows"](X))
    assert len(list(many.blocks())) < 10
    assert [block.shape[0] for block in few.blocks()] == [7000, 7000, 7000, 7000, 2000]


def test_one_pass_reads_every_block_once(X):
    read = []

    def load(start):
        read.append(start)
        return X[start : start + 10_000]

    parts = [
        da.from_delayed(dask.delayed(load)(start), (np.nan, 40), dtype=float)
        for start in range(0, 30_000, 10_000)
    ]
    source = as_source(da.concatenate(parts, allow_unknown_chunksizes=True))
    source.reduce(fold_halves, add_halves)
    assert sorted(read) == [0, 10_000, 20_000]
    kept = source.persist()
    read.clear()
    assert kept.n_samples == 30_000
    transposed_times(kept, np.ones((30_000, 1)), X.mean(axis=0))
    transposed_times(kept, np.ones((30_000, 1)), X.mean(axis=0))
    assert read == []


@pytest.mark.parametrize("kind", ["both ways", "unknown both ways", "data frame"])
def test_columns_and_maps_stay_lazy(X, kind):
    collection = KINDS[kind](X)
    kept = as_source(collection).columns([3, 1])
    assert type(kept.as_given()) is type(collection)
    np.testing.assert_array_equal(np.asarray(kept.as_given().compute()), X[:, [3, 1]])
    doubled = as_source(collection).map(np.square, 40, np.float64, np.array(NAMES, dtype=object))
    given = doubled.as_given()
    assert type(given) is type(collection)
    np.testing.assert_array_equal(np.asarray(given.compute()), X**2)
    if kind == "data frame":
        assert kept.feature_names.tolist() == ["f3", "f1"] == list(kept.as_given().columns)
        assert list(given.columns) == NAMES
        assert given.compute().index.equals(collection.compute().index)
        dd.utils.assert_eq(given, frame(X**2))


def test_what_is_no_table_of_numbers_is_refused_by_name(X):
    text = frame(X[:10]).assign(colour="red", f3="x")
    with pytest.raises(ValueError, match=r"2 columns .* are not numeric: 'f3', 'colour'"):
        as_source(dd.from_pandas(text, npartitions=2))
    with pytest.raises(ValueError, match="column 'colour' of the Dask DataFrame is not numeric"):
        as_source(dd.from_pandas(text.drop(columns="f3"), npartitions=2))
    with pytest.raises(ValueError, match="two-dimensional"):
        as_source(da.ones(3))
    with pytest.raises(ValueError, match="complex128"):
        as_source(da.ones((3, 3), dtype=complex))
    with pytest.raises(ValueError, match="got a Dask Delayed"):
        as_source(dask.delayed(X))
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        as_source(unknown(da.from_array(X, chunks=7000)).T)

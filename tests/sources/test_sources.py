import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from source_products import times, transposed_times
from ways_in import WAYS_IN, parquet_folder, table_of, ways_in

from jointsparse import Moments, open_source
from jointsparse.io import TableError, read_table
from jointsparse.io.budget import available_memory, size_in_words
from jointsparse.sources import as_source, is_streamed, parse_size
from jointsparse.sources.in_memory import ArraySource
from jointsparse.sources.read_ahead import read_ahead
from jointsparse.sources.sums import add_halves, fold_halves, half_of
from jointsparse.sources.views.columnwise import standardised
from jointsparse.sources.views.filling import filled_with_means

X = np.random.default_rng(0).standard_normal((53, 6)) + 2


def dense(block):
    return block.toarray() if sp.issparse(block) else np.asarray(block)


@ways_in()
@pytest.mark.parametrize("entries", [None, 1, 20, 60, 10_000])
def test_blocks_are_the_rows_in_order(way_in, entries, tmp_path):
    source = as_source(way_in(X, tmp_path))
    blocks = [dense(block) for block in source.blocks(entries)]
    np.testing.assert_allclose(np.concatenate(blocks), X, rtol=1e-15)
    assert source.n_features == 6
    assert source.n_samples in (53, None)


@ways_in()
def test_rows_columns_and_all(way_in, tmp_path):
    source = as_source(way_in(X, tmp_path))
    np.testing.assert_allclose(dense(source.read()), X)
    np.testing.assert_allclose(dense(source.rows([3, 17, 52])), X[[3, 17, 52]])
    np.testing.assert_allclose(dense(source.columns([4, 1]).read()), X[:, [4, 1]])
    doubled = source.map(lambda block: block * 2, 6)
    np.testing.assert_allclose(dense(doubled.read()), 2 * X)


@ways_in()
def test_products(way_in, tmp_path):
    rng = np.random.default_rng(1)
    source = as_source(way_in(X, tmp_path))
    source.block_entries = lambda: 24
    U, V = rng.standard_normal((6, 2)), rng.standard_normal((53, 3))
    mean = X.mean(axis=0)
    centred = X - mean
    np.testing.assert_allclose(times(source, U, mean), centred @ U, atol=1e-12)
    np.testing.assert_allclose(transposed_times(source, V, mean), centred.T @ V, atol=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 200), st.floats(-1e8, 1e8), st.booleans())
@settings(max_examples=15, deadline=None)
def test_moments_in_one_pass_equal_those_in_extended_precision(seed, entries, offset, single):
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((40, 3)) * [1, 10, 0.1] + offset
    data = data.astype(np.float32) if single else data
    source = ArraySource(data)
    source.block_entries = lambda: entries
    found = Moments.from_source(source)
    exact = data.astype(np.longdouble)
    centred = exact - exact.mean(axis=0)
    expected = np.asarray(centred.T @ centred, dtype=np.float64)
    lengths = np.sqrt(np.diagonal(expected))
    # What rounding of the mean itself may cost.
    off = 1e-14 * abs(offset)
    slack = 1e-12 * np.outer(lengths, lengths) + off * (lengths + lengths[:, None] + off)
    assert np.all(np.abs(found.scatter - expected) <= slack)
    first, second = found.halves
    assert first.n_samples == second.n_samples == 20
    both = first + second
    np.testing.assert_allclose(both.scatter, found.scatter, rtol=1e-9, atol=1e-9 * lengths.max())


def test_a_mean_of_1e8_costs_no_digits_of_a_spread_of_1(tmp_path):
    rng = np.random.default_rng(0)
    data = np.round(rng.standard_normal((5000, 4)) * 2**20) / 2**20  # exact after adding 1e8
    source = open_source(parquet_folder(data + 1e8, tmp_path))
    source.block_entries = lambda: 400
    centred = data - data.mean(axis=0)
    expected = centred.T @ centred
    np.testing.assert_allclose(
        Moments.from_source(source).scatter, expected, atol=1e-9 * expected.max()
    )


def test_sorted_samples_cost_no_digits_either():
    data = np.sort(np.random.default_rng(0).standard_normal((3000, 2)), axis=0) * [1, 1e6]
    source = ArraySource(data)
    source.block_entries = lambda: 2
    np.testing.assert_allclose(
        Moments.from_source(source).scatter, 2999 * np.cov(data.T), rtol=1e-12
    )


def test_halves_do_not_depend_on_the_blocks():
    whole = half_of(0, 1000)
    assert whole.sum() == 500
    assert np.all(whole[::2] != whole[1::2])
    assert 200 < whole[::2].sum() < 300
    np.testing.assert_array_equal(np.concatenate([half_of(0, 333), half_of(333, 667)]), whole)


def test_blocks_elsewhere_are_combined():
    # What a source on a cluster does: states of single blocks, combined in pairs.
    parts = [fold_halves(None, X[start : start + 10], start) for start in range(0, 53, 10)]
    copies = [[half.scatter.copy() for half in part] for part in parts]
    whole = parts[0]
    for part in parts[1:]:
        whole = add_halves(whole, part)
    for part, before in zip(parts, copies, strict=True):
        for half, scatter in zip(part, before, strict=True):
            np.testing.assert_array_equal(half.scatter, scatter)  # not changed
    straight = fold_halves(None, X, 0)
    for one, other in zip(whole, straight, strict=True):
        np.testing.assert_allclose(one.complete(), other.complete(), atol=1e-12)


def test_partial_fit_keeps_halves():
    streamed = Moments.from_data(X[:1])
    for row in X[1:]:
        streamed.partial_fit(row[None])
    whole = Moments.from_source(ArraySource(X))
    np.testing.assert_allclose(streamed.scatter, whole.scatter, atol=1e-12)
    for one, other in zip(streamed.halves, whole.halves, strict=True):
        assert one.n_samples == other.n_samples
        np.testing.assert_allclose(one.scatter, other.scatter, atol=1e-12)


def test_scaling_moments_is_scaling_samples():
    factors = np.arange(1.0, 7.0)
    for moments in (Moments.from_data(X), Moments.from_source(ArraySource(X))):
        expected = Moments.from_source(ArraySource(X * factors))
        scaled = moments.scaled(factors)
        np.testing.assert_allclose(scaled.scatter, expected.scatter)
        np.testing.assert_allclose(scaled.mean, expected.mean)
        np.testing.assert_allclose(moments.standardised().variances, 53)
    np.testing.assert_allclose(scaled.halves[0].scatter, expected.halves[0].scatter)


def test_reading_ahead_keeps_the_order_and_the_errors():
    def blocks():
        yield from range(5)
        raise OSError("the disk is gone")

    coming = read_ahead(blocks())
    assert [next(coming) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(OSError, match="disk"):
        next(coming)


@pytest.mark.parametrize(
    ("text", "size"), [("1GB", 10**9), ("1.5 GiB", 3 * 2**29), ("300", 300), ("2k", 2000)]
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1XB", "0"])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="is not an amount of memory"):
        parse_size(text)


def test_memory_in_words():
    assert size_in_words(320e9) == "320 GB"
    assert available_memory() > 10**7


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv", ".tsv.gz", ".npy"])
def test_written_in_blocks_and_read_again(suffix, tmp_path):
    source = open_source(parquet_folder(X, tmp_path))
    source.block_entries = lambda: 30
    source.columns([2, 0]).write(tmp_path / f"out{suffix}")
    table = read_table(tmp_path / f"out{suffix}")
    np.testing.assert_allclose(table.values, X[:, [2, 0]])
    if suffix != ".npy":
        assert table.names == ["column 2", "column 0"]


def test_what_cannot_be_written_in_blocks(tmp_path):
    source = open_source(WAYS_IN["CSV folder"](X, tmp_path))
    for name in ("x.npz", "x.npy"):
        with pytest.raises(TableError, match="cannot be written in blocks"):
            source.write(tmp_path / name)
        assert not (tmp_path / name).exists()


def test_integers_with_holes_and_booleans(tmp_path):
    table = pa.table(
        {
            "a": pa.array([1, None, 3], pa.int32()),
            "b": pa.array([True, False, True]),
            "c": pa.array([1, 2, 3], pa.uint8()),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    source = open_source(tmp_path / "x.parquet")
    np.testing.assert_array_equal(source.read(), [[1, 1, 1], [np.nan, 0, 2], [3, 1, 3]])
    with pytest.raises(TableError, match="missing value in column a, data row 2"):
        Moments.from_data(source)
    filled = filled_with_means(source)
    np.testing.assert_array_equal(filled.source.read(), [[1, 1, 1], [2, 0, 2], [3, 1, 3]])
    assert filled.missing.tolist() == [1, 0, 0]


def test_means_of_what_is_there():
    holed = X.copy()
    holed[np.random.default_rng(0).uniform(size=X.shape) < 0.3] = np.nan
    source = ArraySource(holed)
    source.block_entries = lambda: 24
    filled = filled_with_means(source)
    np.testing.assert_allclose(filled.means, np.nanmean(holed, axis=0))
    expected = np.where(np.isnan(holed), np.nanmean(holed, axis=0), holed)
    np.testing.assert_allclose(filled.source.read(), expected)


def test_a_value_that_is_not_finite_is_named_with_its_row(tmp_path):
    data = X.copy()
    data[31, 4] = np.inf
    source = open_source(parquet_folder(data, tmp_path))
    source.block_entries = lambda: 24
    with pytest.raises(TableError, match="infinite value inf in column column 4, data row 32"):
        Moments.from_data(source)
    data[31, 4] = np.nan
    np.save(tmp_path / "x.npy", data)
    with pytest.raises(TableError, match="missing value in column number 5, data row 32"):
        Moments.from_data(tmp_path / "x.npy")


def test_text_becomes_fractions_further_down(tmp_path):
    rows = "\n".join(["1,2"] * 10 + ["1.5,2"])
    with gzip.open(tmp_path / "x.csv.gz", "wt") as file:
        file.write(f"a,a\n{rows}\n")
    source = open_source(tmp_path / "x.csv.gz")
    assert list(source.feature_names) == ["a", "a.2"]
    assert source.notes == ["renamed a repeated column a to a.2"]
    assert source.read()[-1].tolist() == [1.5, 2]


def test_logical_columns_of_text_are_read_in_blocks_as_they_are_at_once(tmp_path):
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text("a,b,c\ntrue,1,0\nFalse,2.5,1\n,3,0\n", "utf-8")
    whole = read_table(tmp_path / "0.csv", impute="keep").values
    blocks = open_source(tmp_path / "0.csv").read()
    np.testing.assert_array_equal(blocks, [[1, 1, 0], [0, 2.5, 1], [np.nan, 3, 0]])
    np.testing.assert_array_equal(blocks, whole)
    both = open_source(tmp_path)  # the types of the first file are those of all
    np.testing.assert_array_equal(both.read(), np.vstack([whole, whole]))


def test_labels_and_text_columns(tmp_path):
    table = table_of(X).append_column("who", [["x"] * 53]).append_column("why", [["y"] * 53])
    pq.write_table(table, tmp_path / "x.parquet")
    source = open_source(tmp_path / "x.parquet")
    assert source.notes == ["left out 2 columns that are not numbers: who (text), why (text)"]
    source = open_source(tmp_path / "x.parquet", label="who")
    assert source.n_features == 6
    assert source.aside("who").tolist() == ["x"] * 53
    assert source.notes == ["left out 1 column that is not numbers: why (text)"]
    some = open_source(tmp_path / "x.parquet", columns=["column 3", "column 1"])
    np.testing.assert_array_equal(some.read(), X[:, [3, 1]])


def damaged(tmp_path):
    parquet_folder(X, tmp_path)
    (tmp_path / "parquet" / "1.parquet").write_bytes(b"PAR1 nothing PAR1")
    return tmp_path / "parquet"


def several_kinds(tmp_path):
    parquet_folder(X, tmp_path)
    (tmp_path / "parquet" / "more.csv").write_text("a\n1\n")
    return tmp_path / "parquet"


def other_columns(tmp_path):
    parquet_folder(X, tmp_path)
    pq.write_table(table_of(X[:, :5]), tmp_path / "parquet" / "9.parquet")
    return tmp_path / "parquet"


def empty_folder(tmp_path):
    (tmp_path / "nothing").mkdir()
    return tmp_path / "nothing"


def text_in_numbers(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n" + "1,2\n" * 2000 + "1,two\n")
    return tmp_path / "x.csv"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "none.parquet", "does not exist"),
        (damaged, "1.parquet is damaged"),
        (several_kinds, "files of several kinds: 2.parquet, more.csv"),
        (other_columns, "9.parquet has no column column 5, unlike 0.parquet"),
        (empty_folder, "folder without a file"),
        (text_in_numbers, "has 'two' in data row 2001 of column"),
    ],
)
def test_what_cannot_be_opened(make, message, tmp_path, monkeypatch):
    monkeypatch.setattr("jointsparse.sources.files.arrow.ArrowSource._text_bytes", 1000)
    with pytest.raises(TableError, match=message):
        Moments.from_data(make(tmp_path))


def test_stored_arrays_need_a_name_where_there_are_several(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["one"], file["other"] = X, X + 1
        assert is_streamed(file["one"])
        np.testing.assert_allclose(as_source(file["one"]).read(), X)
    with pytest.raises(TableError, match="holds the matrices one, other; name one as dataset"):
        open_source(tmp_path / "x.h5")
    np.testing.assert_allclose(open_source(tmp_path / "x.h5", dataset="other").read(), X + 1)


@pytest.mark.parametrize("order", ["C", "F"])
def test_constant_columns_of_many_rows_have_no_deviation(order):
    """Rounding of the mean made 37 of 39 such columns vary by 1e-15 of their value."""
    rng = np.random.default_rng(0)
    X = np.repeat([rng.random(40) * 10.0 ** rng.integers(-8, 8, 40)], 600, axis=0)
    X[:, 0] = rng.standard_normal(600) + 1e6
    found = standardised(ArraySource(np.asarray(X, order=order)))
    assert not found.deviations[1:].any()
    assert found.deviations[0] == pytest.approx(X[:, 0].std(), rel=1e-12)

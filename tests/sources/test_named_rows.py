"""A value that is not finite is named with its row, whatever the blocks it is read in."""

import numpy as np
import pytest
from ways_in import WAYS_IN, ways_in

from fuzz.containers import NAME
from jointsparse import CSPCA, SPCAPSD, Moments
from jointsparse.methods.reading.from_source import moments_of_products, samples_at_hand
from jointsparse.sources import as_source
from jointsparse.sources.sums import NotFiniteError
from jointsparse.sources.views.filling import filled_with_means

ROWS, COLUMNS = 53, 6
RNG = np.random.default_rng(0)
X = RNG.standard_normal((ROWS, COLUMNS)) + 2
# Block sizes, in entries, with a row each: ends and middles of blocks, and anywhere.
PLACES = [(1, 0), (20, 31), (60, 9), (60, 10), (10_000, 52)]
PLACES += [(int(RNG.integers(1, 400)), int(RNG.integers(ROWS))) for _ in range(4)]


def with_hole(row, column=3, value=np.nan):
    broken = X.copy()
    broken[row, column] = value
    return broken


def named(column, row):
    """Match a message about one entry: the column by its name or its number."""
    name = f"({NAME.format(column)}|number {column + 1})"
    in_blocks = rf"in column '?{name}'?, data row {row + 1}\b"
    at_once = rf"in row {row}, column {column} \(counted from 0\)"
    return rf"(missing value|infinity|infinite value).* ({in_blocks}|{at_once})"


def source_of(way_in, broken, folder, number, entries):
    place = folder / str(number)
    place.mkdir()
    source = as_source(way_in(broken, place))
    source.block_entries = lambda: entries
    return source


IN_MEMORY = ("Fortran order", "memmap", "csr array", "csc array")  # refused at the door


@pytest.mark.parametrize("way", [name for name in WAYS_IN if name not in IN_MEMORY])
def test_every_pass_names_the_row(way, tmp_path):
    for number, (entries, row) in enumerate(PLACES):
        value = (np.nan, np.inf)[number % 2]
        source = source_of(WAYS_IN[way], with_hole(row, value=value), tmp_path, number, entries)
        with pytest.raises(ValueError, match=named(3, row)):
            Moments.from_source(source)
        with pytest.raises(ValueError, match=named(3, row)):
            samples_at_hand(source)
        kept = source.persist()
        with pytest.raises(ValueError, match=named(3, row)):
            Moments.from_source(kept)
        if value == np.inf:
            with pytest.raises(NotFiniteError) as caught:
                filled_with_means(kept)
            assert (caught.value.row, caught.value.column) == (row, 3)
        # Blocks of columns are dense: sparse chunks have another class for them.
        wide = None if "sparse" in way else source.operator()
        if wide is not None:
            with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=named(3, row)):
                moments_of_products(source, wide)


@ways_in()
def test_a_transform_names_the_row_where_it_can_be_known(way_in, request, tmp_path):
    way = request.node.callspec.id
    if any(name in way for name in IN_MEMORY):
        pytest.skip("refused before there are blocks")
    model = SPCAPSD(n_features_to_select=2).fit(X)
    column = int(model.get_support(indices=True)[1])
    for number, (entries, row) in enumerate(PLACES[:5]):
        place = tmp_path / str(number)
        place.mkdir()
        samples = way_in(with_hole(row, column), place)
        result = model.transform(samples)
        if hasattr(result, "compute"):
            # Of a data frame the label is told; lengths that Dask does not know tell no row.
            told = rf", row {row}\b" if hasattr(result, "columns") else rf", data row {row + 1}\b"
            told = ";" if not hasattr(result, "columns") and np.isnan(result.shape[0]) else told
            with pytest.raises(ValueError, match=f"missing value in column .*{told}"):
                result.compute()
        else:
            with pytest.raises(ValueError, match=named(column, row)):
                list(result.blocks(entries))


@pytest.mark.parametrize("chunk", [200, 2000, 7000, 30_000])
def test_blocks_that_dask_keeps_begin_where_they_did(chunk):
    """Small chunks are brought together: what was known of them must not outlive that."""
    da = pytest.importorskip("dask.array")
    broken = np.random.default_rng(1).standard_normal((30_000, 40))
    broken[20_000, 3] = np.nan
    source = as_source(da.from_array(broken, chunks=(chunk, 40)))
    kept = source.persist()
    starts, lengths = kept._positions()
    assert len(starts) == len(lengths) == len(kept._blocks)
    assert sum(lengths) == 30_000
    for samples in (source, kept):
        with pytest.raises(ValueError, match=named(3, 20_000)):
            Moments.from_source(samples)


def test_chunks_of_other_lengths_than_dask_was_told_are_refused():
    """Rows would be counted, and the samples cut into halves, from the wrong places."""
    da, dask = pytest.importorskip("dask.array"), pytest.importorskip("dask")
    parts = [da.from_delayed(dask.delayed(X[:30]), (20, COLUMNS), float) for _ in range(3)]
    with pytest.raises(ValueError, match="has 90 rows, and Dask was told 60"):
        Moments.from_data(da.concatenate(parts).rechunk((20, COLUMNS)))


def test_sparse_blocks_name_the_first_row():
    da, sp = pytest.importorskip("dask.array"), pytest.importorskip("scipy.sparse")
    model = SPCAPSD(n_features_to_select=2).fit(X)
    column = int(model.get_support(indices=True)[0])
    broken = with_hole(40, column)
    broken[31, column] = np.inf
    for make in (sp.csr_matrix, sp.csc_matrix):
        samples = da.from_array(broken, chunks=(30, COLUMNS)).map_blocks(make)
        with pytest.raises(ValueError, match=r"infinite value inf in column .*, data row 32\b"):
            model.transform(samples).compute()
        whole = da.from_array(X, chunks=(30, COLUMNS)).map_blocks(make)
        assert model.transform(whole).compute().shape == (ROWS, 2)


def test_weights_meet_their_rows_in_blocks_that_dask_keeps():
    """The halves of the samples, and what lies beside them, are cut as the blocks are."""
    da = pytest.importorskip("dask.array")
    values = np.arange(24_000.0).reshape(6000, 4)
    kept = as_source(da.from_array(values, chunks=(100, 4))).persist()
    found = kept.collect(_beside, values[:, 0])
    np.testing.assert_array_equal(found, values[:, 0])


def _beside(block, rows):
    assert np.array_equal(block[:, 0], rows)
    return rows


@pytest.fixture(scope="module", name="client")
def threads_as_workers():
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with distributed.Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as client:
        yield client


@pytest.mark.parametrize("chunk", [2000, 4500])
@pytest.mark.parametrize("known", [True, False])
def test_with_a_client_too(client, chunk, known):
    da = pytest.importorskip("dask.array")
    broken = np.random.default_rng(1).standard_normal((30_000, 40))
    broken[20_000, 3] = np.nan
    samples = da.from_array(broken, chunks=(chunk, 40))
    samples = samples if known else samples[samples[:, 0] > -np.inf]
    for method in (CSPCA(), SPCAPSD()):
        with pytest.raises(ValueError, match=named(3, 20_000)):
            method.fit(samples)

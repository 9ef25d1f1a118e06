"""What users meet at the edges: odd files, empty sources, methods that cannot, pages of little."""

import re
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

import jointsparse
from jointsparse import FSSL, SPCA, SPCAPSD, Moments, SelectFeatures, linalg, open_source
from jointsparse.graphs.laplacian import _cosines, median_distance
from jointsparse.io import read_table
from jointsparse.io.limits import MOST_TEXT_COLUMNS, check_text_width
from jointsparse.io.plain_text.delimited import MOST_EMPTY_LINES
from jointsparse.model_selection import parameters, stability_selection
from jointsparse.model_selection.comparison import _selector
from jointsparse.operators.sparse import SparseSamples
from jointsparse.report import comparison, payload, pictures, words
from jointsparse.solvers.convex.splitting import MATRICES
from jointsparse.sources import as_source
from jointsparse.sources.files.stored import ChunkedSource
from jointsparse.sources.files.writing import write_source
from jointsparse.sources.in_memory import ArraySource
from jointsparse.sources.sums import NotFiniteError, Sums, check_finite, mean_of
from jointsparse.sources.views.columnwise import fill_block
from jointsparse.sources.views.filling import filled_with_means


def samples(n=30, p=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 2)) @ rng.standard_normal((2, p)) + rng.standard_normal((n, p))


def refused(pattern):
    return pytest.raises(ValueError, match=pattern)


# files


def test_text_that_does_not_begin(tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("\n" * (MOST_EMPTY_LINES + 2) + "a,b\n1,2\n")
    with refused(f"begins with more than {MOST_EMPTY_LINES} empty lines"):
        open_source(empty)
    with refused(f"at most {MOST_TEXT_COLUMNS} are read from text"):
        check_text_width(empty, MOST_TEXT_COLUMNS + 1)
    check_text_width(empty, MOST_TEXT_COLUMNS)


def test_arrays_of_another_version_and_cut_short(tmp_path):
    X = samples()
    with (tmp_path / "second.npy").open("wb") as stream:
        np.lib.format.write_array(stream, X, version=(2, 0))
    np.testing.assert_array_equal(read_table(tmp_path / "second.npy").values, X)
    np.savez(tmp_path / "good.npz", values=X)
    (tmp_path / "zero.mtx").write_bytes(b"%%MatrixMarket matrix array real general\n1 1\n\0\n")
    with refused("there is a zero byte in its text"):
        read_table(tmp_path / "zero.mtx")


@pytest.mark.filterwarnings("ignore:Feather V1")
def test_the_first_version_of_feather(tmp_path):
    from pyarrow import feather

    X = samples()
    table = pa.table({f"c{j}": X[:, j] for j in range(5)})
    try:
        feather.write_feather(table, tmp_path / "old.feather", version=1)
    except (TypeError, ValueError):
        pytest.skip("this pyarrow no longer knows the first version of Feather")
    found = read_table(tmp_path / "old.feather")
    assert found.names == [f"c{j}" for j in range(5)]
    np.testing.assert_array_equal(found.values, X)


def test_columns_that_are_not_there_or_there_twice(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0], "word": ["x", "y"]}), path)
    with refused("nothing"):
        open_source(path, columns=["nothing"])
    with refused("has no numeric columns"):
        open_source(path, columns=["word"], drop_text=True)
    twice = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    with (
        pa.OSFile(str(tmp_path / "twice.arrow"), "wb") as stream,
        pa.ipc.new_file(stream, twice.schema) as writer,
    ):
        writer.write_table(twice)
    with refused("has several columns"):
        open_source(tmp_path / "twice.arrow")


def test_arrays_have_no_names_and_folders_of_arrays_are_no_tables(tmp_path):
    np.save(tmp_path / "X.npy", samples())
    with refused("has no column names, so no column can be named"):
        open_source(tmp_path / "X.npy", label="a")
    folder = tmp_path / "folder"
    folder.mkdir()
    np.save(folder / "X.npy", samples())
    with refused("is a folder of arrays; only tables"):
        open_source(folder)
    np.savez(tmp_path / "X.npz", X=samples())
    with refused("is a format that is read as a whole"):
        open_source(tmp_path / "X.npz")


def test_arrays_of_zarr_by_themselves_and_in_groups(tmp_path):
    zarr = pytest.importorskip("zarr")
    X = samples()
    zarr.save(str(tmp_path / "one.zarr"), X)
    group = zarr.open_group(str(tmp_path / "group.zarr"), mode="w")
    group["X"] = X
    for name in ("one.zarr", "group.zarr"):
        found = Moments.from_data(open_source(tmp_path / name))
        np.testing.assert_allclose(found.scatter, Moments.from_data(X).scatter)
    with refused(r"shape \(3,\) and type"):
        ChunkedSource(np.zeros(3))


# sources


def test_sources_without_rows():
    nothing = ArraySource(np.zeros((0, 3)))
    for ask in (mean_of, filled_with_means, lambda source: source.collect(np.asarray)):
        with refused("has no rows"):
            ask(nothing)
    with refused("has no rows"):
        Moments.from_source(nothing)


def test_what_is_not_finite_is_found_in_any_block():
    block = np.zeros((4, 3))
    check_finite(block.sum(axis=0), block, 0)
    check_finite(np.array([np.inf]), block, 0)  # sums may overflow where no entry is to blame
    block[2, 1] = np.nan
    with pytest.raises(NotFiniteError) as found:
        check_finite(block.sum(axis=0), block, 10)
    assert (found.value.row, found.value.column) == (12, 1)
    sparse = sp.csr_array(np.array([[0.0, 1.0], [np.inf, 0.0]]))
    with pytest.raises(NotFiniteError) as found:
        Sums.empty(2).add(sparse, 5)
    assert (found.value.row, found.value.column, found.value.value) == (6, 0, np.inf)


def test_filling_and_writing(tmp_path):
    whole = np.arange(6).reshape(3, 2)
    assert fill_block(whole, np.zeros(2)) is whole  # integers miss nothing
    source = as_source(samples(5, 3))
    found = filled_with_means(source)
    assert found.source is source
    write_source(tmp_path / "out.csv", source)
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == '"x1","x2","x3"'


def test_scaled_sparse_moments():
    X = np.where(np.random.default_rng(0).random((9, 4)) < 0.5, samples(9, 4), 0)
    factors = np.array([1.0, 2.0, 3.0, 0.5])
    found = Moments.from_data(sp.csr_array(X)).scaled(factors)
    assert sp.issparse(found.data)
    np.testing.assert_allclose(found.scatter, Moments.from_data(X * factors).scatter)
    np.testing.assert_allclose(found.mean, (X * factors).mean(axis=0))


# linear algebra and graphs


def test_decompositions_that_do_not_converge_are_made_again(monkeypatch):
    A = np.diag([2.0, 1.0])

    def fails(matrix):
        raise np.linalg.LinAlgError("did not converge")

    monkeypatch.setattr(np.linalg, "eigh", fails)
    values, vectors = linalg._host_eigh(A)
    np.testing.assert_allclose(values, [1, 2])
    np.testing.assert_allclose(np.abs(vectors), [[0, 1], [1, 0]])
    with pytest.raises(np.linalg.LinAlgError):
        linalg._host_eigh(np.array([[np.nan]]))


def test_medians_of_distances_and_cosines_of_sparse_samples():
    assert median_distance(np.array([0.0, 0.0, 0.0, 4.0, 16.0])) == 3
    assert median_distance(np.array([0.0, 4.0, 16.0])) == 2
    assert median_distance(np.zeros(3)) == 1
    X = np.where(np.random.default_rng(0).random((12, 6)) < 0.6, samples(12, 6), 0)
    C = X - X.mean(axis=0)
    others = np.array([[(i + 1) % 12, (i + 5) % 12] for i in range(12)])
    units = C / np.linalg.norm(C, axis=1)[:, None]
    expected = np.maximum(np.sum(units[:, None] * units[others], axis=2), 0)
    for data in (C, SparseSamples(sp.csr_array(X), X.mean(axis=0))):
        np.testing.assert_allclose(_cosines(data, others), expected, atol=1e-12)


# methods


def test_methods_that_cannot_say_so():
    X = samples()
    with refused("PCA has no fit_moments"):
        SelectFeatures(PCA(2)).fit_moments(Moments.from_data(X))

    class Odd(BaseEstimator):
        def fit(self, X, y=None):
            self.components_ = np.ones((2, 3))
            return self

    with refused(re.escape("components_ of Odd has (3,) columns")):
        SelectFeatures(Odd(), n_features_to_select=1).fit(X)
    with refused("needs the samples, not only their moments"):
        stability_selection(
            SPCAPSD(n_features_to_select=2), Moments.from_scatter(np.cov(X.T), n_samples=30)
        )
    with refused("SPCA has no n_features_to_select: wrap it"):
        parameters._set_count(SPCA(), 2)
    wrapped = SelectFeatures(SPCA())
    parameters._set_count(wrapped, 2)
    assert wrapped.n_features_to_select == 2
    assert isinstance(_selector(SPCA(), 3), SelectFeatures)
    own = SPCAPSD(n_clusters=4)
    assert parameters._known_clusters(own, 3) == 3
    assert own.n_clusters == 4  # what the user gave stays
    assert len(parameters._rows(10, 4, 0)) == 4
    assert parameters._rows(3, 4, 0).tolist() == [0, 1, 2]


def test_a_warm_start_of_another_shape_is_left():
    X, y = samples(40, 6), np.arange(40) % 4
    model = FSSL(graph="lda", mu=3, warm_start=True).fit(X, y)
    fresh = FSSL(graph="lda", mu=3).fit(X, y % 2)
    np.testing.assert_allclose(
        np.abs(model.fit(X, y % 2).components_), np.abs(fresh.components_), atol=1e-7
    )


def test_memory_that_solvers_ask_for():
    assert SPCAPSD(solver="published")._needs().dense_bytes(10, 100) == 12 * 8 * 1000
    assert SPCAPSD(solver="splitting")._needs().dense_bytes(10, 100) == MATRICES * 8 * 100**2
    assert jointsparse.metrics.__name__ == "jointsparse.metrics"


# pages


def test_pages_of_comparisons_without_results():
    assert comparison._share((float("nan"), 0.0)) == "–"
    assert comparison._share((0.5, 0.1)) == "50.0 ± 10.0 %"
    assert comparison._scores(None) == []


def test_parts_of_pages():
    path = SimpleNamespace(used=None, alphas=np.array([1.0, 0.1, 0.01]))
    assert payload.start_point(path) == 1
    path.used = 0.012
    assert payload.start_point(path) == 2
    x, y = pictures.across(0, 1), pictures.upwards(0, 1)
    many = np.linspace(0, 1, 3 * pictures.MOST_POINTS)
    drawn = pictures.line(x, y, many, many, "kind")
    assert len(drawn.points.split()) <= pictures.MOST_POINTS
    assert drawn.points.split()[0] == pictures.line(x, y, many[:2], many[:2], "k").points.split()[0]
    assert words.fit_line(KMeans(3)) == "model = KMeans(n_clusters=3).fit(X)"
    assert words._written(3.5) == "3.5"

"""Many more features than samples, in files that do not fit in memory."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

from jointsparse import CSPCA, JSPCA, SPCA, SPCAPSD, GreedySelector, open_source
from jointsparse.operators.dense import DenseSamples
from jointsparse.sources import base
from jointsparse.sources.files.samples import FileSamples

N, P = 60, 1200


@pytest.fixture(scope="module", name="X")
def samples():
    generator = np.random.default_rng(0)
    loadings = np.zeros((4, P))
    loadings[:, :80] = generator.standard_normal((4, 80))
    values = 3 + generator.standard_normal((N, 4)) @ loadings
    values += 0.4 * generator.standard_normal((N, P))
    values[:, 700] = 1e5  # a constant feature, far from zero
    return values


def npy(X, folder):
    np.save(folder / "wide.npy", X)
    return folder / "wide.npy"


def by_columns(X, folder):
    np.save(folder / "columns.npy", np.asfortranarray(X))
    return folder / "columns.npy"


def parquet(X, folder):
    table = pa.table({f"x{j}": X[:, j] for j in range(X.shape[1])})
    pq.write_table(table, folder / "wide.parquet", row_group_size=25)
    return folder / "wide.parquet"


def hdf5(X, folder):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(folder / "wide.h5", "w") as file:
        file.create_dataset("x", data=X, chunks=(20, 100))
    return folder / "wide.h5"


# Every block of columns of a Parquet file costs a look at what it says of all columns.
LONG = pytest.mark.slow


@pytest.fixture(
    params=[npy, by_columns, hdf5, pytest.param(parquet, marks=LONG)],
    ids=lambda write: write.__name__,
)
def path(request, X, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "BLOCK_ENTRIES", 100 * N)  # a dozen blocks
    return request.param(X, tmp_path)


def test_products_are_those_of_the_array(X, path):
    here = DenseSamples(X, X.mean(axis=0))
    generator = np.random.default_rng(1)
    thin, rows = generator.standard_normal((P, 3)), generator.standard_normal((N, 3))
    chosen = generator.random(P) < 0.3
    source = open_source(path, memory=24_000_000)  # for what Parquet says of 1200 columns
    every = np.arange(P)
    for memory, kind in ((0, FileSamples), (10**9, DenseSamples)):
        wide = FileSamples(source, every, memory=memory)
        part, u = wide.columns(chosen), thin[chosen]
        assert isinstance(part, kind)
        for found, expected, v in ((wide, here, thin), (part, here.columns(chosen), u)):
            close = {"rtol": 1e-10, "atol": 1e-7}
            assert found.shape == expected.shape
            np.testing.assert_allclose(found.times(v), expected.times(v), **close)
            np.testing.assert_allclose(
                found.transposed_times(rows), expected.transposed_times(rows), **close
            )
            np.testing.assert_allclose(found.gram(), expected.gram(), **close)
            np.testing.assert_allclose(found.row_squares(), expected.row_squares(), **close)
            np.testing.assert_allclose(found.squared_lengths(), expected.squared_lengths(), **close)
            np.testing.assert_allclose(found.dense(), expected.dense(), **close)


def test_features_are_scaled_where_they_are(X, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "BLOCK_ENTRIES", 100 * N)
    generator = np.random.default_rng(2)
    factors, again = generator.uniform(1, 2, (2, P))
    chosen = generator.random(P) < 0.3
    source = open_source(npy(X.astype(np.float32), tmp_path), memory=1_000_000)
    wide = FileSamples(source, np.arange(P), memory=0)
    found, expected = wide.scaled(factors).scaled(again), wide.dense() * factors * again
    np.testing.assert_allclose(found.dense(), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        found.columns(chosen).gram(), expected[:, chosen] @ expected[:, chosen].T, rtol=1e-3
    )


@pytest.mark.parametrize("exponent", [-400, 460])
@pytest.mark.parametrize(
    "model",
    [
        SPCAPSD(eta=0.3, n_features_to_select=3),
        CSPCA(n_features_to_select=3),
        GreedySelector(n_features_to_select=3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_numbers_whose_fourth_powers_do_not_fit(X, tmp_path, exponent, model):
    """Those in memory were divided by a unit; those in files ended in errors of Python."""
    found = []
    for number, scale in enumerate((1.0, 2.0**exponent)):
        folder = tmp_path / str(number)
        folder.mkdir()
        source = open_source(npy(X[:20, :90] * scale, folder), memory=14_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not about how many iterations there are
            found.append(clone(model).fit(source))
    one, other = found
    np.testing.assert_allclose(other.feature_scores_, one.feature_scores_, rtol=1e-9)
    np.testing.assert_array_equal(other.support_, one.support_)


@pytest.mark.parametrize(
    ("write", "model"),
    [
        pytest.param(parquet, SPCAPSD(eta=0.3, n_features_to_select=10), marks=LONG),
        (by_columns, SPCAPSD(eta=0.3, n_features_to_select=10)),
        (npy, CSPCA(eta=0.3, alpha=0.3, n_features_to_select=10)),
        (hdf5, GreedySelector(n_features_to_select=6)),
        (npy, GreedySelector(n_features_to_select=6, n_components=3)),
    ],
    ids=lambda part: getattr(part, "__name__", repr(part)),
)
def test_files_beyond_memory_give_what_the_array_gives(X, tmp_path, write, model):
    # What Parquet says of so many columns takes megabytes: smaller amounts are refused.
    source = open_source(write(X, tmp_path), memory=24_000_000 if write is parquet else 300_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected, found = clone(model).fit(X), clone(model).fit(source)
    np.testing.assert_allclose(found.feature_scores_, expected.feature_scores_, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(found.support_, expected.support_)
    np.testing.assert_allclose(found.selection_curve_, expected.selection_curve_, atol=1e-8)


@pytest.mark.parametrize("model", [SPCA(), JSPCA(), CSPCA(psd=False)], ids=repr)
def test_others_are_refused_with_the_way_out(X, tmp_path, model):
    source = open_source(npy(X, tmp_path), memory=300_000)
    with pytest.raises(ValueError, match=r"60 × 1200 samples need .* spca-psd, cspca-psd, greedy"):
        model.fit(source)


def test_a_missing_value_is_named(X, tmp_path):
    broken = X.copy()
    broken[17, 1034] = np.nan
    with pytest.raises(ValueError, match="missing value in column number 1035, data row 18"):
        SPCAPSD().fit(open_source(npy(broken, tmp_path), memory=300_000))


FEW = 30  # features: less than any solver for many of them is meant for


@pytest.mark.parametrize(
    "model",
    [
        SPCAPSD(alpha=0.1, eta=0.03, n_features_to_select=4, rule="norm"),
        SPCAPSD(alpha=0.99, eta=0.9),  # empty, with advice how to keep some
        CSPCA(alpha=0.3, eta=0.3, n_features_to_select=4, rule="norm"),
        CSPCA(alpha=0.9, eta=0.9, penalty_scale="trace"),  # empty
    ],
    ids=str,
)
def test_small_tables_that_do_not_fit_are_fitted_by_products_too(model, X, tmp_path):
    X = X[:12, :FEW]
    source = open_source(npy(X, tmp_path), memory=12 * X.size)
    tight = {"tol": 1e-8} if model.get_params().get("alpha") in (0.1, 0.3) else {}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = clone(model).set_params(**tight).fit(source)
        there = [str(warning.message) for warning in said]
        said.clear()
        expected = clone(model).set_params(**tight).fit(X)
        assert there == [str(warning.message) for warning in said]
    np.testing.assert_allclose(found.feature_scores_, expected.feature_scores_, atol=1e-4)
    np.testing.assert_array_equal(found.get_support(), expected.get_support())


def test_a_solver_on_square_matrices_refuses_a_wide_file_that_does_not_fit(X, tmp_path):
    source = open_source(npy(X[:12, :FEW], tmp_path), memory=12 * 12 * FEW)
    with pytest.raises(ValueError, match="does not fit in memory"):
        SPCAPSD(solver="splitting").fit(source)

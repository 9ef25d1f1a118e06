"""Frames as other libraries have them, and what comes back as one."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from jointsparse import SPCA, SPCAPSD, GreedySelector, Moments, SelectFeatures
from jointsparse.sources import as_source

N, P = 60, 6
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2)) @ RNG.standard_normal((2, P)) + 0.1 * RNG.standard_normal((N, P))
NAMES = ["a_x", "a_y", "b_x", "b_y", "c", "c.2"]


def levels():
    columns = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"), ("c", ""), ("c", "")]
    return pd.DataFrame(X, columns=pd.MultiIndex.from_tuples(columns))


def repeated():
    return pd.DataFrame(X, columns=["a_x", "a_y", "b_x", "b_y", "c", "c"])


@pytest.mark.parametrize("make", [levels, repeated])
def test_names_of_several_levels_and_repeated_names(make):
    frame = make()
    before = list(frame.columns)
    twin = GreedySelector(n_features_to_select=3).fit(X)
    model = GreedySelector(n_features_to_select=3).fit(frame)
    np.testing.assert_array_equal(model.support_, twin.support_)
    assert list(model.feature_names_in_) == NAMES
    kept = [name for name, mark in zip(NAMES, model.support_, strict=True) if mark]
    assert model.get_feature_names_out().tolist() == kept
    np.testing.assert_array_equal(np.asarray(model.transform(frame)), X[:, model.support_])
    out = model.set_output(transform="pandas").transform(frame)
    assert list(out.columns) == kept
    assert list(frame.columns) == before
    assert list(Moments.from_data(frame).feature_names) == NAMES
    wrapped = SelectFeatures(SPCA(n_components=2), n_features_to_select=2).fit(frame)
    assert list(wrapped.feature_names_in_) == NAMES
    assert model.selection_report(frame).r2 == pytest.approx(twin.selection_report(X).r2)
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(pd.DataFrame(X, columns=NAMES[::-1]))


def test_repeated_names_elsewhere():
    table = pa.table([pa.array(X[:, j]) for j in range(P)], names=["c"] * P)
    assert list(SPCAPSD().fit(table).feature_names_in_) == [
        "c",
        *(f"c.{j}" for j in range(2, P + 1)),
    ]


def lazy():
    return pl.DataFrame({f"f{j}": X[:, j] for j in range(P)}).lazy()


def test_lazy_frames_are_read_in_blocks():
    frame = lazy()
    twin = GreedySelector(n_features_to_select=3).fit(X)
    model = GreedySelector(n_features_to_select=3).fit(frame)
    np.testing.assert_array_equal(model.support_, twin.support_)
    assert list(model.feature_names_in_) == [f"f{j}" for j in range(P)]
    source = as_source(frame)
    assert (source.n_samples, source.n_features) == (N, P)
    blocks = list(source.blocks(7 * P))
    assert len(blocks) == 9
    np.testing.assert_array_equal(np.vstack(blocks), X)
    np.testing.assert_array_equal(model.transform(frame).read(), X[:, model.support_])
    assert source.columns(np.array([], int)).n_features == 0
    assert as_source(frame.cast(pl.Float32)).dtype == np.float32
    with pytest.raises(ValueError, match="no columns"):
        as_source(pl.LazyFrame())


def test_lazy_frames_of_older_versions(monkeypatch):
    monkeypatch.delattr(pl.LazyFrame, "collect_batches", raising=False)
    np.testing.assert_array_equal(np.vstack(list(as_source(lazy()).blocks(7 * P))), X)


def test_labelled_arrays():
    xarray = pytest.importorskip("xarray")
    names = [f"f{j}" for j in range(P)]
    array = xarray.DataArray(X, dims=("cell", "gene"), coords={"gene": names})
    twin = GreedySelector(n_features_to_select=3).fit(X)
    model = GreedySelector(n_features_to_select=3).fit(array)
    np.testing.assert_array_equal(model.support_, twin.support_)
    assert list(model.feature_names_in_) == names
    np.testing.assert_array_equal(model.transform(array), X[:, model.support_])
    for bare in (array.drop_vars("gene"), array.assign_coords(gene=range(P))):
        assert not hasattr(GreedySelector(n_features_to_select=3).fit(bare), "feature_names_in_")
    with pytest.raises(ValueError, match="column 'f5' where"):
        model.transform(array[:, ::-1])


def test_labelled_arrays_of_dask():
    xarray, dask = pytest.importorskip("xarray"), pytest.importorskip("dask.array")
    names = [f"f{j}" for j in range(P)]
    array = xarray.DataArray(
        dask.from_array(X, chunks=(20, P)), dims=("cell", "gene"), coords={"gene": names}
    )
    model = GreedySelector(n_features_to_select=3).fit(array)
    twin = GreedySelector(n_features_to_select=3).fit(X)
    np.testing.assert_array_equal(model.support_, twin.support_)
    assert list(model.feature_names_in_) == names


# --- the ranking --------------------------------------------------------------------------------

COLUMNS = ["rank", "feature", "score", "kept", "r2", "stand_in", "stand_in_r2", "shared"]
COLUMNS += ["p_value", "found_again"]


def test_the_ranking_as_a_frame():
    frame = pd.DataFrame(X, columns=NAMES)
    model = GreedySelector(n_features_to_select=2).fit(frame)
    table = model.ranking_table()
    assert list(table.columns) == COLUMNS
    assert table["rank"].tolist() == list(range(1, P + 1))
    assert table.set_index("feature").loc[NAMES, "rank"].tolist() == model.ranking_.tolist()
    assert table["kept"].sum() == 2
    kept = table.loc[table["kept"], "feature"]
    assert table.loc[~table["kept"], "stand_in"].isin(kept).all()
    found = model.selection_report_.stand_ins
    named = dict(zip(table["feature"], table["stand_in"], strict=True))
    for dropped, best in zip(found.dropped, found.kept[:, 0], strict=True):
        assert named[NAMES[dropped]] == NAMES[best]
    assert table.loc[table["kept"], "r2"].tolist() == pytest.approx(list(model.selection_curve_))


def test_the_ranking_of_components_and_without_names():
    table = SPCA(n_components=2).fit(X).ranking_table()
    assert table["feature"].str.startswith("x").all()
    assert table["stand_in"].isna().all()
    wrapped = SelectFeatures(SPCA(n_components=2), n_features_to_select=2).fit(X)
    assert wrapped.ranking_table()["kept"].sum() == 2


def test_the_ranking_without_pandas(monkeypatch):
    model = GreedySelector(n_features_to_select=2).fit(X)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert isinstance(model.ranking_table(), pl.DataFrame)
    monkeypatch.setitem(sys.modules, "polars", None)
    assert isinstance(model.ranking_table(), pa.Table)


def test_unfitted_methods_have_no_ranking():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        GreedySelector().ranking_table()

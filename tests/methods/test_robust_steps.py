"""SpatialSign and Wrap as transformers of scikit-learn, in all containers, saved and loaded."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from outlier_cases import outlier_table
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from jointsparse import (
    CSPCA,
    SPCAPSD,
    GreedySelector,
    Moments,
    Report,
    SpatialSign,
    Wrap,
    load_model,
    open_source,
    save_model,
)

STEPS = [SpatialSign(), SpatialSign(lengths="one"), SpatialSign(units="original"), Wrap()]


@parametrize_with_checks([*STEPS, Wrap(units="original")])
def test_scikit_learn_accepts_them(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    return outlier_table("shift 30", 0, share=0.1, n=120, p=20)


def test_textbook_signs_have_length_one(table):
    signs = SpatialSign(lengths="one").fit_transform(table.values)
    np.testing.assert_allclose(np.linalg.norm(signs, axis=1), 1)
    step = SpatialSign(lengths="one").fit(table.values)
    at_centre = step.transform(step.center_[None])
    assert np.abs(at_centre).max() <= 1


def test_usual_samples_keep_their_shape_and_outliers_fade(table):
    step = SpatialSign().fit(table.values)
    made = step.transform(table.values)
    usual = step.outlier_scores_ < 1
    expected = (table.values - step.center_) / step.scale_
    np.testing.assert_allclose(made[usual], expected[usual], atol=1e-12)
    assert not made[: table.n_outliers].any()
    far = (step.outlier_scores_ > 1) & ~step.outliers_
    directions = made[far] / np.linalg.norm(made[far], axis=1, keepdims=True)
    scaled = expected[far] / np.linalg.norm(expected[far], axis=1, keepdims=True)
    np.testing.assert_allclose(directions, scaled, atol=1e-12)


@pytest.mark.parametrize("step", [SpatialSign(), Wrap()])
def test_columns_become_comparable(step, table):
    made = step.fit_transform(table.values * np.geomspace(1e-3, 1e3, 20))
    np.testing.assert_allclose(made.std(axis=0), 1, rtol=1e-9)


@pytest.mark.parametrize("kind", [SpatialSign, Wrap])
def test_original_units_are_those_of_the_samples(kind, table):
    values = table.values * 7 + 100
    step = kind(units="original").fit(values)
    made = step.transform(values)
    expected = kind().fit_transform(values) * step.scale_ + step.center_
    np.testing.assert_allclose(made, expected)
    near = np.abs(values - step.center_) < 0.5 * step.scale_
    usual = near & (step.outlier_scores_ < 1)[:, None]
    np.testing.assert_allclose(made[usual], values[usual])


@pytest.mark.parametrize("kind", [SpatialSign, Wrap])
def test_wrong_parameters_are_refused(kind, table):
    with pytest.raises(ValueError, match="units='metres' is not one of"):
        kind(units="metres").fit(table.values)
    with pytest.raises(ValueError, match="lengths='two' is not one of"):
        SpatialSign(lengths="two").fit(table.values)


@pytest.mark.parametrize("kind", [SpatialSign, Wrap])
def test_frames_keep_their_names(kind, table):
    frame = pd.DataFrame(table.values, columns=[f"c{j}" for j in range(20)])
    made = kind().set_output(transform="pandas").fit_transform(frame)
    assert list(made.columns) == list(frame.columns)
    step = kind().fit(frame)
    assert step.get_feature_names_out().tolist() == list(frame.columns)
    assert step.outlier_scores_.shape == (120,)


@pytest.mark.parametrize("kind", [SpatialSign, Wrap])
def test_every_container_gives_the_same(kind, table, tmp_path):
    values = table.values
    path = tmp_path / "table.npy"
    np.save(path, values)
    names = [f"c{j}" for j in range(20)]
    pd.DataFrame(values, columns=names).to_csv(tmp_path / "table.csv", index=False)
    expected, whole = kind().fit_transform(values), kind().fit(values)
    containers = {
        "file": path,
        "blocks": open_source(path, memory="1MB"),
        "text": open_source(tmp_path / "table.csv", memory="1MB"),
        "dask": da.from_array(values, chunks=(30, 20)),
        "memmap": np.load(path, mmap_mode="r"),
    }
    for name, container in containers.items():
        step = kind().fit(container)
        np.testing.assert_allclose(step.outlier_scores_, whole.outlier_scores_, err_msg=name)
        made = step.transform(container)
        made = made.read() if hasattr(made, "read") else np.asarray(made)
        np.testing.assert_allclose(made, expected, err_msg=name, atol=1e-9)
        np.testing.assert_allclose(step.score_samples(container), whole.outlier_scores_)
    assert kind().fit(containers["text"]).feature_names_in_.tolist() == names


@pytest.mark.parametrize("robust", ["samples", "cells"])
def test_methods_take_every_container(robust, table, tmp_path):
    values = table.values
    path = tmp_path / "table.npy"
    np.save(path, values)
    one = GreedySelector(n_features_to_select=5, robust=robust).fit(values)
    for container in (
        path,
        open_source(path, memory="1MB"),
        da.from_array(values, chunks=(30, 20)),
        np.load(path, mmap_mode="r"),
        values.astype(np.float32),
    ):
        other = GreedySelector(n_features_to_select=5, robust=robust).fit(container)
        np.testing.assert_array_equal(one.support_, other.support_)
        np.testing.assert_array_equal(one.outliers_, other.outliers_)
    report = one.selection_report(path)
    assert report.n_kept == 5


def test_tensors_stay_tensors(table):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(table.values)
    for kind in (SpatialSign, Wrap):
        step, plain = kind().fit(tensor), kind().fit(table.values)
        made = step.transform(tensor)
        assert isinstance(made, torch.Tensor)
        np.testing.assert_allclose(made.numpy(), plain.transform(table.values), atol=1e-10)
        back = kind(units="original").fit(tensor).transform(tensor)
        assert isinstance(back, torch.Tensor)
    one = SPCAPSD(n_features_to_select=5, robust="samples").fit(tensor)
    other = SPCAPSD(n_features_to_select=5, robust="samples").fit(table.values)
    np.testing.assert_array_equal(one.support_, other.support_)


def test_large_arrays_are_changed_in_blocks(table, monkeypatch):
    expected = Moments.from_data(table.values, robust="cells").data
    monkeypatch.setattr("jointsparse.robust.learning.BLOCK_ENTRIES", 100)
    monkeypatch.setattr("jointsparse.sources.base.BLOCK_ENTRIES", 100)
    np.testing.assert_allclose(Moments.from_data(table.values, robust="cells").data, expected)


def test_an_array_too_large_for_a_copy_is_summed_up_in_blocks(table, monkeypatch):
    expected = Moments.from_data(table.values, robust="samples").scatter
    monkeypatch.setattr("jointsparse.robust.learning._too_large", lambda values, budget: True)
    moments = Moments.from_data(table.values, robust="samples")
    assert not moments.has_samples
    np.testing.assert_allclose(moments.scatter, expected, atol=1e-8)


def test_a_table_whose_medians_do_not_fit_is_refused_in_words(tmp_path):
    path = tmp_path / "wide.npy"
    np.save(path, np.zeros((60, 4000)))
    with pytest.raises(ValueError, match=r"medians of 60 rows of them need 11\.5 MB"):
        SpatialSign().fit(open_source(path, memory="2MB"))


@pytest.mark.parametrize("kind", [SpatialSign, Wrap])
def test_sparse_samples_in_original_units_stay_sparse(kind):
    matrix = sp.random(100, 30, 0.2, random_state=0, format="csr")
    made = kind(units="original").fit_transform(matrix)
    assert sp.issparse(made)
    assert made.shape == matrix.shape


def test_saved_models_keep_the_step(table, tmp_path):
    for model in (
        SPCAPSD(n_features_to_select=5, robust="cells"),
        make_pipeline(SpatialSign(), CSPCA(n_features_to_select=5)),
    ):
        model.fit(table.values)
        save_model(model, tmp_path / "model.skops")
        loaded = load_model(tmp_path / "model.skops")
        np.testing.assert_array_equal(loaded.transform(table.values), model.transform(table.values))
    step = load_model(tmp_path / "model.skops")[0]
    np.testing.assert_array_equal(step.outliers_, model[0].outliers_)


def test_kept_columns_hold_the_original_values(table):
    selector = SPCAPSD(n_features_to_select=5, robust="samples").fit(table.values)
    np.testing.assert_array_equal(
        selector.transform(table.values), table.values[:, selector.get_support()]
    )


def test_gross_cells_are_named(table):
    values = outlier_table("clean", 3).values
    values[7, 3], values[9, 0] = 1e4, -1e4
    found = Wrap().fit(values).gross_cells(values)
    assert found[7, 3]
    assert found[9, 0]
    assert found.sum() <= 6


def test_the_report_names_outliers(table):
    model = SPCAPSD(n_features_to_select=5, robust="samples").fit(table.values)
    page = Report.from_estimator(model, table.values).html
    assert "Samples far from the rest" in page
    assert "12 samples of 120 are far from the others" in page
    pipe = make_pipeline(Wrap(), SPCAPSD(n_features_to_select=5)).fit(table.values)
    assert "Samples far from the rest" in Report.from_estimator(pipe, table.values).html
    plain = SPCAPSD(n_features_to_select=5).fit(table.values)
    assert "far from the rest" not in Report.from_estimator(plain, table.values).html
    clean = outlier_table("clean", 1).values
    model = SPCAPSD(n_features_to_select=5, robust="cells").fit(clean[10:60, :12])
    found = Report.from_estimator(model).findings.outliers
    assert found.kind == "cells"

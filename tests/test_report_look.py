"""The samples in pictures: maps and who tells them, orders, what is missing."""

import base64
import dataclasses
import io
import json
import re
import zlib

import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.preprocessing import scale

from jointsparse import GreedySelector, Report
from jointsparse.report.findings import Sizes
from jointsparse.report.look import look_at
from jointsparse.report.payload import packed_json
from jointsparse.report.sections import how_many_words, look_view, sizes_chart
from jointsparse.solvers.picking.held_out import RIDGES


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    return rng.standard_normal((50, 3)) @ rng.standard_normal((3, 12)) + 0.4 * rng.random((50, 12))


def told(positions, columns):
    """Positions of each third of the samples by the ridge that is best, by GCV, in the others."""
    found = np.empty_like(positions)
    for part in np.array_split(np.random.default_rng(0).permutation(len(columns)), 3):
        train = np.setdiff1d(np.arange(len(columns)), part)
        lengths = np.sqrt(((columns[train] - columns[train].mean(axis=0)) ** 2).sum(axis=0))
        unit = columns / lengths
        centred = unit[train] - unit[train].mean(axis=0)
        largest = np.linalg.norm(centred, 2) ** 2
        scores = []
        for ridge in largest * RIDGES:
            model = Ridge(alpha=ridge).fit(unit[train], positions[train])
            hat = centred @ np.linalg.solve(
                centred.T @ centred + ridge * np.eye(columns.shape[1]), centred.T
            )
            left = np.sum((positions[train] - model.predict(unit[train])) ** 2)
            scores.append((left / (train.size - 1 - np.trace(hat)) ** 2, model))
        found[part] = min(scores, key=lambda pair: pair[0])[1].predict(unit[part])
    return found


def test_maps_are_principal_components_and_what_the_kept_features_tell_of_them(samples):
    kept = np.array([3, 0, 7, 5])
    look = look_at(samples, kept)
    everything = PCA(2).fit_transform(samples)
    assert np.allclose(np.abs(look.everything), np.abs(everything), atol=1e-8)
    expected = told(look.everything, samples[:, kept])
    np.testing.assert_allclose(look.kept, expected, atol=1e-8)
    missed = np.sum((look.everything - expected) ** 2) / np.sum(everything**2)
    assert look.alike == pytest.approx(1 - missed, abs=1e-9)
    assert 0 <= look.random <= 1


def test_all_features_tell_the_map_and_noise_does_not(samples):
    assert look_at(samples, np.arange(12)).alike > 0.99
    mixed = np.column_stack([samples, np.random.default_rng(1).standard_normal((50, 3))])
    assert look_at(mixed, np.array([12, 13, 14])).alike < 0.1


def test_features_that_do_not_repeat_each_other_tell_more_than_random_ones():
    # Nor do their own principal components draw the map that shared patterns make.
    X = scale(load_breast_cancer().data)
    model = GreedySelector(n_features_to_select=10).fit(X)
    look = look_at(X, np.argsort(model.ranking_)[:10])
    assert look.alike > look.random


def test_correlations_and_values_are_those_of_the_table(samples):
    kept = np.array([3, 0, 7])
    look = look_at(samples, kept)
    np.testing.assert_allclose(look.correlations, np.corrcoef(samples[:, kept].T), atol=1e-12)
    scaled = (samples - samples.mean(axis=0)) / samples.std(axis=0)
    expected = scaled[np.ix_(look.order, kept[look.columns])].T
    np.testing.assert_allclose(look.values, expected, atol=1e-12)
    assert sorted(look.order) == list(range(50))
    assert sorted(look.columns) == [0, 1, 2]


def test_sparse_samples_give_the_same_pictures(samples):
    thin = np.where(np.abs(samples) > 1, samples, 0.0)
    kept = np.array([1, 2])
    dense, sparse = look_at(thin, kept), look_at(sp.csr_array(thin), kept)
    np.testing.assert_allclose(sparse.values, dense.values)
    assert sparse.alike == pytest.approx(dense.alike)


def test_distributions_are_in_the_units_of_the_table(samples):
    original = 1000 + 10 * samples
    look = look_at(samples, np.array([4, 2]), original=original)
    for column, found in zip((4, 2), look.distributions, strict=True):
        assert found.counts.sum() == 50
        assert found.lowest == pytest.approx(original[:, column].min())
        assert found.median == pytest.approx(np.median(original[:, column]))


def test_what_is_missing_is_at_the_mean(samples):
    holed = samples.copy()
    holed[4, 3] = np.nan
    look = look_at(holed, np.array([3, 0, 7]))
    row, column = int(np.flatnonzero(look.columns == 0)[0]), int(np.flatnonzero(look.order == 4)[0])
    assert look.values[row, column] == pytest.approx(0.0, abs=1e-12)
    assert np.isfinite(look.alike)


def test_many_samples_are_shown_by_some(samples):
    many = np.tile(samples, (100, 1))
    look = look_at(many, np.array([0, 1]), sample_names=[f"S{i}" for i in range(5000)])
    assert look.n_samples == 5000
    assert len(look.names) == 300
    assert all(re.fullmatch(r"S\d+", name) for name in look.names)


def test_few_samples_few_features_and_constant_ones():
    assert look_at(np.eye(2), np.array([0])) is None
    assert look_at(np.eye(5), np.array([], dtype=int)) is None
    flat = np.column_stack([np.arange(4.0), np.ones(4)])
    look = look_at(flat, np.array([1]))
    assert look.alike == 0.0  # one point for all
    assert look.correlations.tolist() == [[1.0]]


def test_labels_have_colours_unless_there_are_too_many(samples):
    labels = np.array(["a", "b", "b"] * 16 + ["c", "c"])
    look = look_at(samples, np.array([0, 1, 2]), labels=labels)
    assert look.classes == ["b", "a", "c"]  # the most frequent first
    model = GreedySelector(n_features_to_select=3).fit(samples)
    view = look_view(Report.from_estimator(model, samples, labels).findings)
    strip = np.array(Image.open(io.BytesIO(base64.b64decode(view["labels"].split(",")[1]))))
    assert strip.shape == (1, 50, 3)
    assert len({tuple(colour) for colour in strip[0].tolist()}) == 3
    numbers = look_at(samples, np.array([0, 1, 2]), labels=np.arange(50))
    assert numbers.classes == []
    assert numbers.labels[3] == "3"


def test_a_page_without_samples_has_no_pictures_of_them(samples):
    model = GreedySelector(n_features_to_select=3).fit(samples)
    found = Report.from_estimator(model).findings
    assert found.look is None
    assert look_view(found) is None
    assert sizes_chart(found) is not None  # known from the fit


def test_the_curve_is_that_of_the_trials(samples):
    model = GreedySelector(n_features_to_select=3).fit(samples)
    found = Report.from_estimator(model, samples).findings
    curve = model.selection_report_.curve
    assert found.sizes.sizes.tolist() == curve.sizes.tolist()
    at = curve.sizes.tolist().index(3)
    assert curve.r2[at] == pytest.approx(model.selection_report_.worth.r2)
    assert curve.error[at] == pytest.approx(model.selection_report_.worth.error)


def test_the_sentence_about_the_number_of_features(samples):
    model = GreedySelector(n_features_to_select=3).fit(samples)
    found = Report.from_estimator(model, samples).findings
    own = found.worth.own
    best = Sizes(np.array([1, 3, 5]), np.array([0.1, own, own + 0.01]), np.zeros(3))
    assert "with 5 features" in how_many_words(dataclasses.replace(found, sizes=best))
    last = Sizes(np.array([1, 3]), np.array([0.1, own]), np.zeros(2))
    assert "no smaller number" in how_many_words(dataclasses.replace(found, sizes=last))
    middle = Sizes(np.array([1, 3, 5]), np.array([0.1, own, own - 0.01]), np.zeros(3))
    assert "no other number" in how_many_words(dataclasses.replace(found, sizes=middle))
    assert how_many_words(dataclasses.replace(found, sizes=None)) == ""


def test_large_data_are_packed_and_can_be_unpacked():
    small, packed = packed_json({"names": ["</script>"]})
    assert not packed
    assert "<" not in small
    value = {"names": [f"gene {j}" for j in range(50_000)]}
    text, packed = packed_json(value)
    assert packed
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", text)
    assert json.loads(zlib.decompress(base64.b64decode(text))) == value

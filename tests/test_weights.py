"""Weights are copies, batches are centred: against tables in which both were done by hand."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from typer.testing import CliRunner

from fuzz.twins import as_stream
from jointsparse import (
    FSSL,
    SPCA,
    SPCAPSD,
    GreedySelector,
    Moments,
    SelectFeatures,
    SubsetSelector,
    feature_significance,
    load_model,
    open_source,
    registry,
    save_model,
)
from jointsparse.cli.main import app
from jointsparse.sources.weighting import weighted_rows

METHODS = registry.methods()
FROM_SCATTER = [name for name, method in METHODS.items() if method.scatter_only]
RNG = np.random.default_rng(0)
BATCH = np.arange(60) % 3


def table(seed=0, n=60):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 10))
    X[:, :4] += 2 * rng.standard_normal((n, 1))
    X[:, 4:7] += 1.5 * rng.standard_normal((n, 1))
    return X


X = table()
SHARES = RNG.random(60) + 0.1


def weighted_scatter(X, weights):
    weights = weights * len(X) / weights.sum()
    centred = X - np.average(X, axis=0, weights=weights)
    return (centred * weights[:, None]).T @ centred


def within(X, batch):
    centred = X.copy()
    for one in np.unique(batch):
        centred[batch == one] -= X[batch == one].mean(axis=0)
    return centred


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(METHODS))
def test_a_weight_is_a_number_of_copies_in_every_method(name):
    weights = np.random.default_rng(1).integers(0, 4, 60)
    y = np.arange(60) % 2
    method = METHODS[name].make().set_params(**_fixed(name))
    one = clone(method).fit(X, y, sample_weight=weights)
    other = clone(method).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_array_equal(one.feature_scores_, other.feature_scores_)
    np.testing.assert_array_equal(one.ranking_, other.ranking_)
    np.testing.assert_array_equal(one.get_support(), other.get_support())


def test_copies_of_a_sample_tell_as_much_as_one_where_noise_is_told_from_structure():
    twice = feature_significance(Moments.from_data(X, sample_weight=np.full(60, 2)))
    once = feature_significance(X)
    assert twice.n_significant == once.n_significant
    np.testing.assert_allclose(twice.pvalues, once.pvalues, rtol=1e-9)
    np.testing.assert_allclose(twice.shares, once.shares, rtol=1e-9)
    np.testing.assert_allclose(twice.noise_edge, once.noise_edge, rtol=1e-9)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_a_weight_is_a_number_of_copies_in_moments(seed):
    rng = np.random.default_rng(seed)
    X = table(seed, int(rng.integers(3, 40))) * 10.0 ** rng.integers(-5, 5) + rng.integers(-9, 9)
    weights = rng.integers(0, 4, len(X))
    weights[:2] = 2
    for container in (X, sp.csr_array(X), pd.DataFrame(X)):
        found = Moments.from_data(container, sample_weight=weights)
        copies = Moments.from_data(np.repeat(X, weights, axis=0))
        assert found.n_samples == weights.sum()
        np.testing.assert_allclose(found.scatter, copies.scatter, atol=1e-10 * copies.scatter.max())


@pytest.mark.parametrize("kind", ["array", "file", "sparse", "torch"])
def test_other_weights_are_shares_of_the_samples(kind, tmp_path):
    np.save(tmp_path / "x.npy", X)
    torch = pytest.importorskip("torch") if kind == "torch" else None
    given = {
        "array": lambda: X,
        "file": lambda: open_source(tmp_path / "x.npy"),
        "sparse": lambda: sp.csr_array(X),
        "torch": lambda: torch.asarray(X),
    }[kind]()
    found = Moments.from_data(given, sample_weight=SHARES)
    expected = weighted_scatter(X, SHARES)
    np.testing.assert_allclose(found.scatter, expected, atol=1e-12 * expected.max())
    np.testing.assert_allclose(found.mean, np.average(X, axis=0, weights=SHARES), atol=1e-13)
    assert found.n_samples == 60
    again = Moments.from_data(given, sample_weight=7 * SHARES)  # only ratios matter
    np.testing.assert_allclose(found.scatter, again.scatter, atol=1e-12 * expected.max())


@pytest.mark.parametrize("name", FROM_SCATTER)
def test_shares_work_where_the_scatter_matrix_is_enough(name):
    estimator = METHODS[name].make().set_params(**_fixed(name)).fit(X, sample_weight=SHARES)
    scatter = Moments.from_scatter(weighted_scatter(X, SHARES), 60)
    other = METHODS[name].make().set_params(**_fixed(name)).fit_moments(scatter)
    np.testing.assert_allclose(estimator.feature_scores_, other.feature_scores_, atol=1e-3)
    np.testing.assert_array_equal(estimator.get_support(), other.get_support())


def _fixed(name):
    """Return parameters that do not depend on how noisy single samples are."""
    known = METHODS[name].make().get_params()
    wanted = {
        "n_features_to_select": 3,
        "alpha": 0.2,
        "eta": 0.1,
        "target": "features",
        "rule": "norm",
    }
    if name == "greedy":
        wanted["target"] = "reconstruction"
    return {key: value for key, value in wanted.items() if key in known}


@pytest.mark.parametrize("name", sorted(set(METHODS) - set(FROM_SCATTER)))
def test_shares_are_refused_where_samples_are_looked_at(name):
    with pytest.raises(ValueError, match="looks at the samples themselves, so its weights are"):
        METHODS[name].make().fit(X, sample_weight=SHARES)


def test_a_sample_of_weight_zero_is_not_there():
    loud = X.copy()
    loud[7] = 1e6
    for weights in (np.ones(60), SHARES.copy()):
        weights[7] = 0
        found = Moments.from_data(loud, sample_weight=weights)
        rest = np.delete(weights, 7)
        other = Moments.from_data(np.delete(X, 7, axis=0), sample_weight=rest)
        np.testing.assert_allclose(found.scatter, other.scatter, atol=1e-10)
        assert found.n_samples == 59


def test_a_constant_feature_stays_constant_under_any_weight():
    flat = np.column_stack([X, np.full(60, 1e8 + 0.1)])
    weights = np.r_[1000.5, np.full(59, 0.01)]
    assert Moments.from_data(flat, sample_weight=weights).variances[-1] == 0
    assert Moments.from_data(flat, batch=BATCH).variances[-1] == 0


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones(59), "sample_weight has 59 values for 60 samples"),
        (-np.ones(60), "negative value -1.0 for sample 0"),
        (np.full(60, np.nan), "sample_weight is nan for sample 0"),
        (np.zeros(60), "is zero for all samples but one at most"),
        (np.ones((60, 1)), "2 dimensions"),
        (["a"] * 60, "not numbers"),
    ],
)
def test_weights_that_are_none_are_refused_in_words(weights, words):
    with pytest.raises(ValueError, match=words):
        GreedySelector().fit(X, sample_weight=weights)


def test_counts_beyond_the_memory_are_refused_with_the_way_out():
    with pytest.raises(ValueError, match="divide the weights by their mean"):
        GreedySelector().fit(X, sample_weight=np.full(60, 10**12))


def test_a_file_read_in_blocks_takes_weights_and_batches(tmp_path, monkeypatch):
    from jointsparse.sources import base

    monkeypatch.setattr(base, "BLOCK_ENTRIES", 70)  # seven rows
    monkeypatch.setattr(base, "BLOCK_ROWS", 1)
    weights = np.random.default_rng(3).integers(0, 3, 60)
    pd.DataFrame(X).add_prefix("x").to_csv(tmp_path / "x.csv", index=False)
    source = open_source(tmp_path / "x.csv")
    found = Moments.from_data(source, sample_weight=weights, batch=BATCH)
    rows = weighted_rows(weights)
    expected = within(X[rows], BATCH[rows])
    np.testing.assert_allclose(found.scatter, expected.T @ expected, atol=1e-10)
    selector = GreedySelector(n_features_to_select=3).fit(source, sample_weight=weights)
    other = GreedySelector(n_features_to_select=3).fit(X[rows])
    np.testing.assert_array_equal(selector.ranking_[:3], other.ranking_[:3])
    for wrong in (np.ones(61), np.ones(59)):
        with pytest.raises(ValueError, match="give one for each"):
            Moments.from_data(source, sample_weight=wrong + wrong)


@pytest.mark.parametrize("kind", ["array", "sparse", "torch"])
def test_batches_are_taken_out(kind):
    torch = pytest.importorskip("torch") if kind == "torch" else None
    shifted = X + 5.0 * BATCH[:, None] * (np.arange(10) > 7)
    given = {
        "array": lambda: shifted,
        "sparse": lambda: sp.csr_array(shifted),
        "torch": lambda: torch.asarray(shifted),
    }[kind]()
    found = Moments.from_data(given, batch=np.array(["a", "b", "c"])[BATCH])
    expected = within(shifted, BATCH)
    np.testing.assert_allclose(found.scatter, expected.T @ expected, atol=1e-10)
    np.testing.assert_allclose(found.mean, shifted.mean(axis=0), atol=1e-12)
    total = ((shifted - shifted.mean(axis=0)) ** 2).sum(axis=0)
    shares = 1 - (expected**2).sum(axis=0) / total
    np.testing.assert_allclose(found.batches.feature_shares, shares, atol=1e-12)
    np.testing.assert_allclose(found.batches.share, shares.mean())
    assert found.batches.names.tolist() == ["a", "b", "c"]
    assert "lay between the 3 batches" in str(found.batches)


def test_features_that_only_tell_batches_apart_are_not_chosen():
    rng = np.random.default_rng(5)
    marked = rng.standard_normal((200, 12))
    marked[:, :4] += rng.standard_normal((200, 1))  # structure within
    batch = np.arange(200) % 2
    marked[:, 8:] += 6 * batch[:, None]  # and between
    plain = GreedySelector(n_features_to_select=1).fit(marked)
    assert plain.get_support()[8:].any()
    apart = GreedySelector().fit(marked, batch=batch)
    assert apart.get_support(indices=True).max() < 4
    assert 0.2 < apart.batches_.share < 0.4
    assert "batches_" not in vars(apart.fit(marked))  # nothing of an earlier fit stays


def test_weights_and_batches_together():
    found = Moments.from_data(X, sample_weight=SHARES, batch=BATCH)
    weights = SHARES * 60 / SHARES.sum()
    centred = X.copy()
    for one in range(3):
        mine = one == BATCH
        centred[mine] -= np.average(X[mine], axis=0, weights=weights[mine])
    np.testing.assert_allclose(found.scatter, (centred * weights[:, None]).T @ centred, atol=1e-11)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (np.arange(60), "different for every sample"),
        (np.zeros(59), "batch has 59 values"),
        (np.r_[np.nan, np.zeros(59)], "batch is missing for sample 0"),
        (["a", "b", np.nan] * 20, "batch is missing for sample 2"),
        (["a", "b", ""] * 20, "batch is missing for sample 2"),
        (pd.Series(["a", "b", None] * 20), "batch is missing for sample 2"),
        (pd.Series(["a", "b", None] * 20, dtype="category"), "batch is missing for sample 2"),
        (pd.Series(["a", "b", pd.NA] * 20, dtype=object), "batch is missing for sample 2"),
        (pd.to_datetime(pd.Series(["2020", "2021", None] * 20)), "batch is missing for sample 2"),
        (np.ma.masked_equal(BATCH, 2), "batch is missing for sample 2"),
        (np.zeros((60, 2)), "2 dimensions"),
    ],
)
def test_batches_that_are_none_are_refused_in_words(batch, words):
    with pytest.raises(ValueError, match=words):
        GreedySelector().fit(X, batch=batch)


def test_samples_of_no_batch_in_a_file_are_no_batch_of_their_own(tmp_path):
    table = pd.DataFrame(np.tile(X, (20, 1))).assign(plate=["a", "b", None] * 400)
    table.to_csv(tmp_path / "x.csv", index=False)
    for more in ([], ["--memory", "30kB"]):  # too little for all of it
        asked = ["select", str(tmp_path / "x.csv"), "--batch", "plate", "--quiet", *more]
        told = CliRunner().invoke(app, asked)
        assert told.exit_code == 2
        assert "batch is missing in data row 3;" in " ".join(told.stderr.split())


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, as_stream])
def test_weights_cost_no_digits_of_single_precision_beside_a_large_mean(make):
    far = (1e6 + X).astype(np.float32)  # of whose deviations there are one or two digits
    expected = weighted_scatter(far.astype(np.float64), SHARES)
    found = Moments.from_data(make(far), sample_weight=SHARES).scatter
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * expected.max())
    apart = Moments.from_data(make(far), batch=BATCH).scatter
    centred = within(far.astype(np.float64), BATCH)
    np.testing.assert_allclose(apart, centred.T @ centred, rtol=1e-9, atol=1e-9 * apart.max())
    assert Moments.from_data(X.astype(np.float32), sample_weight=SHARES).dtype == np.float32


@pytest.mark.parametrize("seed", range(6))  # sums of weights in another order are more, or less
def test_weighted_columns_without_a_zero_vary_beside_a_large_mean(seed):
    far, weights = X.copy(), np.random.default_rng(seed).uniform(0.1, 2.0, len(X))
    far[:, 2] = 1e9 + np.round(far[:, 2])
    found = Moments.from_data(sp.csr_array(far), sample_weight=weights)
    expected = weighted_scatter(far, weights)
    np.testing.assert_allclose(found.scatter, expected, rtol=1e-7, atol=1e-7 * expected.max())


def test_a_masked_weight_is_missing():
    weights = np.ma.masked_equal(np.arange(60.0), 5.0)
    with pytest.raises(ValueError, match="sample_weight is nan for sample 5"):
        GreedySelector().fit(X, sample_weight=weights)


def test_nothing_within_batches_is_refused():
    with pytest.raises(ValueError, match="nothing varies within batches"):
        GreedySelector().fit(np.eye(3)[BATCH], batch=BATCH)


def test_a_model_with_batches_is_saved(tmp_path):
    selector = SPCAPSD(n_features_to_select=2).fit(X, batch=BATCH)
    save_model(selector, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert loaded.batches_.share == selector.batches_.share


def test_classes_and_outcomes_follow_the_weights():
    y = (X[:, 0] > 0).astype(int)
    weights = np.random.default_rng(2).integers(0, 3, 60)
    rows = weighted_rows(weights)
    one = FSSL(graph="lda").fit(X, y, sample_weight=weights)
    other = FSSL(graph="lda").fit(X[rows], y[rows])
    np.testing.assert_array_equal(one.components_, other.components_)
    chosen = SubsetSelector(target="outcomes", n_features_to_select=2)
    outcomes = pd.Series(X[:, 3] + X[:, 5])
    one = chosen.fit(X, outcomes, sample_weight=weights).set_value_
    assert one == chosen.fit(X[rows], outcomes.to_numpy()[rows]).set_value_


def test_classes_that_change_after_a_fit_are_new_targets():
    y = (X[:, 0] > 0).astype(int)
    method = FSSL(graph="lda")
    moments = method.moments_of(X, y)
    before = method.fit_moments(moments).components_
    y[:] = X[:, 5] > 0  # the same array
    after = FSSL(graph="lda").fit_moments(moments, y).components_
    np.testing.assert_array_equal(after, FSSL(graph="lda").fit(X, y).components_)
    assert not np.array_equal(before, after)


@pytest.mark.parametrize(
    "inner",
    [SPCA(n_components=2), PCA(n_components=2), make_pipeline(FunctionTransformer(), PCA(2))],
)
def test_select_features_takes_weights_and_batches_for_any_method(inner):
    weights = np.random.default_rng(4).integers(0, 3, 60)
    rows = weighted_rows(weights)
    one = SelectFeatures(inner, n_features_to_select=3).fit(X, sample_weight=weights)
    other = SelectFeatures(inner, n_features_to_select=3).fit(X[rows])
    np.testing.assert_allclose(one.feature_scores_, other.feature_scores_, atol=1e-12)
    np.testing.assert_array_equal(one.ranking_, other.ranking_)
    found = SelectFeatures(inner, n_features_to_select=3).fit(X, batch=BATCH)
    assert found.batches_.names.size == 3
    if not isinstance(inner, SPCA):
        with pytest.raises(ValueError, match="weights are whole numbers"):
            SelectFeatures(inner).fit(X, sample_weight=SHARES)


def test_weights_are_routed_through_pipelines():
    weights = np.random.default_rng(6).integers(0, 3, 60)
    with sklearn.config_context(enable_metadata_routing=True):
        selector = GreedySelector(n_features_to_select=3).set_fit_request(
            sample_weight=True, batch=True
        )
        found = make_pipeline(FunctionTransformer(), selector).fit(
            X, sample_weight=weights, batch=BATCH
        )
    other = GreedySelector(n_features_to_select=3).fit(X, sample_weight=weights, batch=BATCH)
    np.testing.assert_array_equal(found[-1].ranking_, other.ranking_)

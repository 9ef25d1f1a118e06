"""Parameters chosen without labels, and the stability of a selection."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import normalized_mutual_info_score, silhouette_score

from jointsparse import (
    AWSPCA,
    CSPCA,
    SPCA,
    SPCAPSD,
    GreedySelector,
    LaplacianScore,
    Moments,
    SelectFeatures,
    choose_parameters,
    stability_selection,
)
from jointsparse.metrics import selection_stability
from jointsparse.model_selection import criteria
from jointsparse.model_selection.stability import complementary_pairs
from jointsparse.solvers.held_out import cross_validation_folds, held_out_folds

GRID = {"alpha": [0.02, 0.3, 0.1], "eta": [0.3, 0.03]}


def clusters(seed=0, n=90, p=12, groups=3, noise=0.5):
    rng = np.random.default_rng(seed)
    centres = np.zeros((groups, p))
    centres[:, : p // 2] = 2 * rng.standard_normal((groups, p // 2))
    return centres[rng.integers(groups, size=n)] + noise * rng.standard_normal((n, p))


def judge(kind, X, n_clusters=3, **others):
    settings = {"n_repeats": 4, "rows": np.arange(X.shape[0]), "seed": 0, **others}
    return kind(Moments.from_data(X), n_clusters, **settings)


# The criteria, each against its definition.


@given(seed=st.integers(0, 1000), groups=st.integers(1, 6), others=st.integers(1, 6))
@settings(max_examples=30)
def test_mutual_information_is_that_of_scikit_learn(seed, groups, others):
    rng = np.random.default_rng(seed)
    one, other = rng.integers(groups, size=40), rng.integers(others, size=40)
    expected = normalized_mutual_info_score(one, other, average_method="geometric")
    assert criteria._shared(one, other) == pytest.approx(expected, abs=1e-10)


def test_agreement_is_one_for_all_features_and_less_for_noise():
    X = clusters()
    agreement = judge(criteria.Agreement, X)
    assert agreement.values(np.arange(12)).max() == pytest.approx(1)
    assert agreement.values(np.arange(6)).mean() > agreement.values(np.arange(6, 12)).mean() + 0.3


@pytest.mark.parametrize("shape", [(60, 8), (30, 50)])
def test_silhouette_is_measured_in_all_features(shape):
    X = clusters(n=shape[0], p=shape[1])
    kept = np.array([0, 3, 7])
    values = judge(criteria.Silhouette, X).values(kept)
    seeds = np.random.SeedSequence(0).generate_state(4)
    labels = [KMeans(3, n_init=1, random_state=int(s)).fit_predict(X[:, kept]) for s in seeds]
    expected = [silhouette_score(X, found) for found in labels]
    np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_sparse_samples_are_judged_like_dense_ones():
    X = sp.random_array((40, 60), density=0.2, rng=np.random.default_rng(0), format="csr")
    kept = np.arange(9)
    for kind in criteria.KINDS.values():
        dense = judge(kind, X.toarray()).values(kept)
        np.testing.assert_allclose(judge(kind, X).values(kept), dense, atol=1e-8)


@pytest.mark.parametrize("shape", [(200, 6), (30, 40)])
def test_folds_are_regressions_on_the_other_samples(shape):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    X += 0.3 * rng.standard_normal(shape) + 5
    parts = np.array_split(rng.permutation(shape[0]), 3)
    kept = np.array([0, 2])
    for part, fold in zip(parts, cross_validation_folds(Moments.from_data(X), parts), strict=True):
        train = np.setdiff1d(np.arange(shape[0]), part)
        model = LinearRegression().fit(X[train][:, kept], X[train])
        missed = np.sum((X[part] - model.predict(X[part][:, kept])) ** 2)
        total = np.sum((X[part] - X[train].mean(axis=0)) ** 2)
        # The regression of the fold has a ridge, which two features of many samples hardly need.
        assert fold.r2(kept) == pytest.approx(1 - missed / total, abs=0.02)
        assert fold.r2_of_pca(2) == pytest.approx(_pca(X[train], X[part]), abs=1e-8)
    one, other = held_out_folds(Moments.from_data(X), parts[0], parts[1])
    assert one.total != other.total


def _pca(train, test):
    model = PCA(2).fit(train)
    missed = test - model.inverse_transform(model.transform(test))
    return 1 - np.sum(missed**2) / np.sum((test - train.mean(axis=0)) ** 2)


@pytest.mark.filterwarnings("ignore")
def test_effective_rank_is_that_of_the_singular_values():
    X = clusters()
    for model in (SPCAPSD(), CSPCA(), CSPCA(psd=False), AWSPCA()):
        model.fit(X)
        factor = model.loadings_
        cone = getattr(model, "psd", True)
        values = np.linalg.svd(factor @ factor.T if cone else factor, compute_uv=False)
        expected = values.sum() ** 2 / np.sum(values**2)
        assert criteria.effective_rank(model) == pytest.approx(expected)
    assert criteria.effective_rank(GreedySelector().fit(X)) is None


# The choice.


def test_the_best_point_is_the_best_of_the_table():
    X = clusters()
    for criterion in ("agreement", "silhouette", "rank"):
        choice = choose_parameters(
            SPCAPSD(n_features_to_select=3), X, n_clusters=3, criterion=criterion, param_grid=GRID
        )
        table = choice.table
        assert table["mean"][table["chosen"].index(True)] == max(table["mean"])
        assert sum(table["chosen"]) == 1
        assert len(choice.points) == 6
        assert choice.criterion == criterion
        assert set(choice.best_params) == {"alpha", "eta"}


def test_one_standard_error_takes_the_simplest_model():
    X = clusters(seed=1)
    choice = choose_parameters(
        GreedySelector(), X, param_grid={"n_features_to_select": list(range(1, 13))}
    )
    assert choice.criterion == "held-out"
    means = np.array([point.mean for point in choice.points])
    sizes = np.array([point.n_kept for point in choice.points])
    top = int(means.argmax())
    enough = means >= means[top] - choice.points[top].error
    assert choice.best_params == {"n_features_to_select": sizes[enough].min()}
    assert sizes[enough].min() <= sizes[top]
    assert "one standard error" in choice.reason


def test_auto_asks_for_agreement_among_the_points_of_the_right_rank():
    X = clusters(groups=4, n=120)
    choice = choose_parameters(SPCAPSD(n_features_to_select=4), X, n_clusters=4)
    assert choice.criterion == "rank+agreement"
    assert len(choice.points) == 81
    distance = np.array(
        [abs(np.log(point.rank / 3)) if point.rank else np.inf for point in choice.points]
    )
    judged = np.array([not np.isnan(point.mean) for point in choice.points])
    kept = np.array([point.n_kept > 0 for point in choice.points])
    assert 1 <= judged.sum() <= 12
    assert distance[judged].max() <= distance[kept & ~judged].min()
    assert choice.best_estimator.get_support().sum() == 4


@pytest.mark.parametrize(
    ("estimator", "criterion"),
    [
        (SPCAPSD(n_clusters=3), "rank+agreement"),
        (SPCAPSD(), "held-out"),
        (SelectFeatures(SPCA()), "held-out"),
        (SPCA(), "held-out"),
    ],
)
@pytest.mark.filterwarnings("ignore:SelectFeatures")
def test_auto(estimator, criterion):
    grid = {"estimator__alpha" if isinstance(estimator, SelectFeatures) else "alpha": [0.1, 0.3]}
    assert choose_parameters(estimator, clusters(), param_grid=grid).criterion == criterion


def test_the_fitted_estimator_is_the_one_of_a_plain_fit():
    X = clusters()
    choice = choose_parameters(SPCAPSD(n_features_to_select=3), X, n_clusters=3, param_grid=GRID)
    plain = SPCAPSD(n_features_to_select=3, n_clusters=3, **choice.best_params).fit(X)
    np.testing.assert_allclose(choice.best_estimator.feature_scores_, plain.feature_scores_)
    assert choice.best_estimator.get_params() == plain.get_params()
    assert choice.best_estimator.duality_gap_ < 1e-4


@pytest.mark.filterwarnings("ignore")
def test_points_are_those_of_separate_fits():
    X = clusters(seed=3)
    model = SPCAPSD(n_features_to_select=4, tol=1e-7)
    for point in choose_parameters(model, X, param_grid=GRID).points:
        alone = clone(model).set_params(**point.params).fit(X)
        assert alone.get_support(indices=True).tolist() == point.kept.tolist()


def test_nothing_is_modified_and_threads_change_nothing():
    X, model = clusters(), SPCAPSD(n_features_to_select=3)
    before, parameters = X.copy(), model.get_params()
    one = choose_parameters(model, X, n_clusters=3, param_grid=GRID)
    two = choose_parameters(model, X, n_clusters=3, param_grid=GRID, n_jobs=2)
    assert one.best_params == two.best_params
    assert str(one) == str(two)
    np.testing.assert_array_equal(X, before)
    assert model.get_params() == parameters
    assert not hasattr(model, "feature_scores_")


def test_names_and_texts():
    import pandas as pd

    frame = pd.DataFrame(clusters(), columns=[f"<b>{j}</b>" for j in range(12)])
    choice = choose_parameters(
        SPCAPSD(n_features_to_select=3), frame, n_clusters=3, param_grid=GRID
    )
    assert choice.best_estimator.get_feature_names_out()[0].startswith("<b>")
    assert choice.reason in str(choice)
    assert "<table>" in choice._repr_html_()
    found = stability_selection(GreedySelector(n_features_to_select=3), frame, n_subsamples=4)
    assert "<b>" in str(found)
    assert "<b>" not in found._repr_html_()
    assert "&lt;b&gt;" in found._repr_html_()


@pytest.mark.filterwarnings("ignore")
def test_moments_and_selectors_of_scikit_learn():
    X = clusters()
    moments = Moments.from_data(X)
    whole = choose_parameters(SPCAPSD(n_features_to_select=3), moments, param_grid=GRID)
    assert (
        whole.best_params
        == choose_parameters(SPCAPSD(n_features_to_select=3), X, param_grid=GRID).best_params
    )
    variance = SelectKBest(lambda X, y=None: np.var(X, axis=0))
    choice = choose_parameters(variance, X, param_grid={"k": [2, 5]}, criterion="held-out")
    assert choice.best_params in ({"k": 2}, {"k": 5})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"criterion": "labels"}, "criterion='labels' is not one of"),
        ({"criterion": "agreement"}, "needs the number of clusters"),
        ({"param_grid": {}}, "param_grid is empty"),
        ({"param_grid": []}, "param_grid is empty"),
        ({"param_grid": {"alpha": []}}, "param_grid must be a dictionary"),
        ({"param_grid": {"alpha": 0.1}}, "param_grid must be a dictionary"),
        ({"param_grid": {"gamma": [1]}}, "SPCAPSD has no parameter 'gamma'; it has alpha"),
        ({"n_clusters": 1}, "n_clusters=1 is not a whole number of at least 2"),
        ({"n_clusters": 90}, "n_clusters=90 is too many for 90 samples"),
        ({"n_repeats": 0}, "n_repeats=0"),
        ({"param_grid": {"alpha": [0.999], "eta": [0.9]}}, "leave the model empty"),
    ],
)
def test_one_sentence_for_each_mistake(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        choose_parameters(SPCAPSD(), clusters(), **arguments)
    assert "\n" not in str(caught.value)


def test_unsuitable_estimators_and_data():
    X = clusters()
    with pytest.raises(TypeError, match="must be a selector, such as SPCAPSD"):
        choose_parameters(PCA(), X)
    with pytest.raises(TypeError, match="SPCAPSD is none"):
        choose_parameters(SPCAPSD, X)
    with pytest.raises(ValueError, match="LaplacianScore has no penalty to choose"):
        choose_parameters(LaplacianScore(), X)
    with pytest.raises(ValueError, match="has penalty_scale='absolute'"):
        choose_parameters(SPCAPSD(penalty_scale="absolute"), X)
    with pytest.raises(ValueError, match=r"wrap it, SelectFeatures\(SPCA"):
        choose_parameters(SPCA(), X, n_features_to_select=3)
    with pytest.raises(ValueError, match=r"criterion='rank' needs a model with loadings_"):
        choose_parameters(
            GreedySelector(),
            X,
            criterion="rank",
            n_clusters=3,
            param_grid={"n_features_to_select": [3]},
        )
    with pytest.raises(ValueError, match="needs at least 4 samples; there are 3"):
        choose_parameters(SPCAPSD(), X[:3])
    with pytest.raises(ValueError, match="needs the samples"):
        choose_parameters(SPCAPSD(), Moments.from_scatter(np.cov(X.T), 90))


# Stability.


def test_complementary_pairs_are_disjoint_and_cover_all():
    for one, other in complementary_pairs(10, 5):
        assert np.intersect1d(one, other).size == 0
        assert np.union1d(one, other).size == 10
    for one, other in complementary_pairs(11, 3, share=0.3):
        assert one.size == other.size == 3
        assert np.intersect1d(one, other).size == 0


def test_frequencies_are_those_of_the_selections():
    X = clusters()
    found = stability_selection(GreedySelector(n_features_to_select=3), X, n_subsamples=6)
    np.testing.assert_allclose(found.frequencies, found.supports.mean(axis=0))
    assert (found.stability, found.lower, found.upper) == selection_stability(found.supports)
    first = complementary_pairs(90, 3)[0][0]
    alone = GreedySelector(n_features_to_select=3).fit(X[first])
    assert found.supports[0].tolist() == alone.get_support().tolist()
    assert found.get_support().tolist() == (found.frequencies >= 0.75).tolist()
    assert found.get_support(1.0, indices=True).size <= found.get_support(indices=True).size
    assert found.error_bound == pytest.approx(9 / (12 * 0.5))


def test_signal_is_stable_and_noise_is_not():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 40))
    X[:, :4] *= 5
    signal = stability_selection(GreedySelector(n_features_to_select=4), X, n_subsamples=10)
    assert signal.get_support(indices=True).tolist() == [0, 1, 2, 3]
    assert signal.stability == 1
    noise = stability_selection(GreedySelector(n_features_to_select=4), X[:, 4:], n_subsamples=10)
    assert noise.stability < 0.6
    assert "stability 1.00" in str(signal)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_subsamples": 5}, "n_subsamples=5 is not an even number"),
        ({"share": 0.6}, "two subsamples must be disjoint"),
        ({"share": 0.01}, "leaves 0 in a subsample; at least 2"),
        ({"threshold": 0.5}, "threshold=0.5 is not above 0.5"),
    ],
)
def test_one_sentence_about_subsamples(arguments, message):
    with pytest.raises(ValueError, match=message):
        stability_selection(GreedySelector(), clusters(), **arguments)
    with pytest.raises(TypeError, match="must be a selector"):
        stability_selection(PCA(), clusters())

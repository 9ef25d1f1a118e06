"""Parameters chosen without labels, and the stability of a selection."""

from types import SimpleNamespace

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
    compare_methods,
    feature_significance,
    stability_selection,
)
from jointsparse.metrics import selection_stability
from jointsparse.model_selection import criteria
from jointsparse.model_selection.grid import check_rows
from jointsparse.model_selection.stability import complementary_pairs
from jointsparse.solvers.picking.held_out import cross_validation_folds, held_out_folds

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
        dropped = np.delete(X, kept, axis=1)
        model = LinearRegression().fit(X[train][:, kept], dropped[train])
        missed = np.sum((dropped[part] - model.predict(X[part][:, kept])) ** 2)
        total = np.sum((dropped[part] - dropped[train].mean(axis=0)) ** 2)
        assert fold.judge(kept, ridge=False).r2 == pytest.approx(1 - missed / total, abs=1e-8)
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


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (GreedySelector(), {"n_features_to_select": [1, 3, 12]}),
        (SPCAPSD(n_features_to_select=2, tol=1e-7), {"eta": [0.3, 0.03], "alpha": [0.02, 0.1]}),
        (SelectKBest(lambda X, y=None: np.var(X, axis=0)), {"k": [2, 5]}),
    ],
    ids=["greedy", "spca-psd", "scikit-learn"],
)
@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.filterwarnings("ignore")
def test_held_out_is_nested(model, grid, n_jobs):
    """Every point against its definition: fits to training parts alone, judged by the others."""
    X = clusters(seed=2, noise=1.0)
    choice = choose_parameters(
        model, X, param_grid=grid, criterion="held-out", random_state=4, n_jobs=n_jobs
    )
    seed = int(np.random.RandomState(4).randint(2**31 - 1))
    parts = np.array_split(np.random.default_rng(seed).permutation(len(X)), 3)
    for point in choice.points:
        missed, total, shares = 0.0, 0.0, []
        for part in parts:
            train = np.setdiff1d(np.arange(len(X)), part)
            kept = clone(model).set_params(**point.params).fit(X[train]).get_support(indices=True)
            inside = feature_significance(X[train]).significant
            fold = cross_validation_folds(Moments.from_data(X), [part, train], [inside, inside])[0]
            judged = fold.judge(kept)
            missed, total = missed + judged.missed, total + judged.total
            shares.append(judged.r2)
        expected = 1 - missed / total if total else 0.0
        assert point.mean == pytest.approx(expected, abs=1e-9)
        assert point.error == pytest.approx(np.std(shares, ddof=1) / np.sqrt(3), abs=1e-9)


def test_held_out_has_no_hope_in_noise():
    """Sets chosen on all samples look good in samples that chose them; nested ones do not."""
    X = np.random.default_rng(0).standard_normal((40, 200))
    with pytest.warns(UserWarning, match="no structure beyond noise"):
        choice = choose_parameters(
            GreedySelector(), X, param_grid={"n_features_to_select": [1, 5, 10]}
        )
    assert all(point.mean <= 0 for point in choice.points)
    assert choice.best_params == {"n_features_to_select": 1}


def test_a_method_that_refuses_a_part_says_so():
    class Picky(GreedySelector):
        def fit_moments(self, moments):
            if moments.n_samples < 90:
                raise ValueError("90 samples are needed")
            return super().fit_moments(moments)

    with pytest.raises(ValueError, match="parts of the samples, and Picky refuses one: 90 samples"):
        choose_parameters(Picky(), clusters(), param_grid={"n_features_to_select": [2]})


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
    with pytest.raises(ValueError, match="needs at least 9 samples; there are 8"):
        choose_parameters(SPCAPSD(), X[:8])
    with pytest.raises(ValueError, match="needs at least 4 samples; there are 3"):
        choose_parameters(SPCAPSD(), X[:3], n_clusters=2, criterion="agreement")
    sums = Moments.from_scatter(np.cov(X.T), 90)
    with pytest.raises(ValueError, match="needs the samples"):
        choose_parameters(SPCAPSD(), sums)
    with pytest.raises(ValueError, match="stability_selection needs the samples"):
        stability_selection(SPCAPSD(), sums)
    with pytest.raises(ValueError, match="compare_methods needs the samples"):
        compare_methods({"spca-psd": SPCAPSD()}, sums, n_features_to_select=2)
    elsewhere = SimpleNamespace(has_samples=True, elsewhere=True)
    with pytest.raises(ValueError, match="it selects on parts of the samples: they must be in mem"):
        check_rows(elsewhere, "it")


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


def hubs(seed=0, n=300):
    """Five patterns; one feature of each (0, 9, …) carries it nearly alone, eight follow weakly."""
    rng = np.random.default_rng(seed)
    signal, noise = np.r_[2.0, np.full(8, 0.8)], np.r_[0.6, np.ones(8)]
    factors = np.repeat(rng.standard_normal((n, 5)), 9, axis=1)
    return factors * np.tile(signal, 5) + rng.standard_normal((n, 45)) * np.tile(noise, 5)


def noisy_copies(seed=0, n=200, extra=20):
    """Eight patterns in six noisy copies each, and noise."""
    rng = np.random.default_rng(seed)
    copies = np.repeat(rng.standard_normal((n, 8)), 6, axis=1) + 0.2 * rng.standard_normal((n, 48))
    return np.hstack([copies, rng.standard_normal((n, extra))])


@pytest.mark.parametrize("seed", [0, 1])
def test_where_nothing_stands_in_groups_change_nothing(seed):
    found = stability_selection(GreedySelector(n_features_to_select=5), hubs(seed), n_subsamples=10)
    assert found.get_support(indices=True).tolist() == [0, 9, 18, 27, 36]
    assert found.stability == found.group_stability == 1
    assert len(np.unique(found.groups)) == 45
    np.testing.assert_array_equal(found.found_again, found.frequencies)
    assert "stability 1.00" in str(found)
    noise = np.random.default_rng(seed).standard_normal((100, 200))
    found = stability_selection(GreedySelector(n_features_to_select=8), noise, n_subsamples=10)
    assert found.stability == pytest.approx(found.group_stability, abs=1e-12)
    # Two halves that are not of one pair share half of their samples: a little above 0.
    assert -0.1 < found.stability < 0.2


@pytest.mark.parametrize(
    "selector", [GreedySelector(), SPCAPSD(), LaplacianScore()], ids=lambda s: type(s).__name__
)
def test_of_noisy_copies_another_one_is_kept_each_time_but_of_the_same_group(selector):
    selector = selector.set_params(n_features_to_select=8)
    for seed in (0, 1):
        X = noisy_copies(seed)
        found = stability_selection(selector, X, n_subsamples=10)
        assert found.stability < 0.4
        assert found.group_stability > 0.95
        assert found.group_lower <= found.group_stability <= found.group_upper
        groups = found.groups[:48].reshape(8, 6)
        assert np.all(groups == groups[:, :1])
        assert len(np.unique(found.groups)) == 8 + 20
        assert found.found_again[:48].min() > 0.85 > 0.5 > found.frequencies.mean()
        assert "of groups that stand in for one another" in str(found)
        report = selector.fit(X).selection_report_
        assert report.kept.tolist() == np.argsort(selector.ranking_)[:8].tolist()
        np.testing.assert_array_equal(report.found_again, np.ones(8))


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

"""The picture of a comparison shows its numbers."""

import matplotlib
import numpy as np
import pytest

from jointsparse import (
    SPCAPSD,
    GreedySelector,
    LaplacianScore,
    Moments,
    compare_methods,
    feature_significance,
)
from jointsparse.model_selection import Comparison, MethodResult
from jointsparse.model_selection.stability import complementary_pairs
from jointsparse.plotting import ComparisonDisplay
from jointsparse.solvers.picking.held_out import cross_validation_folds

matplotlib.use("Agg")


@pytest.fixture(scope="module", name="found")
def comparison():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 20))
    X += 0.7 * rng.standard_normal((60, 20))
    methods = {"$greedy": GreedySelector(), "Laplacian": LaplacianScore(), "bad": SPCAPSD(alpha=-1)}
    return compare_methods(methods, X, n_features_to_select=3, n_subsamples=4)


def test_halves_are_chosen_and_judged_apart(found):
    greedy, laplacian, bad = found.results
    assert len(greedy.kept) == len(laplacian.kept) == 3
    assert greedy.r2[0] > found.random_r2[0]
    assert greedy.r2[0] < found.pca_r2[0]
    assert bad.error
    assert bad.kept == ()
    assert found.votes.sum() == 6
    both = set(greedy.kept) & set(laplacian.kept)
    assert found.jaccard[0, 1] == pytest.approx(len(both) / (6 - len(both)))
    assert np.isnan(found.jaccard[0, 2])
    assert found.scores_of_all is None


def test_every_number_is_of_dropped_features_in_the_same_folds():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 12))
    X[:, :6] += rng.standard_normal((80, 1))
    found = compare_methods(
        {"greedy": GreedySelector()}, X, n_features_to_select=2, n_subsamples=4, random_state=3
    )
    moments = Moments.from_data(X)
    folds, sets = [], []
    for one, other in complementary_pairs(80, 2, 0.5, 3):
        for train, test in ((one, other), (other, one)):
            inside = [feature_significance(X[train]).significant] * 2
            folds.append(cross_validation_folds(moments, [test, train], inside)[0])
            selector = GreedySelector(n_features_to_select=2).fit(X[train])
            sets.append(selector.get_support(indices=True))
    assert any(not fold.inside.all() for fold in folds)
    judged = [fold.judge(kept) for fold, kept in zip(folds, sets, strict=True)]
    missed, total = sum(one.missed for one in judged), sum(one.total for one in judged)
    assert found.results[0].r2[0] == pytest.approx(1 - missed / total)
    assert found.results[0].r2[1] == pytest.approx(np.std([one.r2 for one in judged], ddof=1))
    rng = np.random.default_rng(3)
    random = []
    for _ in range(10):
        judged = [fold.judge(kept) for kept in [rng.choice(12, 2, replace=False)] for fold in folds]
        random.append(1 - sum(one.missed for one in judged) / sum(one.total for one in judged))
    assert found.random_r2 == pytest.approx((np.mean(random), np.std(random, ddof=1)))


def test_noisy_copies_are_stable_by_groups():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((100, 4)), 5, axis=1) + 0.2 * rng.standard_normal((100, 20))
    X = np.hstack([X, rng.standard_normal((100, 10))])
    methods = {"greedy": GreedySelector(), "bad": SPCAPSD(alpha=-1)}
    greedy, bad = compare_methods(methods, X, n_features_to_select=4, n_subsamples=6).results
    assert greedy.stability[0] < 0.5
    assert greedy.group_stability == (1, 1, 1)  # the same four of 14 groups, each time
    assert np.isnan(bad.group_stability[0])


def test_in_noise_nothing_is_predicted():
    X = np.random.default_rng(0).standard_normal((60, 100))
    found = compare_methods({"greedy": GreedySelector()}, X, n_features_to_select=5, n_subsamples=4)
    assert found.results[0].r2[0] < 0.02
    assert found.random_r2[0] < 0.02


def test_bars_and_matrix_are_the_numbers(found):
    display = ComparisonDisplay.from_comparison(found)
    widths = [bar.get_width() for bar in display.bars_]
    np.testing.assert_allclose(widths, [result.r2[0] for result in found.results])
    labels = [label.get_text() for label in display.ax_[0].get_yticklabels()]
    assert labels == [r"\$greedy", "Laplacian", "bad"]
    texts = [text.get_text() for text in display.ax_[2].texts]
    shown = found.jaccard[~np.isnan(found.jaccard)]
    assert [float(text) for text in texts] == pytest.approx(shown, abs=0.005)
    matplotlib.pyplot.close(display.figure_)


def result(name, mean, spread):
    return MethodResult(name, kept=(0, 1), r2=(mean, spread))


def comparison_of(*results):
    return Comparison(results, ("a", "b", "c"), 9, 3, 2, 4, (0.9, 0.1), (0.3, 0.05), None)


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([("a", 0.7, 0.02), ("b", 0.6, 0.03)],
         "a predicts most of the dropped features (70 ± 2 %). 2 of 2 methods predict clearly"),
        ([("a", 0.7, 0.02), ("b", 0.6, 0.12)], "All methods predict about as much of the "
         "dropped features (a 70 ± 2 %). 2 of 2"),
        ([("a", 0.7, 0.02), ("b", 0.69, 0.01), ("c", 0.32, 0.01)],
         "a predicts most of the dropped features (70 ± 2 %); b does about as well. 2 of 3"),
        ([("a", 0.34, 0.02)], "a predicts 34 ± 2 % of the dropped features, not"),
    ],
)  # fmt: skip
def test_nobody_is_called_better_within_the_spread(results, words):
    verdict = comparison_of(*(result(*numbers) for numbers in results)).verdict
    assert verdict.startswith(words)
    assert verdict.endswith("clearly more than random features (30 ± 5 %).")


def test_a_verdict_on_failures():
    failed = MethodResult("a", error="no spread")
    assert comparison_of(failed).verdict == "No method could be fitted."
    assert comparison_of(failed, result("b", 0.5, 0.1)).verdict.startswith("b predicts 50 ± 10 %")


def test_mistakes_are_said():
    X = np.random.default_rng(0).standard_normal((20, 4))
    with pytest.raises(ValueError, match="at least one method"):
        compare_methods({}, X, n_features_to_select=2)
    with pytest.raises(ValueError, match="n_subsamples=3 is not an even number"):
        compare_methods({"a": GreedySelector()}, X, n_features_to_select=2, n_subsamples=3)

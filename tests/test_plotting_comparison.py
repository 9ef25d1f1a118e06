"""The picture of a comparison shows its numbers."""

import matplotlib
import numpy as np
import pytest

from jointsparse import SPCAPSD, GreedySelector, LaplacianScore, compare_methods
from jointsparse.model_selection import Comparison, MethodResult
from jointsparse.plotting import ComparisonDisplay

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
         "a predicts most of the dropped features (70 ± 2 %). 2 of 2 methods predict more"),
        ([("a", 0.7, 0.02), ("b", 0.6, 0.12)], "No method predicts more of the dropped features "
         "than another, beyond the spread (70 ± 2 % for a). 2 of 2"),
        ([("a", 0.7, 0.02), ("b", 0.69, 0.01), ("c", 0.32, 0.01)],
         "a predicts most of the dropped features (70 ± 2 %); within the spread of it: b. 2 of 3"),
        ([("a", 0.34, 0.02)], "a predicts 34 ± 2 % of the dropped features. None of 1 method"),
    ],
)  # fmt: skip
def test_nobody_is_called_better_within_the_spread(results, words):
    verdict = comparison_of(*(result(*numbers) for numbers in results)).verdict
    assert verdict.startswith(words)
    assert verdict.endswith("more than random features (30 ± 5 %), beyond the spread.")


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

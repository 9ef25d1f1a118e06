"""The displays: what is drawn corresponds to the data."""

import subprocess
import sys
import warnings

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from jointsparse import GreedySelector
from jointsparse.plotting import (
    ConvergenceDisplay,
    FeatureScoresDisplay,
    SelectionCurveDisplay,
)
from jointsparse.plotting._style import FAINT, STRONG, plain_label

matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def bar_colours(display):
    return [to_hex(bar.get_facecolor()).upper() for bar in display.bars_]


def labels(display):
    return [label.get_text() for label in display.ax_.get_yticklabels()]


class TestFeatureScores:
    SCORES = (0.1, 3.0, 2.0, 0.0)
    KEPT = (False, True, True, False)

    def display(self, **data):
        return FeatureScoresDisplay(feature_scores=self.SCORES, support=self.KEPT, **data)

    def test_bars_are_the_scores_best_on_top(self):
        display = self.display(feature_names=["a", "b", "c", "d"]).plot()
        assert [bar.get_width() for bar in display.bars_] == [3.0, 2.0, 0.1, 0.0]
        assert labels(display) == ["b", "c", "a", "d"]
        assert display.ax_.yaxis_inverted()
        assert bar_colours(display) == [STRONG, STRONG, FAINT, FAINT]
        assert display.figure_ is display.ax_.figure

    def test_legend_counts_what_was_kept(self):
        texts = self.display().plot().ax_.get_legend().get_texts()
        assert [text.get_text() for text in texts] == ["kept (2 of 4)", "dropped"]
        texts = self.display().plot(n_features=1).ax_.get_legend().get_texts()
        assert [text.get_text() for text in texts] == ["kept (2 of 4, 1 not shown)"]

    def test_without_support_there_is_one_colour_and_no_legend(self):
        display = FeatureScoresDisplay(feature_scores=self.SCORES).plot()
        assert set(bar_colours(display)) == {STRONG}
        assert display.ax_.get_legend() is None
        assert labels(display)[0] == "feature 1"

    def test_ranking_orders_equal_scores(self):
        display = FeatureScoresDisplay(feature_scores=[1, 1, 2], ranking=[3, 2, 1]).plot()
        assert labels(display) == ["feature 2", "feature 1", "feature 0"]

    def test_given_axes_are_used(self):
        figure, ax = plt.subplots()
        display = self.display().plot(ax=ax)
        assert display.ax_ is ax
        assert display.figure_ is figure
        assert len(ax.patches) == 4
        assert len(plt.get_fignums()) == 1

    def test_one_feature(self):
        display = FeatureScoresDisplay(feature_scores=[2.0], support=[True]).plot()
        display.figure_.canvas.draw()
        assert len(display.bars_) == 1

    def test_many_features_stay_bounded(self):
        scores = np.arange(100_000.0)
        display = FeatureScoresDisplay(feature_scores=scores).plot(n_features=50_000)
        assert len(display.bars_) == 200
        assert display.bars_[0].get_width() == 99_999
        assert len(FeatureScoresDisplay(feature_scores=scores).plot().bars_) == 20

    def test_fewer_than_one_bar_is_refused(self):
        with pytest.raises(ValueError, match="n_features"):
            self.display().plot(n_features=0)

    def test_names_are_drawn_as_they_are(self):
        names = ["$x", r"$\frac{$", "a\nb", "long " * 1000]
        display = self.display(feature_names=names).plot()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            display.figure_.canvas.draw()
        shown = labels(display)
        assert shown[0] == r"\$\frac{\$"
        assert shown[1] == "a b"
        assert shown[2] == r"\$x"
        assert len(shown[3]) <= 40

    def test_from_estimator(self):
        estimator = _Estimator(
            feature_scores_=np.array([1.0, 5.0]),
            ranking_=np.array([2, 1]),
            feature_names_in_=np.array(["u", "v"], dtype=object),
            get_support=lambda: np.array([False, True]),
        )
        display = FeatureScoresDisplay.from_estimator(estimator)
        assert labels(display) == ["v", "u"]
        assert bar_colours(display) == [STRONG, FAINT]


class _Estimator(BaseEstimator):
    """An estimator with the fitted attributes of a test's choice."""

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def fit(self, X, y=None):
        return self


class TestConvergence:
    def test_objective_alone(self):
        display = ConvergenceDisplay(objective=[4.0, 2.0, 1.0]).plot()
        np.testing.assert_array_equal(display.line_.get_xdata(), [1, 2, 3])
        np.testing.assert_array_equal(display.line_.get_ydata(), [4, 2, 1])
        assert display.gap_ax_ is None
        assert display.gap_line_ is None
        assert display.ax_.get_xlabel() == "iteration"
        assert len(display.figure_.axes) == 1

    def test_gap_is_below_on_a_logarithmic_axis(self):
        display = ConvergenceDisplay(
            objective=[4.0, 2.0, 1.0], gap=[None, 0.1, 0.0], tol=1e-3
        ).plot()
        display.figure_.canvas.draw()
        assert display.gap_ax_.get_yscale() == "log"
        np.testing.assert_allclose(
            display.gap_line_.get_ydata(), [np.nan, 0.1, np.finfo(float).eps]
        )
        assert display.gap_ax_.get_position().y1 <= display.ax_.get_position().y0
        assert display.gap_ax_.get_xlabel() == "iteration"
        assert [text.get_text() for text in display.gap_ax_.texts] == ["tolerance"]

    def test_given_axes_are_used_and_divided(self):
        figure, axes = plt.subplots(1, 2)
        display = ConvergenceDisplay(objective=[2.0, 1.0], gap=[1.0, 0.1]).plot(ax=axes[1])
        figure.canvas.draw()
        assert display.ax_ is axes[1]
        assert display.figure_ is figure
        assert display.gap_ax_.get_position().x0 == pytest.approx(axes[1].get_position().x0)
        assert len(plt.get_fignums()) == 1
        alone = ConvergenceDisplay(objective=[2.0, 1.0]).plot(ax=axes[0])
        assert alone.ax_ is axes[0]

    def test_relative(self):
        display = ConvergenceDisplay(objective=[-1.0, -3.0, -4.0]).plot(relative=True)
        display.figure_.canvas.draw()
        np.testing.assert_allclose(display.line_.get_ydata(), [0.75, 0.25, 0])
        assert display.ax_.get_yscale() == "log"

    @pytest.mark.parametrize("relative", [False, True])
    @pytest.mark.parametrize("history", [[], [np.nan], [1.0], [np.inf, 2.0]])
    def test_short_or_undefined_histories(self, history, relative):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            display = ConvergenceDisplay(objective=history, gap=history).plot(relative=relative)
            display.figure_.canvas.draw()

    def test_from_estimator(self):
        estimator = _Estimator(history_=[3.0, 2.0], gap_history_=[0.5, 0.1], n_iter_=20, tol=1e-4)
        display = ConvergenceDisplay.from_estimator(estimator)
        assert display.gap_ax_.get_xlabel() == "check of the solver"
        assert display.tol == 1e-4
        del estimator.gap_history_
        estimator.n_iter_ = 2
        display = ConvergenceDisplay.from_estimator(estimator, relative=True)
        assert display.gap_ax_ is None
        assert display.ax_.get_xlabel() == "iteration"


@pytest.mark.parametrize(
    "display", [FeatureScoresDisplay, ConvergenceDisplay, SelectionCurveDisplay]
)
def test_unfitted_estimators_are_refused(display):
    with pytest.raises(NotFittedError):
        display.from_estimator(_Estimator())


def test_labels_are_shortened_in_the_middle():
    assert plain_label("abcdefghij", 7) == "abc…hij"


def test_importing_the_package_does_not_import_matplotlib():
    code = "import sys, jointsparse.plotting; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class TestSelectionCurve:
    def test_curves_and_the_random_point(self):
        display = SelectionCurveDisplay(
            curve=[0.5, 0.8], pca_curve=[0.6, 0.9], random_r2=0.4
        ).plot()
        display.figure_.canvas.draw()
        np.testing.assert_array_equal(display.line_.get_xdata(), [1, 2])
        np.testing.assert_array_equal(display.line_.get_ydata(), [0.5, 0.8])
        np.testing.assert_array_equal(display.pca_line_.get_ydata(), [0.6, 0.9])
        assert display.random_point_.get_xydata().tolist() == [[2, 0.4]]
        texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert texts == ["as many principal components", "kept features", "2 random features"]

    def test_alone_on_given_axes(self):
        figure, ax = plt.subplots()
        display = SelectionCurveDisplay(curve=np.linspace(0.1, 1, 50)).plot(ax=ax)
        assert (display.ax_, display.figure_) == (ax, figure)
        assert display.pca_line_ is display.random_point_ is None

    def test_from_estimator(self):
        X = np.random.default_rng(0).standard_normal((30, 8))
        selector = GreedySelector(n_features_to_select=4).fit(X)
        for display in (
            SelectionCurveDisplay.from_estimator(selector),
            SelectionCurveDisplay.from_estimator(selector, X),
        ):
            np.testing.assert_array_equal(display.curve, selector.selection_curve_)
            assert np.all(display.pca_curve >= display.curve - 1e-12)

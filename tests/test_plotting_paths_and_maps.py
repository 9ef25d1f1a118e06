"""The displays of paths and pixels, and the small tables of notebooks."""

import inspect
import warnings

import matplotlib
import numpy as np
import pytest
import scipy.sparse as sp
from matplotlib.colors import to_hex
from sklearn.exceptions import NotFittedError

from jointsparse import SPCAPSD, GreedySelector, plotting, regularization_path
from jointsparse.plotting import FeatureMapDisplay, PathDisplay
from jointsparse.plotting._style import FAINT, STRONG
from jointsparse.text import percent

matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


class TestPath:
    ALPHAS = (0.9, 0.5, 0.1)
    SCORES = ((0.0, 0.0, 0.0), (1.0, 0.0, 2.0), (2.0, 3.0, 2.5))

    def display(self, **data):
        return PathDisplay(alphas=self.ALPHAS, feature_scores=self.SCORES, **data)

    def test_lines_are_the_scores_highest_first(self):
        display = self.display(support=[False, True, False], feature_names=["a", "b", "$c"]).plot()
        assert [line.get_label() for line in display.lines_] == ["b", r"\$c", "a"]
        assert display.lines_[0].get_ydata().tolist() == [0, 0, 3]
        assert [to_hex(line.get_color()).upper() for line in display.lines_] == [
            STRONG,
            FAINT,
            FAINT,
        ]
        assert display.count_line_.get_ydata().tolist() == [0, 2, 3]
        assert display.ax_.get_xlim() == (0.9, 0.1)  # strong penalties on the left

    def test_given_axes_are_used(self):
        figure, ax = plt.subplots()
        display = self.display(used=0.3).plot(ax=ax, max_features=1)
        assert display.ax_ is ax
        assert display.figure_ is figure is display.count_ax_.figure
        assert len(display.lines_) == 1
        assert "1 highest" in ax.get_title(loc="left")
        figure.canvas.draw()

    def test_from_path_and_from_estimator_agree(self):
        X = np.random.default_rng(0).standard_normal((30, 4)) * [1, 2, 3, 4]
        model = SPCAPSD(n_features_to_select=2).fit(X)
        path = regularization_path(SPCAPSD(), X, alphas=self.ALPHAS)
        one = PathDisplay.from_path(path)
        other = PathDisplay.from_estimator(model, X, alphas=self.ALPHAS)
        np.testing.assert_allclose(one.feature_scores, other.feature_scores)
        assert other.support.tolist() == model.get_support().tolist()
        assert other.used == pytest.approx(0.1)  # what "auto" means on the relative scale

    def test_one_point_and_many_features(self):
        scores = np.arange(100_000.0)[None]
        display = PathDisplay(alphas=[0.5], feature_scores=scores).plot(max_features=10**6)
        assert len(display.lines_) == 200
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            display.figure_.canvas.draw()

    def test_refused(self):
        with pytest.raises(ValueError, match="one row for each of the 2"):
            PathDisplay(alphas=[0.5, 0.1], feature_scores=[[1.0, 2.0]])
        with pytest.raises(ValueError, match="max_features"):
            self.display().plot(max_features=0)

    def test_small_table_in_a_notebook(self):
        X = np.random.default_rng(0).standard_normal((30, 4))
        table = regularization_path(SPCAPSD(), X, alphas=self.ALPHAS)._repr_html_()
        assert table.count("<tr>") == 4
        assert "<td>0.9</td>" in table
        many = regularization_path(SPCAPSD(), X, n_points=25)._repr_html_()
        assert many.count("<tr>") == 22


class TestFeatureMap:
    def test_marks_are_the_kept_pixels(self):
        X = np.random.default_rng(0).random((20, 6))
        model = GreedySelector(n_features_to_select=2).fit(X)
        display = FeatureMapDisplay.from_estimator(model, X, image_shape=(2, 3))
        assert (~display.marks_.get_array().mask.ravel()).tolist() == model.get_support().tolist()
        np.testing.assert_allclose(display.image_.get_array().ravel(), X.mean(axis=0))
        assert display.ax_.get_title(loc="left") == "2 of 6 pixels kept"
        assert display.figure_ is display.ax_.figure

    def test_background(self):
        X = np.random.default_rng(0).random((20, 6))
        model = GreedySelector(n_features_to_select=2).fit(X)
        scores = FeatureMapDisplay.from_estimator(model, image_shape=(2, 3))
        np.testing.assert_allclose(scores.image_.get_array().ravel(), model.feature_scores_)
        sparse = FeatureMapDisplay.from_estimator(model, sp.csr_array(X), image_shape=(3, 2))
        np.testing.assert_allclose(sparse.image_.get_array().ravel(), X.mean(axis=0))
        _, ax = plt.subplots()
        assert FeatureMapDisplay(support=[True, False], image_shape=(1, 2)).plot(ax=ax).ax_ is ax

    def test_refused(self):
        with pytest.raises(ValueError, match="2x2 has 4 pixels, but support has 3"):
            FeatureMapDisplay(support=[True, False, True], image_shape=(2, 2))
        with pytest.raises(NotFittedError):
            FeatureMapDisplay.from_estimator(GreedySelector(), image_shape=(1, 1))


def test_worth_as_a_small_table_in_a_notebook():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 1)) + 0.5 * rng.standard_normal((60, 4))
    report = GreedySelector(n_features_to_select=2).fit(X).selection_report_
    table = report._repr_html_()
    assert table.startswith(f"<p>{report.verdict}</p>")
    assert table.count("<tr>") == len(report.rows) == 8
    assert f"in new samples</th><td>{percent(report.r2_held_out)}</td>" in table
    assert f"in this table</th><td>{percent(report.r2)}</td>" in table


def test_nothing_kept_has_no_curve():
    X = np.random.default_rng(0).standard_normal((60, 12))
    with pytest.warns(UserWarning, match="no structure beyond noise"):
        model = GreedySelector().fit(X)
    with pytest.raises(ValueError, match="SelectionCurveDisplay draws: no feature was kept"):
        plotting.SelectionCurveDisplay.from_estimator(model)


def test_random_sets_have_a_mean_and_a_spread():
    one = plotting.SelectionCurveDisplay(curve=[0.4, 0.6], random_r2=0.3).plot()
    several = plotting.SelectionCurveDisplay(curve=[0.4, 0.6], random_r2=[0.2, 0.4]).plot()
    for display, label in ((one, "2 random features"), (several, "2 random features, ± standard")):
        assert display.random_point_.get_ydata().tolist() == pytest.approx([0.3])
        texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert any(text.startswith(label) for text in texts)
        matplotlib.pyplot.close(display.figure_)


# A comparison is of several estimators and needs three axes of its own.
@pytest.mark.parametrize("name", [n for n in plotting.__all__ if n != "ComparisonDisplay"])
def test_displays_follow_the_conventions(name):
    display = getattr(plotting, name)
    assert inspect.ismethod(display.from_estimator)  # a class method
    assert "ax" in inspect.signature(display.from_estimator).parameters
    assert inspect.signature(display.plot).parameters["ax"].default is None
    assert {"ax_", "figure_"} <= set(display.__annotations__)

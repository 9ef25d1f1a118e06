"""The displays of component methods: what is drawn corresponds to the loadings and the scores."""

import warnings

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA, SparsePCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from jointsparse import JSPCA, SPCA, DictionarySPCA, LaplacianScore, RobustPCA
from jointsparse.plotting import BiplotDisplay, LoadingsDisplay
from jointsparse.plotting._style import ACCENT, STRONG

matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

LOADINGS = np.array([[0.6, 0.0, -0.8, 0.0, 0.0], [0.0, 0.28, 0.0, 0.96, 0.0]])
HARD_NAMES = ["$x", r"$\frac{$", "a\nb", "long " * 1000, "e"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def cancer():
    """The breast cancer table, standardised, with names."""
    table = load_breast_cancer(as_frame=True)
    X = StandardScaler().set_output(transform="pandas").fit_transform(table.data)
    return X, table.target_names[table.target]


@pytest.fixture(scope="module")
def spca(cancer):
    return SPCA(n_components=3, n_nonzero=4).fit(cancer[0])


def row_names(display):
    return [label.get_text() for label in display.ax_.get_yticklabels()]


def texts(artists):
    return [artist.get_text() for artist in artists]


def draw_without_warnings(display):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        display.figure_.canvas.draw()


def overlaps(labels):
    """Return the pairs of labels of which one covers the other."""
    boxes = [label.get_window_extent() for label in labels]
    return [
        (labels[i].get_text(), labels[j].get_text())
        for i in range(len(boxes))
        for j in range(i)
        if min(boxes[i].x1, boxes[j].x1) > max(boxes[i].x0, boxes[j].x0)
        and min(boxes[i].y1, boxes[j].y1) > max(boxes[i].y0, boxes[j].y0)
    ]


class TestLoadings:
    def test_bars_are_the_nonzero_loadings(self):
        display = LoadingsDisplay(components=LOADINGS, feature_names=list("abcde")).plot()
        # Features stand with the component in which they are strongest, strongest first; the
        # feature without a loading has no row.
        assert row_names(display) == ["c", "a", "d", "b"]
        assert display.shown_features_.tolist() == [2, 0, 3, 1]
        assert display.ax_.yaxis_inverted()
        assert [len(bars) for bars in display.bars_] == [2, 2]
        rows = [[bar.get_y() + bar.get_height() / 2 for bar in bars] for bars in display.bars_]
        np.testing.assert_allclose(rows, [[0, 1], [2, 3]])
        widths = np.array([[bar.get_width() for bar in bars] for bars in display.bars_])
        np.testing.assert_allclose(
            widths / widths[1, 0], np.divide([[-0.8, 0.6], [0.96, 0.28]], 0.96)
        )
        starts = [[bar.get_x() for bar in bars] for bars in display.bars_]
        assert starts == [[0, 0], [1, 1]]  # the zero line of their column
        colours = [to_hex(bar.get_facecolor()).upper() for bars in display.bars_ for bar in bars]
        assert colours == [ACCENT, STRONG, STRONG, STRONG]

    def test_the_scale_below_is_that_of_the_bars(self):
        display = LoadingsDisplay(components=LOADINGS).plot()
        ticks, labels = display.ax_.get_xticks(), texts(display.ax_.get_xticklabels())
        assert labels == ["−0.5", "0", "0.5"] * 2
        assert ticks[[1, 4]].tolist() == [0, 1]
        full = display.bars_[1][0].get_width()
        assert ticks[5] - 1 == pytest.approx(full * 0.5 / 0.96)

    def test_headings_tell_the_explained_variance(self):
        display = LoadingsDisplay(
            components=np.vstack([LOADINGS, np.zeros(5), LOADINGS[0]]),
            explained_variance_ratio=[0.443, 0.0001, 0.0, np.nan],
        ).plot()
        assert texts(display.headings_) == [
            "component 1\n44.3 %",
            "component 2\n<0.1 %",
            "component 3\nall zero",
            "component 4",
        ]

    def test_without_explained_variance(self):
        display = LoadingsDisplay(components=LOADINGS).plot()
        assert texts(display.headings_) == ["component 1", "component 2"]

    def test_chosen_components_in_their_order(self):
        ratio = [0.5, 0.25]
        display = LoadingsDisplay(components=LOADINGS, explained_variance_ratio=ratio)
        display.plot(components=[1])
        assert texts(display.headings_) == ["component 2\n25.0 %"]
        # Only what these components use has a row.
        assert display.shown_features_.tolist() == [3, 1]
        display.plot(components=np.array([1, 0]))
        assert [len(bars) for bars in display.bars_] == [2, 2]
        assert display.shown_features_.tolist() == [3, 1, 2, 0]

    def test_what_is_cut_is_counted(self):
        display = LoadingsDisplay(components=LOADINGS).plot(max_features=1)
        assert row_names(display) == ["feature 3", "+ 3 more"]
        assert [len(bars) for bars in display.bars_] == [0, 1]
        assert {"+ 2", "+ 1"} <= set(texts(display.ax_.texts))
        assert display.ax_.get_title("left") == "Loadings of the 1 strongest of 5 features"
        display = LoadingsDisplay(components=LOADINGS).plot()
        assert not [text for text in texts(display.ax_.texts) if text.startswith("+")]
        assert display.ax_.get_title("left") == "Nonzero loadings: 4 of 5 features"

    def test_many_features_and_components_stay_bounded(self):
        components = np.tile(np.arange(100_000.0), (30, 1))
        display = LoadingsDisplay(components=components).plot()
        assert [len(bars) for bars in display.bars_] == [20] * 12
        assert display.shown_features_.tolist() == list(range(99_999, 99_979, -1))
        assert row_names(display)[-1] == "+ 99\u202f979 more"
        assert display.ax_.get_title("left").endswith("first 12 of 30 components")
        display.plot(components=[0], max_features=50_000)
        assert len(display.bars_[0]) == 100

    def test_names_are_drawn_as_they_are(self):
        loadings = np.array([[5.0, 4.0, 3.0, 2.0, 0.0]])
        display = LoadingsDisplay(components=loadings, feature_names=HARD_NAMES).plot()
        draw_without_warnings(display)
        shown = row_names(display)
        assert shown[:3] == [r"\$x", r"\$\frac{\$", "a b"]
        assert len(shown[3]) <= 28

    @pytest.mark.parametrize("scale", [0.0, 1e-100, 1e100])
    def test_any_scale(self, scale):
        display = LoadingsDisplay(components=LOADINGS * scale).plot()
        draw_without_warnings(display)
        assert display.shown_features_.size == (4 if scale else 0)

    def test_given_axes_are_used(self):
        figure, ax = plt.subplots()
        display = LoadingsDisplay(components=LOADINGS).plot(ax=ax)
        assert display.ax_ is ax
        assert display.figure_ is figure
        assert len(ax.patches) == 4
        assert len(plt.get_fignums()) == 1

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"components": [2]}, "contains 2, but the 2 components are numbered 0 to 1"),
            ({"components": [-1]}, "contains -1"),
            ({"components": [0, 0]}, "different"),
            ({"components": []}, "at least one"),
            ({"components": 1}, "list of numbers"),
            ({"max_features": 0}, "max_features=0"),
            ({"max_features": 2.5}, "max_features=2.5"),
        ],
    )
    def test_wrong_options_are_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            LoadingsDisplay(components=LOADINGS).plot(**options)

    def test_too_many_components_at_once_are_refused(self):
        with pytest.raises(ValueError, match=r"13 components, .* room for 12"):
            LoadingsDisplay(components=np.eye(20)).plot(components=range(13))

    def test_breast_cancer(self, cancer, spca):
        display = LoadingsDisplay.from_estimator(spca)
        assert [len(bars) for bars in display.bars_] == [4, 4, 4]
        used = cancer[0].columns[spca.get_support()]
        assert sorted(row_names(display)) == sorted(used)
        ratio = spca.explained_variance_ratio_
        assert display.headings_[1].get_text() == f"component 2\n{100 * ratio[1]:.1f} %"
        display.figure_.canvas.draw()
        assert overlaps(display.headings_ + display.ax_.get_yticklabels()) == []

    def test_joint_sparse_rows_are_full(self, cancer):
        model = JSPCA(n_components=2, alpha=0.3).fit(cancer[0])
        display = LoadingsDisplay.from_estimator(model, max_features=30)
        n_used = int(model.get_support().sum())
        assert 2 < n_used < 30
        assert [len(bars) for bars in display.bars_] == [n_used, n_used]


class TestBiplot:
    SCORES = np.array([[3.0, 0.0], [-1.0, 2.0], [0.0, -2.0], [-2.0, 0.0]])

    def display(self, **data):
        return BiplotDisplay(scores=self.SCORES, components=LOADINGS, **data)

    def test_points_are_the_scores(self):
        (points,) = self.display().plot().scatters_
        np.testing.assert_array_equal(points.get_offsets(), self.SCORES)
        (points,) = self.display().plot(components=(1, 0)).scatters_
        np.testing.assert_array_equal(points.get_offsets(), self.SCORES[:, ::-1])

    def test_arrows_are_the_nonzero_loadings_strongest_first(self):
        display = self.display(feature_names=list("abcde")).plot()
        assert texts(display.arrow_labels_) == ["d", "c", "a", "b"]
        tips = np.array([arrow.xy for arrow in display.arrows_])
        np.testing.assert_allclose(tips, display.arrow_scale_ * LOADINGS.T[[3, 2, 0, 1]])
        assert display.arrow_scale_[0] == display.arrow_scale_[1]
        # The longest arrow goes 0.8 of the way to the farthest sample.
        assert np.hypot(*tips[0]) == pytest.approx(0.8 * 3)
        assert all(arrow.xyann == (0, 0) for arrow in display.arrows_)
        assert display.ax_.get_title("left") == "4 samples, all 4 features with a loading"

    def test_only_so_many_arrows(self):
        display = self.display().plot(max_arrows=2)
        assert display.shown_features_.tolist() == [3, 2]
        assert texts(display.arrow_labels_) == ["feature 3", "feature 2"]
        assert display.ax_.get_title("left") == "4 samples, the 2 strongest of 5 features"
        assert self.display().plot(max_arrows=0).arrows_ == []
        many = np.random.default_rng(0).standard_normal((2, 100_000))
        display = BiplotDisplay(scores=self.SCORES, components=many).plot(max_arrows=1000)
        assert len(display.arrows_) == 40

    def test_arrows_too_short_to_be_seen_are_left_out(self):
        components = [[1.0, 1e-3], [0.0, 1e-3]]
        display = BiplotDisplay(scores=self.SCORES, components=components).plot()
        assert display.shown_features_.tolist() == [0]

    def test_axes_tell_the_explained_variance(self):
        display = self.display(explained_variance_ratio=[0.443, 0.19]).plot(components=(1, 0))
        assert display.ax_.get_xlabel() == "component 2 (19.0 % of the variance)"
        assert display.ax_.get_ylabel() == "component 1 (44.3 % of the variance)"
        assert self.display().plot().ax_.get_xlabel() == "component 1"

    def test_all_is_in_view_and_angles_are_true(self):
        display = self.display().plot()
        display.figure_.canvas.draw()
        content = np.vstack([self.SCORES, [arrow.xy for arrow in display.arrows_]])
        (left, right), (low, high) = display.ax_.get_xlim(), display.ax_.get_ylim()
        assert left < content[:, 0].min()
        assert right > content[:, 0].max()
        assert low < content[:, 1].min()
        assert high > content[:, 1].max()
        step = np.diff(display.ax_.transData.transform([(0, 0), (1, 1)]), axis=0)[0]
        assert step[0] == pytest.approx(step[1])

    def test_elongated_scores_fill_the_picture(self):
        scores = self.SCORES * [100, 1]
        display = BiplotDisplay(scores=scores, components=LOADINGS).plot()
        display.figure_.canvas.draw()
        on_paper = display.ax_.transAxes.inverted().transform(
            display.ax_.transData.transform(scores)
        )
        assert np.all(np.ptp(on_paper, axis=0) > 0.6)
        tips = np.array([arrow.xy for arrow in display.arrows_])
        np.testing.assert_allclose(tips, display.arrow_scale_ * LOADINGS.T[[3, 2, 0, 1]])
        assert display.arrow_scale_[0] == pytest.approx(150 * display.arrow_scale_[1])

    @pytest.mark.parametrize("y", [["u", "v", "u", "$w$"], [1, 2, 1, 7], [True, False, True, True]])
    def test_classes_have_colours_marks_and_a_legend(self, y):
        display = self.display(y=y).plot()
        draw_without_warnings(display)
        classes = sorted(set(y))
        shown = texts(display.ax_.get_legend().get_texts())
        assert shown == [str(label).replace("$", r"\$") for label in classes]
        colours = {to_hex(points.get_facecolor()[0]) for points in display.scatters_}
        assert len(colours) == len(classes)
        for label, points in zip(classes, display.scatters_, strict=True):
            expected = self.SCORES[[value == label for value in y]]
            np.testing.assert_array_equal(points.get_offsets(), expected)

    def test_classes_of_mixed_kinds_and_underscores(self):
        display = self.display(y=np.array(["_a", np.nan, None, "_a"], dtype=object)).plot()
        shown = texts(display.ax_.get_legend().get_texts())
        assert sorted(text.strip() for text in shown) == ["None", "_a", "nan"]

    def test_many_classes_become_one(self):
        scores = np.random.default_rng(0).standard_normal((50, 2))
        y = np.array([f"c{i % 20}" if i >= 20 else "c0" for i in range(50)])
        display = BiplotDisplay(scores=scores, components=LOADINGS, y=y).plot()
        shown = texts(display.ax_.get_legend().get_texts())
        assert len(shown) == 12
        assert shown[0] == "c0"
        assert shown[-1] == "9 other classes"
        assert sum(len(points.get_offsets()) for points in display.scatters_) == 50

    def test_numbers_have_a_colour_bar(self):
        scores = np.random.default_rng(0).standard_normal((50, 2))
        y = np.linspace(0, 1, 50)
        display = BiplotDisplay(scores=scores, components=LOADINGS, y=y).plot()
        np.testing.assert_array_equal(display.scatters_[0].get_array(), y)
        assert display.ax_.get_legend() is None
        assert len(display.figure_.axes) == 2

    def test_many_samples_stay_bounded(self):
        scores = np.random.default_rng(0).standard_normal((30_000, 2))
        display = BiplotDisplay(scores=scores, components=LOADINGS).plot()
        (points,) = display.scatters_
        assert len(points.get_offsets()) == 10_000
        assert points.get_rasterized()
        assert points.get_alpha() < 0.3
        title = display.ax_.get_title("left")
        assert title.startswith("10\u202f000 of 30\u202f000 samples")
        again = BiplotDisplay(scores=scores, components=LOADINGS).plot().scatters_[0]
        np.testing.assert_array_equal(again.get_offsets(), points.get_offsets())
        assert not self.display().plot().scatters_[0].get_rasterized()

    def test_names_are_drawn_as_they_are(self):
        components = np.random.default_rng(0).standard_normal((2, 5))
        display = BiplotDisplay(
            scores=self.SCORES, components=components, feature_names=HARD_NAMES
        ).plot()
        draw_without_warnings(display)
        shown = set(texts(display.arrow_labels_))
        assert {r"\$x", r"\$\frac{\$", "a b", "e"} < shown
        assert max(map(len, shown)) <= 28

    def test_labels_do_not_overlap(self, cancer):
        X, kinds = cancer
        for model in (SPCA(n_components=3, n_nonzero=6), PCA(2)):
            display = BiplotDisplay.from_estimator(model.fit(X), X, y=kinds)
            display.figure_.canvas.draw()
            assert len(display.arrow_labels_) == 12
            assert overlaps(display.arrow_labels_) == []

    def test_labels_stay_inside_the_axes(self):
        names = [letter * 28 for letter in "WXYZ"]
        components = [[1.0, -1.0, 0.7, -0.7], [0.0, 0.0, 0.7, -0.7]]
        display = BiplotDisplay(
            scores=self.SCORES[[0, 3]], components=components, feature_names=names
        ).plot()
        display.figure_.canvas.draw()
        frame = display.ax_.get_window_extent()
        for label in display.arrow_labels_:
            box = label.get_window_extent()
            assert frame.x0 - 1 <= box.x0 <= box.x1 <= frame.x1 + 1
            assert frame.y0 - 1 <= box.y0 <= box.y1 <= frame.y1 + 1

    def test_features_with_one_tip_have_readable_labels(self):
        display = BiplotDisplay(scores=self.SCORES, components=np.ones((2, 8))).plot()
        display.figure_.canvas.draw()
        assert overlaps(display.arrow_labels_) == []

    @pytest.mark.parametrize("scale", [1e-100, 1e100])
    def test_any_scale(self, scale):
        for scores, components in ((scale, 1), (1, scale)):
            display = BiplotDisplay(
                scores=self.SCORES * scores, components=LOADINGS * components
            ).plot()
            draw_without_warnings(display)
            assert display.shown_features_.tolist() == [3, 2, 0, 1]

    @pytest.mark.parametrize(
        ("scores", "components"),
        [
            (np.zeros((0, 2)), LOADINGS),
            (np.zeros((1, 2)), np.zeros((2, 3))),
            ([[1, 0], [2, 0]], np.zeros((2, 3))),
        ],
    )
    def test_little_to_draw(self, scores, components):
        draw_without_warnings(BiplotDisplay(scores=scores, components=components).plot())

    def test_given_axes_are_used_also_in_part_of_a_figure(self):
        figure = plt.figure(layout="constrained")
        ax = figure.subfigures(1, 2)[1].subplots()
        display = self.display().plot(ax=ax)
        assert display.ax_ is ax
        assert len(plt.get_fignums()) == 1

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"components": (0, 2)}, "contains 2, but the 2 components are numbered 0 to 1"),
            ({"components": (0, 0)}, "different"),
            ({"components": (0,)}, "must be a pair"),
            ({"max_arrows": -1}, "max_arrows=-1"),
        ],
    )
    def test_wrong_options_are_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            self.display().plot(**options)

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ({"scores": np.ones((4, 3))}, "one column for each of the 2 components"),
            ({"scores": np.full((4, 2), np.nan)}, "scores contains values that are not finite"),
            ({"y": ["a", "b"]}, r"y has shape \(2,\): give one class .* each of the 4 samples"),
        ],
    )
    def test_wrong_data_are_refused(self, data, message):
        with pytest.raises(ValueError, match=message):
            BiplotDisplay(**{"scores": self.SCORES, "components": LOADINGS, **data})

    def test_one_component_is_too_few(self, cancer):
        model = SPCA(n_components=1).fit(cancer[0])
        with pytest.raises(ValueError, match=r"n_components=2 or more.*LoadingsDisplay"):
            BiplotDisplay.from_estimator(model, cancer[0])

    def test_new_samples_are_projected(self, cancer, spca):
        X, _ = cancer
        display = BiplotDisplay.from_estimator(spca, X[:7], components=(2, 0))
        expected = spca.transform(X[:7])[:, [2, 0]]
        np.testing.assert_array_equal(display.scatters_[0].get_offsets(), expected)
        assert set(texts(display.arrow_labels_)) <= set(X.columns)


DISPLAYS = (LoadingsDisplay, BiplotDisplay)


def drawn(display, estimator, X, **options):
    arguments = (X,) if display is BiplotDisplay else ()
    return display.from_estimator(estimator, *arguments, **options)


def names_drawn(display):
    return row_names(display) if hasattr(display, "bars_") else texts(display.arrow_labels_)


@pytest.mark.parametrize("display", DISPLAYS)
class TestFromEstimator:
    @pytest.mark.parametrize(
        "estimator",
        [
            SPCA(),
            JSPCA(),
            DictionarySPCA(n_components=2),
            RobustPCA(),
            PCA(2),
            SparsePCA(2, random_state=0),
        ],
        ids=lambda estimator: type(estimator).__name__,
    )
    def test_all_component_methods(self, display, estimator):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 8))
        result = drawn(display, estimator.fit(X), X)
        draw_without_warnings(result)
        nonzero = np.flatnonzero(estimator.components_.any(axis=0))
        assert set(result.shown_features_) <= set(nonzero)
        assert len(result.shown_features_)

    def test_given_names_go_first(self, display, cancer, spca):
        names = [f"n{i}" for i in range(30)]
        result = drawn(display, spca, cancer[0], feature_names=names)
        assert all(name.startswith("n") and name[1:].isdigit() for name in names_drawn(result))

    def test_names_through_a_pipeline(self, display):
        rng = np.random.default_rng(0)
        X = pd.DataFrame(rng.standard_normal((30, 3)) * [1, 2, 3], columns=["a", "b", "c"])
        score = _Scores([3.0, 1.0, 2.0])
        pipeline = make_pipeline(SelectKBest(score, k=2), StandardScaler(), PCA(2))
        pipeline.fit(X, np.zeros(30))
        assert set(names_drawn(drawn(display, pipeline, X))) == {"a", "c"}
        pipeline.fit(X.to_numpy(), np.zeros(30))
        result = drawn(display, pipeline, X.to_numpy())
        assert set(names_drawn(result)) == {"feature 0", "feature 1"}

    def test_unfitted_estimators_are_refused(self, display):
        for estimator in (SPCA(), make_pipeline(StandardScaler(), PCA(2))):
            with pytest.raises(NotFittedError):
                drawn(display, estimator, np.eye(3))

    def test_estimators_without_components_are_refused(self, display):
        X = np.random.default_rng(0).standard_normal((20, 4))
        message = f"LaplacianScore has no components_: {display.__name__}.*FeatureScoresDisplay"
        with pytest.raises(ValueError, match=message):
            drawn(display, LaplacianScore().fit(X), X)

    def test_wrong_number_of_names_is_refused(self, display, cancer, spca):
        with pytest.raises(ValueError, match="feature_names has 2 names for 30 features"):
            drawn(display, spca, cancer[0], feature_names=["a", "b"])


class _Scores(BaseEstimator):
    """Scores of a test's choice for SelectKBest."""

    def __init__(self, scores):
        self.scores = scores

    def __call__(self, X, y):
        return np.array(self.scores)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"components": [1.0, 2.0]}, "one row for each component"),
        ({"components": np.ones((0, 3))}, "one row for each component"),
        ({"components": [[np.inf]]}, "not finite"),
        ({"components": np.ones((2, 3)), "explained_variance_ratio": [1.0]}, "each of the 2"),
    ],
)
def test_wrong_tables_are_refused(data, message):
    with pytest.raises(ValueError, match=message):
        LoadingsDisplay(**data)

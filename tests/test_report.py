"""The report: what it tells is what was found, names are data, and it stays small."""

import ast
import base64
import hashlib
import io
import itertools
import json
import re
import warnings
from html import escape
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from jointsparse import (
    FSSL,
    SPCA,
    SPCAPSD,
    GreedySelector,
    RegularizationPath,
    Report,
    SelectFeatures,
    registry,
    regularization_path,
)
from jointsparse.io import TableError
from jointsparse.metrics import clustering_scores
from jointsparse.report.findings import gains_of, give_reasons, short_percent
from jointsparse.report.payload import path_data, safe_json
from jointsparse.report.pictures import Axis
from jointsparse.report.sections import cards, groups
from jointsparse.report.words import DEFINITIONS, reproducing_code, wanted_words

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "=cmd()",
    "🧬 家",
    "\ud800 lone \u2028 line",
    "y" * 5000,
    "same",
    "same",
    "' \" & {{ 7 * 7 }}",
    "plain",
]


class Page(HTMLParser):
    """What a browser would see: elements, their attributes, the text of some of them."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.rows, self.notes, self.code, self.data = [], [], [], "", ""
        self._inside = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag == "tr":
            self.rows.append(["", dict(attributes).get("class")])
        if tag not in ("meta", "link", "img", "input"):  # these have no end
            self._inside.append((tag, dict(attributes).get("id")))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        while self._inside and self._inside.pop()[0] != tag:
            pass

    def handle_data(self, text):
        tags = [tag for tag, _ in self._inside]
        if "tr" in tags:
            self.rows[-1][0] += text
        if tags[-1:] == ["p"]:
            self.notes.append(text)
        if "code" in tags:
            self.code += text
        if ("script", "data") in self._inside:
            self.data += text

    def row(self, name):
        return next(text for text, kind in self.rows if kind and name in text)

    @property
    def maps(self):
        """The pictures of pixels, not the values of samples."""
        images = [attributes for tag, attributes in self.elements if tag == "img"]
        return [a["src"] for a in images if a["alt"].startswith("Map of")]

    @property
    def payload(self):
        return json.loads(self.data)


@pytest.fixture(scope="module")
def cancer():
    data = load_breast_cancer(as_frame=True)
    X = pd.DataFrame(StandardScaler().fit_transform(data.data), columns=data.data.columns)
    return X, data.target


@pytest.fixture(scope="module")
def fitted(cancer):
    return SPCAPSD(n_features_to_select=8).fit(cancer[0])


@pytest.fixture(scope="module")
def page(cancer, fitted):
    return Page(Report.from_estimator(fitted, *cancer).html)


class Fake(BaseEstimator):
    """An estimator with the fitted attributes of a test's choice."""

    def __init__(self, **attributes):
        for name, value in attributes.items():
            setattr(self, name, value)
        self.fitted_ = True

    def fit(self, X, y=None):
        raise AssertionError("a report never fits")

    def get_support(self):
        return self.support_


def unescape_quotes(text):
    return text.replace("&#39;", "'").replace("&#34;", '"')


def percent(share, digits=1):
    return f"{100 * share:.{digits}f}\u202f%"


class TestContents:
    def test_every_feature_is_there_with_its_score(self, page, cancer, fitted):
        payload = page.payload
        assert payload["total"] == len(payload["names"]) == 30
        order = np.argsort(fitted.ranking_)
        assert payload["names"] == cancer[0].columns[order].tolist()
        np.testing.assert_allclose(payload["scores"], fitted.feature_scores_[order], rtol=1e-3)

    def test_kept_ones_say_what_they_add(self, page, cancer, fitted):
        names = cancer[0].columns[np.argsort(fitted.ranking_)]
        shares = np.round(fitted.selection_curve_, 3)
        assert f"accounts for {percent(shares[0])}" in page.row(names[0])
        for before, after, name in zip(shares, shares[1:], names[1:8], strict=False):
            assert f"adds {percent(after - before)}" in page.row(name)

    def test_dropped_ones_name_their_stand_ins(self, page, cancer, fitted):
        found = fitted.selection_report_.stand_ins
        for row, feature in enumerate(found.dropped):
            text = page.row(cancer[0].columns[feature])
            best = cancer[0].columns[found.kept[row, 0]]
            assert f"stand-ins: {best} {percent(found.r2[row, 0], 0)}" in text
            assert percent(found.r2_all[row], 0) in text
            assert ("the kept ones account for it" in text) == (found.r2_all[row] >= 0.9)

    def test_the_verdict_is_the_first_thing_under_the_heading(self, page, fitted):
        report = Report.from_estimator(fitted)
        after = report.html.split("</h1>")[1].strip()
        assert after.startswith(f'<p class="verdict">{fitted.selection_report_.verdict}</p>')

    def test_the_evidence_is_beside_the_verdict(self, page, fitted):
        found = fitted.selection_report_
        shown = Report.from_estimator(fitted).html
        assert f"<dd>{found.n_patterns} or more independent patterns; 30 of 30 features" in shown
        always = int((found.found_again == 1).sum())
        assert f"{always} of the 8 kept features, or features nearly the same" in shown
        assert "in all 3 repeats, each without a third of the samples" in shown
        account, up = percent(found.r2, 0), percent(found.own_share, 0)
        assert f"The 8 kept features account for {account} of the variance" in shown
        assert f"and make up {up} of it." in shown
        assert "--prove on the command line and certify_set in Python prove it" in shown

    def test_where_most_features_are_unrelated_the_numbers_of_the_verdict_are_shown(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((300, 400))
        X[:, :24] += 2 * np.repeat(rng.standard_normal((300, 4)), 6, axis=1)
        X /= X.std(axis=0)
        model = GreedySelector(n_features_to_select=4).fit(X)
        found = model.selection_report_
        assert found.verdict.startswith("Most features are unrelated to the others")
        shown = Report.from_estimator(model).html
        others = found.n_significant - 4
        own = short_percent(found.worth.r2_significant)
        assert re.search(rf"of the {others} others that share something</th>.*{own}</td>", shown)
        assert "the kept 4 features, of all 396 others" in shown
        assert short_percent(found.worth.r2) != own

    def test_a_warning_does_not_repeat_the_verdict(self):
        X = np.random.default_rng(0).standard_normal((60, 30))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = GreedySelector().fit(X)
        said = [str(warning.message) for warning in caught]
        assert said
        shown = Report.from_estimator(model, warnings=[*said, "a column was left out"]).html
        assert shown.count('<p class="warning">') == 1
        assert "a column was left out" in shown

    def test_the_kept_features_stand_first_in_order(self, cancer, fitted):
        shown = Report.from_estimator(fitted).html
        chips = re.findall(r'<li class="name">(.*?)</li>', shown.split('id="chips"')[1])[:8]
        assert chips == cancer[0].columns[np.argsort(fitted.ranking_)[:8]].tolist()

    def test_every_dropped_feature_is_in_the_group_of_its_best_stand_in(self, cancer, fitted):
        found = Report.from_estimator(fitted).findings
        stand_ins = fitted.selection_report_.stand_ins
        expected = {}
        for feature, kept, r2 in zip(
            stand_ins.dropped, stand_ins.kept[:, 0], stand_ins.r2[:, 0], strict=True
        ):
            expected.setdefault(int(kept), {})[int(feature)] = round(100 * float(r2))
        columns = found.features.columns
        for place, members in groups(found.features).items():
            shares = [share for _, share in members]
            assert shares == sorted(shares, reverse=True)
            named = {int(columns[other]): share for other, share in members}
            assert named == expected.get(int(columns[place]), {})

    def test_cards_tell_how_often_a_feature_is_kept_again(self, fitted):
        found = Report.from_estimator(fitted).findings
        again = [card["again"] for card in cards(found)]
        times = np.round(3 * fitted.selection_report_.found_again).astype(int)
        assert again == [f"{count} of 3" for count in times]
        assert all(card["spread"] is None for card in cards(found))  # without samples

    def test_every_number_has_one_definition(self, fitted):
        shown = Report.from_estimator(fitted).html
        for term, text in DEFINITIONS.items():
            assert f"<dt>{term}</dt>" in shown
            assert escape(text, quote=False) in unescape_quotes(shown)

    def test_worth_beside_chance_and_the_ceiling(self, page, fitted):
        worth = fitted.selection_report_.worth
        rows = [text for text, _ in page.rows]
        assert f"the kept 8 features{percent(worth.r2, 0)}" in rows
        assert f"8 principal components of all features{percent(worth.pca, 0)}" in rows
        assert f"all other features together{percent(worth.ceiling, 0)}" in rows
        mean, spread = 100 * worth.random.mean(), percent(worth.random.std(ddof=1), 0)
        assert f"8 random features{mean:.0f} ± {spread}" in rows

    def test_shares_and_scores_are_columns(self, page, cancer, fitted):
        order = np.argsort(fitted.ranking_)
        shares = np.round(100 * fitted.feature_shares_[order]).astype(int).tolist()
        assert page.payload["shares"] == shares
        for column, share in zip(order, shares, strict=True):
            row = page.row(cancer[0].columns[column])
            assert f"{share}\u202f%" in row
            assert row.endswith(f"{fitted.feature_scores_[column]:.3g}")

    def test_no_word_for_two_things(self, page):
        text = " ".join([*page.notes, *(row for row, _ in page.rows)])
        for word in ("explain", "certified", "worth", "held out", "held-out"):
            assert word not in text, word

    def test_certificate(self, cancer, fitted):
        report = Report.from_estimator(fitted)
        assert f"solved to within {fitted.duality_gap_:.1e} (proved); that is a pr" in report.html
        assert "No label was looked at" in report.html
        without = Report.from_estimator(GreedySelector(n_features_to_select=3).fit(cancer[0]))
        assert "without a proof" in without.html

    def test_labels_become_cluster_scores(self, page, cancer, fitted):
        X, y = cancer
        scores = clustering_scores(X.loc[:, fitted.get_support()], y, n_repeats=10)
        mean, spread = scores.summary()["nmi"]
        row = next(text for text, _ in page.rows if text.startswith("the 8 kept features"))
        assert f"{percent(mean)} ±\xa0{percent(spread)}" in row

    def test_labels_that_are_no_classes(self, cancer, fitted):
        report = Report.from_estimator(fitted, cancer[0], np.arange(569) / 3)
        assert report.findings.clusters is None
        assert "does not name classes" in report.html

    def test_random_curve_is_that_of_regressions(self, cancer, fitted):
        curve = Report.from_estimator(fitted, cancer[0]).findings.curves.random
        X = cancer[0].to_numpy() - cancer[0].to_numpy().mean(axis=0)
        rng = np.random.default_rng(0)
        expected = np.zeros((5, 8))
        for row in expected:
            features = rng.choice(np.arange(30), 8, replace=False)
            for k in range(8):
                part = X[:, features[: k + 1]]
                left = X - part @ np.linalg.lstsq(part, X, rcond=None)[0]
                row[k] = 1 - np.sum(left**2) / np.sum(X**2)
        np.testing.assert_allclose(curve, expected.mean(axis=0), atol=1e-8)

    def test_empty_model(self, cancer):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SPCAPSD(alpha=0.99, n_features_to_select="support").fit(cancer[0])
        page = Report.from_estimator(model, *cancer).html
        assert "No feature is kept. Nothing is kept: the penalties remove every feature" in page
        assert "no cluster scores" in page

    def test_noise(self):
        X = np.random.default_rng(0).standard_normal((60, 12))
        with pytest.warns(UserWarning, match="no structure beyond noise"):
            model = SPCAPSD().fit(X)
        report = Report.from_estimator(model, X, image_shape=(3, 4))
        page = Page(report.html)
        assert "No structure beyond noise: nothing is kept." in page.notes
        assert "shares nothing with the other features" in page.row("pixel (0, 0)")
        ids = {attributes.get("id") for _, attributes in page.elements}
        assert not {"stands", "many", "chips"} & ids
        links = {a["href"][1:] for tag, a in page.elements if tag == "a"}
        assert links <= ids
        assert "0 random" not in report.html

    def test_below_chance_is_said(self, cancer):
        # Five copies of one feature, which the highest scores keep.
        X = cancer[0].to_numpy().copy()
        X[:, :5] = X[:, :1] + 1e-3 * np.random.default_rng(0).standard_normal((569, 5))
        X[:, 5:] /= 10
        model = SPCAPSD(n_features_to_select=5, rule="norm").fit(X)
        page = Report.from_estimator(model, StandardScaler().fit_transform(X)).html
        assert '<p class="verdict">No better than random features: 5 features predict' in page

    def test_what_is_not_known_in_new_samples_is_said(self, cancer):
        X = cancer[0].to_numpy()
        model = Fake(
            feature_scores_=np.arange(30.0),
            ranking_=np.arange(30, 0, -1),
            support_=np.arange(30) > 24,
            n_features_to_select=5,
        )
        report = Report.from_estimator(model, X)
        assert not report.findings.worth.held_out
        assert "is not known: the selection of this method cannot be repeated" in report.html
        assert ">Shared<" not in report.html  # not known of another's method
        model.support_ = np.zeros(30, dtype=bool)
        report = Report.from_estimator(model, X)
        assert report.findings.worth is None
        assert "No feature is kept: the model sets every one to zero" in report.html

    def test_one_kept_feature(self, cancer):
        page = Report.from_estimator(GreedySelector(n_features_to_select=1).fit(cancer[0])).html
        assert "1 feature of 30 is kept" in page
        assert "1 principal component of all features" in page
        assert "The kept feature accounts for" in page

    def test_all_kept(self, cancer):
        page = Report.from_estimator(SPCAPSD(n_features_to_select="support").fit(cancer[0])).html
        assert "All 30 features are kept: there is nothing to predict." in page
        assert "not known: every feature is kept" in page

    def test_pipeline_gives_names_and_values(self):
        X = load_breast_cancer(as_frame=True).data
        model = make_pipeline(StandardScaler(), SPCAPSD(n_features_to_select=8)).fit(X)
        report = Report.from_estimator(model, X)
        assert report.findings.features.names[0] in X.columns
        own = model[-1].selection_report(model[:-1].transform(X)).r2_held_out
        assert report.findings.worth.own == pytest.approx(own)

    def test_without_samples(self, fitted):
        found = Report.from_estimator(fitted).findings
        assert found.worth is not None
        assert found.n_samples is None

    def test_sparse_samples(self, cancer):
        X = sp.csr_array(np.where(np.abs(cancer[0]) > 1.5, cancer[0], 0))
        model = GreedySelector(n_features_to_select=4).fit(X)
        report = Report.from_estimator(model, X)
        assert report.findings.n_samples == 569
        assert "feature " in report.html


class TestComponents:
    def test_loadings_and_variance(self, cancer):
        model = SPCA(n_components=3, n_nonzero=4).fit(cancer[0])
        report = Report.from_estimator(model, cancer[0])
        parts = report.findings.components
        np.testing.assert_allclose([p.share for p in parts], model.explained_variance_ratio_)
        for part, row in zip(parts, model.components_, strict=True):
            assert dict(part.loadings) == {
                cancer[0].columns[j]: row[j] for j in np.flatnonzero(row)
            }
        assert "Component 3" in report.html
        assert "zero in this solution" in report.html

    def test_wrapped_and_foreign_methods(self, cancer):
        wrapped = SelectFeatures(PCA(n_components=2), n_features_to_select=5).fit(cancer[0])
        assert Report.from_estimator(wrapped, cancer[0]).findings.features.n_kept == 5
        report = Report.from_estimator(PCA(n_components=2).fit(cancer[0]), cancer[0])
        assert "PCA" in report.html
        assert len(report.findings.components) == 2

    def test_labels_that_were_looked_at(self, cancer):
        model = FSSL(graph="lda").fit(*cancer)
        assert "No label was looked at" not in Report.from_estimator(model).html


@pytest.mark.parametrize(
    ("name", "kind"),
    list(zip(registry.methods(), itertools.cycle(["pandas", "polars", "list"]), strict=False)),
)
def test_every_method_and_kind_of_table_has_a_report(name, kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 6)) + 0.3 * rng.random((30, 6))
    y = np.arange(30) % 3
    frame = pd.DataFrame(X, columns=list("abcdef"))
    table = {"pandas": frame, "polars": pl.DataFrame(X, schema=list("abcdef")), "list": X.tolist()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = registry.methods()[name].make().fit(table[kind], y)
        report = Report.from_estimator(model, table[kind], image_shape=(2, 3))
    page = Page(report.html)
    assert sorted(page.payload["columns"] or range(6)) == list(range(6))
    assert f"({name})" in report.html
    assert report.findings.features.n_kept == model.get_support().sum()


class TestReasons:
    def reasons(self, **parts):
        size = len(parts["kept"])
        nothing = np.zeros(size, dtype=bool)
        full = {
            "scores": np.ones(size),
            "r2": np.full(size, np.nan),
            "explained": np.full(size, np.nan),
            "constant": nothing,
            "proved_zero": nothing,
            "unrelated": nothing,
            "by_support": False,
            **{key: np.asarray(value) for key, value in parts.items()},
        }
        return "".join(give_reasons(**full))

    def test_kept(self):
        r2 = [0.5, 0.7, 0.7, np.nan]
        assert self.reasons(kept=[True] * 4, r2=r2, scores=[1.0, 1, 1, 0]) == "fgzv"
        assert self.reasons(kept=[True], by_support=True) == "n"
        assert self.reasons(kept=[True]) == "k"

    def test_dropped(self):
        found = self.reasons(
            kept=[False] * 6 + [True],
            scores=[1.0, 0, 0, 0, 1, 0, 1],
            explained=[0.95, 0.95, 0.95, np.nan, 0.5, 0.95, np.nan],
            constant=[False, False, False, True, False, False, False],
            proved_zero=[False, False, True, True, False, False, False],
            unrelated=[False, False, True, True, False, True, True],
        )
        assert found == "e0pcbuk"
        assert self.reasons(kept=[False, False]) == "xx"

    def test_gains_add_up_to_what_is_shown(self):
        r2 = np.array([0.37349, 0.58561, 0.7])
        assert np.cumsum(gains_of(r2)).round(6).tolist() == [0.373, 0.586, 0.7]

    def test_proved_zero_and_constant_in_a_report(self):
        X = np.random.default_rng(0).standard_normal((50, 4))
        X[:, 3] = 1.0
        model = Fake(
            feature_scores_=np.array([2.0, 1.0, 0.0, 0.0]),
            ranking_=np.array([1, 2, 3, 4]),
            support_=np.array([True, False, False, False]),
            proved_zero_=np.array([False, False, True, False]),
            n_features_to_select=1,
        )
        page = Page(Report.from_estimator(model, X).html)
        assert "not among the best 1" in page.row("feature 1")
        assert "proved zero" in page.row("feature 2")
        assert "does not vary" in page.row("feature 3")


class TestNames:
    @pytest.fixture(scope="class")
    @classmethod
    def page(cls):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 10))
        X += 0.3 * rng.standard_normal(X.shape)
        model = SPCAPSD(n_features_to_select=3).fit(X)
        path = regularization_path(model, X, alphas=[0.5, 0.1])
        report = Report.from_estimator(
            model, X, path=path, feature_names=HOSTILE, title=HOSTILE[0], data=HOSTILE[4]
        )
        return Page(report.html)

    def test_shown_literally(self, page):
        shown = [name.replace("\ud800", "\\ud800").replace("\u2028", "\\u2028") for name in HOSTILE]
        for name in shown:
            assert page.row(name)
        assert sorted(page.payload["names"]) == sorted(shown)

    def test_equal_names_are_told_apart(self, page):
        rows = [text for text, kind in page.rows if kind and "(column" in text]
        assert len(rows) == 2
        assert {"(column 6)" in row for row in rows} == {True, False}

    def test_no_element_comes_from_a_name(self, page):
        tags = [tag for tag, _ in page.elements]
        assert tags.count("script") == 2
        pictures = [a["src"] for tag, a in page.elements if tag == "img"]
        assert all(source.startswith("data:image/png;base64,") for source in pictures)
        events = [
            name for _, attributes in page.elements for name in attributes if name[:2] == "on"
        ]
        assert events == []

    @given(st.text())
    def test_json_cannot_leave_its_element(self, text):
        found = safe_json({"name": text})
        assert json.loads(found) == {"name": text}
        assert not set("<>&'\u2028\u2029") & set(found)
        assert found.isascii()

    def test_python_quotes_are_python(self):
        code = reproducing_code(make_pipeline(StandardScaler(), SPCAPSD(solver="x'\"\n<script>")))
        tree = ast.parse(code)
        values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        assert "x'\"\n<script>" in values


class TestPage:
    def test_only_its_own_script_and_style_may_run(self, page, fitted):
        text = Report.from_estimator(fitted).html
        policy = next(a["content"] for t, a in page.elements if "http-equiv" in a)
        assert policy.startswith("default-src 'none'; ")
        for tag in ("script", "style"):
            body = re.search(rf"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL)[1]
            digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in policy

    def test_nothing_is_asked_from_outside(self, page):
        for _, attributes in page.elements:
            for name in ("src", "href", "action", "srcset"):
                assert attributes.get(name, "#").startswith(("#", "data:"))
            assert "style" not in attributes  # the policy would refuse it

    def test_sections_of_the_contents_exist(self, page):
        ids = {attributes.get("id") for _, attributes in page.elements}
        links = [a["href"][1:] for tag, a in page.elements if tag == "a"]
        assert len(links) > 5
        assert set(links) <= ids
        described = [a["aria-labelledby"] for _, a in page.elements if "aria-labelledby" in a]
        assert set(described) <= ids
        assert all("alt" in a for tag, a in page.elements if tag == "img")

    def test_saved_whole_or_not_at_all(self, fitted, tmp_path):
        report = Report.from_estimator(fitted)
        target = tmp_path / "r.html"
        target.write_text("before")
        assert report.save(target) == target
        assert target.read_text(encoding="utf-8") == report.html
        assert list(tmp_path.iterdir()) == [target]
        with pytest.raises(TableError, match="no directory"):
            report.save(tmp_path / "missing" / "r.html")

    def test_in_a_notebook(self, fitted):
        report = Report.from_estimator(fitted, title="A <b>title</b>")
        frame = report._repr_html_()
        (element,) = Page(frame).elements
        assert element[0] == "iframe"
        assert element[1]["srcdoc"] == report.html
        assert repr(report) == "<Report 'A <b>title</b>': 8 of 30 features kept>"

    def test_size_is_bounded(self):
        size = 30_000
        rng = np.random.default_rng(0)
        model = Fake(
            feature_scores_=rng.random(size),
            support_=np.arange(size) < 5000,
            ranking_=np.arange(1, size + 1),
        )
        names = [f"{j} {'long name ' * 50}" for j in range(size)]  # 15 MB of names
        text = Report.from_estimator(model, feature_names=names).html
        assert len(text) < 3e6
        assert len(Page(text).rows) < 300

    def test_code_makes_the_same_fit(self, cancer, fitted):
        report = Report.from_estimator(fitted)
        found = {}
        exec(report.findings.code.replace("...", "X_given", 1), {"X_given": cancer[0]}, found)
        assert (found["model"].get_support() == fitted.get_support()).all()


class TestRefused:
    def test_unfitted(self):
        with pytest.raises(NotFittedError):
            Report.from_estimator(SPCAPSD())

    def test_no_scores(self, cancer):
        with pytest.raises(ValueError, match="neither feature_scores_ nor components_"):
            Report.from_estimator(StandardScaler().fit(cancer[0]))

    def test_wrong_sizes(self, cancer, fitted):
        with pytest.raises(ValueError, match="2 names for 30 features"):
            Report.from_estimator(fitted, feature_names=["a", "b"])
        with pytest.raises(ValueError, match="5x5 has 25 pixels, but there are 30 features"):
            Report.from_estimator(fitted, image_shape=(5, 5))
        other = regularization_path(SPCAPSD(), cancer[0].iloc[:, :4], alphas=[0.5])
        with pytest.raises(ValueError, match="the path has 4 features"):
            Report.from_estimator(fitted, path=other)


class TestPixels:
    def test_maps_are_the_masks(self):
        X = load_digits().data
        model = GreedySelector(n_features_to_select=9).fit(X)
        page = Page(Report.from_estimator(model, X, image_shape=(8, 8)).html)
        sources = page.maps
        pictures = [
            np.array(Image.open(io.BytesIO(base64.b64decode(source.split(",")[1]))))
            for source in sources
        ]
        marked = (pictures[0] == (213, 94, 0)).all(axis=2)
        assert (marked.ravel() == model.get_support()).all()
        darkest = np.argmin(pictures[1].sum(axis=2))
        assert darkest == np.argmax(model.feature_scores_)
        constant = X.var(axis=0) == 0
        assert ((pictures[2] == 190).all(axis=2).ravel() == constant).all()
        assert "pixel (" in page.row("pixel")


class TestPath:
    def test_what_enters_and_leaves(self):
        scores = np.array([[0, 0, 0.0], [1, 0, 2], [0, 3, 2]])
        path = RegularizationPath(
            alphas=np.array([0.9, 0.5, 0.1]),
            penalties=np.array([9.0, 5, 1]),
            feature_scores=scores,
            objectives=np.zeros(3),
            duality_gaps=np.array([0, np.nan, 1e-6]),
            n_iter=np.ones(3, dtype=int),
            converged=np.ones(3, dtype=bool),
            feature_names=None,
        )
        model = Fake(
            feature_scores_=np.array([1.0, 2, 3]),
            support_=np.array([False, False, True]),
            alpha_=5.0,
        )
        found = Report.from_estimator(model, path=path).findings
        assert found.path.used == pytest.approx(0.5)
        data = path_data(found.path, found.features, None)
        # Places count from the best: feature 2, feature 1, feature 0.
        assert [p["count"] for p in data["points"]] == [0, 2, 2]
        assert data["points"][1]["entered"] == [2, [0, 2]]
        assert data["points"][2]["entered"] == [1, [1]]
        assert data["points"][2]["left"] == [1, [2]]
        assert data["points"][2]["top"] == [[1, 100.0], [0, 66.7]]
        assert data["points"][1]["gap"] is None
        assert data["start"] == 1


class TestWords:
    @pytest.mark.parametrize(
        ("value", "words"),
        [
            (8, "keep the 8 features"),
            (1, "keep the one feature that stands in best"),
            (0.2, "keep 20\u202f% of the features"),
            ("auto", "in new samples, and none where there is no structure beyond noise"),
            ("r2>=0.8", "account for 80\u202f% of the variance in this table"),
            ("support", "does not set to zero"),
            (None, ""),
        ],
    )
    def test_what_was_asked(self, value, words):
        assert words in wanted_words(value)

    @given(st.floats(1e-12, 1e12), st.floats(1.0001, 1e6), st.booleans())
    def test_ticks_lie_on_the_axis(self, low, ratio, log):
        axis = Axis(low, low * ratio, 46, 388, log)
        for place, text in axis.ticks():
            assert 45.9 <= place <= 388.1
            assert float(text) == pytest.approx(float(text))
        assert len(axis.ticks()) <= 7

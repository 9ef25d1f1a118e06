"""The report in headless Chromium: it works, logs nothing, asks for nothing, and is quick."""

import time

import numpy as np
import pandas as pd
import pytest
from browser import chromium
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import StandardScaler

from jointsparse import (
    SPCAPSD,
    GreedySelector,
    RegularizationPath,
    Report,
    compare_methods,
    regularization_path,
)
from jointsparse.report.comparison import save_comparison

pytestmark = pytest.mark.slow

HOSTILE = [
    "<script>window.hacked = 1; alert(1)</script>",
    "</script><script>window.hacked = 2</script>",
    '"><img src=x onerror="window.hacked = 3">',
    "<!-- <script>",
    "{{ 7 * 7 }} ${7 * 7}",
    "=cmd()|'/c calc'!A0",
    "naïve 🧬 家 \u2028 line \u202e turned",
    "x" * 5000,
    "same name",
    "same name",
]


FIND = "document.getElementById('query').dispatchEvent(new Event('input', {bubbles: true}))"
ROWS = "return Array.from(document.querySelectorAll('#rows th'), e => e.textContent)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture(scope="module")
def cancer(tmp_path_factory):
    """A report with a path, and the path."""
    data = load_breast_cancer(as_frame=True)
    X = pd.DataFrame(StandardScaler().fit_transform(data.data), columns=data.data.columns)
    model = SPCAPSD(n_features_to_select=8).fit(X)
    path = regularization_path(model, X, alphas=[0.9, 0.75, 0.7, 0.6, 0.3, 0.1, 0.01])
    file = tmp_path_factory.mktemp("report") / "report.html"
    Report.from_estimator(model, X, data.target, path=path).save(file)
    return file, path


def text_of(browser, element):
    return browser.run("return document.getElementById(arguments[0]).textContent", element)


def assert_quiet(browser, file):
    assert browser.errors() == []
    asked = [address for address in browser.requests() if not address.startswith("data:")]
    assert set(asked) == {file.resolve().as_uri()}  # the page itself, and so the log works


def test_slider_shows_what_enters(browser, cancer):
    file, path = cancer
    browser.open(file)
    before = None
    for point in range(path.alphas.size):
        browser.move("path-slider", point)
        count = int(path.n_features[point])
        assert f"{count} of 30 features are in the model" in text_of(browser, "path-count")
        inside = path.supports[point]
        new = np.flatnonzero(inside & ~before) if before is not None else np.flatnonzero(inside)
        shown = text_of(browser, "path-entered")
        assert all(path.feature_names[j] in shown for j in new)
        assert browser.run("return document.getElementById('path-entered').hidden") == (
            not new.size
        )
        before = inside
    places = []
    for point in (0, 3):
        browser.move("path-slider", point)
        places.append(
            browser.run("return document.getElementById('path-cursor').getAttribute('x1')")
        )
    assert float(places[0]) < float(places[1])
    assert_quiet(browser, file)


def test_arrow_keys_move_the_slider(browser, cancer):
    file, _ = cancer
    browser.open(file)
    browser.move("path-slider", 0)
    browser.run("document.getElementById('folded').open = true")
    browser.press("#path-slider", "ArrowRight", "ArrowRight")
    assert browser.run("return document.getElementById('path-slider').value") == "2"
    assert "0.7 of the one" in text_of(browser, "path-count")


def test_number_of_features_slider(browser, cancer):
    file, _ = cancer
    browser.open(file)
    browser.move("curve-slider", 1)
    assert text_of(browser, "curve-readout").startswith("1 feature accounts for")
    browser.move("curve-slider", 3)
    assert "texture error" in text_of(browser, "curve-readout")
    assert "3 features predict" in text_of(browser, "curve-readout")


def test_slider_marks_the_features_that_are_left(browser, cancer):
    file, _ = cancer
    browser.open(file)
    kept = "return document.querySelectorAll('#rows tr.kept').length"
    out = "return [document.querySelectorAll('#chips .out').length,"
    out += "document.querySelectorAll('#cards .out').length]"
    for count in (3, 8, 5):
        browser.move("curve-slider", count)
        assert browser.run(kept) == count
        assert browser.run(out) == [8 - count, 8 - count]
    browser.run(FIND)  # rows that are made anew are marked alike
    assert browser.run(kept) == 5


def downloaded(browser, folder):
    """Return the table that the download button saves."""
    browser.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    browser.run("document.getElementById('download').click()")
    deadline = time.monotonic() + 20
    while not (folder / "features.csv").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return pd.read_csv(folder / "features.csv", keep_default_na=False)


def test_names_are_copied_and_every_feature_is_downloaded(browser, cancer, tmp_path):
    file, _ = cancer
    browser.open(file)
    browser.send("Browser.grantPermissions", permissions=["clipboardReadWrite"])
    browser.run("document.getElementById('copy').click()")
    browser.wait("return document.getElementById('taken').textContent.startsWith('Copied 8')")
    chips = "return Array.from(document.querySelectorAll('#chips li'), (e) => e.textContent)"
    names = browser.run(chips)
    assert browser.run("return navigator.clipboard.readText()").split("\n") == names
    table = downloaded(browser, tmp_path)
    assert len(table) == 30
    assert table.feature[table.kept == "yes"].tolist() == names
    assert table.stand_in[table.kept == "no"].isin(names).all()
    assert_quiet(browser, file)


def test_a_sample_is_found_in_all_pictures(browser, cancer):
    file, _ = cancer
    browser.open(file)
    lit = "return Array.from(document.querySelectorAll('#maps svg'), (m) => "
    lit += "Array.from(m.querySelectorAll('circle')).findIndex((c) => c.matches('.lit')))"
    assert browser.run(lit) == [-1, -1]
    browser.point("#heat tr:nth-child(3) img", across=0.25)
    first, second = browser.run(lit)
    assert first == second >= 0
    assert text_of(browser, "sample").startswith("Sample ")
    browser.press("#maps svg", "ArrowRight")
    later = browser.run(lit)
    assert later[0] == later[1] != first
    assert browser.run("return !document.querySelector('.heat-cursor').hidden")
    assert_quiet(browser, file)


def test_all_that_a_feature_stands_in_for_on_request(browser, tmp_path):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(3), [30, 12, 4])
    X = rng.standard_normal((80, 3))[:, groups] + 0.3 * rng.standard_normal((80, groups.size))
    model = GreedySelector(n_features_to_select=3).fit(X)
    file = Report.from_estimator(model, X).save(tmp_path / "groups.html")
    browser.open(file)
    count = "return Array.from(document.querySelectorAll('#cards tbody'), (b) => b.rows.length)"
    assert browser.run(count) == [5, 5, 3]
    browser.run("document.querySelectorAll('#cards .rest button').forEach((b) => b.click())")
    assert browser.run(count) == [29, 11, 3]
    assert browser.run("return document.querySelectorAll('#cards .rest').length") == 0
    assert_quiet(browser, file)


def test_search_and_filter(browser, cancer):
    file, _ = cancer
    browser.open(file)
    rows = "return Array.from(document.querySelectorAll('#rows th .name'), e => e.textContent)"
    everything = browser.run(rows)
    assert len(everything) == 30
    reasons = "return Array.from(document.querySelectorAll('#rows .why'), e => e.textContent)"
    by_python = browser.run(reasons)
    browser.run(FIND)
    # The script draws the very rows that came with the page.
    assert browser.run(rows) == everything
    assert browser.run(reasons) == by_python
    browser.run(f"document.getElementById('query').value = 'TEXTURE'; {FIND}")
    assert sorted(browser.run(rows)) == ["mean texture", "texture error", "worst texture"]
    browser.run(
        "document.getElementById('which').value = 'kept';"
        "document.getElementById('which').dispatchEvent(new Event('change', {bubbles: true}))"
    )
    assert browser.run(rows) == ["texture error", "worst texture"]
    assert_quiet(browser, file)


@pytest.mark.parametrize(("order", "cells"), [("shares", "td.score"), ("scores", "td.method")])
def test_sorted_by_share_or_score(browser, cancer, order, cells):
    file, _ = cancer
    browser.open(file)
    browser.run(
        f"document.getElementById('order').value = '{order}';"
        "document.getElementById('order').dispatchEvent(new Event('change', {bubbles: true}))"
    )
    texts = browser.run(
        f"return Array.from(document.querySelectorAll('#rows {cells}'), e => e.textContent)"
    )
    numbers = [float(text.split("\u202f")[0]) for text in texts]
    assert len(numbers) == 30
    assert numbers == sorted(numbers, reverse=True)
    assert_quiet(browser, file)


@pytest.mark.parametrize("width", [360, 768, 1400])
def test_nothing_is_wider_than_the_window(browser, cancer, width):
    file, _ = cancer
    browser.open(file)
    browser.resize(width, phone=width < 500)
    browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    wide, visible, over = browser.run(
        "const root = document.documentElement;"
        "const over = Array.from(document.querySelectorAll('main *')).filter((e) => "
        "!e.closest('.scroll, svg') && e.getBoundingClientRect().right > root.clientWidth + 1);"
        "return [root.scrollWidth, root.clientWidth, over.map((e) => e.outerHTML.slice(0, 80))]"
    )
    browser.phone(0)
    assert wide <= visible == width
    assert over == []
    assert_quiet(browser, file)


def test_hostile_names_are_shown_and_never_run(browser, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)) @ rng.standard_normal((3, len(HOSTILE)))
    X += 0.3 * rng.standard_normal(X.shape)
    model = SPCAPSD(n_features_to_select=4).fit(X)
    path = regularization_path(model, X, alphas=[0.9, 0.5, 0.1])
    report = Report.from_estimator(
        model, X, path=path, feature_names=HOSTILE, title=HOSTILE[0], data=HOSTILE[1]
    )
    file = report.save(tmp_path / "hostile.html")
    browser.open(file)
    for point in (0, 1, 2):
        browser.move("path-slider", point)
    browser.move("curve-slider", 1)
    for redraw in (False, True):
        if redraw:
            browser.run(FIND)
        shown = "\n".join(browser.run(ROWS))
        for name in HOSTILE:
            literal = name.replace("\u2028", "\\u2028").replace("\u202e", "\\u202e")
            assert literal in shown
        assert shown.count("same name (column") == 2
    assert browser.run("return window.hacked === undefined")
    assert browser.run("return document.title") == HOSTILE[0]
    assert browser.run("return document.querySelectorAll('script').length") == 2
    sources = browser.run("return Array.from(document.images, (e) => e.src.slice(0, 14))")
    assert set(sources) == {"data:image/png"}
    # No spreadsheet runs a name as a formula; all others come back as they are.
    names = downloaded(browser, tmp_path).feature.tolist()
    assert "'=cmd()|'/c calc'!A0" in names
    assert {*HOSTILE[:5], "x" * 5000} <= set(names)
    assert_quiet(browser, file)


def test_policy_stops_other_scripts(browser, cancer):
    file, _ = cancer
    browser.open(file)
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 4';"
        "document.body.append(s); new Image().src = 'https://example.org/x.png';"
    )
    assert browser.run("return window.hacked === undefined")
    assert any("Content Security Policy" in message for message in browser.errors())


def test_pixels_follow_the_slider(browser, tmp_path):
    X = load_digits().data
    model = SPCAPSD(n_features_to_select=12).fit(X)
    path = regularization_path(model, X, alphas=[0.9, 0.7, 0.2, 0.01])
    file = Report.from_estimator(model, X, path=path, image_shape=(8, 8)).save(tmp_path / "p.html")
    browser.open(file)
    pixels = (
        "const c = document.getElementById('path-map');"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "const out = []; for (let i = 0; i < d.length; i += 4) out.push(d[i] < 255); return out"
    )
    browser.move("path-slider", 1)
    assert_quiet(browser, file)  # here: Chromium remarks on the reading of pixels below
    for point in range(4):
        browser.move("path-slider", point)
        assert browser.run(pixels) == path.supports[point].tolist()
    pictures = "return Array.from(document.querySelectorAll('.maps img'), i => i.naturalWidth)"
    sizes = browser.run(pictures)
    assert sizes == [8, 8, 8]


def test_a_hundred_thousand_features(browser, tmp_path):
    rng = np.random.default_rng(0)
    n, p = 40, 100_000
    X = rng.standard_normal((n, 12)) @ rng.standard_normal((12, p)) * rng.random(p) ** 2
    X += 0.3 * rng.standard_normal((n, p))
    names = [f"ENSG{j:011d} probe {j % 7}" for j in range(p)]
    model = GreedySelector(n_features_to_select=50).fit(X)
    alphas = np.geomspace(0.95, 0.01, 24)
    strength = rng.random(p) ** 4
    scores = np.maximum(strength - alphas[:, None], 0)
    path = RegularizationPath(
        alphas=alphas,
        penalties=alphas,
        feature_scores=scores,
        objectives=alphas,
        duality_gaps=1e-6 * alphas,
        n_iter=np.ones(24, dtype=int),
        converged=np.ones(24, dtype=bool),
        feature_names=None,
    )
    report = Report.from_estimator(model, X, path=path, feature_names=names)
    file = report.save(tmp_path / "wide.html")
    assert file.stat().st_size < 3e6
    started = time.perf_counter()
    browser.open(file)  # returns when the page is loaded and its script has run
    assert time.perf_counter() - started < 3
    browser.move("path-slider", 10)
    count = f"{np.count_nonzero(scores[10]):,}".replace(",", "\u202f")
    assert f"{count} of 100\u202f000 features" in text_of(browser, "path-count")
    last = names[int(np.flatnonzero(model.ranking_ == p)[0])]
    started = time.perf_counter()
    browser.run(
        f"document.getElementById('query').value = arguments[0]; {FIND}",
        last,
    )
    assert time.perf_counter() - started < 3
    assert last in text_of(browser, "rows")
    assert_quiet(browser, file)


@pytest.mark.parametrize("width", [360, 500, 1000])
def test_a_comparison_prints_nothing_over_anything(browser, tmp_path, width):
    X = load_breast_cancer(as_frame=True).data
    methods = {"greedy": GreedySelector(), "spca-psd": SPCAPSD()}
    found = compare_methods(methods, X, n_features_to_select=5, n_subsamples=2)
    file = tmp_path / "compare.html"
    save_comparison(file, found, title="Methods side by side")
    browser.open(file)
    browser.resize(width, phone=width < 500)
    wide, cells = browser.run(
        "const box = (e) => { const r = document.createRange(); r.selectNodeContents(e);"
        "const b = r.getBoundingClientRect(); return [b.left, b.right, b.top, b.bottom]; };"
        "return [document.documentElement.scrollWidth,"
        "Array.from(document.querySelectorAll('table'), (t) => "
        "Array.from(t.querySelectorAll('th, td'), box))]"
    )
    browser.phone(0)
    assert wide <= width
    for table in cells:
        for i, (left, right, top, bottom) in enumerate(table):
            for other in table[:i]:
                apart = left >= other[1] or right <= other[0] or top >= other[3] - 1
                assert apart or bottom <= other[2] + 1
    assert_quiet(browser, file)

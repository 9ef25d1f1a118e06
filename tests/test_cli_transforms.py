"""``--transform`` and ``--rule variance``, and what the terminal says of gross values."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import mmwrite
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from jointsparse import SPCAPSD, GreedySelector, load_model
from jointsparse.cli.main import app
from jointsparse.io import Table, read_table, write_table
from jointsparse.ranks import normal_scores

NAMES = [f"g{j}" for j in range(12)]
FEW = ("--features", 3, "--method", "greedy")


def invoke(*arguments):
    return CliRunner().invoke(
        app, [str(a) for a in arguments], env={"COLUMNS": "100", "NO_COLOR": "1"}
    )


def record(*arguments):
    result = invoke(*arguments, "--json", "--quiet")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def refused(*arguments):
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = (text for text in result.stderr.splitlines() if not text.startswith("note:"))
    return line


def intensities():
    rng = np.random.default_rng(1)
    factors = rng.standard_normal((90, 2)) @ rng.standard_normal((2, 12))
    return np.exp(1.5 * (factors + rng.standard_normal((90, 12))))


@pytest.fixture(scope="module", name="folder")
def a_folder_of_intensities(tmp_path_factory):
    folder, X = tmp_path_factory.mktemp("intensities"), intensities()
    write_table(folder / "raw.csv", Table(X, NAMES))
    write_table(folder / "log1p.csv", Table(np.log1p(X), NAMES))
    write_table(folder / "rank.csv", Table(normal_scores(X), NAMES))
    np.save(folder / "raw.npy", X)
    np.save(folder / "log1p.npy", np.log1p(X))
    return folder


@pytest.mark.parametrize("transform", ["log1p", "rank"])
def test_select_as_on_a_table_that_was_transformed_before(folder, tmp_path, transform):
    saved, out = tmp_path / "model.skops", tmp_path / "kept.csv"
    options = (*FEW, "--transform", transform, "--save", saved, "--output", out)
    found = record("select", folder / "raw.csv", *options)
    before = record("select", folder / f"{transform}.csv", *FEW)
    assert found["kept"] == before["kept"]
    assert found["worth"]["r2_held_out"] == pytest.approx(before["worth"]["r2_held_out"])
    assert (found["transform"], before["transform"]) == (transform, None)
    # What is written holds the original values, also by the saved model.
    raw = read_table(folder / "raw.csv")
    kept = read_table(out)
    places = [raw.names.index(name) for name in kept.names]
    assert set(kept.names) == set(found["kept"])
    assert np.array_equal(kept.values, raw.values[:, places])
    result = invoke("transform", saved, folder / "raw.csv", "--output", tmp_path / "again.csv")
    assert result.exit_code == 0, result.stderr
    assert np.array_equal(read_table(tmp_path / "again.csv").values, kept.values)


def test_scaled_values_of_a_saved_model(folder, tmp_path):
    out = tmp_path / "out.csv"
    for transform in ("log1p", "rank"):
        saved = tmp_path / f"{transform}.skops"
        options = (*FEW, "--transform", transform, "--impute", "mean", "--save", saved)
        assert invoke("select", folder / "raw.csv", *options).exit_code == 0
        assert load_model(saved).feature_names_in_.tolist() == NAMES
    arguments = (folder / "raw.csv", "--scaled", "--output", out)
    assert "chosen by ranks" in refused("transform", tmp_path / "rank.skops", *arguments)
    assert not out.exists()
    assert invoke("transform", tmp_path / "log1p.skops", *arguments).exit_code == 0
    written = read_table(out)
    logs = np.log1p(intensities()[:, [NAMES.index(name) for name in written.names]])
    assert written.values == pytest.approx((logs - logs.mean(axis=0)) / logs.std(axis=0))


def test_a_value_without_a_logarithm_is_named(folder, tmp_path):
    X = intensities()
    X[16, 4] = -3.5
    write_table(tmp_path / "t.csv", Table(X, NAMES))
    for command in ("select", "compare", "path"):
        line = refused(command, tmp_path / "t.csv", "--transform", "log1p")
        assert "t.csv has -3.5 in column g4, row 17" in line
        assert line.endswith("use --transform rank.")
    np.save(tmp_path / "t.npy", X)
    in_blocks = ("--transform", "log1p", "--memory", "40kB", *FEW)
    assert "has -3.5 in column" in refused("select", tmp_path / "t.npy", *in_blocks)


def test_compare_and_path(folder, tmp_path):
    options = ("--methods", "greedy,spca-psd", "--features", 3, "--subsamples", 2)
    found = record("compare", folder / "raw.csv", *options, "--transform", "rank")
    before = record("compare", folder / "rank.csv", *options)
    assert found["transform"] == "rank"
    assert [m["kept"] for m in found["methods"]] == [m["kept"] for m in before["methods"]]
    found = record("path", folder / "raw.csv", "--points", 3, "--transform", "log1p")
    before = record("path", folder / "log1p.csv", "--points", 3)
    assert (found["transform"], before["transform"]) == ("log1p", None)
    assert [p["features"] for p in found["points"]] == [p["features"] for p in before["points"]]
    text = invoke("path", folder / "raw.csv", "--points", 2, "--transform", "log1p").stdout
    assert "log(1 + x), standardised" in text


# in blocks


@pytest.mark.parametrize("extra", [(), ("--scale", "none"), ("--impute", "mean")])
def test_logarithms_in_blocks(folder, tmp_path, extra):
    blocks = ("--memory", "40kB", *FEW, *extra)
    saved, out = tmp_path / "m.skops", tmp_path / "kept.csv"
    options = ("--transform", "log1p", "--save", saved, "--output", out)
    found = record("select", folder / "raw.npy", *blocks, *options)
    before = record("select", folder / "log1p.npy", *blocks)
    assert "in blocks" in found["notes"][-1]
    assert found["kept"] == before["kept"]
    assert found["worth"]["extremes"] is None  # sums do not tell
    places = sorted(int(name.removeprefix("x")) - 1 for name in found["kept"])
    assert read_table(out).values == pytest.approx(intensities()[:, places])
    model = load_model(saved)
    assert "log1p" in model.named_steps
    scaled = model[:-1].transform(intensities())
    logs = np.log1p(intensities())
    if "none" not in extra:
        logs = (logs - logs.mean(axis=0)) / logs.std(axis=0)
    assert scaled == pytest.approx(logs)
    if "mean" in extra:
        assert model[0].statistics_ == pytest.approx(intensities().mean(axis=0))


def test_ranks_need_the_whole_table(folder):
    line = refused("select", folder / "raw.npy", *FEW, "--transform", "rank", "--memory", "20kB")
    assert "ranks need all samples at once: use --transform log1p, or allow more" in line


# gross values


def test_the_terminal_tells_of_gross_values_and_of_the_option_that_helps(folder):
    text = invoke("select", folder / "raw.csv", *FEW).stdout
    assert "extreme values" in text
    assert "--transform log1p or rank makes them comparable" in text
    assert "numpy" not in text
    text = invoke("select", folder / "raw.csv", *FEW, "--transform", "rank").stdout
    assert "extreme values" not in text
    assert "normal scores of ranks, standardised" in text
    extremes = record("select", folder / "raw.csv", *FEW)["worth"]["extremes"]
    assert extremes["matter"] is True
    first = extremes["columns"][0]
    values = intensities()[:, NAMES.index(first["feature"])]
    assert first["row"] == np.abs(values - values.mean()).argmax() + 1
    assert all(sample["share"] > 0.05 for sample in extremes["samples"])


def test_negative_values_have_ranks_only_and_samples_a_line_of_their_own(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 12)) + rng.standard_normal((80, 1))
    X[41] = -25.0 * np.abs(X[41])
    write_table(tmp_path / "t.csv", Table(X, NAMES))
    text = invoke("select", tmp_path / "t.csv", *FEW).stdout
    assert "; --transform rank makes them comparable" in text
    (line,) = (row for row in text.splitlines() if row.startswith("extreme samples"))
    assert "row 42" in line


def test_the_page_tells_the_transform_and_gross_values(folder, tmp_path):
    pages = {}
    for transform in ("log1p", "rank", None):
        page = tmp_path / f"{transform}.html"
        given = () if transform is None else ("--transform", transform)
        options = (*FEW, "--report", page, "--path-points", 0, *given)
        assert invoke("select", folder / "raw.csv", *options).exit_code == 0
        pages[transform] = page.read_text(encoding="utf-8")
    assert "np.log1p(table.values)" in pages["log1p"]
    assert "normal_scores(table.values)" in pages["rank"]
    assert "normal scores of ranks" in pages["rank"]
    assert "few values far from the rest" in pages[None]
    page = tmp_path / "blocks.html"
    options = ("--report", page, "--path-points", 0, "--transform", "log1p", "--memory", "40kB")
    assert invoke("select", folder / "raw.npy", *FEW, *options).exit_code == 0
    assert "Log1pSource(open_source(" in page.read_text(encoding="utf-8")
    found = tmp_path / "found.json"
    found.write_text(json.dumps(record("select", folder / "raw.csv", *FEW, "--transform", "rank")))
    assert invoke("report", found, "--output", page).exit_code == 0
    assert "rank, scaled (standard)" in page.read_text(encoding="utf-8")


# the rule


def words():
    rng = np.random.default_rng(0)
    return rng.poisson(rng.gamma(0.5, 2, 60), (150, 60)).astype(float)


def test_rule_variance_keeps_what_makes_up_most(tmp_path):
    X = words()
    largest = np.sort(np.argsort(-X.var(axis=0))[:8])
    for given in (X, sp.csr_array(X)):
        with pytest.warns(UserWarning, match="no structure beyond noise"):
            model = SPCAPSD(n_features_to_select=8, rule="variance").fit(given)
        assert np.flatnonzero(model.support_).tolist() == largest.tolist()
        assert np.all(np.diff(X.var(axis=0)[np.argsort(model.ranking_)]) <= 1e-9)
        report = model.selection_report_
        assert report.own_share == pytest.approx(X.var(axis=0)[largest].sum() / X.var(axis=0).sum())
        assert "no better than random features" in report.verdict  # whatever they make up
    mmwrite(tmp_path / "words.mtx", sp.csr_array(X))
    options = ("--rule", "variance", "--features", 8)
    found = record("select", tmp_path / "words.mtx", *options, "--scale", "none")
    assert sorted(found["kept"]) == [f"x{j + 1:02d}" for j in largest]
    assert "add --scale none" in refused("select", tmp_path / "words.mtx", *options)


def test_rule_variance_on_auto_asks_new_samples():
    with pytest.warns(UserWarning, match="no structure beyond noise"):
        assert not SPCAPSD(rule="variance").fit(words()).support_.any()
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((120, 1)) + 0.3 * rng.standard_normal((120, 10))) * np.arange(1, 11)
    model = SPCAPSD(rule="variance").fit(X)
    assert 0 < model.support_.sum() < 10
    assert model.support_[9]
    support = SPCAPSD(rule="variance", n_features_to_select="support").fit(X)
    assert np.array_equal(support.support_, support.feature_scores_ > 0)
    share = SPCAPSD(rule="variance", n_features_to_select="r2>=0.9").fit(X)
    assert share.selection_curve_[-1] >= 0.9


def test_rule_variance_on_standardised_columns_is_told():
    X = words()
    X[:, :20] += 3 * np.random.default_rng(1).standard_normal((150, 1))
    X = StandardScaler().fit_transform(X)
    with pytest.warns(UserWarning, match="all have the same variance"):
        SPCAPSD(n_features_to_select=3, rule="variance").fit(X)
    assert GreedySelector(n_features_to_select=3).fit(X).support_.sum() == 3

"""--weights, --batch and --missing give what the same does in Python."""

import json
import runpy

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from jointsparse import SPCAPSD
from jointsparse.cli.main import app
from jointsparse.sources.weighting import weighted_rows

RNG = np.random.default_rng(0)
N = 120
BATCH = np.array(["a", "b", "c"])[np.arange(N) % 3]
COUNTS = RNG.integers(0, 3, N)
X = RNG.standard_normal((N, 8))
X[:, :4] += 2 * RNG.standard_normal((N, 1))
X[:, 6:] += 4 * (np.arange(N) % 3)[:, None]
HOLED = np.where(RNG.random(X.shape) < 0.15, np.nan, X)
NAMES = [f"g{j}" for j in range(8)]


def frame(values):
    found = pd.DataFrame(values, columns=NAMES)
    found["plate"], found["copies"], found["share"] = BATCH, COUNTS, RNG.random(N)
    return found


@pytest.fixture
def tables(tmp_path):
    frame(X).to_csv(tmp_path / "whole.csv", index=False)
    frame(HOLED).to_csv(tmp_path / "holed.csv", index=False)
    return tmp_path


def record(*arguments):
    result = CliRunner().invoke(app, ["select", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*arguments):
    result = CliRunner().invoke(app, ["select", *map(str, arguments)])
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


def kept_of(found):
    return [one["feature"] for one in found["ranking"] if one["kept"]]


def names_of(selector):
    order = np.argsort(selector.ranking_)[: selector.get_support().sum()]
    return [NAMES[j] for j in order]


FEW = ("--drop", "share", "--features", 3)


@pytest.mark.parametrize("memory", [(), ("--memory", "30KB")])
def test_weights_and_batches_are_those_of_fit(tables, memory):
    columns = ("--weights", "copies", "--batch", "plate")
    found = record(tables / "whole.csv", *columns, *FEW, *memory)
    other = SPCAPSD(n_features_to_select=3, scale="standard")
    other.fit(X, sample_weight=COUNTS, batch=BATCH)
    assert kept_of(found) == names_of(other)
    assert any("lay between the 3 batches" in note for note in found["notes"])
    plain = record(tables / "whole.csv", "--drop", "copies", *FEW)
    assert set(kept_of(plain)) & {"g6", "g7"}  # which only tell batches apart
    assert not set(kept_of(found)) & {"g6", "g7"}


def test_a_weight_is_a_number_of_rows(tables):
    found = record(tables / "whole.csv", "--weights", "copies", "--drop", "plate", *FEW)
    rows = weighted_rows(COUNTS)
    frame(X).iloc[rows].drop(columns="copies").to_csv(tables / "copies.csv", index=False)
    other = record(tables / "copies.csv", "--drop", "plate", *FEW)
    assert kept_of(found) == kept_of(other)
    assert found["worth"]["r2"] == pytest.approx(other["worth"]["r2"])  # in this table


@pytest.mark.parametrize("how", ["mean", "pairwise", "em"])
def test_columns_without_a_value_are_left_out_whatever_becomes_of_the_others(tables, how):
    holed = pd.read_csv(tables / "holed.csv")
    holed.assign(void=np.nan).to_csv(tables / "void.csv", index=False)
    given = (tables / "void.csv", "--drop", "plate", "--drop", "copies")
    found = record(*given, *FEW, "--missing", how)
    assert "left out 1 empty column: void" in found["notes"]
    assert "void" not in [one["feature"] for one in found["ranking"]]


def test_batches_of_single_samples_are_refused_in_the_words_of_the_option(tables):
    message = refused(tables / "whole.csv", "--batch", "share")
    assert "the column of --batch is different for every sample" in message


@pytest.mark.parametrize("how", ["pairwise", "em"])
def test_estimates_are_those_of_fit_and_holes_stay(tables, how):
    out, model, page = tables / "out.csv", tables / "model.skops", tables / "page.html"
    found = record(
        *(tables / "holed.csv", "--batch", "plate", "--drop", "copies", *FEW, "--missing", how),
        *("--output", out, "--save", model, "--report", page),
    )
    other = SPCAPSD(n_features_to_select=3, scale="standard", missing=how).fit(HOLED, batch=BATCH)
    assert kept_of(found) == names_of(other)
    assert any("holds for the estimated scatter matrix" in note for note in found["notes"])
    written = pd.read_csv(out)
    kept = sorted(kept_of(found))
    np.testing.assert_allclose(written[kept], frame(HOLED)[kept])
    again = tables / "again.csv"
    result = CliRunner().invoke(
        app, ["transform", str(model), str(tables / "holed.csv"), "--output", str(again)]
    )
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(pd.read_csv(again)[kept], frame(HOLED)[kept])
    assert page.exists()


def test_the_older_name_is_kept(tables):
    given = (tables / "holed.csv", "--drop", "copies", "--drop", "plate", *FEW)
    assert kept_of(record(*given, "--impute", "mean")) == kept_of(
        record(*given, "--missing", "mean")
    )
    assert "--missing median (or mean)" in refused(*given, "--missing", "error")


@pytest.mark.parametrize(
    "options",
    [
        ("whole.csv", "--weights", "copies", "--batch", "plate"),
        ("whole.csv", "--weights", "copies", "--batch", "plate", "--memory", "30KB"),
        ("holed.csv", "--missing", "em", "--batch", "plate", "--scale", "none", "--drop", "copies"),
    ],
)
def test_the_python_of_the_page_does_the_same(tables, options, capsys, monkeypatch):
    import html
    import re

    monkeypatch.chdir(tables)
    found = record(*options, *FEW, "--report", "page.html")
    page = (tables / "page.html").read_text(encoding="utf-8")
    code = max(re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL), key=len)
    program = html.unescape(re.sub(r"<[^>]+>", "", code))
    (tables / "program.py").write_text(program, encoding="utf-8")
    runpy.run_path(str(tables / "program.py"))
    printed = eval(capsys.readouterr().out.strip().splitlines()[-1])
    assert sorted(map(str, printed)) == sorted(kept_of(found))


def test_what_cannot_be_is_said_in_words(tables):
    whole, holed = tables / "whole.csv", tables / "holed.csv"
    assert "has no column weight for --weights" in refused(whole, "--weights", "weight")
    assert "--weights and --batch both name" in refused(
        whole, "--weights", "copies", "--batch", "copies"
    )
    graph = ("--method", "udfs")
    assert "--weights has to hold whole numbers" in refused(whole, "--weights", "share", *graph)
    message = refused(holed, "--missing", "em", *graph)
    assert "udfs looks at the samples themselves" in message
    assert "--missing mean" in message
    message = refused(holed, "--missing", "em", "--memory", "20KB", "--drop", "copies")
    assert "estimates need all samples at once: use --missing mean" in message
    assert "--transform rank needs all values" in refused(
        holed, "--missing", "em", "--transform", "rank"
    )
    assert "--weights has the negative value" in refused(
        _with(tables, copies=-1), "--weights", "copies"
    )
    result = CliRunner().invoke(app, ["compare", str(holed), "--missing", "em"])
    assert result.exit_code == 2
    assert "use --missing mean here" in " ".join(result.stderr.split())


def _with(tables, **columns):
    frame(X).assign(**columns).to_csv(tables / "other.csv", index=False)
    return tables / "other.csv"


def test_columns_that_differ_in_scale_are_remarked_on(tables):
    scaled = frame(X * np.r_[1e5, np.ones(7)])
    scaled.to_csv(tables / "unequal.csv", index=False)
    given = (tables / "unequal.csv", "--drop", "plate", "--drop", "copies", *FEW)
    found = record(*given, "--scale", "none")
    assert any("use --scale standard" in message for message in found["warnings"])
    assert not any("differ in scale" in message for message in record(*given)["warnings"])

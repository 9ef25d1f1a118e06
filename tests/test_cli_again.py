"""What is found again, itself or by a stand-in, as people and programs see it."""

import csv
import io
import json

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from jointsparse import GreedySelector
from jointsparse.cli.commands import compare
from jointsparse.cli.main import app
from jointsparse.model_selection import Comparison, MethodResult
from jointsparse.report.comparison_record import comparison_from_record


@pytest.fixture(scope="module", name="table")
def noisy_copies(tmp_path_factory):
    """Four patterns in five noisy copies each."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((90, 4)), 5, axis=1) + 0.2 * rng.standard_normal((90, 20))
    path = tmp_path_factory.mktemp("again") / "copies.npy"
    np.save(path, X)
    return path, X


def invoke(*arguments):
    found = CliRunner().invoke(app, [*map(str, arguments)])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_select_says_how_often_a_feature_is_found_again(table, tmp_path):
    path, X = table
    ranking = tmp_path / "ranking.csv"
    text = invoke("select", path, "--features", 4, "--method", "greedy", "--ranking", ranking)
    assert text.count("3 of 3") == 4
    header = next(line for line in text.splitlines() if "stands in for" in line)
    assert header.split()[:4] == ["rank", "feature", "shared", "again"]
    assert "again            how often a feature, or one that is nearly the same" in text
    record = json.loads(invoke("select", path, "--features", 4, "--method", "greedy", "--json"))
    kept = [row["found_again"] for row in record["ranking"] if row["kept"]]
    report = GreedySelector(n_features_to_select=4).fit(X).selection_report_
    assert kept == report.found_again.tolist() == [1, 1, 1, 1]
    assert {row["found_again"] for row in record["ranking"] if not row["kept"]} == {None}
    with ranking.open(newline="") as stream:
        cells = [row["found_again"] for row in csv.DictReader(stream)]
    assert cells == ["1.0"] * 4 + [""] * 16


def test_select_says_nothing_where_nothing_was_left_out(table, tmp_path):
    few = tmp_path / "few.npy"
    np.save(few, table[1][:8])
    for options in (("--features", 2), ("--features", 20)):
        text = invoke("select", few, "--method", "greedy", *options)
        assert "again" not in text


def test_compare_shows_the_stability_of_groups(table):
    options = ("compare", table[0], "--methods", "greedy", "--features", 4, "--subsamples", 4)
    text = invoke(*options)
    assert "of groups" in text
    record = json.loads(invoke(*options, "--json"))
    method = record["methods"][0]
    assert method["group_stability"] == {"value": 1, "lower": 1, "upper": 1}
    assert method["stability"]["value"] < 0.6
    assert comparison_from_record(record)[0].results[0].group_stability == (1, 1, 1)
    del method["group_stability"]  # a record of a version that did not know groups
    assert np.isnan(comparison_from_record(record)[0].results[0].group_stability[0])


@pytest.mark.parametrize(("width", "shown"), [(50, False), (80, True), (120, True)])
@pytest.mark.parametrize("labelled", [False, True])
def test_groups_are_shown_where_there_is_room(width, shown, labelled):
    scores = dict.fromkeys(compare.SCORES, (0.5, 0.1)) if labelled else None
    result = MethodResult(
        "greedy", (0, 2), 0.1, (0.5, 0.1), (0.2, 0.1, 0.3), (0.91, 0.8, 1.0), scores
    )
    found = Comparison((result,), ("a", "b", "c"), 9, 3, 2, 4, (0.8, 0.1), (0.2, 0.1), scores)
    console = Console(file=io.StringIO(), width=width + 25 * labelled)
    table = type("Table", (), {"notes": []})
    compare._print(console, found, table, "t.csv", "standardised")
    text = console.file.getvalue()
    assert ("0.91" in text) is shown
    assert ("of groups" in text) is shown
    header, rows = compare._rows(found)
    assert all(len(row) == len(header) for row in rows)
    assert dict(zip(header, rows[0], strict=True))["group_stability"] == 0.91

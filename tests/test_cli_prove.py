"""``--prove``: what no other set of as many features can exceed, as people and programs see it."""

import csv
import io
import json
import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from jointsparse import GreedySelector, Report, SubsetSelector, certify_set
from jointsparse.cli.errors import CommandError
from jointsparse.cli.main import app
from jointsparse.cli.options import proving
from jointsparse.model_selection import Comparison, MethodResult
from jointsparse.moments import Moments

ABOUT_THIS_TABLE = "The proof is about this table, not about new data."


@pytest.fixture(scope="module", name="table")
def correlated(tmp_path_factory):
    """Nine features of three patterns; the file, and the standardised samples."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 9))
    X += 0.5 * rng.standard_normal((60, 9))
    path = tmp_path_factory.mktemp("prove") / "table.csv"
    names = ",".join(f"f{j}" for j in range(9))
    np.savetxt(path, X, delimiter=",", header=names, comments="")
    return path, (X - X.mean(axis=0)) / X.std(axis=0)


def invoke(*arguments, status=0):
    found = CliRunner().invoke(app, [*map(str, arguments)])
    assert found.exit_code == status, found.output
    return found.stdout if status == 0 else found.stderr


def value_of(Z, features):
    """Share of the variance that a regression on some features accounts for."""
    kept = Z[:, list(features)]
    left = Z - kept @ np.linalg.lstsq(kept, Z, rcond=None)[0]
    return 1 - np.sum(left**2) / np.sum(Z**2)


def best_of(Z, size):
    return max(value_of(Z, some) for some in combinations(range(Z.shape[1]), size))


@pytest.mark.parametrize("method", ["spca-psd", "greedy", "laplacian-score", "spca", "subset"])
def test_every_method_has_its_set_beside_what_no_set_can_exceed(table, method):
    path, Z = table
    select = ["select", path, "--method", method, "--features", 3, "--prove", 20]
    record = json.loads(invoke(*select, "--json"))
    found = record["set"]
    kept = [int(name[1:]) for name in record["kept"]]
    best = best_of(Z, 3)
    assert found["value"] == pytest.approx(value_of(Z, kept), abs=1e-9)
    assert best <= found["bound"] <= best + 1e-8
    assert found["gap"] == pytest.approx((found["bound"] - found["value"]) / found["value"])
    assert found["proved"] is bool(found["value"] >= best - 1e-9)
    if found["proved"]:
        assert found["better"] is None
        assert found["better_value"] is None
    else:
        better = [int(name[1:]) for name in found["better"]]
        assert value_of(Z, better) == pytest.approx(found["better_value"]) == pytest.approx(best)
    assert {"method", "seconds", "nodes", "tol"} <= set(found)
    text = invoke(*select)
    (line,) = [line for line in text.splitlines() if line.startswith("the set  ")]
    assert line.split(maxsplit=2)[2] == found["words"]
    assert line.endswith(ABOUT_THIS_TABLE)
    assert ("the model" in text) is (method != "subset")
    named = ", ".join(f"'{name}'" for name in found["better"] or [])
    lines = [line for line in text.splitlines() if line.startswith("a better set  ")]
    assert [line.split(maxsplit=3)[3] for line in lines] == ([named] if named else [])


def test_the_method_that_looks_for_the_best_set_keeps_what_the_proof_finds(tmp_path):
    rng = np.random.default_rng(161)  # where exchanges do not find the best set
    X = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 12))
    X += 0.7 * rng.standard_normal(X.shape)
    path = tmp_path / "table.csv"
    np.savetxt(path, X, delimiter=",", header=",".join("abcdefghijkl"), comments="")
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    select = ["select", path, "--method", "subset", "--features", 5, "--json"]
    before = json.loads(invoke(*select))
    record = json.loads(invoke(*select, "--prove", 20))
    found, kept = record["set"], ["abcdefghijkl".index(name) for name in record["kept"]]
    assert before["set"]["value"] < found["value"] - 1e-3
    assert value_of(Z, kept) == pytest.approx(best_of(Z, 5)) == pytest.approx(found["value"])
    assert found["proved"]
    assert found["better"] is None
    # What is said of the set is said of the one that is kept.
    model = SubsetSelector(n_features_to_select=5, search="exact", time_limit=20).fit(Z)
    assert np.flatnonzero(model.support_).tolist() == sorted(kept)
    assert record["worth"]["r2"] == pytest.approx(model.selection_report_.r2, abs=1e-9)


def test_a_better_set_of_many_features_is_not_named_in_full(table):
    _, Z = table
    names = [f"f{j}" for j in range(20)]
    some = certify_set(Z, [0, 1, 2], time_limit=20)
    assert some.best_value > some.value
    many = replace(some, best_features=np.arange(20))
    said = proving.better_set(many, names)
    assert said.endswith("'f11' and 8 more (--json names all)")
    assert proving.better_set(replace(some, value=some.best_value), names) == ""


def test_both_kinds_of_sentence_occur(table):
    """Else the test above could not see one of them."""
    path = table[0]
    proved = {
        json.loads(invoke("select", path, "--features", 3, "--prove", 20, "--json", *more))["set"][
            "proved"
        ]
        for more in (
            ["--method", "subset", "--param", "search=exact"],
            ["--method", "spca-psd", "--rule", "norm"],
        )
    }
    assert proved == {True, False}


def test_without_it_nothing_is_proved(table):
    assert json.loads(invoke("select", table[0], "--features", 3, "--json"))["set"] is None
    assert "the set " not in invoke("select", table[0], "--features", 3)


def test_what_is_proved_is_about_the_scaled_table(table, tmp_path):
    path = tmp_path / "raw.npy"
    X = table[1] * np.geomspace(1, 30, 9)
    np.save(path, X)
    select = ["select", path, "--scale", "none", "--features", 2, "--prove", 20, "--json"]
    found = json.loads(invoke(*select))["set"]
    assert best_of(X, 2) <= found["bound"] <= best_of(X, 2) + 1e-8


def test_from_moments_alone(table, tmp_path, monkeypatch):
    """A table that is read in blocks, of which only the moments are known."""
    path = tmp_path / "long.npy"
    X = np.tile(table[1], (400, 1))
    np.save(path, X)
    seen = []
    proof = proving.proof

    def spy(seconds, values, estimator, **more):
        seen.append(type(values))
        return proof(seconds, values, estimator, **more)

    monkeypatch.setattr(proving, "proof", spy)
    select = ["select", path, "--features", 3, "--prove", 20, "--json", "--memory", "1MB"]
    found = json.loads(invoke(*select))["set"]
    assert seen == [Moments]
    assert best_of(table[1], 3) - 1e-9 <= found["bound"] <= best_of(table[1], 3) + 1e-8


def test_nothing_kept_is_nothing_to_prove(tmp_path):
    path = tmp_path / "noise.npy"
    np.save(path, np.random.default_rng(0).standard_normal((40, 6)))
    select = ["select", path, "--method", "greedy", "--prove", 5]
    record = json.loads(invoke(*select, "--json"))
    assert record["kept"] == []
    assert record["set"] is None
    sentence = "--prove: nothing is kept, so there is nothing to prove"
    assert sentence in record["notes"]
    assert f"note: {sentence}" in invoke(*select)


def test_of_nothing_the_method_that_proves_by_itself_says_nothing(tmp_path):
    path = tmp_path / "noise.npy"
    X = np.random.default_rng(0).standard_normal((40, 6))
    np.save(path, X)
    assert "the set " not in invoke("select", path, "--method", "subset")
    with pytest.warns(UserWarning, match="beyond noise"):
        model = SubsetSelector().fit(X)
    assert ABOUT_THIS_TABLE not in Report.from_estimator(model, X).html


def test_all_kept_are_the_best(table):
    select = ["select", table[0], "--method", "greedy", "--features", 9, "--prove", 5, "--json"]
    found = json.loads(invoke(*select))["set"]
    assert found["proved"]
    assert found["value"] == pytest.approx(1)


@pytest.mark.parametrize("seconds", ["-1", "nan", "soon"])
@pytest.mark.parametrize("command", ["select", "compare"])
def test_what_is_no_time_is_refused(table, command, seconds):
    assert "--prove" in invoke(command, table[0], "--prove", seconds, status=2)


def test_what_the_library_refuses_is_told_in_options(table):
    never = float("nan")
    model = GreedySelector(n_features_to_select=3).fit(table[1])
    with pytest.raises(CommandError, match="--prove nan is neither a number of seconds"):
        proving.proof(never, table[1], model, show_progress=False)
    model = SubsetSelector(n_features_to_select=3).fit(table[1])
    with pytest.raises(CommandError, match="--prove nan is neither a number of seconds"):
        proving.go_on(never, model, show_progress=False)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_says_what_takes_the_time(terminal, monkeypatch):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal)
    monkeypatch.setattr(proving, "error_console", lambda: console)
    with proving.proving(True):
        pass
    assert ("proving how good the set is" in stream.getvalue()) is terminal


def test_too_large_is_refused_before_the_fit(tmp_path, monkeypatch):
    path = tmp_path / "wide.npy"
    np.save(path, np.random.default_rng(0).standard_normal((50, 3000)))
    select = ["select", path, "--method", "greedy", "--memory", "5MB"]
    monkeypatch.setattr(
        "jointsparse.cli.intake.fitting.fit", lambda *_, **__: pytest.fail("was fitted")
    )
    message = invoke(*select, "--prove", 5, status=2)
    assert "--prove needs" in message
    assert "leave --prove out" in message


def test_the_page_says_it(table, tmp_path):
    path, page, again = table[0], tmp_path / "page.html", tmp_path / "run.json"
    select = ["select", path, "--features", 3, "--prove", 20, "--report", page]
    record = invoke(*select, "--path-points", 0, "--json")
    words = json.loads(record)["set"]["words"]
    assert words.split(". ")[1] in page.read_text("utf-8")
    assert ABOUT_THIS_TABLE in page.read_text("utf-8")
    again.write_text(record)
    invoke("report", again)
    assert words.split(". ")[1] in again.with_suffix(".html").read_text("utf-8")


def test_a_record_of_an_earlier_version_has_a_page(table, tmp_path):
    record = json.loads(invoke("select", table[0], "--features", 3, "--json"))
    del record["set"]
    run = tmp_path / "run.json"
    run.write_text(json.dumps(record))
    invoke("report", run)
    assert ABOUT_THIS_TABLE not in run.with_suffix(".html").read_text("utf-8")


COMPARE = ("--methods", "greedy,laplacian-score,subset", "--features", 3, "--subsamples", 2)


def test_methods_side_by_side_have_one_bound(table, tmp_path):
    path, Z = table
    page, run, rows = (tmp_path / name for name in ("page.html", "run.json", "rows.csv"))
    compare = ["compare", path, *COMPARE, "--prove", 20]
    printed = invoke(*compare, "--json", "--report", page, "--output", rows, "--quiet")
    record, best = json.loads(printed), best_of(Z, 3)
    assert best <= record["set"]["bound"] <= best + 1e-8
    assert record["set"]["best_value"] == pytest.approx(best, abs=1e-9)
    shares = []
    for method in record["methods"]:
        value = value_of(Z, [int(name[1:]) for name in method["kept"]])
        assert method["set_value"] == pytest.approx(value, abs=1e-9)
        proved_best = value >= best - 1e-9  # which is said without a decimal
        shares.append("100" if proved_best else f"{math.floor(1000 * value / best) / 10:.1f}")
    assert len(set(shares)) > 1
    words = f"{100 * record['set']['bound']:.2f} % of the variance, which no 3 of the 9 can exceed"
    text = " ".join(invoke(*compare).split())
    run.write_text(printed)
    invoke("report", run)
    pages = [file.read_text("utf-8") for file in (page, run.with_suffix(".html"))]
    for found in (text, *pages):
        assert words in found
        assert ABOUT_THIS_TABLE in found
        assert all(share in found for share in shares)
    with rows.open(newline="") as stream:
        cells = list(csv.DictReader(stream))
    known = [(row["set_value"], row["set_bound"]) for row in cells[:3]]
    bound = record["set"]["bound"]
    assert [tuple(map(float, pair)) for pair in known] == [
        (method["set_value"], pytest.approx(bound)) for method in record["methods"]
    ]
    assert {row["set_value"] for row in cells[3:]} == {""}
    assert [len(row) for row in cells] == [len(cells[0])] * len(cells)


def test_side_by_side_without_a_proof_nothing_is_said_of_one(table):
    record = json.loads(invoke("compare", table[0], *COMPARE, "--json", "--quiet"))
    assert record["set"] is None
    assert {method["set_value"] for method in record["methods"]} == {None}
    assert "of the best" not in invoke("compare", table[0], *COMPARE, "--quiet")


def compared(**sets):
    results = tuple(MethodResult(name, kept) for name, kept in sets.items())
    names = tuple(f"f{j}" for j in range(9))
    return Comparison(results, names, 60, 9, 3, 2, (0.5, 0.1), (0.3, 0.1), None)


def test_the_bound_of_the_largest_set_is_one_of_all(table):
    Z = table[1]
    found = compared(one=(1, 4, 7), other=(0, 2), failed=()).proved(Z)
    values = [result.set_value for result in found.results]
    assert values[:2] == pytest.approx([value_of(Z, (1, 4, 7)), value_of(Z, (0, 2))])
    assert np.isnan(values[2])
    assert found.set_bound == pytest.approx(best_of(Z, 3), abs=1e-8)
    assert found.share_of_best(found.results[0]) == "100"  # see best_of
    assert found.share_of_best(found.results[2]) == "–"


def test_nearly_the_best_is_not_called_the_best():
    found = replace(compared(one=(1,)), set_bound=0.5)
    nearly, best = (replace(found.results[0], set_value=0.5 - far) for far in (2e-9, 5e-10))
    assert found.share_of_best(nearly) == "99.9"
    assert found.share_of_best(best) == "100"


def test_where_no_method_kept_anything_there_is_nothing_to_prove(table):
    found = compared(failed=()).proved(table[1])
    assert np.isnan(found.set_bound)
    assert found.proof == ""


def test_the_page_of_a_proved_set_from_python(table):
    model = SubsetSelector(n_features_to_select=3, search="exact").fit(table[1])
    assert ABOUT_THIS_TABLE in Report.from_estimator(model, table[1]).html

"""Constraints on the command line: what must be kept, prices, groups, for every method."""

import html
import json
from itertools import combinations

import numpy as np
import pytest
from sklearn.datasets import load_wine
from typer.testing import CliRunner

from jointsparse.cli.main import app

SUBSET = ("--method", "subset", "--features", 3)


@pytest.fixture(scope="module", name="table")
def correlated(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 8))
    X += 0.5 * rng.standard_normal((60, 8))
    path = tmp_path_factory.mktemp("constraints") / "table.csv"
    header = ",".join(f"gene{j}" for j in range(8))
    np.savetxt(path, X, delimiter=",", header=header, comments="")
    return path, (X - X.mean(axis=0)) / X.std(axis=0)


def invoke(*arguments, status=0):
    found = CliRunner().invoke(app, [*map(str, arguments)])
    assert found.exit_code == status, found.output
    return found.stdout if status == 0 else found.stderr


def value_of(Z, features):
    kept = Z[:, list(features)]
    left = Z - kept @ np.linalg.lstsq(kept, Z, rcond=None)[0]
    return 1 - np.sum(left**2) / np.sum(Z**2)


def test_the_best_allowed_set_is_found_and_proved(table, tmp_path):
    path, Z = table
    free = json.loads(invoke("select", path, *SUBSET, "--param", "search=exact", "--json"))
    out = free["kept"][0]
    must = next(f"gene{j}" for j in range(8) if f"gene{j}" not in free["kept"])
    limits = ["--include", must, "--exclude", out, "--param", "search=exact", "--prove", 10]
    page, model = tmp_path / "page.html", tmp_path / "model.skops"
    results = ["--report", page, "--path-points", 0, "--save", model]
    record = json.loads(invoke("select", path, *SUBSET, *limits, "--json", *results))
    assert must in record["kept"]
    assert out not in record["kept"]
    inside, outside = int(must[4:]), int(out[4:])
    best = max(
        value_of(Z, some)
        for some in combinations(range(8), 3)
        if inside in some and outside not in some
    )
    assert record["set"]["value"] == pytest.approx(best)
    assert record["set"]["proved"]
    assert record["set"]["bound"] == pytest.approx(best, abs=1e-8)
    assert f"'{must}': kept because you asked for it" in record["constraints"]["words"]
    assert f"'{out}': left out because you asked for it" in record["constraints"]["words"]
    assert model.exists()
    code = html.unescape(page.read_text("utf-8"))
    assert "from jointsparse import Constraints" in code
    assert f"constraints=Constraints(include=[{inside}], exclude=[{outside}]" in code


def test_several_of_each(table):
    limits = [*("--include", "gene1", "--include", "gene2"), *("--exclude", "gene0") * 2]
    record = json.loads(invoke("select", table[0], *SUBSET, *limits, "--json"))
    assert {"gene1", "gene2"} < set(record["kept"])
    assert "gene0" not in record["kept"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*SUBSET, "--include", "zz*"], "--include: no feature of the table is like 'zz*'"),
        ([*SUBSET, "--budget", 3], "--budget goes with --costs: give both"),
        ([*SUBSET, "--max-per-group", 3], "--max-per-group goes with --groups FILE: give both"),
        ([*SUBSET, "--whole-groups", "*"], "--whole-groups goes with --groups FILE: give both"),
        ([*SUBSET, "--param", "constraints=1"], "constraints have options of their own"),
        ([*SUBSET, "--include", "gene11"], "no feature 'gene11'; did you mean 'gene1'?"),
        ([*SUBSET, "--exclude", "zzz"], "--exclude: the table has no feature 'zzz'.\n"),
        ([*SUBSET, "--include", "gene1", "--exclude", "gene1"], "in both --include and --exclude"),
        (
            [*SUBSET, *(part for j in range(4) for part in ("--include", f"gene{j}"))],
            "--include names 4 features, more than --features 3",
        ),
        (
            [*SUBSET, *(part for j in range(8) for part in ("--exclude", f"gene{j}"))],
            "--exclude leaves no feature to keep",
        ),
    ],
)
def test_what_cannot_be_is_refused(table, arguments, message):
    assert message in invoke("select", table[0], *arguments, status=2)


@pytest.fixture(name="files")
def files_of(tmp_path):
    costs, groups = tmp_path / "costs.csv", tmp_path / "groups.csv"
    costs.write_text("feature,cost\n" + "".join(f"gene{j},{1 + j % 3}\n" for j in range(7)))
    groups.write_text("\n".join(f"gene{j};{'abc'[j // 3]}" for j in range(8)))
    return costs, groups


METHODS = ["greedy", "spca-psd", "jspca", "laplacian-score", "subset"]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_to_every_option(table, files, method):
    costs, groups = files
    limits = ["--include", "gene[7]", "--exclude", "gene0", "--costs", costs, "--budget", 5]
    limits += ["--groups", groups, "--max-per-group", "b=1", "--whole-groups", "a"]
    record = json.loads(
        invoke("select", table[0], "--method", method, "--features", 4, *limits, "--json")
    )
    kept = {int(name[4:]) for name in record["kept"]}
    assert 7 in kept
    assert not kept & {0, 1, 2}  # a whole group goes with one of its features
    assert len(kept & {3, 4, 5}) <= 1
    spent = sum(1 + j % 3 for j in kept if j != 7)
    assert spent <= 5
    held = record["constraints"]
    assert held["cost"] == spent
    assert held["budget"] == 5
    assert held["include"] == ["gene7"]
    assert held["without_cost"] == 1
    assert held["max_per_group"] == {"b": 1}
    assert held["prices"] == []
    notes = " ".join(held["words"])
    assert f"the kept features cost {spent} of the budget of 5" in notes
    assert "1 feature without a cost counts as free" in notes
    assert "of each group at most so many are kept: 1 of 'b'" in notes
    assert "kept as a whole or not at all: 'a'" in notes
    assert "--prove SECONDS tells what the constraints cost" in notes


def test_prices_are_those_of_enumeration_everywhere(table, files, tmp_path):
    path, Z = table
    page = tmp_path / "page.html"
    limits = ["--include", "gene5", "--groups", files[1], "--max-per-group", 1, "--prove", 10]
    asked = ["select", path, "--method", "greedy", "--features", 3, *limits]
    record = json.loads(invoke(*asked, "--json", "--report", page, "--path-points", 0))
    sets = list(combinations(range(8), 3))
    groups = [j // 3 for j in range(8)]
    capped = [s for s in sets if len({groups[j] for j in s}) == 3]
    values = {s: value_of(Z, s) for s in sets}
    with_both = max(values[s] for s in capped if 5 in s)
    expected = [
        ("keeping 'gene5'", max(values[s] for s in capped)),
        ("allowing at most 1 of each group", max(values[s] for s in sets if 5 in s)),
        ("all constraints together", max(values.values())),
    ]
    prices = record["constraints"]["prices"]
    assert [price["constraint"] for price in prices] == [words for words, _ in expected]
    for price, (_, best) in zip(prices, expected, strict=True):
        assert price["at_least"] <= best - with_both + 1e-9
        assert price["at_most"] >= best - with_both - 1e-9
        assert price["at_most"] - price["at_least"] < 1e-6
        assert price["words"] in record["constraints"]["words"]
    how_sure = html.unescape(page.read_text("utf-8")).split(">How sure<")[1].split("</dl>")[0]
    run, again = tmp_path / "run.json", tmp_path / "again.html"
    run.write_text(json.dumps(record))
    invoke("report", run, "--output", again)
    for text in (how_sure, html.unescape(again.read_text("utf-8")).split(">How sure<")[1]):
        assert "<dt>Constraints</dt>" in text.split("</dl>")[0]
        for price in prices:
            assert price["words"][1:] in text.split("</dl>")[0]
    assert "that keeps to the constraints" in record["set"]["words"]
    plain = " ".join(invoke(*asked).split())
    assert prices[0]["words"] in plain
    assert plain.index("constraints ") > plain.index("in new samples ")


def test_compare_holds_all_methods_to_them(table, files, tmp_path):
    limits = ["--include", "gene7", "--exclude", "gene0", "--costs", files[0], "--budget", 5]
    asked = ["compare", table[0], "--methods", "greedy,jspca,subset", "--subsamples", 2]
    page, again = tmp_path / "page.html", tmp_path / "again.html"
    asked_all = [*asked, "--features", 3, *limits, "--prove", 5, "--report", page, "--json"]
    record = json.loads(invoke(*asked_all))
    run = tmp_path / "run.json"
    run.write_text(json.dumps(record))
    invoke("report", run, "--output", again)
    words = record["constraints"]["prices"][0]["words"]
    for written in (page, again):
        assert words[1:] in html.unescape(written.read_text("utf-8"))
    for method in record["methods"]:
        assert method["error"] is None
        assert "gene7" in method["kept"]
        assert "gene0" not in method["kept"]
        assert method["set_value"] <= record["set"]["bound"] + 1e-12
    assert record["set"]["constrained"]
    assert record["constraints"]["prices"]
    assert "the kept features of each method cost at most 5" in record["notes"]
    # And the count that new samples call for.
    record = json.loads(invoke(*asked, *limits, "--json"))
    assert record["n_kept"] >= 1
    refused = invoke(*asked, "--features", 1, "--include", "gene1", "--include", "gene2", status=2)
    assert "--include names 2 features, more than --features 1" in refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "feature,cost\ngene11,2\n",
            "row 2: the table has no feature 'gene11'; did you mean 'gene1'",
        ),
        ("gene1,x\n", "row 1: the cost of 'gene1' is 'x', which is not a number of at least 0"),
        ("gene1,-2\n", "row 1: the cost of 'gene1' is '-2', which is not a number of at least 0"),
        ("gene1,2\n\ngene1,3\n", "row 3: 'gene1' has a cost in row 1 already"),
        ("gene1,2\ngene2\n", "row 2 has 1 cell; it takes two, a feature and its cost"),
        ("feature,cost\n", "has no cost of any feature"),
        (None, "costs.csv does not exist"),
        ('gene1,"2\n' + "x" * 200_000, "field larger than field limit"),
        (b"\xff\xfe\x00", "is not text in UTF-8"),
        ("".join(f"gene{j},9\n" for j in range(8)), "costs 9, more than the budget of 3"),
    ],
)
def test_a_file_of_costs_that_is_wrong_is_refused_where_it_is(table, tmp_path, text, message):
    path = tmp_path / "costs.csv"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    asked = ["select", table[0], "--costs", path, "--budget", 3]
    assert message in " ".join(invoke(*asked, status=2).split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-per-group", "x"], "--max-per-group takes a whole number or NAME=2, not 'x'"),
        (["--max-per-group", "z=1"], "--max-per-group: no feature is in the group 'z'"),
        (
            ["--max-per-group", "1", "--max-per-group", "2"],
            "one number is for all groups; name them",
        ),
        (["--whole-groups", "z*"], "--whole-groups: no feature is in a group 'z*'"),
        ([], "--groups goes with --max-per-group or --whole-groups: give one of them"),
        (
            ["--whole-groups", "*", "--max-per-group", "1"],
            "chosen as a whole, so --max-per-group has nothing to limit",
        ),
        (
            ["--max-per-group", "1", "--budget", "-1", "--costs", "x"],
            "--budget: -1 is not a number",
        ),
    ],
)
def test_groups_that_are_wrong_are_refused(table, files, arguments, message):
    asked = ["select", table[0], "--groups", files[1], *arguments]
    assert message in " ".join(invoke(*asked, status=2).split())


def test_no_result_replaces_a_file_of_constraints(table, files):
    asked = ["select", table[0], "--costs", files[0], "--budget", 9, "--ranking", files[0]]
    invoke(*asked, status=2)
    assert files[0].read_text().startswith("feature,cost")


def test_a_folder_and_a_giant_are_no_files_of_costs(table, tmp_path, monkeypatch):
    asked = ["select", table[0], "--budget", 3, "--costs"]
    assert "is no file" in invoke(*asked, tmp_path, status=2)
    path = tmp_path / "costs.csv"
    path.write_text("gene1,2\n")
    monkeypatch.setattr("jointsparse.cli.options.constraint_files.LARGEST", 3)
    assert "too large" in " ".join(invoke(*asked, path, status=2).split())


def test_constraints_are_in_the_saved_model(table, files, tmp_path):
    model, kept = tmp_path / "model.skops", tmp_path / "kept.csv"
    limits = ["--costs", files[0], "--budget", 3, "--groups", files[1], "--whole-groups", "a"]
    invoke("select", table[0], "--method", "greedy", "--features", 3, *limits, "--save", model)
    invoke("transform", model, table[0], "--output", kept)
    assert kept.exists()


def test_where_too_few_fit_the_method_that_finds_more_is_named(tmp_path):
    wine = load_wine()
    header = ",".join("abcdefghijklm")
    np.savetxt(tmp_path / "t.csv", wine.data, delimiter=",", header=header, comments="")
    prices = "".join(f"{name},{price}\n" for price, name in enumerate("abcdefghijklm", start=1))
    (tmp_path / "prices.csv").write_text(f"feature,cost\n{prices}", encoding="utf-8")
    options = ["--costs", tmp_path / "prices.csv", "--budget", 12, "--features", 4]
    given = [str(word) for word in ("select", tmp_path / "t.csv", *options)]
    said = CliRunner().invoke(app, given).stderr
    assert "3 features are kept, not the 4 asked for" in said
    assert "--method subset looks for a set of 4 that does" in said
    subset = CliRunner().invoke(app, [*given, "--method", "subset", "--json"])
    record = json.loads(subset.stdout)
    assert sum(row["kept"] for row in record["ranking"]) == 4

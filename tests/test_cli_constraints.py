"""``select --include --exclude``: features that must, or must not, be kept."""

import html
import json
from itertools import combinations

import numpy as np
import pytest
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
    assert f"'{must}': kept because you asked for it" in record["notes"]
    assert f"'{out}': left out because you asked for it" in record["notes"]
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
        (["--method", "greedy", "--exclude", "gene1"], "--exclude is for --method subset; greedy"),
        (["--include", "gene1"], "--include is for --method subset; spca-psd"),
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

"""Every number that a command prints is defined on one page."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from test_cli import invoke

from jointsparse.report.words import DEFINITIONS

PAGE = Path(__file__).parents[1] / "docs" / "numbers.md"
# What was asked for, and numbers that are keyed by names of features.
NOT_NUMBERS = {"parameters", "loadings", "kept_by"}
WORDS = {"method", "feature", "kept", "next"}  # columns and lines without a number


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 12))
    X[:, :4] += 2 * rng.standard_normal((60, 1))
    X[3, 7] = 60.0  # far from the others
    path = tmp_path_factory.mktemp("numbers") / "table.csv"
    kinds = np.where(X[:, 0] > 0, "a", "b")
    rows = [[f"{value:.5g}" for value in row] + [kind] for row, kind in zip(X, kinds, strict=True)]
    names = [*(f"x{j}" for j in range(12)), "kind"]
    path.write_text("\n".join(",".join(row) for row in [names, *rows]) + "\n")
    return path


def numbers_in(value, name=""):
    """Yield the names under which a record has numbers, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in NOT_NUMBERS:
                yield from numbers_in(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from numbers_in(inner, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name


COMMANDS = {
    "select": ["select", "--features", "3", "--prove", "5"],
    "select, robust": ["select", "--features", "2", "--robust", "cells"],
    "components": ["select", "--method", "spca", "--features", "2"],
    "constraints": ["select", "--features", "2", "--exclude", "x0", "--prove", "5"],
    "compare": ["compare", "--methods", "greedy,spca-psd", "--features", "3", "--subsamples", "2"],
    "path": ["path", "--points", "3"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_number_in_json_is_on_the_page(command, table, page):
    name, *options = COMMANDS[command]
    more = ["--prove", "5"] if name == "compare" else []
    result = invoke(name, table, "--label", "kind", *options, *more, "--json")
    assert result.exit_code == 0, result.stderr
    found = set(numbers_in(json.loads(result.stdout)))
    assert len(found) > 4
    known = set(re.findall(r"`([\w.]+)`", page))
    known |= {part for name in known for part in name.split(".")}
    assert not found - known


def test_every_number_of_the_report_is_on_the_page(page):
    said = page.replace("**", "")
    assert not [term for term in DEFINITIONS if term not in said]


@pytest.mark.parametrize("name", ["select", "compare"])
def test_every_line_and_column_of_the_terminal_is_on_the_page(name, table, page):
    more = ["--scores", "--features", "3", "--top", "5"] if name == "select" else COMMANDS[name][1:]
    result = invoke(name, table, "--label", "kind", *more, COLUMNS="160")
    assert result.exit_code == 0, result.stderr
    said, lines = page.replace("**", ""), result.stdout.splitlines()
    heads = [lines[i] for i, line in enumerate(lines[1:]) if set(line.strip()) == {"─"}]
    titles = {title for head in heads for title in re.split(r"\s{2,}", head.strip())}
    lines_with_names = re.findall(r"^([a-z][a-z ]{3,15}[a-z]) {2,}\S", result.stdout, re.MULTILINE)
    numbers = {title for title in titles if not title.isdigit()} | set(lines_with_names)
    assert len(numbers) > 5
    assert not [word for word in numbers - WORDS if word not in said]


def test_what_is_not_known_of_noise_is_not_a_number(tmp_path):
    X = np.random.default_rng(0).standard_normal((60, 20))
    path = tmp_path / "noise.csv"
    np.savetxt(path, X, delimiter=",", header=",".join(f"x{j}" for j in range(20)), comments="")
    worth = json.loads(invoke("select", path, "--json").stdout)["worth"]
    assert worth["why_not_held_out"] == "nothing is kept"
    unknown = ("r2_held_out", "pca_r2_held_out", "ceiling", "coverage", "beaten_by")
    assert not [name for name in unknown if worth[name] is not None]

"""The walks of docs/architecture.md are true: the run enters these functions in this order."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from typer.testing import CliRunner

import jointsparse
from jointsparse.cli.main import app

PACKAGE = Path(jointsparse.__file__).parent
PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
MOST_FILES = 10
FEW = ["--path-points", "2"]  # of the slider


def walks():
    """Return {method: [(file, function), ...]} as the page has them."""
    part = PAGE.partition("## Three walks")[2].partition("### Tools")[0]
    sections = re.findall(r"^### (\S+)\n(.*?)(?=^### |\Z)", part, flags=re.DOTALL | re.MULTILINE)
    return {
        name: re.findall(r"^\d+\. `([\w/.]+)`, `([\w.]+)`", text, flags=re.MULTILINE)
        for name, text in sections
    }


def tools():
    """Return the folders and files that the page names as tools."""
    table = PAGE.partition("### Tools")[2]
    folders = re.findall(r"^\| `(\w+/)` \|", table, flags=re.MULTILINE)
    files = re.findall(r"`(\w+\.py)`", re.search(r"^\| the package itself .*$", table, re.M)[0])
    return folders, files


def entered(arguments):
    """Return (file, function) of the package in the order of the first call."""
    found = {}

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            file = Path(code.co_filename).relative_to(PACKAGE).as_posix()
            found.setdefault((file, code.co_qualname))

    runner = CliRunner()
    runner.invoke(app, arguments)  # once before: imports are not part of the way
    sys.setprofile(note)
    try:
        result = runner.invoke(app, arguments)
    finally:
        sys.setprofile(None)
    assert result.exit_code == 0, result.output
    return list(found)


def test_there_are_three_walks_of_few_files():
    assert set(walks()) == {"spca-psd", "jspca", "udfs"}
    for stations in walks().values():
        assert 5 < len({file for file, _ in stations}) <= MOST_FILES


@pytest.mark.parametrize("method", list(walks()))
def test_the_walk_is_true(method, tmp_path):
    table = tmp_path / "table.csv"
    names = ",".join(f"c{j}" for j in range(12))
    values = load_breast_cancer().data[:80, :12]
    np.savetxt(table, values, delimiter=",", header=names, comments="")
    page = tmp_path / "page.html"
    found = entered(["select", str(table), "--method", method, "--report", str(page), *FEW])
    assert page.exists()
    stations = walks()[method]
    on_the_way = [place for place in found if place in stations]
    assert on_the_way == stations
    folders, files = tools()
    walked = {file for file, _ in stations}
    others = {file for file, _ in found} - walked
    unnamed = {file for file in others if not file.startswith(tuple(folders)) and file not in files}
    assert not unnamed

"""The walks of docs/architecture.md are true: the run enters these functions in this order."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from typer.testing import CliRunner

import jointsparse
from jointsparse import SPCAPSD
from jointsparse.cli.main import app
from jointsparse.sources import as_source

PACKAGE = Path(jointsparse.__file__).parent
PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
MOST_FILES = 10
FEW = ["--path-points", "2"]  # of the slider


def walks():
    """Return {method: [(file, function), ...]} as the page has them."""
    part = PAGE.partition("## Six walks")[2].partition("### Tools")[0]
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


def entered(run):
    """Return (file, function) of the package in the order of the first call."""
    found = {}

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            file = Path(code.co_filename).relative_to(PACKAGE).as_posix()
            found.setdefault((file, code.co_qualname))

    run()  # once before: imports are not part of the way
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return list(found)


def command(values, method, folder):
    """Return what selects features of a table and reports, as a command."""
    table, page = folder / "table.csv", folder / "page.html"
    names = ",".join(f"c{j}" for j in range(values.shape[1]))
    np.savetxt(table, values, delimiter=",", header=names, comments="")

    def run():
        arguments = ["select", str(table), "--method", method, "--report", str(page), *FEW]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert page.exists()

    return run


def wide_table():
    rng = np.random.default_rng(0)
    values = 0.4 * rng.standard_normal((30, 400))
    values[:, :20] += rng.standard_normal((30, 3)) @ rng.standard_normal((3, 20))
    return values


def dask_array(_):
    dask = pytest.importorskip("dask.array", reason="dask is not installed")

    def run():
        source = as_source(dask.from_array(wide_table(), chunks=(30, 100)))
        source.memory = 40_000
        SPCAPSD(eta=0.3, n_features_to_select=5).fit(source)

    return run


def tensor(_):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    values = torch.asarray(wide_table()[:, :20])
    return lambda: SPCAPSD(n_features_to_select=5).fit(values)


SMALL = load_breast_cancer().data[:80, :12]
RUNS = {
    "spca-psd": lambda folder: command(SMALL, "spca-psd", folder),
    "jspca": lambda folder: command(SMALL, "jspca", folder),
    "udfs": lambda folder: command(SMALL, "udfs", folder),
    "wide": lambda folder: command(wide_table(), "spca-psd", folder),
    "dask": dask_array,
    "tensor": tensor,
}


def test_there_are_six_walks_of_few_files():
    assert set(walks()) == set(RUNS)
    for stations in walks().values():
        assert 5 < len({file for file, _ in stations}) <= MOST_FILES


@pytest.mark.parametrize("name", list(walks()))
@pytest.mark.filterwarnings("ignore:.*no structure beyond noise")
def test_the_walk_is_true(name, tmp_path):
    found = entered(RUNS[name](tmp_path))
    stations = walks()[name]
    on_the_way = [place for place in found if place in stations]
    assert on_the_way == stations
    folders, files = tools()
    walked = {file for file, _ in stations}
    others = {file for file, _ in found} - walked
    unnamed = {file for file in others if not file.startswith(tuple(folders)) and file not in files}
    assert not unnamed

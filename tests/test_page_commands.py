"""Every command on the pages that people read first can be given, and does what it is there for.

The tables that the pages speak of stand ready; a search against the clock gets a second.
"""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from sklearn.datasets import load_breast_cancer
from test_cli import invoke

from jointsparse.cli.main import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="the docs are not beside the tests")

PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NOT_HERE = {
    "jointsparse select table.parquet --device cuda": "it needs a GPU",
    "jointsparse reproduce 004 --cluster tcp://…:8786": "it needs a cluster, and takes hours",
}
USAGE = re.compile(r"\[(OPTIONS|DATA|MODEL)")  # of the page of all commands, made from the options


def commands_of(page):
    """Return the commands of a page: in blocks, and in lines that are indented."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = [block for language, block in BLOCK.findall(text) if language in ("", "bash")]
    lines = [line.removeprefix("$ ") for block in blocks for line in block.split("\n")]
    lines += re.findall(r"^    (jointsparse .*)$", BLOCK.sub("", text), re.MULTILINE)
    found = [line.split("&&")[-1].split("  #")[0].strip() for line in lines]
    return [
        " ".join(line.split())
        for line in found
        if line.startswith("jointsparse ") and not USAGE.search(line) and line not in NOT_HERE
    ]


WITH_COMMANDS = {page.stem: commands_of(page) for page in PAGES if commands_of(page)}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A folder with every table that the pages name."""
    folder = tmp_path_factory.mktemp("tables")
    frame = load_breast_cancer(as_frame=True).frame.iloc[:150]
    table = frame.drop(columns="target")
    diagnosis = frame["target"].map({0: "malignant", 1: "benign"})
    labelled = table.assign(diagnosis=diagnosis)
    labelled.to_csv(folder / "measurements.csv", index=False)
    data = labelled.rename(columns={"mean radius": "TP53"})
    data.to_csv(folder / "data.csv", index=False)
    data.iloc[:20].to_csv(folder / "new.csv", index=False)
    table.to_csv(folder / "sensors.csv", index=False)
    names = {*table.columns, *data.columns} - {"diagnosis"}
    prices = pd.DataFrame({"feature": sorted(names), "cost": 4})
    for page in ("constraints", "start", "README"):
        own = set(table.columns) if page == "constraints" else set(data.columns)
        prices[prices.feature.isin(own)].to_csv(folder / f"prices-{page}.csv", index=False)
    cohort = labelled.iloc[:, 10:].assign(QC_1=np.arange(150) % 7, centre=["A", "B", "C"] * 50)
    cohort.insert(0, "patient", [f"p{i:03d}" for i in range(150)])
    cohort.to_csv(folder / "cohort.csv", index=False)
    table.to_parquet(folder / "BIG.parquet")
    return folder


def test_the_pages_have_commands():
    assert {
        "README",
        "index",
        "start",
        "report",
        "tables",
        "constraints",
        "large",
        "choosing",
    } <= set(WITH_COMMANDS)
    assert sum(map(len, WITH_COMMANDS.values())) >= 18


def give(command):
    """Give a command as a shell would; return what it printed."""
    words, _, target = command.partition(" > ")
    arguments = shlex.split(words)[1:]
    if "--prove" in arguments:
        arguments[arguments.index("--prove") + 1] = "1"
    result = invoke(*arguments)
    assert result.exit_code == 0, f"{command}\n{result.output}"
    if target:
        Path(target).write_text(result.stdout, encoding="utf-8")
    return result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_every_command_of_a_page_runs(page, tables, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in tables.iterdir():
        name = file.name.replace(f"-{page}", "")
        if "prices-" not in name:
            (tmp_path / name).write_bytes(file.read_bytes())
    if any("jointsparse-results.sqlite" in command for command in WITH_COMMANDS[page]):
        give("jointsparse reproduce spca-pitprops")
    for command in WITH_COMMANDS[page]:
        give(command)
        for option in ("--output", "--report", "--save", "--figure", "--ranking"):
            words = shlex.split(command)
            if option in words:
                assert Path(words[words.index(option) + 1]).exists(), command


# The options on that page are those of ``python -m benchmarks``.
SENTENCES = [page for page in PAGES if page.stem != "benchmarks"]
LINES = "\n".join(page.read_text(encoding="utf-8") for page in SENTENCES)
INLINE = re.findall(r"(?<!`)`([^`]+)`(?!`)", BLOCK.sub("", LINES))


def test_options_and_commands_within_sentences_exist():
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    options = set(re.findall(r"`(--[a-z0-9-]+)", page)) | {"--help"}
    named = {word for code in INLINE if code.startswith("--") for word in code.split()}
    named |= {w for code in INLINE if code.startswith("jointsparse ") for w in code.split()}
    named = {word.split("=")[0] for word in named if word.startswith("--")}
    assert named - options == set()
    commands = {code.split()[1] for code in INLINE if code.startswith("jointsparse ")}
    known = set(typer.main.get_command(app).commands)
    assert {word for word in commands if not word.startswith("-")} <= known


def test_benchmarks_that_pages_name_exist():
    named = re.findall(r"python -m benchmarks\.(\w+)(?: ([a-z][\w-]+))?", LINES)
    assert len(named) > 10
    for module, section in named:
        source = ROOT / "benchmarks" / f"{module}.py"
        assert source.exists()
        assert section in source.read_text(encoding="utf-8"), f"{module} has no {section}"

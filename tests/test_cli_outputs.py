"""Every result of every command is checked before any work: format, folder, permission, input."""

import itertools
import os
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
from test_cli import assert_refused, invoke

from jointsparse import SPCAPSD, save_model
from jointsparse.cli.commands.compare import CompareOptions
from jointsparse.cli.commands.path import PathOptions
from jointsparse.cli.commands.reproduce import ReproduceOptions
from jointsparse.cli.commands.select import SelectOptions
from jointsparse.cli.commands.transform import TransformOptions
from jointsparse.cli.main import app
from jointsparse.cli.outputs import Kind, Output, check_outputs
from jointsparse.io import Table, read_table, write_table

# command: what comes before the output; and each of its outputs with a name that would do
OUTPUTS = {
    "select": {
        "--output": "o.csv",
        "--ranking": "r.csv",
        "--report": "p.html",
        "--save": "m.skops",
    },
    "compare": {"--output": "o.csv", "--figure": "f.png", "--report": "p.html"},
    "path": {"--output": "o.csv", "--figure": "f.png"},
    "transform": {"--output": "o.csv"},
    "report": {"--output": "p.html"},
    "reproduce": {"--results": "r.sqlite", "--output": "pages"},
}
CASES = [(command, option) for command, known in OUTPUTS.items() for option in known]
IN_BLOCKS = ("--memory", "60kB", "--features", 2)


def samples(n=60, p=5):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 2)) @ rng.standard_normal((2, p)) + rng.standard_normal((n, p))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "data" / "table.csv"
    path.parent.mkdir()
    write_table(path, Table(samples(), list("abcde")))
    return path


@pytest.fixture
def arguments(table, monkeypatch):
    """What stands before the output of a command; a fit, or a task, would be a fault."""

    def work(*_, **__):
        raise AssertionError("the work began before the outputs were checked")

    for place in (
        "jointsparse.io.read_table",
        "jointsparse.sources.open_source",
        "jointsparse.persistence.load_model",
        "jointsparse.cli.commands.reproduce._run",
        "jointsparse.cli.commands.report._write_record",
    ):
        monkeypatch.setattr(place, work)
    model, run = table.with_name("m.skops"), table.with_name("run.json")
    save_model(SPCAPSD(n_features_to_select=2).fit(samples()), model)
    run.write_text("{}", encoding="utf-8")
    return {
        "select": [table],
        "compare": [table],
        "path": [table],
        "transform": [model, table],
        "report": [run],
        "reproduce": ["004-table3"],
    }


READ = {"--costs", "--groups", "--from"}  # options that name a file or folder to read


def test_no_output_is_missing_here():
    """Every option that is a path, of every command, is in the table above."""
    kinds = {
        "select": SelectOptions,
        "compare": CompareOptions,
        "path": PathOptions,
        "transform": TransformOptions,
        "reproduce": ReproduceOptions,
    }
    assert {c.name for c in app.registered_commands} - {"methods", "report"} == set(kinds)
    for command, kind in kinds.items():
        hints = get_type_hints(kind, include_extras=True)
        found = set()
        for field in fields(kind):
            type_, *rest = get_args(hints[field.name])
            is_path = type_ is Path or Path in get_args(type_)
            # Typer keeps the first name of an option as if it were the default.
            names = {part.default for part in rest if str(part.default).startswith("--")}
            found |= names - READ if is_path else set()
        assert found == set(OUTPUTS[command]), command


@pytest.mark.parametrize(("command", "option"), CASES)
def test_outputs_that_cannot_be_written(command, option, arguments, tmp_path, monkeypatch):
    good = OUTPUTS[command][option]
    given = ("--output", "x.csv") if command == "transform" and option != "--output" else ()
    monkeypatch.chdir(tmp_path / "data")  # where there are defaults, they are fine

    def refused(path, *words):
        result = invoke(command, *arguments[command], *given, option, path)
        assert_refused(result, option, *words)

    (tmp_path / "file").touch()
    is_folder = (command, option) == ("reproduce", "--output")
    if is_folder:
        refused(tmp_path / "file", "not a directory")
        refused(tmp_path / "file" / "inside", "not a directory")
    else:
        (tmp_path / "sub").mkdir()
        folder = tmp_path / "sub" / good
        folder.mkdir()
        refused(folder, "cannot be written: it is a directory")
        refused(tmp_path / "nowhere" / good, "no directory")
        refused(tmp_path / ("x" * 300 + good), "cannot be written")
        os.mkfifo(tmp_path / f"pipe-{good}")
        refused(tmp_path / f"pipe-{good}", "a device or a pipe")
    if option not in ("--results", "--output") or command not in ("reproduce",):
        refused(tmp_path / "o.unknown", ".unknown")
    allowed = os.access
    monkeypatch.setattr(
        "jointsparse.cli.outputs.os.access",
        lambda path, mode: Path(path) != tmp_path and allowed(path, mode),
    )
    refused(tmp_path / good, "read-only")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name == good) == []


@pytest.mark.parametrize(("command", "option"), CASES)
def test_no_output_replaces_an_input(command, option, arguments, table, tmp_path):
    inputs = [part for part in arguments[command] if isinstance(part, Path)]
    suffix = Path(OUTPUTS[command][option]).suffix
    for source in inputs:
        # The data under a name that the output may have, by a link too.
        same = source.with_name(f"same{suffix}")
        source.rename(same)
        link = tmp_path / f"link{suffix}"
        link.symlink_to(same)
        renamed = [same if part == source else part for part in arguments[command]]
        for path in (same, link):
            assert_refused(invoke(command, *renamed, option, path), "would replace the data")
        link.unlink()
        same.rename(source)


@pytest.mark.parametrize("command", ["select", "compare", "path"])
def test_no_output_replaces_another(command, arguments, tmp_path):
    for one, other in itertools.combinations(OUTPUTS[command], 2):
        paths = [tmp_path / OUTPUTS[command][option] for option in (one, other)]
        if paths[0].suffix != paths[1].suffix:
            continue
        same = invoke(command, *arguments[command], one, paths[0], other, paths[0])
        assert_refused(same, other, "would replace")


def test_no_output_becomes_part_of_a_folder_of_data(arguments, table):
    path = table.parent / "kept.csv"
    assert_refused(invoke("select", table.parent, "--output", path), "part of the data")


def test_a_page_beside_its_run_never_takes_its_place(tmp_path):
    run = tmp_path / "run.html"
    run.write_text("{}", encoding="utf-8")
    assert_refused(invoke("report", run), "would replace")
    assert run.read_text(encoding="utf-8") == "{}"


def test_what_is_fine_is_not_refused(tmp_path):
    kinds = {Kind.TABLE: "a.csv.gz", Kind.TEXT: "a.tsv.gz", Kind.PAGE: "a.HTM", Kind.FOLDER: "b/c"}
    check_outputs([Output("--x", tmp_path / name, kind) for kind, name in kinds.items()], [None])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy"])
def test_columns_of_a_table_in_blocks_as_an_array(suffix, tmp_path):
    """A labelled table that is read in blocks gives .npy too; text does not say how many rows."""
    X = samples(3000, 5)
    X[7, 2] = np.nan
    labels = np.array(["no", "yes"] * 1500) if suffix != ".npy" else None
    path, out = tmp_path / f"big{suffix}", tmp_path / "o.npy"
    write_table(path, Table(X, list("abcde"), labels, "who"))
    given = () if labels is None else ("--label", "who")
    result = invoke(
        *("select", path, *given, *IN_BLOCKS, "--features", 5, "--impute", "mean", "--output", out)
    )
    assert result.exit_code == 0, result.stderr
    assert "in blocks" in result.stdout
    X[7, 2] = np.nanmean(X[:, 2])
    np.testing.assert_allclose(np.load(out), X, rtol=1e-12)


def test_formats_that_are_not_written_in_blocks_are_refused_before_reading(tmp_path):
    path = tmp_path / "big.npy"
    np.save(path, samples(3000))
    for name in ("o.npz", "o.mtx", "o.npy.gz", "o.mtx.gz"):
        result = invoke("select", path, *IN_BLOCKS, "--output", tmp_path / name, "--quiet")
        assert_refused(result, "cannot be written in blocks")
        assert not (tmp_path / name).exists()
        whole = invoke("select", path, "--features", 2, "--output", tmp_path / name)
        assert whole.exit_code == 0, whole.stderr
        assert read_table(tmp_path / name).values.shape == (3000, 2)


def test_formats_that_cannot_be_written_are_not_advised(tmp_path, arguments):
    result = invoke("select", *arguments["select"], "--output", tmp_path / "o.zarr")
    assert_refused(result, "--output", "the supported ones are .csv .tsv", ".mtx.gz")
    assert not {".xlsx", ".h5ad", ".hdf5"} & set(result.stderr.split())

"""``jointsparse select`` on tables that are larger than the memory it may use."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from jointsparse import open_source
from jointsparse.cli.display.reading_progress import reading_progress
from jointsparse.cli.intake import fitting
from jointsparse.cli.main import app
from jointsparse.io import read_table, write_table
from jointsparse.io.budget import allowed_memory
from jointsparse.io.table import Table

RUNNER = CliRunner()
LITTLE = "100kB"  # the table takes more, its scatter matrices do not


@pytest.fixture
def samples():
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((900, 3)) @ rng.standard_normal((3, 8))
    # Clear patterns: from sums alone the noise of the samples is assumed to be equal, which near
    # the edge of the noise may make another answer.
    return (signal + 0.5 * rng.standard_normal((900, 8))).astype(np.float32) * np.arange(1, 9)


@pytest.fixture
def big(samples, tmp_path):
    columns = {f"c{j}": samples[:, j] for j in range(8)}
    columns["who"] = ["=yes" if row % 2 else "no" for row in range(900)]
    path = tmp_path / "big.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=50)
    return path


def run(*arguments):
    return RUNNER.invoke(app, ["select", *map(str, arguments)])


def record(*arguments):
    result = run(*arguments, "--json", "--quiet")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def refused(*arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    lines = [line for line in result.stderr.splitlines() if not line.startswith("note:")]
    assert len(lines) == 1
    return lines[0]


# The noise of single samples is known in memory only: what follows from it is not compared.
@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("spca-psd", ["--param", "eta=0.03"]),
        ("greedy", ["--param", "target=reconstruction"]),
        ("spca", []),
    ],
)
def test_in_blocks_as_in_memory(big, method, parameters):
    options = (big, "--label", "who", "--method", method, "--features", 3, *parameters)
    whole, blocks = record(*options), record(*options, "--memory", LITTLE)
    assert blocks["notes"] == ["read once, in blocks, within 100 kB of memory"]
    assert whole["notes"] == []
    assert blocks["kept"] == whole["kept"]
    assert (blocks["n_samples"], blocks["n_features"]) == (900, 8)
    for one, other in zip(whole["ranking"], blocks["ranking"], strict=True):
        assert one["feature"] == other["feature"]
        assert one["score"] == pytest.approx(other["score"], rel=1e-6, abs=1e-9)
    assert blocks["worth"]["held_out"]
    assert blocks["worth"]["r2"] == pytest.approx(whole["worth"]["r2"], abs=1e-6)
    assert blocks["worth"]["n_patterns"] == whole["worth"]["n_patterns"] == 3
    # Halves are held out of what is read in blocks, thirds in memory, each with a set of its own.
    assert blocks["worth"]["r2_held_out"] == pytest.approx(whole["worth"]["r2_held_out"], abs=0.05)


def test_kernels_keep_to_the_memory_that_is_allowed(big, monkeypatch):
    allowed, fit = [], fitting.fit

    def watched(*arguments, **options):
        allowed.append(allowed_memory())
        return fit(*arguments, **options)

    monkeypatch.setattr(fitting, "fit", watched)
    for memory in ("90MB", "70MB"):
        record(big, "--memory", memory)
    record(big)
    assert allowed[:2] == [90_000_000, 70_000_000]
    assert allowed[2] >= 100_000_000  # what is free


def test_says_up_front_what_it_needs(big):
    result = run(big, "--label", "who", "--memory", LITTLE)
    first = result.stderr.splitlines()[0]
    assert first.startswith("note: 900 samples × 8 features take")
    assert "each scatter matrix 512 bytes" in first
    assert "100 kB allowed" in first


def test_progress_of_reading(big, monkeypatch):
    monkeypatch.setattr("jointsparse.cli.display.reading_progress.SECONDS_BETWEEN_LINES", 0)
    result = run(big, "--label", "who", "--memory", LITTLE)
    lines = [line for line in result.stderr.splitlines() if line.startswith("reading: ")]
    assert lines[-1].startswith("reading: 900 rows, ")
    assert len(lines) > 1
    console = Console(file=io.StringIO(), force_terminal=True)
    source = open_source(big, label="who")
    with reading_progress(console, source, 900) as watched:
        assert watched.read().shape == (900, 8)
    assert "reading" in console.file.getvalue()


def test_folders_and_text(big, samples, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(900), 3)):
        table = Table(samples[rows], [f"c{j}" for j in range(8)])
        write_table(folder / f"{number}.csv", table)
    expected = record(big, "--label", "who", "--features", 3)
    found = record(folder, "--features", 3, "--memory", LITTLE)
    assert found["kept"] == expected["kept"]
    # Methods on samples read a folder as a whole.
    whole = record(folder, "--features", 3, "--method", "rne")
    assert len(whole["kept"]) == 3


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_output_is_written_in_blocks(big, samples, tmp_path, suffix):
    out = tmp_path / f"out{suffix}"
    found = record(big, "--label", "who", "--features", 2, "--memory", LITTLE, "--output", out)
    table = read_table(out, label="who")
    assert table.names == sorted(found["kept"])
    kept = [int(name[1:]) for name in table.names]
    np.testing.assert_allclose(table.values, samples[:, kept], rtol=1e-6)
    assert table.labels[0] == "no"
    assert table.labels[1] == ("'=yes" if suffix == ".csv" else "=yes")


def with_holes(big, values):
    table = pq.read_table(big)
    column = table.column("c3").to_numpy().copy()
    column[[17, 500]] = values
    place = table.schema.get_field_index("c3")
    filled = table.set_column(place, "c3", pa.array(column, from_pandas=True))
    path = big.with_name("holes.parquet")
    pq.write_table(filled, path)
    return path, column


def test_missing_values(big, tmp_path):
    path, column = with_holes(big, np.nan)
    options = (path, "--label", "who", "--memory", LITTLE)
    assert "missing value in column c3, data row 18" in refused(*options)
    assert "medians need all samples at once: use --missing mean" in refused(
        *options, "--impute", "median"
    )
    out = tmp_path / "filled.parquet"
    found = record(*options, "--impute", "mean", "--features", 8, "--output", out)
    assert "filled 2 missing values in 1 column with the mean" in found["notes"]
    whole = record(path, "--label", "who", "--impute", "mean", "--features", 8)
    assert found["kept"] == whole["kept"]
    mean = np.nanmean(column.astype(float))
    assert read_table(out, label="who").values[17, 3] == pytest.approx(mean, rel=1e-5)


def test_infinite_values(big):
    path, _ = with_holes(big, np.inf)
    for impute in ([], ["--impute", "mean"]):
        message = refused(path, "--label", "who", "--memory", LITTLE, *impute)
        assert "infinite value inf in column c3, data row 18" in message


def test_scale_none_is_possible_and_robust_is_not(big):
    options = (big, "--label", "who", "--memory", LITTLE, "--features", 3)
    whole = record(big, "--label", "who", "--scale", "none", "--features", 3)
    assert record(*options, "--scale", "none")["kept"] == whole["kept"]
    assert "use --scale standard" in refused(*options, "--scale", "robust")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--memory", "much"], "--memory: 'much' is not an amount of memory"),
        (["--memory", "2kB"], "has 8 columns, whose scatter matrices need"),
        (
            ["--memory", LITTLE, "--method", "rne"],
            "and rne needs them all at once; allow more with --memory",
        ),
        (["--memory", LITTLE, "--features", "9"], "cannot keep 9 features: the table has 8"),
        (["--memory", LITTLE, "--output", "out.npz"], "cannot be written in blocks"),
    ],
)
def test_refused_in_one_sentence(big, options, words, monkeypatch):
    monkeypatch.chdir(big.parent)
    assert words in refused(big, "--label", "who", *options)
    assert not (big.parent / "out.npz").exists()


def test_text_columns_are_left_out_and_labels_are_checked_early(big):
    result = run(big, "--memory", LITTLE)
    assert "left out 1 column that is not numbers: who (text)" in " ".join(result.output.split())
    message = refused(big, "--memory", LITTLE, "--label", "whom")
    assert "did you mean who" in message


ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="there are no benchmarks here")
def test_the_benchmark_runs_at_a_small_size():
    code = (
        "from benchmarks.streaming import after_moments, streaming\n"
        "assert streaming(20_000, 5, repeats=1)[1] < 1.5e9\n"
        "assert {'spca-psd', 'greedy'} <= set(after_moments(8, 100, 1000, repeats=1))"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "fit / (read + products) =" in run.stdout

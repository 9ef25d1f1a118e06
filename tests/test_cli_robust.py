"""``--robust`` and ``--outliers`` on the command line."""

import json

import numpy as np
import pandas as pd
import pytest
from outlier_cases import SIGNAL, outlier_table
from typer.testing import CliRunner

from jointsparse import load_model, registry
from jointsparse.cli.main import app

NAMES = [f"g{j}" for j in range(30)]
RIGHT = set(NAMES[:SIGNAL])


@pytest.fixture(scope="module")
def shifted(tmp_path_factory):
    path = tmp_path_factory.mktemp("shifted") / "table.csv"
    table = outlier_table("shift 30", 1, share=0.15, n=120, p=30)
    frame = pd.DataFrame(table.values, columns=NAMES)
    frame["batch"] = np.arange(120) % 2
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def wrong_cells(tmp_path_factory):
    path = tmp_path_factory.mktemp("cells") / "table.csv"
    values = outlier_table("cells 30", 1, share=0.05, n=120, p=30).values
    pd.DataFrame(values, columns=NAMES).to_csv(path, index=False)
    return path


def run(*arguments, status=0):
    result = CliRunner().invoke(app, [str(word) for word in arguments])
    assert result.exit_code == status, result.output
    return result


def test_outlier_samples_are_listed_and_change_nothing(shifted):
    found = json.loads(
        run(
            "select", shifted, "--label", "batch", "--features", 8, "--robust", "samples", "--json"
        ).stdout
    )
    assert set(found["kept"]) == RIGHT
    assert found["outliers"]["robust"] == "samples"
    assert sorted(one["row"] for one in found["outliers"]["samples"]) == list(range(1, 19))
    scores = [one["score"] for one in found["outliers"]["samples"]]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) > found["outliers"]["limit"]
    plain = json.loads(run("select", shifted, "--label", "batch", "--features", 8, "--json").stdout)
    assert plain["outliers"] is None
    assert set(plain["kept"]) != RIGHT


def test_gross_cells_are_listed(wrong_cells):
    out = run("select", wrong_cells, "--features", 8, "--robust", "cells", "--json").stdout
    found = json.loads(out)
    assert len(set(found["kept"]) & RIGHT) >= 7
    values = pd.read_csv(wrong_cells).to_numpy()
    cells = found["outliers"]["cells"]
    listed = {(cell["row"] - 1, NAMES.index(cell["feature"])) for cell in cells}
    assert len(listed) == found["outliers"]["n_cells"]
    assert {(int(i), int(j)) for i, j in np.argwhere(np.abs(values) > 15)} <= listed
    assert all(abs(values[cell]) > 3 for cell in listed)


def test_the_terminal_names_the_worst(shifted, wrong_cells):
    out = run("select", shifted, "--label", "batch", "--features", 8, "--robust", "samples").stdout
    assert "scaled by medians, robust against outlier samples" in out
    assert "18 of 120 samples are far from the others (rows " in out
    assert "and 13 more" in out
    out = run("select", wrong_cells, "--features", 8, "--robust", "cells").stdout
    assert "single values" in out
    assert "far from the rest of the column, the first in row" in out


def test_without_it_far_samples_are_said_to_need_it(tmp_path):
    values = outlier_table("one 1e3", 1, n=60, p=20).values
    path = tmp_path / "table.csv"
    pd.DataFrame(values, columns=NAMES[:20]).to_csv(path, index=False)
    assert "try --robust samples" in run("select", path, "--features", 3).stdout
    assert "try --robust" not in run("select", path, "--features", 3, "--robust", "samples").stdout


def test_written_columns_hold_the_original_values_and_scores_on_request(shifted, tmp_path):
    output = tmp_path / "kept.csv"
    common = ("select", shifted, "--label", "batch", "--features", 5, "--robust", "samples")
    run(*common, "--output", output, "--outliers", "--quiet")
    kept, given = pd.read_csv(output), pd.read_csv(shifted)
    assert kept.columns[-2:].tolist() == ["outlier_score", "batch"]
    others = kept.drop(columns="outlier_score")
    pd.testing.assert_frame_equal(others, given[others.columns])
    assert (kept["outlier_score"].to_numpy()[:18] > 5).all()
    run(*common, "--output", output, "--quiet")
    assert "outlier_score" not in pd.read_csv(output).columns


def test_scores_without_robust_or_output_are_refused(shifted):
    result = run("select", shifted, "--label", "batch", "--outliers", status=2)
    assert "--outliers needs --robust" in result.stderr
    result = run("select", shifted, "--robust", "cells", "--outliers", status=2)
    assert "give that too" in result.stderr


def test_the_saved_model_does_the_same_to_new_tables(shifted, tmp_path):
    model, kept, scaled = (tmp_path / name for name in ("m.skops", "kept.csv", "scaled.csv"))
    common = ("select", shifted, "--label", "batch", "--features", 5, "--robust", "samples")
    run(*common, "--save", model, "--quiet")
    run("transform", model, shifted, "--label", "batch", "--output", kept, "--quiet")
    run("transform", model, shifted, "--label", "batch", "--output", scaled, "--scaled", "--quiet")
    given, found = pd.read_csv(shifted), pd.read_csv(kept)
    pd.testing.assert_frame_equal(found, given[found.columns])
    assert not pd.read_csv(scaled).drop(columns="batch").to_numpy()[:18].any()
    assert list(load_model(model).named_steps) == ["robust", "select"]


@pytest.mark.parametrize("robust", ["samples", "cells"])
@pytest.mark.parametrize("scale", ["standard", "none"])
def test_tables_in_blocks_give_the_same(tmp_path, robust, scale):
    path, model = tmp_path / "table.npy", tmp_path / "m.skops"
    np.save(path, outlier_table("shift 30", 1, share=0.1, n=6000, p=30).values)
    common = ("select", path, "--features", 8, "--robust", robust, "--scale", scale)
    whole = json.loads(run(*common, "--json").stdout)
    parts = json.loads(run(*common, "--json", "--memory", "2MB", "--save", model).stdout)
    assert any("read several times, in blocks" in note for note in parts["notes"])
    assert set(parts["kept"]) == set(whole["kept"])
    # Medians of some of the samples: those at the limit may differ.
    one, other = ({row["row"] for row in found["outliers"]["samples"]} for found in (whole, parts))
    assert set(range(1, 601)) <= one & other
    assert len(one ^ other) < 30
    assert list(load_model(model).named_steps) == ["robust", "select"]
    written = ("--outliers", "--output", tmp_path / "o.csv")
    result = run(*common, "--memory", "2MB", *written, status=2)
    assert "is read in blocks" in result.stderr


@pytest.mark.parametrize("scale", ["standard", "none", "robust"])
def test_units_are_kept_without_scaling(shifted, scale):
    found = json.loads(
        run(
            *("select", shifted, "--label", "batch", "--features", 8, "--scale", scale),
            *("--robust", "samples", "--json"),
        ).stdout
    )
    assert set(found["kept"]) == RIGHT
    assert found["scale"] == scale


def test_the_report_says_what_was_done(shifted, tmp_path):
    page, record = tmp_path / "page.html", tmp_path / "run.json"
    common = ("select", shifted, "--label", "batch", "--features", 8, "--path-points", 0)
    out = run(*common, "--robust", "samples", "--report", page, "--json").stdout
    text = page.read_text()
    assert "18 samples of 120 are far from the others" in text
    assert "SpatialSign().fit_transform(table.values)" in text
    record.write_text(out)
    run("report", record, "--output", tmp_path / "again.html")
    assert "18 samples of 120 are far" in (tmp_path / "again.html").read_text()
    table = tmp_path / "table.npy"
    np.save(table, outlier_table("shift 30", 1, share=0.1, n=6000, p=30).values)
    common = ("select", table, "--features", 8, "--path-points", 0, "--memory", "2MB", "--quiet")
    run(*common, "--robust", "cells", "--report", page)
    assert "Wrap().fit_transform(open_source(" in page.read_text()


def test_a_parameter_of_the_method_is_told_too(shifted):
    out = run(
        *("select", shifted, "--label", "batch", "--features", 8, "--param", "robust=samples"),
        "--json",
    ).stdout
    assert len(json.loads(out)["outliers"]["samples"]) == 18


def test_compare_and_path_take_it(shifted):
    common = (shifted, "--label", "batch", "--robust", "samples", "--json")
    methods = ("--methods", "greedy,spca-psd", "--features", 8)
    found = json.loads(run("compare", *common, *methods).stdout)
    assert len(found["methods"]) == 2
    assert run("path", *common, "--points", 3).stdout


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(registry.methods()))
@pytest.mark.parametrize("robust", ["samples", "cells"])
def test_every_method_takes_it(shifted, method, robust):
    label = () if method == "fssl" else ("--label", "batch")
    chosen = ("--method", method, "--features", 5, "--robust", robust)
    run("select", shifted, *label, *chosen, "--quiet")

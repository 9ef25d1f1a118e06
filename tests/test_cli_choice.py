"""compare, path, transform, select --choose and --save: what they print, write and refuse."""

import csv
import json
import pickle

import numpy as np
import pytest
from test_cli import assert_refused, invoke

from jointsparse import GreedySelector, load_model, save_model
from jointsparse.datasets import load_breast_cancer_table
from jointsparse.io import Table, read_table, write_table


@pytest.fixture(scope="module", name="folder")
def a_table_and_its_model(tmp_path_factory):
    """A folder with a table, the model that select saves for it, and what select writes."""
    folder = tmp_path_factory.mktemp("model")
    table = load_breast_cancer_table()
    part = Table(table.values[:120, :12], table.names[:12], table.labels[:120], table.label_name)
    write_table(folder / "table.csv", part)
    result = invoke(
        *("select", folder / "table.csv", "--label", part.label_name, "--features", 4),
        *("--save", folder / "model.skops", "--output", folder / "kept.csv"),
    )
    assert result.exit_code == 0
    assert f"wrote {folder / 'model.skops'}" in result.stdout.replace("\n", "")
    return folder


def changed(folder, name, **changes):
    table = read_table(folder / "table.csv", label="diagnosis")
    values = {"values": table.values, "names": table.names, **changes}
    write_table(folder / name, Table(values["values"], values["names"]))
    return folder / name


# transform


@pytest.mark.parametrize("options", [[], ["--scaled"], ["--partial"]])
def test_a_model_that_keeps_nothing_is_told(folder, tmp_path, options):
    """Not a table of no columns: scikit-learn's transform gives that, with a warning."""
    model = load_model(folder / "model.skops")
    model[-1].support_[:] = False
    save_model(model, tmp_path / "empty.skops")
    out = tmp_path / "out.csv"
    arguments = ("transform", tmp_path / "empty.skops", folder / "table.csv", "--output", out)
    assert_refused(invoke(*arguments, *options), "keeps no feature", "nothing to write")
    assert not out.exists()


def test_transform_writes_what_select_wrote(folder, tmp_path):
    out = tmp_path / "out.csv"
    result = invoke(
        *("transform", folder / "model.skops", folder / "table.csv"),
        *("--label", "diagnosis", "--output", out),
    )
    assert result.exit_code == 0
    assert out.read_bytes() == (folder / "kept.csv").read_bytes()
    assert "120 samples × 4 columns, of 12 in the table" in result.stdout


@pytest.mark.filterwarnings("error:X does not have valid feature names")
def test_the_saved_model_is_a_pipeline_with_the_scaling(folder, tmp_path):
    import pandas as pd

    model = load_model(folder / "model.skops")
    assert [name for name, _ in model.steps] == ["scale", "select"]
    frame = pd.read_csv(folder / "table.csv").drop(columns="diagnosis")
    out = tmp_path / "out.npz"
    invoke(
        *("transform", folder / "model.skops", folder / "table.csv", "--output", out),
        *("--scaled", "--label", "diagnosis"),
    )
    written = np.load(out)
    np.testing.assert_allclose(written["X"], model.transform(frame))
    np.testing.assert_allclose(written["X"].std(axis=0), 1)
    assert written["feature_names"].tolist() == model.get_feature_names_out().tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame[frame.columns[::-1]])


def test_columns_are_matched_by_name(folder, tmp_path):
    table = read_table(folder / "table.csv", label="diagnosis")
    mixed = changed(
        folder,
        "mixed.csv",
        values=np.column_stack([np.zeros(120), table.values[:, ::-1]]),
        names=["more", *table.names[::-1]],
    )
    out = tmp_path / "out.csv"
    result = invoke("transform", folder / "model.skops", mixed, "--output", out)
    assert "ignored 1 column that the model does not know: more" in result.stdout
    assert "put into the order of the model" in result.stdout
    kept = read_table(folder / "kept.csv", label="diagnosis")
    again = read_table(out)
    assert again.names == kept.names
    np.testing.assert_array_equal(again.values, kept.values)


def test_one_row_is_enough(folder, tmp_path):
    table = read_table(folder / "table.csv", label="diagnosis")
    one = changed(folder, "one.csv", values=table.values[:1])
    result = invoke("transform", folder / "model.skops", one, "--output", tmp_path / "out.csv")
    assert result.exit_code == 0
    assert "1 sample × 4 columns" in result.stdout


def test_missing_columns_are_named(folder, tmp_path):
    table = read_table(folder / "table.csv", label="diagnosis")
    kept = read_table(folder / "kept.csv", label="diagnosis").names
    dropped = [j for j, name in enumerate(table.names) if name not in kept]
    rest = [j for j in range(12) if j not in dropped[:2]]
    without = changed(
        folder, "without.csv", values=table.values[:, rest], names=[table.names[j] for j in rest]
    )
    out = tmp_path / "out.csv"
    arguments = ("transform", folder / "model.skops", without, "--output", out)
    names = f"lacks 2 of the 12 columns that the model was fitted to: {table.names[dropped[0]]}, "
    assert_refused(invoke(*arguments), names, "--partial will do")
    assert not out.exists()
    assert invoke(*arguments, "--partial").exit_code == 0
    np.testing.assert_array_equal(
        read_table(out).values, table.select([table.names.index(name) for name in kept]).values
    )
    assert invoke(*arguments, "--partial", "--scaled").exit_code == 0
    needed = changed(
        folder,
        "needed.csv",
        values=table.values[:, dropped],
        names=[table.names[j] for j in dropped],
    )
    arguments = ("transform", folder / "model.skops", needed, "--output", out)
    assert_refused(invoke(*arguments, "--partial"), "lacks 4 of the 12 columns", kept[0])


def test_missing_values(folder, tmp_path):
    table = read_table(folder / "table.csv", label="diagnosis")
    kept = read_table(folder / "kept.csv", label="diagnosis").names
    values = table.values.copy()
    unused = next(j for j, name in enumerate(table.names) if name not in kept)
    values[3, unused] = np.nan
    holed, out = changed(folder, "holed.csv", values=values), tmp_path / "out.csv"
    arguments = ("transform", folder / "model.skops", holed, "--output", out)
    assert invoke(*arguments).exit_code == 0  # nothing that is kept is missing
    values[5, table.names.index(kept[1])] = np.nan
    changed(folder, "holed.csv", values=values)
    assert_refused(invoke(*arguments), f"missing values in 1 column ({kept[1]})", "--missing")
    # A model that was fitted with --impute fills them with what it learned.
    model = tmp_path / "filling.skops"
    chosen = ("--features", 12, "--impute", "median", "--save", model)
    assert invoke("select", holed, *chosen).exit_code == 0
    assert invoke("transform", model, holed, "--output", out).exit_code == 0
    column = table.names.index(kept[1])
    median = np.nanmedian(values[:, column])
    assert read_table(out).values[5, column] == pytest.approx(median)


def test_models_that_are_refused(folder, tmp_path):
    table, out = folder / "table.csv", tmp_path / "out.csv"
    bad = tmp_path / "model.skops"
    bad.write_bytes(pickle.dumps({"a": 1}))
    assert_refused(invoke("transform", bad, table, "--output", out), "it is a pickle")
    bad.write_text("text")
    assert_refused(invoke("transform", bad, table, "--output", out), "not a skops file")
    absent = tmp_path / "none.skops"
    assert_refused(invoke("transform", absent, table, "--output", out), "cannot be read")
    model = folder / "model.skops"
    assert_refused(invoke("transform", model, table, "--output", table), "would replace the data")
    other = changed(folder, "array.npy")
    bare = tmp_path / "bare.skops"
    save_model(GreedySelector(n_features_to_select=2).fit(np.eye(5)), bare)
    assert_refused(invoke("transform", bare, other, "--output", out), "fitted to 5 columns", "12")


@pytest.mark.parametrize("name", ["model.pkl", "no_folder/model.skops"])
def test_a_bad_place_for_the_model_is_refused_before_the_fit(tmp_path, name):
    assert_refused(invoke("select", "--save", tmp_path / name), name.split("/")[-1])


def test_names_are_shown_literally(tmp_path):
    names = ["<script>alert(1)</script>", "=cmd()", "🙂", "n" * 5000]
    rng = np.random.default_rng(0)
    write_table(tmp_path / "t.parquet", Table(rng.standard_normal((20, 4)), names))
    model, out = tmp_path / "m.skops", tmp_path / "o.csv"
    result = invoke("select", tmp_path / "t.parquet", "--features", 4, "--save", model)
    assert result.exit_code == 0
    write_table(tmp_path / "u.parquet", Table(rng.standard_normal((20, 1)), ["x"]))
    refused = invoke("transform", model, tmp_path / "u.parquet", "--output", out)
    assert_refused(refused, "<script>alert(1)</script>", "=cmd()", "🙂")
    assert len(refused.stderr) < 600
    assert invoke("transform", model, tmp_path / "t.parquet", "--output", out).exit_code == 0
    assert out.read_text().splitlines()[0].count('"\'=cmd()"') == 1


# select --choose


def test_select_chooses_its_penalties(tmp_path):
    result = invoke("select", "--choose", "rank", "--clusters", 2, "--features", 5, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert isinstance(found["parameters"]["alpha"], float)
    assert any("chosen by rank" in note for note in found["notes"])


def test_what_cannot_be_chosen_is_said():
    assert_refused(invoke("select", "--choose", "rank"), "needs the number of clusters")
    assert_refused(invoke("select", "--clusters", 3), "--clusters is for --choose")
    assert_refused(
        invoke("select", "--method", "greedy", "--choose", "held-out"), "has no penalty to choose"
    )


# compare


def test_compare_prints_and_writes_what_it_found(tmp_path, folder):
    output, figure = tmp_path / "table.csv", tmp_path / "figure.png"
    result = invoke(
        *("compare", folder / "table.csv", "--label", "diagnosis", "--subsamples", 4),
        *("--methods", "greedy,laplacian-score", "--features", 3),
        *("--output", output, "--figure", figure),
    )
    assert result.exit_code == 0
    assert "120 samples × 12 features · 3 kept by each method" in result.stdout
    words = ("greedy", "laplacian-score", "3 random features", "3 principal", "all features")
    for word in (*words, "ACC", "predicted, %", "clearly more than random"):
        assert word in result.stdout
    assert "xplained" not in result.stdout
    assert result.stdout.count("predicted: what the kept features predict") == 1
    assert "1 of 2: greedy" in result.stderr
    assert figure.read_bytes().startswith(b"\x89PNG")
    with output.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["method"] for row in rows] == [
        "greedy",
        "laplacian-score",
        "PCA",
        "random features",
        "all features",
    ]
    assert len(rows[0]["features"].split("; ")) == 3
    assert rows[0]["jaccard_laplacian-score"] == rows[1]["jaccard_greedy"]
    assert 0 < float(rows[0]["accuracy"]) <= 1


def test_compare_of_noise_asks_for_a_number(tmp_path):
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).standard_normal((60, 12)))
    asked = ("compare", tmp_path / "noise.npy", "--methods", "greedy,spca", "--subsamples", 2)
    assert_refused(
        invoke(*asked), "No structure beyond noise: nothing is kept; say with --features how many"
    )
    result = invoke(*asked, "--features", 3)
    assert result.exit_code == 0
    assert "None of 2 methods predict clearly more than random features" in result.stdout


def test_compare_as_a_page(tmp_path):
    rng = np.random.default_rng(0)
    names = ["<script>alert(1)</script>", "=cmd()", "é 🙂", "x" * 5000, "plain"]
    values = rng.standard_normal((40, 5)) * [5, 4, 3, 2, 1]
    write_table(tmp_path / "odd.npz", Table(values, names))
    page = tmp_path / "page.html"
    result = invoke(
        *("compare", tmp_path / "odd.npz", "--methods", "greedy,laplacian-score"),
        *("--features", 3, "--subsamples", 2, "--report", page),
    )
    assert result.exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "default-src &#39;none&#39;" in text
    assert text.count("laplacian-score") >= 3
    assert len(text) < 50_000


def test_compare_refuses_a_page_it_cannot_write(tmp_path):
    result = invoke("compare", "--report", tmp_path / "absent" / "page.html")
    assert_refused(result, "no directory")


def test_compare_as_json(folder):
    result = invoke(
        *("compare", folder / "table.csv", "--label", "diagnosis", "--methods", "greedy,rne"),
        *("--subsamples", 2, "--json", "--quiet"),
    )
    found = json.loads(result.stdout)
    assert [method["method"] for method in found["methods"]] == ["greedy", "rne"]
    assert all(len(method["kept"]) == found["n_kept"] for method in found["methods"])
    kept = [set(method["kept"]) for method in found["methods"]]
    assert found["jaccard"][0][1] == pytest.approx(len(kept[0] & kept[1]) / len(kept[0] | kept[1]))
    assert found["random_r2_held_out"]["mean"] < found["pca_r2_held_out"]["mean"]
    assert found["scores_of_all_features"] is not None
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (("--methods", "gredy"), "did you mean greedy"),
        (("--methods", ","), "names with commas"),
        (("--subsamples", "3"), "3 is odd"),
        (("--features", "support"), "takes a count or a share, not support"),
        (("--features", "99"), "cannot keep 99 features"),
        (("--figure", "x.bmp"), "must end in .png"),
        (("--output", "x.parquet"), "must end in .csv"),
    ],
)
def test_compare_refuses(arguments, fragment):
    assert_refused(invoke("compare", *arguments), fragment)


# path


def test_path_says_what_enters_and_leaves(tmp_path):
    output = tmp_path / "path.csv"
    result = invoke("path", "--points", 4, "--output", output)
    assert result.exit_code == 0
    assert "+mean radius" in result.stdout
    assert "every point is solved to within" in result.stdout
    assert "(proved)" in result.stdout
    with output.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    inside = set()
    for row in rows:
        inside |= set(filter(None, row["enter"].split("; ")))
        inside -= set(filter(None, row["leave"].split("; ")))
        assert len(inside) == int(row["features"])
    assert [float(row["alpha"]) for row in rows] == pytest.approx(np.geomspace(0.95, 1e-3, 4))


def test_path_as_json(tmp_path):
    figure = tmp_path / "path.png"
    result = invoke("path", "--points", 3, "--json", "--quiet", "--figure", figure)
    found = json.loads(result.stdout)
    assert [point["features"] for point in found["points"]] == [0, 30, 30]
    assert max(point["gap"] for point in found["points"]) < 1e-3
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_path_refuses():
    assert_refused(
        invoke("path", "--method", "greedy"), "greedy has no penalty", "one for spca-psd"
    )
    assert_refused(invoke("path", "--smallest", "2"), "--smallest")
    assert_refused(invoke("path", "--param", "eta=7"), "eta=7")


def test_a_warning_of_a_compared_method_names_it_once(tmp_path):
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).standard_normal((40, 30)))
    asked = ("compare", str(tmp_path / "noise.npy"), "--features", "3", "--methods", "greedy")
    result = invoke(*asked, "--quiet")
    assert result.exit_code == 0
    assert "warning: greedy: no structure beyond noise: the 3 kept" in " ".join(
        result.stderr.split()
    )

"""Tables as people have them: which columns are features, and how text is written."""

import json
import re
import sys
from io import BytesIO, TextIOWrapper

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

from jointsparse import GreedySelector
from jointsparse.cli.main import app
from jointsparse.io import Table, TableError, read_table, write_table
from jointsparse.io.columns.layout import Layout
from jointsparse.io.plain_text.numerals import decimal_of, is_numeral
from jointsparse.sources import open_source

N = 30
RNG = np.random.default_rng(0)
LATENT = RNG.standard_normal((N, 2))
VALUES = np.round(LATENT @ RNG.standard_normal((2, 4)) + 0.2 * RNG.standard_normal((N, 4)), 3)


def frame(**more):
    return pd.DataFrame({f"g{j}": VALUES[:, j] for j in range(4)}).assign(**more)


def text(folder, content, name="data.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def run(*arguments, **options):
    return CliRunner().invoke(app, [*map(str, arguments)], **options)


def done(*arguments, **options):
    result = run(*arguments, **options)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def refused(*arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


# --- columns that are no features ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("diagnosis", np.arange(N) % 2),
        ("Class", 1 + np.arange(N) % 3),
        ("leiden_cluster", np.arange(N) % 9),
        ("batch", np.arange(N) % 3 + 0.0),
        ("y", np.where(np.arange(N) % 2, 1, -1)),
    ],
)
def test_a_column_of_numbers_that_looks_like_classes_is_told(tmp_path, name, values):
    path = tmp_path / "a.csv"
    frame(**{name: values}).to_csv(path, index=False)
    (told,) = read_table(path).notes
    assert told.startswith(f"{name} looks like the classes of the samples")
    assert told.endswith(f"label='{name}' keeps it aside, drop='{name}' leaves it out")
    assert open_source(path).notes == [told]
    said = done("select", path, "--features", 2)
    assert f"--label {name} keeps it aside, --drop {name} leaves it out" in said
    for option in ("label", "drop", "ids"):
        assert read_table(path, **{option: name}).notes == []
    assert read_table(path, only=["g*", name]).notes == []


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cluster_size", 1 + np.arange(N) % 3),
        ("class_1", np.arange(N) % 2),  # of categories made to columns
        ("age_group", np.arange(N) % 5),
        ("target", np.arange(N) % 2 + 0.5),
        ("label", RNG.standard_normal(N)),
        ("group", np.array([0, 1, 2, 5] * 10)[:N]),  # a count
        ("class", np.arange(N) % 15),  # two of each
        ("batch", np.ones(N, dtype=int)),
        ("g7", np.arange(N) % 2),
    ],
)
def test_names_or_values_alone_are_no_classes(tmp_path, name, values):
    path = tmp_path / "a.csv"
    frame(**{name: values}).to_csv(path, index=False)
    assert read_table(path).notes == []


def test_beside_x_a_column_y_is_a_place(tmp_path):
    frame(x=np.arange(N) % 6, y=np.arange(N) % 5).to_csv(tmp_path / "a.csv", index=False)
    assert read_table(tmp_path / "a.csv").notes == []


def test_several_columns_of_classes_are_one_note(tmp_path):
    path = tmp_path / "a.csv"
    frame(batch=np.arange(N) % 2, outcome=np.arange(N) % 3).to_csv(path, index=False)
    (told,) = read_table(path).notes
    assert told.startswith("batch, outcome look like the classes of the samples")
    assert told.endswith("label='batch' keeps one aside, drop='batch' leaves one out")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_that_rise_from_row_to_row_are_told(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    table = frame(seconds=1.7e9 + 60.5 * np.arange(N), once=np.r_[0, 0, np.arange(1, N - 1)])
    table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
    (told,) = read_table(path).notes
    assert told.startswith("seconds rises from row to row, as times and running numbers do; it")
    assert told.endswith("ids='seconds' carries it along, drop='seconds' leaves it out")
    assert open_source(path).notes == [told]
    said = done("select", path, "--features", 2)
    assert "--id seconds carries it along, --drop seconds leaves it out" in said
    for option in ("label", "drop", "ids"):
        assert read_table(path, **{option: "seconds"}).notes == []
    assert read_table(path, only=["g*", "seconds"]).notes == []


def test_few_rows_that_rise_and_tables_of_nothing_else_are_not_told(tmp_path):
    path = tmp_path / "a.csv"
    frame(seconds=60.5 * np.arange(N))[:11].to_csv(path, index=False)
    assert read_table(path).notes == []
    pd.DataFrame({"a": 0.5 + np.arange(N), "b": 2.5 * np.arange(N)}).to_csv(path, index=False)
    assert read_table(path).notes == []


def test_the_index_that_pandas_writes_is_no_feature(tmp_path):
    frame().to_csv(tmp_path / "a.csv")
    for path_options in ((), ("--memory", "4kB")):
        out = tmp_path / "out.csv"
        said = done("select", tmp_path / "a.csv", "--features", 2, "--output", out, *path_options)
        assert "kept out and carried along: the one without a name (running numbers)" in said
        assert "--no-ids makes features" in said
        kept = pd.read_csv(out, index_col=0)
        assert list(kept.index) == list(range(N))
        assert set(kept.columns) < {"g0", "g1", "g2", "g3"}
    assert read_table(tmp_path / "a.csv", find_ids=False).names == ["", "g0", "g1", "g2", "g3"]


@pytest.mark.parametrize(
    ("name", "column", "is_id"),
    [
        ("sample", [f"s{i}" for i in range(N)], True),
        ("anything", [f"s{i}" for i in range(N)], True),
        ("when", np.arange(1, N + 1), True),
        ("patient_id", RNG.permutation(N) + 4000, True),
        ("sampleID", RNG.permutation(N) + 4000, True),
        ("dose", RNG.permutation(N) + 4000, False),
        ("id", np.r_[7, 7, RNG.permutation(N - 2) + 4000], False),
        ("steps", np.arange(5, N + 5), False),
        ("from zero", np.arange(float(N)) + 0.5, False),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_ids_are_recognised(tmp_path, name, column, is_id, suffix):
    path = tmp_path / f"a{suffix}"
    table = frame(**{name: column})
    table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
    found, source = read_table(path), open_source(path)
    assert list(found.ids) == [name] * is_id
    assert list(source.ids) == [name] * is_id
    assert found.names == list(source.feature_names)
    if is_id:
        assert [str(cell) for cell in source.aside(name)] == [str(cell) for cell in column]
    # An exact name in ``only`` says that it is a feature, where it can be.
    if is_id and np.asarray(column).dtype.kind == "i":
        assert name in read_table(path, only=[name, "g*"]).names


def test_few_rows_are_no_evidence_of_running_numbers(tmp_path):
    assert read_table(text(tmp_path, "a,b\n1,5\n2,3\n3,4\n")).names == ["a", "b"]


def test_ids_and_labels_are_carried_through(tmp_path):
    classes, sites = ["x", "y"] * (N // 2), ["p", "q", "r"] * (N // 3)
    path = tmp_path / "a.csv"
    frame(who=[f"w{i}" for i in range(N)], site=sites, kind=classes).to_csv(path, index=False)
    for more in ((), ("--memory", "4kB")):
        for suffix in (".csv", ".parquet", ".arrow"):
            out = tmp_path / f"out{suffix}"
            done(
                *("select", path, "--id", "who", "--label", "kind", "--label", "site"),
                *("--features", 2, "--output", out, *more),
            )
            read = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".arrow": pd.read_feather}
            kept = read[suffix](out)
            assert list(kept.columns[[0, -2, -1]]) == ["who", "kind", "site"]
            assert kept["who"].tolist() == [f"w{i}" for i in range(N)]
            assert kept["kind"].tolist() == classes
            assert kept["site"].tolist() == sites
            again = read_table(out, label=["kind", "site"])
            assert again.label_name == "kind"
            assert list(again.all_labels) == ["kind", "site"]
            assert list(again.ids) == ["who"]


def test_several_labels_in_an_archive(tmp_path):
    table = Table(VALUES, list("abcd"), np.arange(N), "k", [], {"who": np.arange(N).astype(str)})
    write_table(tmp_path / "a.npz", table)
    found = read_table(tmp_path / "a.npz", ids="who")
    assert found.ids["who"].tolist() == table.ids["who"].tolist()
    assert found.label_name == "y"
    assert found.names == list("abcd")
    with pytest.raises(TableError, match="no column whom for ids; "):
        read_table(tmp_path / "a.npz", ids="whom")


def test_transform_carries_ids_and_labels(tmp_path):
    path = tmp_path / "a.csv"
    frame(who=[f"w{i}" for i in range(N)], kind=["x", "y"] * (N // 2)).to_csv(path, index=False)
    done("select", path, "--features", 2, "--label", "kind", "--save", tmp_path / "m.skops")
    out = tmp_path / "out.csv"
    done("transform", tmp_path / "m.skops", path, "--label", "kind", "--output", out)
    kept = pd.read_csv(out)
    assert list(kept.columns[[0, -1]]) == ["who", "kind"]
    assert kept["who"].tolist() == [f"w{i}" for i in range(N)]


def test_a_column_that_the_model_knows_is_a_feature_whatever_it_looks_like(tmp_path):
    path = tmp_path / "a.csv"
    frame(id=np.arange(N)).to_csv(path, index=False)
    model = tmp_path / "m.skops"
    done("select", path, "--no-ids", "--features", 5, "--save", model)
    done("transform", model, path, "--output", tmp_path / "out.csv")
    assert "id" in pd.read_csv(tmp_path / "out.csv").columns


def test_drop_and_only_take_names_and_patterns(tmp_path):
    path = tmp_path / "a.csv"
    frame(QC_a=VALUES[:, 0], QC_b=VALUES[:, 1], **{"g*": VALUES[:, 2]}).to_csv(path, index=False)
    for read in (lambda **o: read_table(path, **o).names, lambda **o: list(opened(path, **o))):
        assert read(drop="QC_*") == ["g0", "g1", "g2", "g3", "g*"]
        assert read(only="g?", drop=["g0", "g1"]) == ["g2", "g3", "g*"]
        assert read(only="g*") == ["g*"]  # a name is never taken as a pattern
        with pytest.raises(TableError, match="has no column QCa for drop; did you mean QC_a"):
            read(drop="QCa")
    assert "has no column zz* for --only; it has" in refused("select", path, "--only", "zz*")


def opened(path, **options):
    return open_source(path, **options).feature_names


@pytest.mark.parametrize("command", ["select", "compare", "path"])
def test_every_command_has_the_options(tmp_path, command):
    path = tmp_path / "a.csv"
    frame(site=["p", "q"] * (N // 2), extra=1.0).to_csv(path)
    more = ("--methods", "greedy", "--features", 2) if command == "compare" else ()
    said = done(command, path, "--drop", "extra", "--label", "site", *more)
    assert f"{N} samples × 4 features" in said


def test_one_column_cannot_be_both(tmp_path):
    path = text(tmp_path, "a,b,c\n1,2,3\n4,5,7\n")
    with pytest.raises(TableError, match="'a' is named both in ids and as label"):
        read_table(path, ids="a", label=["b", "a"])
    for wrong in ({"categories": "dummy"}, {"decimal": "x"}):
        with pytest.raises(TableError, match="must be"):
            read_table(path, **wrong)


def test_the_bundled_table_has_one_label():
    assert "the label column of the bundled table is diagnosis" in refused(
        "select", "--label", "kind"
    )
    said = done("select", "--only", "*texture*", "--features", 1)
    assert "× 3 features" in said


def test_categories_become_groups_of_columns(tmp_path):
    path = tmp_path / "a.csv"
    sites = ["p", "q", None] * (N // 3)
    frame(site=sites, who=[f"w{i}" for i in range(N)]).to_csv(path, index=False)
    table = read_table(path, categories="onehot")
    assert table.names[4:] == ["site=p", "site=q"]
    assert table.groups == {"site": ["site=p", "site=q"]}
    np.testing.assert_array_equal(table.values[:3, 4:], [[1, 0], [0, 1], [0, 0]])
    assert table.select([0, 5]).groups == {"site": ["site=q"]}
    assert list(table.ids) == ["who"]
    said = done("select", path, "--categories", "onehot", "--features", 2)
    assert "made columns of 0 and 1 of site" in said
    assert "× 6 features" in said
    for method, more in (("subset", ("--include", "site=p")), ("spca-psd", ()), ("spca", ())):
        result = run(
            *("select", path, "--categories", "onehot", "--features", 3, "--method", method),
            *(*more, "--json"),
        )
        assert result.exit_code == 0, result.output
        kept = {"site=p", "site=q"} & set(json.loads(result.stdout)["kept"])
        assert len(kept) != 1  # all columns of a category, or none
        assert not more or kept
    assert "kept as a whole or not at all: 'site'" in said
    groups = text(tmp_path, "feature,group\ng0,a\ng1,a\n", "groups.csv")
    message = refused(
        *("select", path, "--categories", "onehot", "--groups", groups, "--max-per-group", 1)
    )
    assert "--categories makes groups of columns, and --groups makes others" in message
    message = refused("select", path, "--categories", "onehot", "--memory", "2kB")
    assert "--categories needs all samples at once" in message


# --- tables on their side -----------------------------------------------------------------------


def genes(tmp_path, name="gene", suffix=".csv", rows=40):
    levels = np.random.default_rng(1).lognormal(3, 2, size=(rows, 1))
    values = levels * np.random.default_rng(2).lognormal(0, 0.3, size=(rows, 12))
    table = pd.DataFrame(values, columns=[f"s{i}" for i in range(12)])
    table.insert(0, name, [f"G{i}" for i in range(rows)])
    path = tmp_path / f"genes{suffix}"
    table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
    return path, values


def test_a_table_on_its_side_is_recognised(tmp_path):
    path, _ = genes(tmp_path)
    assert "features in rows: its rows are named by 'gene'; if so, add --transpose" in done(
        "select", path, "--features", 2
    )
    path, _ = genes(tmp_path, name="", rows=1200)
    (note,) = [note for note in read_table(path).notes if "in rows" in note]
    assert "1200 named rows" in note
    assert note.endswith("transpose=True")
    # Samples are named too, and there may be thousands: these have features that differ.
    many = pd.DataFrame(np.random.default_rng(3).standard_normal((1200, 5)), columns=list("abcde"))
    many.insert(0, "", [f"s{i}" for i in range(1200)])
    many.to_csv(tmp_path / "tall.csv", index=False)
    assert not any("in rows" in note for note in read_table(tmp_path / "tall.csv").notes)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_transpose(tmp_path, suffix):
    path, values = genes(tmp_path, suffix=suffix)
    table = read_table(path, transpose=True)
    assert table.names == [f"G{i}" for i in range(40)]
    assert table.ids["sample"].tolist() == [f"s{i}" for i in range(12)]
    np.testing.assert_allclose(table.values, values.T)
    assert "transposed" in table.notes
    # Names are those after the transposition.
    part = read_table(path, transpose=True, label="G3", drop="G1?")
    assert len(part.names) == 29
    np.testing.assert_allclose(part.labels, values[3])
    assert "12 samples × 40 features" in done("select", path, "--transpose", "--features", 2)


def test_arrays_are_transposed_in_blocks(tmp_path):
    values = VALUES.T.copy()
    np.save(tmp_path / "a.npy", values)
    np.testing.assert_array_equal(read_table(tmp_path / "a.npy", transpose=True).values, VALUES)
    source = open_source(tmp_path / "a.npy", transpose=True)
    assert (source.n_samples, source.n_features) == (N, 4)
    np.testing.assert_array_equal(np.vstack(list(source.blocks(9))), VALUES)
    np.testing.assert_array_equal(source.read_columns(np.array([1, 3])), VALUES[:, [1, 3]])
    twin = GreedySelector(n_features_to_select=2).fit(VALUES)
    model = GreedySelector(n_features_to_select=2).fit(source)
    np.testing.assert_array_equal(model.get_support(), twin.get_support())
    frame().to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(TableError, match=r"transposed in blocks.*\.npy, HDF5 or Zarr"):
        open_source(tmp_path / "a.csv", transpose=True)


# --- text as people write it --------------------------------------------------------------------

EXPECTED = [[1.5, 1234.5], [2.25, 12.0], [-3.0, 0.125]]


@pytest.mark.parametrize(
    "content",
    [
        "a;b\n1,5;1.234,5\n2,25;12\n-3;0,125\n",
        "a;b\n1,5;1 234,5\n2,25;12\n-3;0,125\n",
        "a;b\n1,5;1\u202f234,5\n2,25;12\n\u22123;0,125\n",
        "a\tb\n1,5\t1234,5\n2,25\t12,0\n-3,00\t0,125\n",
        'a,b\n1.5,"1,234.5"\n2.25,12\n-3,.125\n',
        '"a","b"\n"1.5","1234.5"\n"2.25","12"\n"-3","0.125"\n',
        "a,b\n1.5 ,1'234.5\n2.25,12\n-3,0.125\n",
        "# made by a machine\n# with, commas\na,b\n1.5,1234.5\n2.25,12\n# a word\n-3,0.125\n",
        "#a,b\n1.5,1234.5\n2.25,12\n-3,0.125\n",
        "\n\na,b\n1.5,1234.5\n\n2.25,12\n-3,0.125\n",
    ],
)
def test_numbers_as_people_write_them(tmp_path, content):
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        path = text(tmp_path, content, encoding=encoding)
        table = read_table(path)
        assert table.names == ["a", "b"]
        np.testing.assert_array_equal(table.values, EXPECTED)
        source = open_source(path)
        np.testing.assert_array_equal(source.read(), EXPECTED)
        assert source.notes == table.notes


def test_three_digits_behind_a_comma(tmp_path):
    assert read_table(text(tmp_path, "a;b\n0,125;1\n2,250;3\n")).values[0, 0] == 0.125
    assert read_table(text(tmp_path, 'a,b\n"1,125",1\n"2,250",3\n')).values[0, 0] == 1125
    doubtful = text(tmp_path, "a;b\n1,125;1\n2,250;3\n")
    assert read_table(doubtful).values[0, 0] == 1.125
    assert read_table(doubtful, decimal=".").values[0, 0] == 1125
    assert "× 2 features" in done("select", doubtful, "--decimal", ".", "--features", 1)
    assert decimal_of(["1.234", "5"], ";") == "."
    assert is_numeral("1.234.567,8", ",")
    assert not is_numeral("1.23.4", ",")


@pytest.mark.parametrize(
    "marker", ["n/a", "#N/A", "<NA>", "None", "-", "--", ".", "NaT", "NA", "", "nan"]
)
def test_more_markers_of_missing_values(tmp_path, marker):
    path = text(tmp_path, f"a,b\n1,2\n{marker},4\n4,5\n")
    np.testing.assert_array_equal(read_table(path, impute="mean").values[:, 0], [1, 2.5, 4])


def test_a_cell_that_is_no_number_is_named(tmp_path):
    path = text(tmp_path, "dose,w\n1,2\n2,4\nlow,5\n4,6\n")
    message = refused("select", path)
    assert re.search("data.csv has 'low' in data row 3 of column dose.*--drop dose", message)
    assert "× 1 feature " in done("select", path, "--drop-text", "--features", 1)
    late = text(tmp_path, "a;b\n" + "1,5;1\n2,5;2\n" * 3000 + "x;1\n", "late.csv")
    with pytest.raises(TableError, match="'x' in data row 6001 of column a"):
        read_table(late)


def test_a_late_cell_of_a_file_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("jointsparse.sources.files.arrow.ArrowSource._text_bytes", 1 << 10)
    late = text(tmp_path, "a;b\n" + "1 000,5;1\n2 000,5;2\n" * 300 + "x;1\n")
    source = open_source(late)
    assert source.feature_names.tolist() == ["a", "b"]
    with pytest.raises(TableError, match=r"'x' in data row 601 of column a.*drop='a'"):
        source.read()


def test_other_encodings(tmp_path):
    for encoding in ("latin-1", "utf-16", "utf-16-le", "cp1252"):
        path = text(tmp_path, "größe;b;ort\n1,5;2;Köln\n2,5;3;Åre\n4;1;Köln\n", encoding=encoding)
        for options in ({}, {"encoding": encoding}):
            table = read_table(path, label="ort", **options)
            assert table.names == ["größe", "b"]
            assert table.labels.tolist() == ["Köln", "Åre", "Köln"]
        source = open_source(path, label="ort")
        assert source.aside("ort").tolist() == ["Köln", "Åre", "Köln"]
    with pytest.raises(TableError, match="encoding called 'klingon'; known ones are"):
        read_table(path, encoding="klingon")
    with pytest.raises(TableError, match="UTF-8"):
        read_table(text(tmp_path, "größe,b\n1,2\n3,5\n", encoding="latin-1"), encoding="utf-8")


def test_two_rows_of_names(tmp_path):
    path = text(tmp_path, "time,flow,flow\ns,in,out\n0.5,1,2\n1.5,3,5\n")
    table = read_table(path)
    assert table.names == ["time_s", "flow_in", "flow_out"]
    assert any("joined two rows of column names" in note for note in table.notes)
    assert open_source(path).feature_names.tolist() == table.names
    # A first row of text among columns of text is data.
    plain = text(tmp_path, "who,site,a\nx,p,1\ny,q,2\nz,p,4\n")
    assert read_table(plain).shape == (3, 1)


def test_tables_that_r_writes(tmp_path):
    named = text(tmp_path, '"","a","b"\n"1",1.5,2\n"2",2.5,NA\n"3",4,7\n', "named.csv")
    bare = text(tmp_path, '"a"\t"b"\n"r1"\t1.5\t2\n"r2"\t2.5\tNA\n"r3"\t4\t7\n', "bare.txt")
    for path, rows in ((named, [1, 2, 3]), (bare, ["r1", "r2", "r3"])):
        table = read_table(path, impute="mean")
        assert table.names == ["a", "b"]
        assert table.ids[""].tolist() == rows
        np.testing.assert_array_equal(table.values[:, 1], [2, 4.5, 7])
    logical = text(tmp_path, "flag,a\nTRUE,1\nFALSE,2\nTRUE,4\n", "logical.csv")
    np.testing.assert_array_equal(read_table(logical).values[:, 0], [1, 0, 1])


def test_dates_text_and_empty_columns_are_left_out_and_listed(tmp_path):
    path = tmp_path / "a.csv"
    days = pd.date_range("2024-01-01", periods=N).repeat(1)
    frame(day=days, note=["good", "bad"] * (N // 2), empty=None).to_csv(path, index=False)
    said = done("select", path, "--features", 2)
    assert "left out 1 empty column: empty" in said
    assert "left out 2 columns that are not numbers: day (dates), note (text)" in said
    pl.from_pandas(frame(day=days)).write_parquet(tmp_path / "a.parquet")
    left_out, in_order = open_source(tmp_path / "a.parquet").notes
    assert left_out == "left out 1 column that is not numbers: day (dates)"
    assert in_order.startswith("the rows are in order of time (day): ")


def test_text_in_parquet_that_is_numbers(tmp_path):
    frame(t=VALUES[:, 0].astype(str), code=["007", "008", "009"] * (N // 3)).to_parquet(
        tmp_path / "a.parquet"
    )
    table = read_table(tmp_path / "a.parquet")
    np.testing.assert_array_equal(table.values[:, -1], VALUES[:, 0])
    assert "code" not in table.names  # leading zeros: codes, not numbers
    source = open_source(tmp_path / "a.parquet")
    np.testing.assert_array_equal(source.read()[:, -1], VALUES[:, 0])


# --- standard input -----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy", ".xlsx", ".npz"])
def test_standard_input(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"a{suffix}"
    if suffix == ".xlsx":
        pytest.importorskip("openpyxl")
        pytest.importorskip("python_calamine")
        frame().to_excel(path, index=False)
    else:
        write_table(path, Table(VALUES, [f"g{j}" for j in range(4)]))
    said = done("select", "-", "--features", 2, input=path.read_bytes())
    assert "jointsparse select -" in said  # what is proposed can be typed
    assert "jointsparse-" not in said
    alone = run("select", "-", input=b"a,b\n1,2\n")
    assert alone.stderr.startswith("jointsparse: standard input has one row of data")
    assert f"standard-input{suffix}" in said
    assert f"{N} samples × 4 features" in said


def test_a_terminal_is_not_waited_for(monkeypatch):
    from jointsparse.cli.errors import CommandError
    from jointsparse.cli.options.tables import spooled

    stream = TextIOWrapper(BytesIO())
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", stream)
    with pytest.raises(CommandError, match="nothing is sent there"):
        spooled("-")


def test_the_report_repeats_what_was_read(tmp_path):
    path = text(
        tmp_path, "a;b;c;k\n" + "".join(f"{i % 7},5;{i % 5};{i * i % 11};x\n" for i in range(N))
    )
    report = tmp_path / "r.html"
    done("select", path, "--features", 2, "--drop", "c", "--label", "k", "--report", report)
    page = report.read_text(encoding="utf-8")
    assert "label=&#39;k&#39;, drop=[&#39;c&#39;]" in page or "label='k', drop=['c']" in page


def test_layouts_are_values():
    assert Layout.of(label="a").labels == ("a",)
    assert Layout.of(ids=["a", "a"]).carried == ("a",)

import contextlib
import csv
import gzip
import io
import os
import re
import stat
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import feather
from scipy import sparse

from jointsparse.io import (
    Table,
    TableError,
    atomic_path,
    check_writable_format,
    read_table,
    write_rows,
    write_table,
)

TEXT = [".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"]
NAMED = [*TEXT, ".parquet", ".arrow", ".feather", ".ipc", ".npz"]
NAMELESS = [".npy", ".mtx", ".npy.gz", ".mtx.gz"]
NAMES = ["plain", 'quo"ted', "com,ma", "new\nline", "ünï;tab\t"]


@pytest.fixture
def numbers():
    return np.random.default_rng(0).normal(size=(7, 5))


OPTION = r"(?<!\w)--[a-z]"


def refused(path, *words, **options):
    with pytest.raises(TableError) as caught:
        read_table(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    assert not re.search(OPTION, message)  # Python has parameters; the command line says options
    in_options = caught.value.cure_option or message
    for word in (str(path.name), *words):
        assert word in (in_options if re.search(OPTION, word) else message)
    return message


def csv_file(folder, content, name="data.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# Round trips


@pytest.mark.parametrize("suffix", NAMED)
@pytest.mark.parametrize("labels", [None, np.array(["p", "q", "p", "q", "p", "q", "r,\n"])])
def test_named_formats_round_trip(tmp_path, numbers, suffix, labels):
    path = tmp_path / f"data{suffix}"
    name = None if labels is None else "y"
    write_table(path, Table(numbers, NAMES, labels, name))
    table = read_table(path, label=name)
    np.testing.assert_array_equal(table.values, numbers)
    assert table.values.dtype == np.float64
    assert table.names == NAMES
    assert table.label_name == name
    assert table.notes == []
    if labels is not None:
        np.testing.assert_array_equal(table.labels, labels)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", NAMELESS)
def test_nameless_formats_round_trip(tmp_path, numbers, suffix):
    path = tmp_path / f"data{suffix}"
    write_table(path, Table(numbers, NAMES, np.arange(7), "y"))
    table = read_table(path)
    np.testing.assert_array_equal(table.values, numbers)
    assert table.names == ["x1", "x2", "x3", "x4", "x5"]
    assert table.labels is None


@pytest.mark.parametrize("suffix", [".mtx", ".mtx.gz"])
def test_sparse_stays_sparse_in_matrix_market(tmp_path, suffix):
    path = tmp_path / f"data{suffix}"
    values = sparse.random_array((20, 1000), density=0.05, rng=np.random.default_rng(1)).tocsr()
    write_table(path, Table(values, [f"g{j}" for j in range(1000)]))
    table = read_table(path)
    assert isinstance(table.values, sparse.csr_array)
    assert (table.values != values).nnz == 0
    assert table.names[0] == "x0001"
    assert table.names[-1] == "x1000"


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz", ".npy"])
def test_sparse_becomes_dense_elsewhere(tmp_path, suffix):
    path = tmp_path / f"data{suffix}"
    write_table(path, Table(sparse.csr_array(np.eye(3)), ["a", "b", "c"]))
    np.testing.assert_array_equal(read_table(path).values, np.eye(3))


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".npy", ".npz", ".npy.gz"])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64])
def test_types_are_kept(tmp_path, suffix, dtype):
    path = tmp_path / f"data{suffix}"
    values = np.arange(6).reshape(3, 2).astype(dtype)
    write_table(path, Table(values, ["a", "b"]))
    table = read_table(path)
    assert table.values.dtype == dtype
    np.testing.assert_array_equal(table.values, values)


@pytest.mark.parametrize(
    ("dtype", "kept"), [("f2", "f8"), (">f4", "f4"), ("?", "u1"), (">i2", "i2")]
)
def test_odd_array_types(tmp_path, dtype, kept):
    np.save(tmp_path / "a.npy", np.eye(2).astype(dtype))
    table = read_table(tmp_path / "a.npy")
    assert table.values.dtype == np.dtype(kept)
    np.testing.assert_array_equal(table.values, np.eye(2))


def test_arrow_types(tmp_path):
    path = tmp_path / "a.parquet"
    columns = {
        "decimal": pa.array([Decimal("1.5"), Decimal("2.5")]),
        "flag": pa.array([True, False]),
        "category": pa.array([1, 2]).dictionary_encode(),
        "small": pa.array([1, 2], pa.uint8()),
        "half": pa.array(np.array([1, 2], np.float16)),
    }
    pq.write_table(pa.table(columns), path)
    table = read_table(path)
    assert table.values.dtype == np.float64
    np.testing.assert_array_equal(table.values, [[1.5, 1, 1, 1, 1], [2.5, 0, 2, 2, 2]])
    assert table.names == list(columns)


def test_float32_with_holes_stays_float32(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": pa.array([1, None, 3, 8], pa.float32())}), path)
    table = read_table(path, impute="median")
    assert table.values.dtype == np.float32
    assert table.values[1, 0] == 3


def test_parquet_takes_nothing_from_directory_names(tmp_path):
    folder = tmp_path / "year=2020"
    folder.mkdir()
    pq.write_table(pa.table({"a": [1, 2]}), folder / "a.parquet")
    assert read_table(folder / "a.parquet").names == ["a"]


odd_name = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(names=st.lists(odd_name, min_size=1, max_size=5, unique=True))
def test_odd_names_survive_csv(tmp_path, names):
    path = tmp_path / "odd.csv"
    # One name that is no number, so that the header is one.
    names = ["a name", *(name for name in names if name != "a name")]
    write_table(path, Table(np.eye(2, len(names)), names))
    expected = [f"'{name}" if name.startswith(tuple("=+-@\t\r")) else name for name in names]
    if len(set(expected)) == len(expected):
        assert read_table(path).names == expected


# Delimited text


def test_csv_details(tmp_path):
    text = '\ufeff"a",b,b,flag\r\n1,"2",3,true\r\n4,5,6.5,false\r\n\r\n'
    table = read_table(csv_file(tmp_path, text))
    assert table.names == ["a", "b", "b.2", "flag"]
    assert table.notes == ["renamed a repeated column b to b.2"]
    np.testing.assert_array_equal(table.values, [[1, 2, 3, 1], [4, 5, 6.5, 0]])


def test_repeated_names_never_collide(tmp_path):
    table = read_table(csv_file(tmp_path, "a,a,a.2,a\n1,2,3,4\n5,6,7,8\n"))
    assert table.names == ["a", "a.3", "a.2", "a.4"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("name", ["data.csv", "data.txt", "DATA.CSV"])
def test_delimiter_is_sniffed(tmp_path, delimiter, name):
    path = csv_file(tmp_path, "a,b\n1,2\n3,4\n".replace(",", delimiter), name)
    np.testing.assert_array_equal(read_table(path).values, [[1, 2], [3, 4]])


def test_single_column(tmp_path):
    table = read_table(csv_file(tmp_path, "a\n1\n2\n"))
    assert table.names == ["a"]
    assert table.values.shape == (2, 1)
    assert table.values.dtype == np.int64


def test_wide_rows(tmp_path):
    path = tmp_path / "wide.csv"
    values = np.random.default_rng(0).normal(size=(3, 20_000))
    write_table(path, Table(values, [f"gene {j}" for j in range(20_000)]))
    np.testing.assert_array_equal(read_table(path).values, values)


def test_label_text_and_numbers(tmp_path):
    path = csv_file(tmp_path, "a,kind,n\n1,x,1\n2,,2\n3,y,\n")
    table = read_table(path, label="kind", impute="mean")
    assert table.labels.tolist() == ["x", "", "y"]
    assert table.label_name == "kind"
    assert table.names == ["a", "n"]
    table = read_table(path, label="n", drop_text=True)
    np.testing.assert_array_equal(table.labels, [1, 2, np.nan])


def test_date_labels(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"d": [date(2020, 1, 2), None], "a": [1, 2]}), path)
    assert read_table(path, label="d").labels.tolist() == ["2020-01-02", ""]


@pytest.mark.parametrize("marker", ["", "NA", "NaN", "nan", "null", "NULL", "N/A", "?", " NA"])
def test_missing_markers(tmp_path, marker):
    path = csv_file(tmp_path, f"a,b\n1,2\n{marker},3\n6,4\n9,5\n")
    refused(path, "1 missing value in 1 column (a)", "impute='median'", "--missing median")
    table = read_table(path, impute="median")
    np.testing.assert_array_equal(table.values[:, 0], [1, 6, 6, 9])
    assert table.notes == ["filled 1 missing value in 1 column with the median"]


def test_impute_mean_over_columns(tmp_path):
    path = csv_file(tmp_path, "a,b\n1,NA\n,2\n3,\n")
    table = read_table(path, impute="mean")
    np.testing.assert_array_equal(table.values, [[1, 2], [2, 2], [3, 2]])
    assert table.notes == ["filled 3 missing values in 2 columns with the mean"]
    with pytest.raises(TableError, match="'median' or 'mean', not 'mode'"):
        read_table(path, impute="mode")


def test_drop_text(tmp_path):
    path = csv_file(tmp_path, "id,name,a\nr1,n1,1\nr2,n2,2\n")
    table = read_table(path, drop_text=True)
    assert table.names == ["a"]
    assert {name: column.tolist() for name, column in table.ids.items()} == {
        "id": ["r1", "r2"],
        "name": ["n1", "n2"],
    }
    assert "2 columns taken as IDs, kept out and carried along: id (different" in table.notes[0]
    assert "--no-ids" in table.notes[0].in_options


# Refusals


def test_text_is_refused_at_its_first_bad_cell(tmp_path):
    path = csv_file(tmp_path, "a,b\n1,2\n3,4\n-1.5e3,oops\n")
    message = refused(
        path, "'oops' in data row 3 of column b", "drop='b'", "--drop b", "--drop-text"
    )
    assert "label" not in message
    table = read_table(path, drop_text=True)
    assert table.names == ["a"]
    assert table.notes == ["left out 1 column that is not numbers: b (text)"]


def test_text_that_looks_like_labels(tmp_path):
    path = csv_file(tmp_path, "id,kind,a\nq,x,1\nr,y,2\ns,x,3\nt,y,3\n")
    note = read_table(path).notes[-1]
    assert "kind (text); label='kind' keeps one aside" in note
    assert "--label kind keeps one aside" in note.in_options


def test_at_most_five_names(tmp_path):
    names = [*(f"t{j}" for j in range(8)), "a"]
    path = csv_file(tmp_path, f"{','.join(names)}\n{'x,' * 8}1\n{'x,' * 8}2\n")
    (note,) = read_table(path).notes
    assert note.startswith("left out 8 columns that are not numbers: t0 (text)")
    assert note.endswith("t4 (text) and 3 more")


def test_dates_are_left_out(tmp_path):
    path = csv_file(tmp_path, "day,a\n2020-01-02,1\n2020-01-03,2\n")
    assert read_table(path).notes == ["left out 1 column that is not numbers: day (dates)"]


@pytest.mark.parametrize(("days", "told"), [(range(1, 10), True), (range(9, 0, -1), False)])
def test_rows_in_order_of_time_are_no_independent_samples(tmp_path, days, told):
    rows = "".join(f"2020-01-{day:02d},{day % 3}\n" for day in days)
    notes = read_table(csv_file(tmp_path, f"day,a\n{rows}")).notes
    assert any("the rows are in order of time (day)" in note for note in notes) is told
    same = "".join(f"2020-01-01,{day % 3}\n" for day in days)
    assert len(read_table(csv_file(tmp_path, f"day,a\n{same}")).notes) == 1


def test_nested_columns_are_left_out(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"l": [[1], [2]], "b": [b"\xff", b"x"], "a": [1, 2]}), path)
    table = read_table(path)
    assert table.names == ["a"]
    assert table.notes == ["left out 2 columns that are not numbers: l (list), b (binary)"]
    refused(path, "l", label="l")


@pytest.mark.parametrize("cell", ["inf", "-inf", "Infinity", "1e999"])
def test_infinite_values(tmp_path, cell):
    path = csv_file(tmp_path, f"a,b\n1,2\n3,{cell}\n")
    refused(path, "infinite value", "inf in column b, data row 2", impute="mean")


def test_infinite_values_in_arrays(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[1, np.inf], [np.nan, -np.inf]], np.float32))
    refused(tmp_path / "a.npy", "infinite value inf in column x2, data row 1")


def test_large_finite_values_pass(tmp_path):
    np.save(tmp_path / "a.npy", np.full((4, 2), 1e308))
    assert read_table(tmp_path / "a.npy").values.max() == 1e308


def test_missing_values_in_arrays(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.array([[1, 2], [np.nan, 4], [3, 5]]))
    refused(path, "1 missing value in 1 column (x1)")
    assert read_table(path, impute="mean").values[1, 0] == 2


def test_sparse_holes(tmp_path):
    text = "%%MatrixMarket matrix coordinate real general\n3 2 2\n1 1 1.5\n3 2 nan\n"
    path = csv_file(tmp_path, text, "a.mtx")
    refused(path, "nan in column x2, data row 3", impute="mean")


def test_column_without_values(tmp_path):
    path = csv_file(tmp_path, "a,b,c\n1,,2\n3,NA,4\n")
    table = read_table(path)
    assert table.names == ["a", "c"]
    assert table.notes == ["left out 1 empty column: b"]
    table = read_table(path, impute="keep")  # a model may have been fitted to it
    assert table.names == ["a", "b", "c"]
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [np.nan, np.nan]}), tmp_path / "b.parquet")
    refused(tmp_path / "b.parquet", "without a single value (b)", "--drop b", impute="mean")


WAVES = ["900", "902.5", "905", "907.5", "910", "912.5", "915", "917.5"]
RISING = (
    "the first line, whose numbers rise or fall from column to column (900, 902.5, …), is taken"
)


@pytest.mark.parametrize(
    ("first", "row_names", "told"),
    [
        (WAVES, None, True),
        (["", *WAVES[:3]], ["0", "1", "2"], True),  # as pandas writes its index
        (["", *WAVES[:3]], ["0.5", "1.5", "2.5"], True),
        (["", "1960", "1940"], ["food", "rent", "health"], False),
        (["1960", "1940"], ["food", "rent", "health"], False),  # as R writes row names
    ],
)
def test_names_may_be_numbers(tmp_path, first, row_names, told):
    names = [name for name in first if name]
    values = np.random.default_rng(0).integers(0, 99, (3, len(names)))
    values[:, 1] = values[:, 0]  # in no order
    rows = [list(map(str, row)) for row in values]
    if row_names is not None:
        rows = [[one, *row] for one, row in zip(row_names, rows, strict=True)]
    lines = [",".join(cells) for cells in (first, *rows)]
    (path := tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    table = read_table(path)
    assert table.names == names
    np.testing.assert_array_equal(table.values, values)
    assert any(note.startswith(RISING) for note in table.notes) == told
    assert list(table.ids) == ([] if row_names is None else [""])


@pytest.mark.parametrize(
    "text",
    [
        ",".join(WAVES[:7]) + "\n1,2,1,2,1,2,1\n2,1,1,1,2,1,2\n",  # seven may rise by chance
        ",".join(WAVES) + "\n1,2,3,4,5,6,7,8\n2,1,1,1,2,1,2,1\n",  # as another row does
        ",5,3,4\n1,1,2,1\n2,1,1,1\n",  # the first cell may be missing
        ",3,4\n1,1,2\n2,1,1\n",
        ",3,4,5\n1,1,2,2\n,1,1,1\n",
    ],
)
def test_a_first_row_of_measurements_is_not_taken_for_names(tmp_path, text):
    (path := tmp_path / "a.csv").write_text(text)
    refused(path, "no header row")


@pytest.mark.parametrize(("first", "is_id"), [([0.5, 1.0, 1.5], True), ([0.5, 1.5, 1.0], False)])
def test_decimals_without_a_name_are_ids_where_they_are_in_order(tmp_path, first, is_id):
    rows = [f"{a},{b},{b * b}" for a, b in zip(first, (3, 1, 2), strict=True)]
    (path := tmp_path / "a.csv").write_text("\n".join([",a,b", *rows]))
    table = read_table(path)
    assert table.names == (["a", "b"] if is_id else ["", "a", "b"])
    if is_id:
        assert "the one without a name (numbers in order)" in str(table.notes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("\n\n", "no readable line of column names"),
        ("1,2\n3,4\n5,6\n", "no header row: its first line is all numbers; add a line of column"),
        ("1,NA,-.5e3\n3,4,5\n", "no header row"),
        ("1100,1104,1108\n.1,.2,.3\n.2,.1,.4\n", "where these numbers are names, such as wave"),
        ("a,b\n", "no rows"),
        ("a,b", "no rows"),
        ("a,b\n\n\n", "no rows"),
        ("a,b\n1,2\n", "at least two samples are needed"),
        ("a,b\n1,2\n3\n", "Row #3: Expected 2 columns, got 1"),
        ("a,b\n1,2\n3,4,5\n", "Expected 2 columns, got 3"),
        (b"a,\xe9\x02\n1,2\n3,4\n", "UTF-8"),
        (f'a,"{"b" * 200_000}\n1,2\n3,4\n', "no readable line of column names"),
    ],
)
def test_csv_refusals(tmp_path, text, words):
    refused(csv_file(tmp_path, text), words)


def test_no_numeric_columns(tmp_path):
    path = csv_file(tmp_path, "a,b\nx,y\nz,w\n")
    refused(path, "no numeric columns", drop_text=True)


def test_text_without_any_number_is_told_how_to_be_read(tmp_path):
    text = "name,class,sex\n" + "".join(f"n{i},{i % 3}rd,{'mf'[i % 2]}\n" for i in range(12))
    path = csv_file(tmp_path, text)
    words = "makes columns of 0 and 1 of class, sex."
    refused(path, f"has no numeric columns; categories='onehot' {words}")
    refused(path, "columns of 0 and 1 of class.", label="sex")
    with pytest.raises(TableError) as error:
        read_table(path)
    assert error.value.cure_option is not None
    assert error.value.cure_option.endswith(f"columns; --categories onehot {words}")
    assert read_table(path, categories="onehot").values.shape == (12, 5)


def test_only_labels(tmp_path):
    refused(csv_file(tmp_path, "a\nx\nz\n"), "no numeric columns", label="a")


def test_unknown_label(tmp_path):
    path = csv_file(tmp_path, "species,a\nx,1\ny,2\n")
    refused(
        path,
        "no column specie for label",
        "no column specie for --label",
        "did you mean species",
        label="specie",
    )
    refused(path, "it has species, a", label="zzz")
    np.save(tmp_path / "a.npy", np.eye(3))
    refused(tmp_path / "a.npy", "--label", label="y")


def test_label_column_of_an_array(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6).reshape(2, 3))
    table = read_table(tmp_path / "a.npy", label="x2")
    assert table.names == ["x1", "x3"]
    assert table.labels.tolist() == [1, 4]
    write_table(tmp_path / "a.mtx", Table(sparse.csr_array(np.eye(3)), ["a", "b", "c"]))
    table = read_table(tmp_path / "a.mtx", label="x3")
    assert table.labels.tolist() == [0, 0, 1]
    assert table.values.shape == (3, 2)


def test_missing_file_directory_suffix(tmp_path):
    refused(tmp_path / "none.csv", "does not exist")
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    refused(folder, "is a directory")
    for name in ("a.doc", "a.parquet.gz", "a.npz.gz", "a", "a.gz"):
        refused(csv_file(tmp_path, "a\n1\n2\n", name), "supported", ".csv", ".parquet", ".mtx.gz")


def test_permission_denied(tmp_path, monkeypatch):
    path = csv_file(tmp_path, "a\n1\n2\n")

    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    refused(path, "permission denied")


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".npy", ".npz", ".csv.gz", ".mtx.gz"])
def test_truncated_files(tmp_path, suffix):
    path = tmp_path / f"data{suffix}"
    write_table(path, Table(np.random.default_rng(0).normal(size=(50, 4)), list("abcd")))
    path.write_bytes(path.read_bytes()[:-200])
    refused(path, "damaged")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".npy", ".npz", ".csv.gz", ".mtx"])
def test_garbage(tmp_path, suffix):
    refused(csv_file(tmp_path, b"not what it says" * 9, f"data{suffix}"), "damaged")


def test_flipped_bytes_never_escape_as_other_errors(tmp_path):
    random = np.random.default_rng(0)
    for suffix in (".parquet", ".feather", ".npy", ".npz", ".mtx", ".npy.gz"):
        path = tmp_path / f"data{suffix}"
        write_table(path, Table(np.eye(3), list("abc")))
        original = path.read_bytes()
        for at in random.choice(len(original), 40):
            broken = bytearray(original)
            broken[at] ^= 1 << int(random.integers(8))
            path.write_bytes(broken)
            with contextlib.suppress(TableError):
                read_table(path)


# NumPy archives


def test_npz_with_everything(tmp_path, numbers):
    path = tmp_path / "a.npz"
    names = np.array(list("abcde"))
    np.savez(path, X=numbers, y=np.arange(7), feature_names=names, group=np.array(list("aabbccd")))
    table = read_table(path)
    assert table.names == list("abcde")
    assert table.label_name == "y"
    assert table.labels.tolist() == list(range(7))
    assert read_table(path, label="group").labels.tolist() == list("aabbccd")
    assert read_table(path, label="c").names == list("abde")


def test_npz_only_matrix(tmp_path, numbers):
    path = tmp_path / "a.npz"
    np.savez(path, data=numbers, weights=np.ones(7))
    np.testing.assert_array_equal(read_table(path).values, numbers)
    np.savez(path, data=numbers, other=numbers)
    refused(path, "exactly one 2-D array; it has data, other")
    np.savez(path, one=np.ones(3))
    refused(path, "it has one")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": np.ones((3, 2)), "y": np.ones(4)}, ["labels y of shape (4,)", "3 rows"]),
        ({"X": np.ones((3, 2)), "feature_names": np.array(["a"])}, ["1 feature_names for 2"]),
        ({"X": np.ones((3, 2), dtype=object)}, ["Python objects"]),
        ({"X": np.ones(3)}, ["shape (3,)"]),
    ],
)
def test_npz_refusals(tmp_path, arrays, words):
    np.savez(tmp_path / "a.npz", **arrays)
    refused(tmp_path / "a.npz", *words)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.ones(3), "shape (3,)"),
        (np.ones((2, 3, 4)), "shape (2, 3, 4)"),
        (np.array([["a", "b"], ["c", "d"]]), "real numbers"),
        (np.ones((2, 2), complex), "complex"),
        (np.array([[{}, 1], [2, 3]], dtype=object), "Python objects"),
        (np.ones((1, 3)), "at least two samples"),
        (np.ones((0, 3)), "no rows"),
        (np.ones((3, 0)), "no numeric columns"),
    ],
)
def test_array_refusals(tmp_path, array, words):
    np.save(tmp_path / "a.npy", array)
    refused(tmp_path / "a.npy", words)


def test_an_archive_suffix_on_a_single_array(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.eye(2))
    refused(csv_file(tmp_path, buffer.getvalue(), "a.npz"), "not what its suffix says")


# Writing


FORMULAS = ["=1+1", "+a", "-a", "@a", "\ta", "\ra"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_formulas_are_defused_in_text(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    labels = np.array(["=cmd()", "-b"])
    write_table(path, Table(-np.ones((2, 6)), FORMULAS, labels, "@y"))
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.reader(stream, delimiter="," if suffix == ".csv" else "\t"))
    assert rows[0] == [f"'{name}" for name in [*FORMULAS, "@y"]]
    assert rows[1] == ["-1"] * 6 + ["'=cmd()"]
    assert rows[2] == ["-1"] * 6 + ["'-b"]


def test_formulas_are_kept_in_binary_formats(tmp_path):
    write_table(tmp_path / "a.parquet", Table(np.eye(6), FORMULAS))
    assert read_table(tmp_path / "a.parquet").names == FORMULAS


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz"])
def test_write_rows(tmp_path, suffix):
    path = tmp_path / f"ranking{suffix}"
    rows = ([name, np.float64(-0.5), -3, None] for name in ['a,"b\n', "=x"])
    write_rows(path, ["feature", "-score", "rank", "note"], rows)
    opener = gzip.open if suffix.endswith(".gz") else open
    with opener(path, "rt", newline="", encoding="utf-8") as stream:
        found = list(csv.reader(stream, delimiter="\t" if suffix == ".tsv" else ","))
    assert found == [
        ["feature", "'-score", "rank", "note"],
        ['a,"b\n', "-0.5", "-3", ""],
        ["'=x", "-0.5", "-3", ""],
    ]


@pytest.mark.parametrize("failure", [RuntimeError("stop"), KeyboardInterrupt()])
def test_failure_leaves_nothing(tmp_path, failure):
    def rows():
        yield ["a", 1]
        raise failure

    path = tmp_path / "a.csv.gz"
    with pytest.raises(type(failure)):
        write_rows(path, ["name", "value"], rows())
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"old")

    def fail_halfway():
        with atomic_path(path) as temporary:
            assert temporary.parent == path.parent
            assert temporary.suffixes[-2:] == [".csv", ".gz"]
            temporary.write_bytes(b"new")
            raise failure

    with pytest.raises(type(failure)):
        fail_halfway()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk_is_told(tmp_path):
    path = tmp_path / "a.csv"
    told = r"a\.csv cannot be written: No space left on device\."
    with pytest.raises(TableError, match=told), atomic_path(path):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_atomic_path_replaces(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o640)
    link = tmp_path / "link.txt"
    link.symlink_to(path)
    with atomic_path(link) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new"
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_unwritable_targets(tmp_path, monkeypatch):
    (tmp_path / "folder.csv").mkdir()
    for write in (lambda p: write_rows(p, ["a"], []), check_writable_format):
        with pytest.raises(TableError, match=r"no directory .*nowhere"):
            write(tmp_path / "nowhere" / "a.csv")
        with pytest.raises(TableError, match="is a directory"):
            write(tmp_path / "folder.csv")
    path = csv_file(tmp_path, "old")
    monkeypatch.setattr(os, "access", lambda *args: False)
    with pytest.raises(TableError, match="read-only"):
        write_table(path, Table(np.eye(2), ["a", "b"]))


def test_check_writable_format(tmp_path):
    for suffix in (*NAMED, *NAMELESS):
        check_writable_format(tmp_path / f"a{suffix}")
    for name in ("a.doc", "a.npz.gz", "a"):
        with pytest.raises(TableError, match=r"supported ones are \.csv"):
            check_writable_format(tmp_path / name)
    for name in ("a.xlsx", "a.h5ad", "a.h5"):
        with pytest.raises(TableError, match="read and not written"):
            check_writable_format(tmp_path / name)


def test_same_table_same_bytes(tmp_path):
    for name in ("a.csv.gz", "b.csv.gz"):
        write_table(tmp_path / name, Table(np.eye(3), list("abc")))
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_select():
    table = Table(np.arange(6).reshape(2, 3), list("abc"), np.array([0, 1]), "y", ["note"])
    chosen = table.select([2, 0])
    assert chosen.names == ["c", "a"]
    np.testing.assert_array_equal(chosen.values, [[2, 0], [5, 3]])
    assert (chosen.labels is table.labels, chosen.label_name, chosen.notes) == (True, "y", ["note"])
    assert table.select([]).values.shape == (2, 0)
    wide = Table(sparse.csr_array(np.eye(3)), list("abc")).select(np.array([1]))
    assert isinstance(wide.values, sparse.csr_array)
    with pytest.raises(TypeError, match="integer"):
        table.select(np.array([True, False, True]))
    with pytest.raises(IndexError):
        table.select([3])


def test_import_stays_light():
    code = "import sys, jointsparse.io; print({'pyarrow', 'scipy.io'} & set(sys.modules))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert output.stdout.strip() == "set()"


def test_arrow_written_elsewhere(tmp_path):
    feather.write_feather(pa.table({"a": [1.5, None], "b": [1, 2]}), str(tmp_path / "a.arrow"))
    refused(tmp_path / "a.arrow", "1 missing value in 1 column (a)")


def test_sparse_infinity_is_refused_without_warnings(tmp_path, recwarn):
    text = "%%MatrixMarket matrix coordinate real general\n3 2 2\n1 1 1.5\n3 2 inf\n"
    refused(csv_file(tmp_path, text, "a.mtx"), "inf in column x2, data row 3")
    assert not recwarn.list


def test_label_column_of_an_array_with_holes(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[1, 2], [np.nan, 4], [3, 5]]))
    table = read_table(tmp_path / "a.npy", label="x2", impute="median")
    assert table.labels.tolist() == [2, 4, 5]
    assert table.values.ravel().tolist() == [1, 2, 3]


def test_damaged_end_of_matrix_market(tmp_path):
    text = "%%MatrixMarket matrix array real general\n2 2\n1\n0\n0\n1 "
    assert read_table(csv_file(tmp_path, text, "a.mtx")).values.tolist() == [[1, 0], [0, 1]]


def test_large_csv_in_several_blocks(tmp_path):
    path = tmp_path / "large.csv"
    values = np.random.default_rng(0).normal(size=(250_000, 5))
    values[:200_000, 0] = 1  # whole numbers first, so that the type changes late
    write_table(path, Table(values, list("abcde")))
    assert path.stat().st_size > 1 << 24
    np.testing.assert_array_equal(read_table(path).values, values)
    with path.open("a") as stream:
        stream.write("1,2,3\n")
    refused(path, "Expected 5 columns, got 3")


def test_late_bytes_that_are_not_utf8(tmp_path):
    path = csv_file(tmp_path, b"a,b\n" + b"1,x\n" * 9000 + b"2,caf\xe9\n")
    table = read_table(path, label="b")
    assert table.labels[-1] == "café"
    assert table.notes == ["read as cp1252 text, since it is not UTF-8"]


def test_categories(tmp_path):
    columns = {"n": pa.array([3, 4]).dictionary_encode(), "s": pa.array(["u", "v"])}
    columns["s"] = columns["s"].dictionary_encode()
    feather.write_feather(pa.table(columns), str(tmp_path / "a.feather"))
    table = read_table(tmp_path / "a.feather", label="s")
    assert table.values.tolist() == [[3], [4]]
    assert table.labels.tolist() == ["u", "v"]

"""Delimited text in pieces of whole rows, and text of many columns, row by row."""

import io

import numpy as np
import pytest

from jointsparse import open_source
from jointsparse.io import TableError, read_table
from jointsparse.io.plain_text.pieces import pieces


def cut(text, size, lines=1, memory=10**6, path="x.csv"):
    return list(pieces(path, io.BytesIO(text), lines, size, memory))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_pieces_are_whole_rows(end, size):
    rows = [b'1,"a b"', b"22,c", b'3,"d,""e"""', b"4,f"]
    text = end.join([b"# made by hand", b"n,t", *rows]) + end
    found = cut(text, size, lines=2)
    assert b"".join(found) == end.join(rows) + end
    begins = {row[:2] for row in rows}
    assert all(piece[:2] in begins for piece in found)


def test_a_line_end_within_quotes_ends_no_row():
    found = cut(b'a\n"one\ntwo"\n"three\n', 4)
    assert found == [b'"one\ntwo"\n', b'"three\n']


def test_a_row_that_never_ends():
    with pytest.raises(TableError, match="has a row of more than 1 kB"):
        cut(b"a\n" + b"1" * 5000, 10, memory=1000)


def test_marks_of_inches_do_not_join_all_rows(monkeypatch):
    monkeypatch.setattr("jointsparse.io.plain_text.pieces.LONGEST", 20)
    rows = b'5" pipe,1\nrod,2\nbar,3\nbeam,4\n'
    found = cut(b"a,b\n" + rows, 8)
    assert b"".join(found) == rows
    assert len(found) > 1


def wide(tmp_path, lines, name="w.csv", header=None):
    names = header or "id," + ",".join(f"g{j}" for j in range(2500))
    path = tmp_path / name
    path.write_text("\n".join([names, *lines]) + "\n")
    return path


def numbers(rng=None, decimals=3):
    return (rng or np.random.default_rng(0)).standard_normal(2500).round(decimals)


def test_many_columns_are_read_as_few_are(tmp_path):
    rng = np.random.default_rng(0)
    X = np.array([numbers(rng) for _ in range(12)])
    cells = [[str(value) for value in row] for row in X]
    cells[2][5], cells[4][7] = "NA", ""
    lines = [",".join([f'"s {i}"' if i % 2 else f"s {i}", *row]) for i, row in enumerate(cells)]
    lines[3:3] = ["", "# a remark"]
    table = read_table(wide(tmp_path, lines), impute="keep")
    expected = X.copy()
    expected[2, 5] = expected[4, 7] = np.nan
    np.testing.assert_array_equal(table.values, expected)
    assert table.names == [f"g{j}" for j in range(2500)]
    assert table.ids["id"].tolist() == [f"s {i}" for i in range(12)]


def test_many_columns_as_people_write_them(tmp_path):
    header = ";".join(["ok", "day", *(f"g{j}" for j in range(2500))])
    row = ["true", "2024-01-01", "1 000,5", *["2,25"] * 2499]
    other = ["false", "2024-01-02", "7,5", *["3,25"] * 2499]
    table = read_table(wide(tmp_path, [";".join(row), ";".join(other)], header=header))
    assert table.names[:2] == ["ok", "g0"]
    np.testing.assert_array_equal(table.values[:, :3], [[1, 1000.5, 2.25], [0, 7.5, 3.25]])
    assert "day (dates)" in table.notes[-1]


def test_what_is_wrong_in_many_columns_is_named(tmp_path):
    good = ",".join(["1", *["2"] * 2500])
    with pytest.raises(TableError, match="has 2500 cells in data row 2, and 2501 columns"):
        read_table(wide(tmp_path, [good, good[:-2]]))
    bad = ",".join(["1", "low", *["2"] * 2499])
    with pytest.raises(TableError, match="'low' in data row 3 of column g0"):
        read_table(wide(tmp_path, [good, good, bad]))
    with pytest.raises(TableError, match="does not fit in memory: names of 2501 columns"):
        read_table(wide(tmp_path, [good, good]), memory="1MB")
    with pytest.raises(TableError, match=r"does not fit in memory: its first . rows"):
        read_table(wide(tmp_path, [good, good]), memory=2501 * 620)


def test_a_late_row_is_named_by_its_number_in_the_file(tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("a,b\n" + "1,2\n" * 40_000 + "1,x\n")
    with pytest.raises(TableError, match=r"has 'x' in data row 40001 of column b.*drop='b'"):
        list(open_source(path, memory="1MB").blocks())
    path.write_text("a,b\n" + "1,2\n" * 40_000 + "1\n")
    with pytest.raises(TableError, match="has 1 cells in data row 40001, and 2 columns"):
        list(open_source(path, memory="1MB").blocks())

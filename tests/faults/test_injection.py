"""Names are data: in a table, a page, a terminal or a path they do nothing."""

import csv
import html.parser
import os

import numpy as np
import pytest
from typer.testing import CliRunner

from jointsparse.cli.main import app
from jointsparse.io import Table, TableError, read_table, write_rows, write_table
from jointsparse.io.atomic import atomic_path
from jointsparse.sources import open_source

FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"]
MARKUP = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "{{ 7 * 7 }}",
    "javascript:alert(1)",
    "&lt;b&gt;",
]


def cells(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


def test_formulas_in_the_files_of_select(tmp_path):
    """Whatever file of text a run writes: a spreadsheet that opens it runs no formula."""
    values = np.random.default_rng(0).standard_normal((30, 6)) * np.arange(1, 7)
    labels = np.array(["=HYPERLINK(1)", "+x"] * 15)
    write_table(tmp_path / "in.parquet", Table(values, FORMULAS, labels, "@label"))
    arguments = ["select", tmp_path / "in.parquet", "--label", "@label", "--features", 6]
    arguments += ["--output", tmp_path / "kept.csv", "--ranking", tmp_path / "ranking.csv"]
    result = CliRunner().invoke(app, [str(word) for word in arguments])
    assert result.exit_code == 0, result.output
    for name in ("kept.csv", "ranking.csv"):
        for row in cells(tmp_path / name):
            for cell in row:
                is_number = cell.replace("-", "", 1).replace(".", "", 1).replace("e-", "").isdigit()
                assert is_number or not cell.startswith(("=", "+", "-", "@", "\t", "\r")), cell


def test_formulas_written_in_blocks(tmp_path):
    write_table(tmp_path / "in.parquet", Table(np.eye(6), FORMULAS))
    open_source(tmp_path / "in.parquet").write(tmp_path / "out.csv")
    assert cells(tmp_path / "out.csv")[0] == [f"'{name}" for name in FORMULAS]


def test_numbers_are_left_alone(tmp_path):
    write_rows(tmp_path / "a.csv", ["x"], [[-1.5], [-3]])
    assert cells(tmp_path / "a.csv") == [["x"], ["-1.5"], ["-3"]]


class Elements(html.parser.HTMLParser):
    """Collects what a browser would see as elements and handlers."""

    def __init__(self):
        super().__init__()
        self.found, self.handlers = [], []

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def elements(path):
    parser = Elements()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


def test_markup_in_the_pages(tmp_path):
    """A page about columns with these names has the same elements as one about plain names."""
    values = np.random.default_rng(0).standard_normal((30, 6)) * np.arange(1, 7)
    pages = []
    for folder, columns in (("plain", list("abcdef")), ("odd", MARKUP)):
        (tmp_path / folder).mkdir()
        write_table(tmp_path / folder / "in.parquet", Table(values, columns))
        page = tmp_path / folder / "page.html"
        arguments = ["select", str(tmp_path / folder / "in.parquet"), "--report", str(page)]
        result = CliRunner().invoke(app, [*arguments, "--quiet", "--path-points", "0"])
        assert result.exit_code == 0, result.output
        pages.append(elements(page))
    plain, odd = pages
    assert odd.found.count("script") == plain.found.count("script")
    assert odd.found.count("img") == plain.found.count("img")
    assert sorted(odd.handlers) == sorted(plain.handlers)
    assert "{{ 7 * 7 }}" in (tmp_path / "odd" / "page.html").read_text(encoding="utf-8")


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    values = np.random.default_rng(0).standard_normal((30, 3))
    write_table(tmp_path / "in.parquet", Table(values, ["\x1b[2J", "\x07bell", "\u202eright"]))
    result = CliRunner().invoke(app, ["select", str(tmp_path / "in.parquet")])
    assert result.exit_code == 0, result.output
    assert not {"\x1b", "\x07", "\u202e"} & set(result.output)


@pytest.mark.parametrize(
    "name", ["a\0.csv", "x" * 300 + ".csv", "nowhere/a.csv", "file.csv/a.csv", "a\nb/c.csv"]
)
def test_names_that_no_file_can_have(tmp_path, name):
    (tmp_path / "file.csv").write_text("a")
    with pytest.raises(TableError, match="cannot be written") as caught:
        write_table(tmp_path / name, Table(np.eye(2), ["a", "b"]))
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file.csv"]
    with pytest.raises(TableError):
        read_table(tmp_path / name)


def test_the_temporary_file_of_a_long_name_has_a_shorter_one(tmp_path):
    path = tmp_path / f"a.{'y' * 240}.csv"
    write_table(path, Table(np.eye(2), ["a", "b"]))
    assert list(tmp_path.iterdir()) == [path]


def test_members_of_an_archive_are_not_files(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    np.savez(inside / "a.npz", **{"../../escaped": np.eye(3), "X": np.eye(3)})
    read_table(inside / "a.npz")
    assert {path.name for path in tmp_path.rglob("*")} == {"inside", "a.npz"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_devices_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(TableError, match="device or a pipe"), atomic_path(tmp_path / "a.csv"):
        pass
    assert (tmp_path / "a.csv").is_fifo()


def test_a_link_is_followed_not_replaced(tmp_path):
    (tmp_path / "there.csv").write_text("old")
    (tmp_path / "here.csv").symlink_to(tmp_path / "there.csv")
    write_rows(tmp_path / "here.csv", ["a"], [[1]])
    assert (tmp_path / "here.csv").is_symlink()
    assert (tmp_path / "there.csv").read_text().splitlines() == ["a", "1"]

"""Tables of pages come from stored results, and from nowhere else."""

import dataclasses
import json

import pytest

from benchmarks import million, pages, sparse

TABLES = pages.tables()


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_page_has_the_table_that_was_stored(table):
    text = (pages.ROOT / table.page).read_text(encoding="utf-8")
    assert table.put(text) == text, "python -m benchmarks.pages mends it"


def test_a_table_is_put_between_its_marks_and_nowhere_else():
    table = pages.Table("page.md", "x", lambda: r"| \1 |")  # no pattern, whatever it looks like
    text = "before\n<!-- x -->\nold\n<!-- end of x -->\nafter"
    assert table.put(text) == "before\n<!-- x -->\n| \\1 |\n<!-- end of x -->\nafter"
    with pytest.raises(LookupError, match=r"page.md has no place for y"):
        dataclasses.replace(table, name="y").put(text)


def test_numbers_in_words():
    assert pages.scientific(3.2e-5) == "3·10⁻⁵"
    assert pages.grid(["a", "b"], [["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"


def test_a_row_says_what_was_found(tmp_path, monkeypatch):
    found = {"kept": 2000, "planted": 2000, "gap": 4e-5, "explained": None}
    assert million.result(found) == "certified to 4·10⁻⁵, exactly the 2 000 planted features"
    found = {"kept": 50, "planted": 49, "gap": None, "explained": 0.505}
    assert million.result(found) == "50 features, 49 of them planted, 50.5 % of the variance"
    rows = {
        "rne": {"refused": "a fit would need 45.2 GB of memory"},
        "spca": {"seconds": 2.4, "peak": 7e8, "kept": 30, "planted": 29, "gap": None},
    }
    (tmp_path / "x.json").write_text(json.dumps(rows), encoding="utf-8")
    monkeypatch.setattr(sparse, "STORED", tmp_path / "x.json")
    assert sparse.lines().splitlines()[2:] == [
        "| `SPCA(n_components=4)` | 2 s | 0.7 GB | 30 features, 29 of them topic words |",
        "| `RNE` | refused |  | would need 45.2 GB |",
    ]


def test_a_child_measures_what_it_says(capsys):
    million.child("spca", 40, 4_000, 1)
    found = json.loads(capsys.readouterr().out)
    assert found["size"] == [40, 4_000]
    assert 0 < found["planted"] <= found["kept"] <= 4_000
    assert found["table"] <= found["peak"]

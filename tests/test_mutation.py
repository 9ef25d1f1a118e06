"""The mutation check: the faults it makes, and what it makes of its results."""

import ast
import json
import textwrap

from mutation.__main__ import REVIEW, ROOT
from mutation.operators import mutants
from mutation.report import keep, report, reviewed, score_of
from mutation.store import Store

SOURCE = textwrap.dedent(
    '''
    """Text with 1 + 1 in it."""
    LIMIT = 10  # – not ASCII

    def first(values: list[int], *, most: int = 3) -> int:
        """Return 1 < 2."""
        if len(values) > most and not values:
            raise ValueError(f"{most - 1} at most")
        values.sort()
        for value in values:
            if value == 2:
                break
        return -max(values) * LIMIT
    '''
)


def test_every_fault_changes_one_thing_that_runs():
    found = mutants("file.py", SOURCE)
    changes = {(mutant.before, mutant.after) for mutant in found}
    header = "if len(values) > most and not values:"
    last = "return -max(values) * LIMIT"
    assert changes == {
        ("LIMIT = 10  # – not ASCII", "LIMIT = 11  # – not ASCII"),
        (
            "def first(values: list[int], *, most: int = 3) -> int:",
            "def first(values: list[int], *, most: int = 4) -> int:",
        ),
        (header, "if not (len(values) > most and not values):"),
        (header, "if len(values) >= most and not values:"),
        (header, "if len(values) > most or not values:"),
        (header, "if len(values) > most and (values):"),
        ("values.sort()", "pass"),
        ("if value == 2:", "if not (value == 2):"),
        ("if value == 2:", "if value != 2:"),
        ("if value == 2:", "if value == 3:"),
        ("break", "continue"),
        (last, "return None"),
        (last, "return (max(values)) * LIMIT"),
        (last, "return -min(values) * LIMIT"),
        (last, "return -max(values) / LIMIT"),
    }
    kinds = {mutant.after: mutant.kind for mutant in found}
    assert kinds["if len(values) >= most and not values:"] == "< and <=, > and >="
    assert kinds["if value != 2:"] == "other comparison"
    assert kinds["pass"] == "call left out"
    assert kinds["LIMIT = 11  # – not ASCII"] == "whole number raised by 1"
    for mutant in found:
        ast.parse(mutant.text)
        assert mutant.first <= mutant.line <= mutant.last
        assert mutant.at_import == (mutant.line < 6)


def test_scores_before_and_after_the_review(tmp_path, capsys):
    (tmp_path / "file.py").write_text(SOURCE)
    store = Store(tmp_path / "store.sqlite", tmp_path)
    assert store.changed(["file.py"]) == ["file.py"]
    store.know("file.py")
    assert store.changed(["file.py"]) == []
    tried = mutants("file.py", SOURCE)[:4]
    for mutant, outcome in zip(tried, ("survived", "killed", "timeout", "survived"), strict=True):
        store.put_result(mutant, outcome, "tests/test_x.py::test", 2, 3, 1.0)
    review = tmp_path / "reviewed.toml"
    assert score_of(tmp_path, store, ["file.py"], review).after == 0.5
    review.write_text(
        '[[equivalent]]\nfile = "file.py"\nreason = "one more"\n'
        f"before = '{tried[0].before}'\nafter = '{tried[0].after}'\n"
    )
    score = score_of(tmp_path, store, ["file.py"], review)
    assert (score.raw, score.after) == (0.5, 2 / 3)
    report(score)
    printed = capsys.readouterr().out
    assert "score 50.0% raw, 66.7% after review" in printed
    table = printed.split("kind of fault")[-1]
    assert sum(int(line[34:40]) for line in table.splitlines()[1:-1]) == 4
    assert f"(2 of 3 tests) file.py:{tried[3].line}" in printed
    keep(score, tmp_path / "score.json", seed=7)
    kept = json.loads((tmp_path / "score.json").read_text())
    assert (kept["seed"], kept["tried"], kept["raw"]) == (7, 4, 0.5)
    counts = {"possible": len(mutants("file.py", SOURCE)), "tried": 4, "noticed": 2, "set_aside": 1}
    assert kept["files"] == {"file.py": counts}
    assert sum(sum(kind.values()) for kind in kept["kinds"].values()) == 4


def test_tests_that_noticed_much_come_first(tmp_path):
    store = Store(tmp_path / "store.sqlite", tmp_path)
    _, _, fault, other, *_ = mutants("file.py", SOURCE)
    lines = [("file.py", fault.line, test) for test in ("slow", "quick", "failed")]
    store.put_coverage("tests/test_x.py", {"slow": 3.0, "quick": 2.0}, lines, ["numpy"])
    assert store.modules() == ["numpy"]
    assert store.reaching("file.py") == ["tests/test_x.py"]
    assert store.tests_for(fault) == [("quick", 2.0), ("slow", 3.0)]
    store.put_result(other, "killed", "slow", 2, 2, 1.0)
    assert store.tests_for(fault) == [("slow", 3.0), ("quick", 2.0)]
    store.forget_results("file.py")
    assert store.results("file.py") == {}


def test_what_was_reviewed_is_still_there():
    words = {}
    for file, before, _ in reviewed(REVIEW):
        words.setdefault(file, " ".join((ROOT / file).read_text(encoding="utf-8").split()))
        assert " ".join(before.split()) in words[file], (file, before)

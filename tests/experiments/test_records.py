"""Results beside the pages: what is written can be read again, and gives the same pages."""

import json
from pathlib import Path

import pytest

from jointsparse.experiments import Store, Task, experiments
from jointsparse.experiments.pages import markdown_page, page_notes
from jointsparse.experiments.records import as_text, from_text, origin, versions_of
from jointsparse.experiments.store import Finished
from tests.experiments.test_runner import invoke

PAGES = Path(__file__).parents[2] / "docs" / "reproduction"
STORED = sorted(path.stem for path in PAGES.glob("*-*.json"))


def test_what_a_store_has_is_read_again_from_text(tmp_path):
    store = Store(tmp_path / "r.sqlite")
    store.add(Task("demo", {"n": 2}), [{"x": 0.1 + 0.2}, {"x": None}], seconds=0.25)
    store.add(Task("demo", {"n": 1}), [], seconds=0.5)
    done = store.done("demo")
    assert [one.task.case for one in done] == [{"n": 1}, {"n": 2}]
    assert [one.rows for one in done] == [[], [{"x": 0.1 + 0.2}, {"x": None}]]
    assert from_text(as_text("demo", done)) == done
    wanted = {Task("demo", {"n": 2}).key}
    assert [one.task.case for one in store.done("demo", wanted)] == [{"n": 2}]


def test_a_page_says_what_computed_it():
    new, old = (
        Finished(Task("demo", {"n": n}), [], 1.0, "Linux", json.dumps({"jointsparse": version}))
        for n, version in enumerate(("0.2", "0.1"))
    )
    assert versions_of([new, old]) == ["0.1", "0.2"]
    assert origin([new]) == ["Computed with jointsparse 0.2; Linux."]
    assert origin([new, old]) == [
        "1 of 2 tasks: Computed with jointsparse 0.1; Linux.",
        "1 of 2 tasks: Computed with jointsparse 0.2; Linux.",
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"experiment": "a", "runs": [1]}', "[" * 10**5])
def test_other_text_is_no_results(text):
    with pytest.raises(ValueError, match="no results of experiments"):
        from_text(text)


def test_an_earlier_folder_of_pages_saves_the_work(tmp_path, monkeypatch):
    name, pages = "001-pitprops", tmp_path / "pages"
    first = ("reproduce", name, "--results", tmp_path / "a.sqlite", "--output", pages)
    assert invoke(*first).exit_code == 0
    summary = json.loads((pages / "summary.json").read_text())
    assert len(summary[name]["versions"]) == 1

    def never(case):
        raise AssertionError("computed again")

    found = experiments()[name]
    monkeypatch.setitem(experiments(), name, type(found)(**{**vars(found), "compute": never}))
    again = ("reproduce", name, "--results", tmp_path / "b.sqlite", "--from", pages)
    result = invoke(*again, "--output", tmp_path / "more")
    assert result.exit_code == 0, result.output
    assert "4 reproduced" in result.stdout
    assert (tmp_path / "more" / f"{name}.md").read_text() == (pages / f"{name}.md").read_text()


def test_a_folder_without_results_is_refused_with_what_to_give(tmp_path):
    arguments = ("reproduce", "001-pitprops", "--results", tmp_path / "r.sqlite")
    result = invoke(*arguments, "--from", tmp_path)
    assert result.exit_code == 2
    assert "there are no results in it" in result.stderr
    (tmp_path / "001-pitprops.json").write_text("{}")
    result = invoke(*arguments, "--from", tmp_path)
    assert result.exit_code == 2
    assert "these are no results of experiments" in result.stderr


@pytest.mark.parametrize("name", STORED)
def test_the_pages_in_the_documentation_are_those_of_the_stored_results(name):
    done = from_text((PAGES / f"{name}.json").read_text(encoding="utf-8"))
    found = experiments()[name]
    outcome = found.judge([(one.task.case, row) for one in done for row in one.rows])
    figures = [PAGES / f"{name}-{key}.png" for key in outcome.figures]
    page = markdown_page(found.title, outcome, figures, page_notes(outcome, (), done))
    assert page == (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert all(path.is_file() for path in figures)
    counted = json.loads((PAGES / "summary.json").read_text(encoding="utf-8"))[name]
    assert counted["claims"] == outcome.counts()
    assert counted["versions"] == versions_of(done)

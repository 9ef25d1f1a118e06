"""Steps are counted, told to who follows, and the time left follows from those that are done."""

import re
from pathlib import Path

import numpy as np
import pytest

from jointsparse import (
    SPCAPSD,
    GreedySelector,
    Moments,
    choose_parameters,
    regularization_path,
    stability_selection,
)
from jointsparse import steps as module
from jointsparse.cli.display.progress import _DOING
from jointsparse.graphs.neighbours import FOLLOWED
from jointsparse.sources.in_memory import ArraySource
from jointsparse.steps import Step, follow_steps, steps

# Of the package but for where steps are defined, which has examples of its own.
SOURCES = "".join(
    path.read_text("utf-8")
    for path in Path(module.__file__).parent.rglob("*.py")
    if path.name != "steps.py"
)


def test_the_time_left_is_that_of_the_steps_before():
    assert Step("sizes", 0, 4, 1.0).left is None
    assert Step("sizes", 1, 4, 2.0).left == pytest.approx(6.0)
    assert Step("sizes", 4, 4, 8.0).left == 0


def test_who_follows_is_told_before_every_step_and_after_the_last(monkeypatch):
    clock = iter([10.0, 10.0, 11.0, 14.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    seen, taken = [], []
    with follow_steps(seen.append):
        for item in steps("sizes", ["a", "b"]):
            taken.append((item, len(seen)))
    assert taken == [("a", 1), ("b", 2)]
    assert seen == [Step("sizes", 0, 2, 0.0), Step("sizes", 1, 2, 1.0), Step("sizes", 2, 2, 4.0)]


def test_nobody_is_told_after_the_block_or_without_one():
    seen = []
    assert list(steps("sizes", [1])) == [1]
    with follow_steps(seen.append):
        pass
    assert list(steps("sizes", [1, 2])) == [1, 2]
    assert seen == []


def test_an_error_of_the_block_ends_the_following():
    seen = []
    with pytest.raises(KeyError), follow_steps(seen.append):
        raise KeyError
    list(steps("sizes", [1]))
    assert seen == []


@pytest.mark.parametrize("count", ["auto", 3])
def test_a_selection_and_its_report_are_followed_to_their_end(count):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 12)) + rng.standard_normal((90, 1))
    seen = []
    with follow_steps(seen.append):
        selector = GreedySelector(n_features_to_select=count).fit(X)
        fitted = len(seen)
        assert selector.selection_report_.worth is not None
    last = {step.what: (step.done, step.total) for step in seen}
    assert (fitted > 0) == (count == "auto")  # only a count that is open needs trials
    assert last["parts left out"] == (3, 3)
    assert last["random sets"] == (20, 20)
    assert last["sizes"][1] >= 3  # for the curve over sizes, on the page


def test_halves_of_samples_that_are_not_at_hand_are_counted():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 8)) + rng.standard_normal((200, 1))
    seen = []
    moments = Moments.from_source(ArraySource(X))
    with follow_steps(seen.append):
        GreedySelector(n_features_to_select="auto").fit_moments(moments)
    assert [step.total for step in seen if step.what == "parts left out"] == [2, 2, 2]


def related(n=60, p=10):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, p)) + rng.standard_normal((n, 1))


def counts(seen, what):
    return [(step.done, step.total) for step in seen if step.what == what]


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("count", [3, "auto"])
def test_a_search_for_penalties_counts_all_its_fits(n_jobs, count):
    grid = {"alpha": [0.2, 0.02], "eta": [0.3, 0.03]}
    seen = []
    with follow_steps(seen.append):
        choose_parameters(
            SPCAPSD(n_features_to_select=count), related(), param_grid=grid, n_jobs=n_jobs
        )
    # Four points, on all samples and without each of three parts; what "auto" tries within is not
    # told, but for the last fit.
    assert counts(seen, "penalties") == [(done, 16) for done in range(17)]
    assert [step.what for step in seen[:17]] == ["penalties"] * 17
    assert {step.what for step in seen[17:]} == (
        set() if count == 3 else {"parts left out", "sizes"}
    )


def test_a_search_by_clusters_counts_its_sets():
    seen = []
    with follow_steps(seen.append):
        choose_parameters(
            SPCAPSD(n_features_to_select=3),
            related(),
            param_grid={"eta": [0.3, 0.03]},
            n_clusters=2,
            criterion="agreement",
            n_repeats=1,
        )
    assert counts(seen, "penalties") == [(0, 2), (1, 2), (2, 2)]
    done = counts(seen, "sets")
    assert done == [(number, len(done) - 1) for number in range(len(done))]
    assert len(done) >= 2


def test_paths_and_subsamples_are_counted():
    seen = []
    with follow_steps(seen.append):
        regularization_path(SPCAPSD(), related(), n_points=3)
        stability_selection(GreedySelector(n_features_to_select="auto"), related(), n_subsamples=4)
    assert counts(seen, "penalties") == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert counts(seen, "subsamples") == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert {step.what for step in seen} == {"penalties", "subsamples"}


def test_whatever_is_counted_has_a_word_on_the_terminal():
    told = set(re.findall(r'(?:steps|counting)\(\s*"([a-z ]+)"', SOURCES)) | {FOLLOWED}
    assert told == set(_DOING)

"""Steps are counted, told to who follows, and the time left follows from those that are done."""

import numpy as np
import pytest

from jointsparse import GreedySelector, Moments
from jointsparse import steps as module
from jointsparse.sources.in_memory import ArraySource
from jointsparse.steps import Step, follow_steps, steps


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

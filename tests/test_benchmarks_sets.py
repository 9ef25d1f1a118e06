"""Sets beside other programs: what is judged, what is promised, what the page says."""

import json

import numpy as np
import pytest

from benchmarks import l0, sets
from benchmarks.measure import Outcome
from benchmarks.suites.sets import GREEDY, PROOF, ahead, bars, evaluate, explained, lead, problems
from benchmarks.tasks import OURS


def outcome(name, value, seconds, bound=0.8, features=30, k=5):
    quality = {"value": value, "bound": bound, "features": features, "k": k}
    return Outcome(name, "1", seconds=[seconds], quality=quality)


def test_what_is_explained_is_that_of_a_regression():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6))
    X[:, 5] = X[:, 0] - X[:, 1]
    X -= X.mean(axis=0)
    for features in ([0, 3], [0, 1, 5]):
        fit = X[:, features] @ np.linalg.lstsq(X[:, features], X, rcond=None)[0]
        assert explained(X, features) == pytest.approx(np.sum(fit**2) / np.sum(X**2))


def test_a_program_without_a_set_of_that_size_has_no_value():
    data, params = {"X": np.eye(4)[:, :3]}, {"h": 2}
    assert evaluate(data, params, {}) == {}
    assert evaluate(data, params, {"order": np.array([1, 1])}) == {}
    params |= lead(data, params, {"bound": 0.9})
    found = evaluate(data, params, {"order_2": np.array([2, 0])})
    assert found["bound"] == 0.9
    assert found["value"] == pytest.approx(2 / 3)


def test_promises_are_missed_where_they_are():
    rows = [outcome(OURS, 0.7, 1.0), outcome(PROOF, 0.8, 0.2), outcome("rival", 0.75, 0.1)]
    met = {bar.promise: bar.met for bar in bars({"breast_cancer, k = 5": rows})}
    assert met["Sets: no other tool explains more at equal k"]
    assert met["Sets: breast_cancer, k = 5, proved within 0.3 s"]
    assert met["Sets: digits, k = 5, proved within 6 s"] is None
    rows[1:] = [outcome(PROOF, 0.7, 0.2), outcome("rival", 0.75, 0.1)]
    outcomes = {"breast_cancer, k = 5": rows}
    assert ahead(outcomes).met is False
    assert "rival on breast_cancer, k = 5 by 5 points" in ahead(outcomes).found
    met = {bar.promise: bar.met for bar in bars(outcomes)}
    assert met["Sets: breast_cancer, k = 5, proved within 0.3 s"] is False
    assert False in met.values()
    slow = [outcome(OURS, 0.7, 3.0), outcome(GREEDY, 0.6, 1.0)]
    assert bars({"isolet, k = 50": slow})[-1].met is False


def test_the_page_has_every_program_and_a_proved_bound_in_bold():
    rows = [outcome(n, 0.8, 0.2) for n in (GREEDY, OURS, PROOF)]
    rows.append(Outcome("rival", None, "not installed"))
    text = sets.page({"breast_cancer, k = 5": rows})
    assert "| breast_cancer, k = 5 | 30 | 80.00 | 80.00 | 80.00 | – | **80.00** |" in text


def test_the_page_of_the_documentation_is_that_of_the_stored_results():
    assert (sets.ROOT / "docs" / "sets.md").read_text() == sets.page(sets.stored())


def test_every_problem_has_a_size_for_every_program():
    assert [problem.name for problem in problems(True)] == ["wine, k = 3"]
    assert all(problem.params["sizes"] == [problem.params["h"]] for problem in problems(False))


def test_a_method_that_is_ahead_is_told(capsys):
    one = {"data": "a", "features": 9, "k": 2, "value": 1.0, "bound": 1.1, "proved": False}
    one |= {"seconds": 0.1, "nodes": 1, "others": {"rival": 1.01}}
    l0.print_table([one])
    assert "rival on a, k = 2 MISSED" in capsys.readouterr().out


def test_no_method_is_ahead_in_what_is_stored():
    for one in json.loads(l0.RESULT.read_text()):
        assert max(one["others"].values(), default=0) <= one["value"] * (1 + 1e-9)
        assert one["value"] <= one["bound"] * (1 + 1e-12)

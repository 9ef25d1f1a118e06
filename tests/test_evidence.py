"""The evidence: its judge against plain regressions, its tables against what was stored."""

import json

import numpy as np
import pytest

from benchmarks import evidence, evidence_page
from benchmarks.competitors import all_solvers
from jointsparse import SPCAPSD, GreedySelector


def two_halves(seed=0, n=80, p=120):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5)) @ rng.standard_normal((5, p)) * rng.lognormal(0, 1, p)
    X += 0.5 * rng.standard_normal((n, p))
    return X, np.arange(n // 2), np.arange(n // 2, n)


def plainly(X, train, units):
    scale = X[train].std(axis=0) if units == "training half" else X.std(axis=0)
    return (X - X[train].mean(axis=0)) / scale


@pytest.mark.parametrize("units", evidence.UNITS)
def test_least_squares_are_those_of_a_plain_regression(units):
    X, train, test = two_halves()
    kept = np.array([3, 17, 40, 99])
    dropped = np.setdiff1d(np.arange(X.shape[1]), kept)
    Z = plainly(X, train, units)
    weights = np.linalg.lstsq(Z[train][:, kept], Z[train][:, dropped], rcond=None)[0]
    left = Z[test][:, dropped] - Z[test][:, kept] @ weights
    plain = 1 - (left**2).sum() / (Z[test][:, dropped] ** 2).sum()
    fold = evidence.judge_of(X, train, test, units)
    assert fold.judge(kept, ridge=False).r2 == pytest.approx(plain, abs=1e-10)


@pytest.mark.parametrize("units", evidence.UNITS)
def test_the_ridge_is_that_of_a_plain_regression_with_the_best_gcv(units):
    X, train, test = two_halves(1)
    kept = np.arange(0, 60, 2)
    dropped = np.setdiff1d(np.arange(X.shape[1]), kept)
    Z = plainly(X, train, units)
    unit = Z[:, kept] / np.linalg.norm(Z[:, kept], axis=0)
    A, B, n = unit[train], Z[train][:, dropped], train.size
    best = None
    for ridge in np.linalg.norm(A, 2) ** 2 * np.geomspace(1e-3, 1e2, 11):
        inner = A.T @ A + ridge * np.eye(kept.size)
        weights = np.linalg.solve(inner, A.T @ B)
        freedom = n - 1 - np.trace(A @ np.linalg.solve(inner, A.T))
        score = ((B - A @ weights) ** 2).sum() / freedom**2
        if best is None or score < best[0]:
            best = score, weights
    left = Z[test][:, dropped] - unit[test] @ best[1]
    plain = 1 - (left**2).sum() / (Z[test][:, dropped] ** 2).sum()
    fold = evidence.judge_of(X, train, test, units)
    assert fold.judge(kept).r2 == pytest.approx(plain, abs=1e-10)


@pytest.mark.parametrize("make", [SPCAPSD, GreedySelector])
def test_our_first_features_do_not_depend_on_the_count(make):
    X = evidence.standardised(two_halves(3)[0])
    order = np.argsort(make(n_features_to_select=30).fit(X).ranking_)
    for h in (5, 12):
        assert np.argsort(make(n_features_to_select=h).fit(X).ranking_)[:h].tolist() == (
            order[:h].tolist()
        )


def test_sets_that_are_too_small_or_too_large_for_least_squares_are_not_judged():
    X, train, test = two_halves(4)
    folds = {
        1: evidence.judge_of(X, train, test, "all samples"),
        2: evidence.judge_of(X, test, train, "all samples"),
    }
    found = evidence.worth(
        {"_folds": {"all samples": folds}},
        {"sizes": [10, 20]},
        {"order1": np.arange(20), "order2_10": np.arange(10), "order2_20": np.zeros(20, int)},
    )
    assert set(found) == {"all samples: ridge 10", "all samples: least squares 10"}


def test_halves_are_in_their_own_units_and_the_judges_are_withheld(monkeypatch):
    X = two_halves(5)[0]
    monkeypatch.setattr(evidence, "table", lambda name, most: (X, np.zeros(len(X))))
    data = evidence.halves(evidence.Problem("evidence", "worth", "fake", "fake"))
    seen = {key for key in data if not key.startswith("_")}
    assert seen == {f"{raw}X{cut}{half}" for raw in ("", "raw_") for cut in "01" for half in "12"}
    for key in (key for key in seen if key[0] == "X"):
        assert data[key].std(axis=0) == pytest.approx(1)
        assert data[key].shape == data[f"raw_{key}"].shape == (40, 120)
    assert not np.array_equal(data["X01"], data["X11"])


def test_every_tool_of_the_comparison_has_a_name_on_the_page():
    tools = {solver.name for solver in all_solvers() if "worth" in solver.tasks}
    assert tools == set(evidence_page.NAMES)


def test_a_section_goes_on_where_it_stopped(tmp_path, monkeypatch):
    calls = []
    pieces = [(name, lambda name=name: calls.append(name) or {"is": name}) for name in "abcd"]
    monkeypatch.setitem(evidence.SECTIONS, "noise", lambda environments: iter(pieces))
    evidence.run("noise", None, tmp_path, out=str, part=(1, 2))
    evidence.run("noise", None, tmp_path, out=str)
    assert calls == ["b", "d", "a", "c"]
    assert set(json.loads((tmp_path / "noise.json").read_text())) == set("abcd")


def made_up(folder):
    outcome = {"version": "1", "status": "ok"}
    worth = {
        name: {
            tool: outcome
            | {"quality": {"all samples: ridge 10": value, "all samples: least squares 10": value}}
            for tool, value in (("jointsparse", ours), ("skmatter CUR", theirs))
        }
        for name, ours, theirs in (("one", 0.5, 0.4), ("two", 0.3, 0.35))
    }
    exchange = {"one": {"10": outcome | {"quality": {"all samples: ridge 10": 0.9}}}}
    for section, found in (("worth", worth), ("exchange", exchange)):
        (folder / f"{section}.json").write_text(json.dumps(found))


def test_the_page_says_where_others_are_ahead(tmp_path):
    made_up(tmp_path)
    words = evidence_page.page(tmp_path)
    assert "| **SPCAPSD()** | 40.0 | 40.0 |" in words
    assert "| CUR | 37.5 | 37.5 |" in words
    assert "| CSS, exchange | 90.0 (ours 50.0, 1 table) | – |" in words
    assert "ahead here: ridge, h = 10: CSS, exchange 90.0, ours 50.0." in words
    assert "| ridge, h = 10 | two | CUR | 35.0 | 30.0 |" in words


def test_the_page_is_written_from_what_is_stored():
    stored = (evidence.ROOT / "docs" / "evidence.md").read_text()
    assert stored == evidence_page.page()

"""The evidence: its judge against plain regressions, its tables against what was stored."""

import json
from multiprocessing.pool import ThreadPool

import numpy as np
import pytest

from benchmarks import evidence, evidence_page, keeping, other_tables, word_counts
from benchmarks.competitors import all_solvers
from jointsparse import SPCAPSD, GreedySelector, Moments


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
    assert "| CSS, exchange | 90.0 (jointsparse 50.0, 1 table) | – |" in words
    assert "ahead here: ridge, h = 10: CSS, exchange 90.0, jointsparse 50.0." in words
    assert "| ridge, h = 10 | two | CUR | 35.0 | 30.0 |" in words


def test_the_page_is_written_from_what_is_stored():
    stored = (evidence.ROOT / "docs" / "evidence.md").read_text()
    assert stored == evidence_page.page()


def test_our_own_tools_are_measured_again_and_the_others_stay(tmp_path, monkeypatch):
    old = {"jointsparse": "old", "skmatter CUR": "stays"}
    (tmp_path / "worth.json").write_text(json.dumps({"a": old}))
    (tmp_path / "noise.json").write_text(json.dumps({"a": "old"}))
    asked = []

    def pieces(environments, *, ours=False):
        asked.append(ours)
        yield "a", lambda: {"jointsparse": "new"}

    monkeypatch.setitem(evidence.SECTIONS, "worth", pieces)
    monkeypatch.setitem(evidence.SECTIONS, "noise", lambda _: iter([("a", lambda: "new")]))
    for section in ("worth", "noise"):
        evidence.run(section, None, tmp_path, out=str, ours=True)
    assert asked == [True]
    assert evidence.stored("worth", tmp_path)["a"] == old | {"jointsparse": "new"}
    assert evidence.stored("noise", tmp_path)["a"] == "new"


def test_the_costliest_pick_is_the_one_whose_values_are_far_out_in_new_samples():
    X, train, test = two_halves(6)
    X[test[0], 7] = X[train, 7].mean() + 500 * X[train, 7].std()
    folds = {"01": evidence.judge_of(X, train, test, "training half")}
    data = {"raw_X01": X[train], "raw_X02": X[test], "_folds": {"all samples": folds}}
    found = evidence.costliest_pick(data, "01", np.array([3, 50, 7, 80]))
    assert found["pick"] == 3
    assert found["after"] < found["before"] - 0.1
    assert found["farthest"] < 10 < 499 < found["farthest in new samples"]


def test_other_tables_are_judged_with_and_without_what_hangs_on_single_samples(monkeypatch):
    def rare():
        X = two_halves(7)[0]
        X[:, ::3] = 0.1 * np.random.default_rng(0).standard_normal(X[:, ::3].shape)
        X[np.arange(40), np.arange(0, 120, 3)] += 9  # each lit in one sample
        return X

    tables = {"rare": rare, "small": lambda: two_halves(8, p=12)[0]}
    monkeypatch.setattr(other_tables, "other_tables", lambda: tables)
    pieces = dict(evidence.others_pieces(None))
    found = pieces["rare"]()
    assert set(found["with"]) == set(found["without"])
    assert found["with"] != found["without"]
    assert pieces["small"]() == {}


def test_the_tables_that_are_made_up_are_the_same_every_time(monkeypatch, tmp_path):
    (tmp_path / "a.csv").write_text("1,2,0\n3,4,1\n")
    monkeypatch.setenv("JOINTSPARSE_OTHERS", str(tmp_path))
    tables = other_tables.other_tables()
    assert tables["a"]().tolist() == [[1, 2], [3, 4]]
    for name in ("counts (made up)", "rare groups (made up)", "patches of a photograph"):
        np.testing.assert_array_equal(tables[name](), tables[name]())
    for make in other_tables.MADE_UP:
        assert make(np.random.default_rng(0)).shape == (300, 400)


def test_other_cuts_are_other_halves_of_the_same_table(monkeypatch):
    X = two_halves(5)[0]
    monkeypatch.setattr(evidence, "table", lambda name, most: (X, np.zeros(len(X))))
    problem = evidence.Problem("evidence", "worth", "fake", "fake", {"cuts": [2, 11]})
    data = evidence.halves(problem)
    assert {key for key in data if key[0] == "X"} == {"X21", "X22", "X111", "X112"}
    assert set(data["_folds"]["all samples"]) == {"21", "22", "111", "112"}


def test_scores_in_closed_form_are_those_of_the_model():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 30))
    X[:, :8] += rng.standard_normal((80, 1))
    X = evidence.standardised(X)
    model = SPCAPSD(alpha=1e-7, n_features_to_select=3, tol=1e-9).fit(X)
    found = evidence.score_at(Moments.from_data(X), 1.0)
    np.testing.assert_allclose(found, model.feature_scores_, atol=1e-4)


def test_the_page_tells_of_scores_that_shares_beat_and_of_noise_that_is_kept(tmp_path):
    draws = [
        {"kept": 5, "kept_signal": 5, "auc of ranking": 1.0},
        {"kept": 7, "kept_signal": 6, "auc of ranking": 0.994},
    ]
    names = ("shares", "scores", "scores, lower", "scores, weighted", "loadings", "fdp", "power")
    values = (0.999, 0.98, 0.991, 0.992, 0.993, 0.046, 1.0)
    tested = {"small": dict(zip(names, ([value, 0.002] for value in values), strict=True))}
    (tmp_path / "planted.json").write_text(json.dumps({"small": {"draws": draws}}))
    assert evidence_page.planted_part(tmp_path) == ""  # one without the other is no table
    (tmp_path / "tested.json").write_text(json.dumps(tested))
    words = evidence_page.planted_part(tmp_path)
    assert "| small | 0.999 | 0.997 | 0.980 | 4.6 ± 0.2 | 100.0 | 5 to 7 | 1 of 2 |" in words
    assert "| small | 0.980 ± 0.0020 | 0.991 | 0.992 | 0.993 | 0.997 |" in words
    assert "at least 0.997 in every family" in words


def test_the_page_compares_the_default_with_the_one_before_over_other_cuts(tmp_path):
    def one(now, before):
        metric = "all samples: ridge 10"
        return {
            tool: {"quality": {metric: value}}
            for tool, value in ((evidence_page.OURS, now), (evidence_page.BEFORE, before))
        }

    (tmp_path / "cuts.json").write_text(json.dumps({"a": one(0.5, 0.4), "b": one(0.3, 0.32)}))
    words = evidence_page.cuts_part(tmp_path)
    row = "| ridge, h = 10, all samples | 40.0 | 36.0 | +4.0 ± 6.0 | 1 of 2 | b -2.0 |"
    assert row in words


def test_the_rules_are_told_apart_on_the_page(tmp_path, monkeypatch):
    X = two_halves(5)[0]
    y = (np.arange(80) % 3).astype(int)
    monkeypatch.setattr(evidence, "table", lambda name, most: (X, y))
    monkeypatch.setattr(evidence, "NAMES", ["fake"])
    evidence.run("rules", None, tmp_path, out=str)
    found = evidence.stored("rules", tmp_path)["fake"]
    assert all(0 <= one["agree"] <= 1 for one in found.values())
    words = evidence_page.rules_part(tmp_path)
    assert all(f"| `{rule}` | " in words for rule in found)


def test_nothing_is_lost_where_several_add_to_one_file(tmp_path):
    path = tmp_path / "made" / "found.json"
    with ThreadPool(4) as pool:
        pool.map(lambda number: keeping.add(path, str(number), {"n": number}), range(40))
    assert keeping.known(path) == {str(number): {"n": number} for number in range(40)}
    keeping.add(path, "3", {"m": 1}, to=dict.__or__)
    assert keeping.known(path)["3"] == {"n": 3, "m": 1}
    assert [file.name for file in path.parent.iterdir()] == ["found.json"]


def test_word_counts_are_those_of_the_documents(monkeypatch):
    texts = ["the array of the ranks " * 20, "an array, an axis; " * 30, "too short", "the " * 70]
    monkeypatch.setattr(word_counts, "documents", lambda: texts)
    monkeypatch.setattr(word_counts, "IN_DOCUMENTS", 2)
    X, words = word_counts.word_counts(10)
    assert words == ["array", "the"]  # the others are in one document only
    assert X.tolist() == [[20, 40], [30, 0], [0, 70]]


def test_words_stay_as_they_are_and_both_shares_are_those_of_plain_regressions(monkeypatch):
    X = np.exp(two_halves(9)[0] / 2).round()
    monkeypatch.setattr(word_counts, "word_counts", lambda count: (X[:count], None))
    problem = evidence.Problem("evidence", "worth", "words", "words", {"documents": 80})
    data = evidence.halves_of_words(problem)
    order = np.random.default_rng(0).permutation(80)
    train, test = np.sort(order[:40]), np.sort(order[40:])
    whole = X[:, (X[train].std(axis=0) > 0) & (X[test].std(axis=0) > 0)]
    assert np.array_equal(data["X01"], whole[train])
    kept = np.array([3, 17, 40])
    orders = {key.replace("X", "order"): kept for key in data if key.startswith("X")}
    data["_folds"][evidence.AS_THEY_ARE] = {"01": data["_folds"][evidence.AS_THEY_ARE]["01"]}
    found = evidence.worth_of_words(data, {"sizes": [3]}, orders)
    Z = whole - whole[train].mean(axis=0)
    dropped = np.setdiff1d(np.arange(whole.shape[1]), kept)
    weights = np.linalg.lstsq(Z[train][:, kept], Z[train][:, dropped], rcond=None)[0]
    missed = ((Z[test][:, dropped] - Z[test][:, kept] @ weights) ** 2).sum()
    plain = 1 - missed / (Z[test][:, dropped] ** 2).sum()
    assert found["as they are: least squares 3"] == pytest.approx(plain, abs=1e-9)
    # The ridge misses as much of all words as of the dropped ones: the kept are known.
    of_dropped = (1 - found["as they are: ridge 3"]) * (Z[test][:, dropped] ** 2).sum()
    of_all = (1 - found["of all words: ridge 3"]) * (Z[test] ** 2).sum()
    assert of_all == pytest.approx(of_dropped, rel=1e-9)

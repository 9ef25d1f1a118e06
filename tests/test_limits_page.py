"""The page of goals: every row has its goal, and says whether it is met."""

import json

import numpy as np
import pytest

from benchmarks import __main__, limits

PUBLISHED = {"certified": 2.0, "stops": 1.0, "above": 0.004, "comes near": None, "passes": 0.6}


def numbers(seconds, *, memory=8.0):
    return {
        "fits": dict.fromkeys(limits.fits(), seconds),
        "small": {"SPCA": (4e-3, 1e-3), "greedy": (2e-3, 1e-3)},
        "memory": memory,
        "published": {"wine": PUBLISHED, "usps": {**PUBLISHED, "comes near": 3.0, "passes": 0.5}},
    }


def test_every_row_says_whether_its_goal_is_met():
    rows = {(row[0], row[1]): row for row in limits.rows_of(numbers(1.0), numbers(9.0, memory=30))}
    assert rows["UDFS", "300 × 150"][-1]  # 9 times as fast, and 6 were asked for
    assert not rows["SOGFS", "300 × 150"][-1]
    assert not rows["SPCA, whole fit", "80 × 40"][-1]
    assert rows["greedy, whole fit", "80 × 40"][-1]
    proved = "AW-SPCA-PSD, 1e-4 proved, against the published iteration within 1e-4"
    assert rows[proved, "wine"][-1]  # the other never comes so near
    assert not rows[proved, "usps"][-1]  # it does after 3 s, and 4 were asked for
    passes = "AW-SPCA-PSD at what the published iteration stops with"
    assert not rows[passes, "wine"][-1]
    assert rows[passes, "usps"][-1]
    page = limits.page(list(rows.values()))
    assert page.count("**missed**") == sum(not row[-1] for row in rows.values())
    unknown = limits.rows_of(numbers(1.0), None)
    assert {row[-1] for row in unknown if row[0] in limits.fits()} == {None}


def test_the_time_within_lapack_is_counted_once_and_the_functions_are_put_back():
    original = np.linalg.svd
    with limits.Lapack() as lapack:
        for _ in range(3):
            np.linalg.svd(np.eye(150))
    assert lapack.seconds > 0
    assert np.linalg.svd is original


def test_the_suite_writes_a_page_and_its_numbers(tmp_path, monkeypatch):
    asked = []

    def measure(sources):
        asked.append(sources)
        return numbers(1.0 if len(asked) == 2 else 2.0)

    monkeypatch.setattr(limits, "in_process", measure)
    words = ["--suite", "limits", "--before", str(tmp_path), "--output", str(tmp_path)]
    __main__.main(words)
    assert asked[0] == tmp_path.resolve()
    stored = json.loads((tmp_path / "limits.json").read_text())
    assert stored["before"]["fits"]["UDFS"] == pytest.approx(2.0)
    assert "2.0 × as fast as before" in (tmp_path / "limits.md").read_text()

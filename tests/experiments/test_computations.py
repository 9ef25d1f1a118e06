"""What the experiments compute, on small data in place of the real ones."""

import numpy as np
import pytest

from jointsparse import FSSL
from jointsparse.experiments import cluster
from jointsparse.experiments.papers import s000, s002, s003
from jointsparse.experiments.papers.s004 import clustering as s004_clustering
from jointsparse.experiments.papers.s004 import pixels as s004_pixels
from jointsparse.experiments.papers.s004 import sensitivity as s004_sensitivity
from jointsparse.experiments.papers.s004 import shared as s004_shared
from jointsparse.experiments.papers.s004 import synthetic as s004_synthetic
from jointsparse.experiments.papers.s004 import table3 as s004_table3
from jointsparse.experiments.papers.s004 import time as s004_time
from jointsparse.moments import Moments


def classes(n, p, seed=0):
    """Three classes that differ in the first five features."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.standard_normal((n, p))
    X[:, :5] += 6 * rng.standard_normal((3, 5))[y]
    return X, y


@pytest.fixture
def small(monkeypatch):
    """Every module sees the same small data, whatever name it asks for."""
    X, y = classes(45, 40)
    for module in (s004_clustering, s004_pixels, s004_table3, s004_time, s002, s003):
        monkeypatch.setattr(module, "dataset", lambda name: (X, y))
        for name in ("moments", "large_moments"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, lambda name: Moments.from_data(X))
    return X, y


def line(method, penalty=None):
    case = {"dataset": "digits", "method": method, "penalty": penalty, "repeats": 2, "step": 8}
    return s004_clustering._compute(case)


def test_lines_of_the_grid(small, monkeypatch):
    X, y = small
    monkeypatch.setattr(s004_clustering, "GRID", (1.0, 30.0, 300.0))
    monkeypatch.setattr(s004_clustering, "LARGEST_GRAPH", 30)
    everything = line("all")
    assert [row["count"] for row in everything] == [10, 30]
    expected = s004_shared.matlab_kmeans(X, y, n_repeats=2)
    assert all(row["acc"] == expected["acc"] and row["other"] is None for row in everything)
    random = line("random")
    assert sorted({row["other"] for row in random}) == [0.0, 1.0, 2.0, 3.0, 4.0]
    order = np.random.default_rng(3).permutation(40)
    chosen = s004_shared.matlab_kmeans(X[:, np.sort(order[:10])], y, n_repeats=2)
    assert [r["acc"] for r in random if r["other"] == 3 and r["count"] == 10] == [chosen["acc"]]
    exact = line(s004_clustering.EXACT, 10.0)
    assert [row["other"] for row in exact] == [1.0] * 2
    assert exact[0]["acc"] == 100  # it finds the features in which classes differ
    published = line("spca-psd", 10.0)
    assert [row["other"] for row in published] == [1.0] * 2
    seen = []
    monkeypatch.setattr(
        s004_clustering,
        "fitted",
        lambda model, data: seen.append(data.n_samples) or s004_shared.fitted(model, data),
    )
    assert [row["other"] for row in line("laplacian-score")] == [1.0, 1.0]
    assert seen == [30]  # a graph of so many samples only


def test_the_best_pixels_explain_what_is_said(small, monkeypatch):
    X, _ = small
    monkeypatch.setattr(s004_pixels, "SIDES", {"digits": 8})
    case = {"dataset": "digits", "method": "spca-psd", "step": 2, "repeats": 2}
    (row,) = s004_pixels._pixel_row(case)
    picks = row["picks"]
    assert len(picks) == 16
    assert picks == sorted(picks)
    centred = X - X.mean(axis=0)
    kept = centred[:, picks]
    left = centred - kept @ np.linalg.lstsq(kept, centred, rcond=None)[0]
    assert row["r2"] == pytest.approx(100 * (1 - np.sum(left**2) / np.sum(centred**2)))


@pytest.mark.parametrize("method", ["spca-psd", "laplacian-score"])
def test_figure_3_tries_the_grid(method, monkeypatch):
    monkeypatch.setattr(s004_synthetic, "GRID", (1.0, 10.0, 100.0))
    case = {"shape": "two-moon", "method": method, "noise": 1.0, "repeats": 2, "step": 1}
    (row,) = s004_synthetic._shape_row(case)
    assert row["tried"] == (9 if method == "spca-psd" else 1)
    assert 0 <= row["right"] <= row["tried"]
    assert len(row["picks"]) == 2
    assert 50 <= row["acc"] <= 100


def test_rows_of_table_3(small, monkeypatch):
    X, y = small
    monkeypatch.setattr(s004_table3, "KEPT", 10)
    monkeypatch.setattr(s004_table3, "FEW", (3, 5))
    case = {"dataset": "usps", "method": "random", "repeats": 2}
    (row,) = s004_table3._table_row(case)
    order = np.random.default_rng(0).permutation(40)
    expected = s004_shared.matlab_kmeans(X[:, order[:10]], y, n_repeats=2)
    assert row["acc"] == expected["acc"]
    assert (row["iterations"], row["seconds"]) == (0, 0.0)
    assert sorted(row["few"]) == ["3", "5"]
    (plain,) = s004_table3._table_row({**case, "dataset": "pie", "method": "cspca-psd"})
    assert plain["iterations"] > 0
    assert "few" not in plain
    (faint,) = s004_table3._table_row({**case, "method": "cspca-psd", "scale": 0.01})
    assert faint["iterations"] != plain["iterations"]  # the penalty stays, the data shrink


def test_times_and_iterations(small, monkeypatch):
    monkeypatch.setattr(s004_time, "LARGEST_GRAPH", 30)
    (graph,) = s004_time._compute({"dataset": "usps", "method": "rne"})
    assert graph["samples"] == 30
    (row,) = s004_time._compute({"dataset": "usps", "method": "spca-psd"})
    assert row["samples"] == 45
    assert row["seconds"] > 0
    measured = {"seconds": 2.0, "iterations": 18, "samples": 9}
    results = [
        ({"dataset": "usps", "method": m}, {**measured, "seconds": 1.0 + (m != "spca-psd")})
        for m in s004_time.METHODS
    ]
    outcome = s004_time._judge(results)
    verdicts = {claim.statement: claim.verdict for claim in outcome.claims}
    assert verdicts["iterations of spca-psd on usps"] == "reproduced"
    assert verdicts["iterations of spcafs on usps"] == "not testable"
    assert verdicts["SPCA-PSD takes less time than the other methods on usps"] == "reproduced"
    slower = s004_time._judge([(c, {**row, "seconds": 3.0 - row["seconds"]}) for c, row in results])
    (claim,) = [c for c in slower.claims if "less time" in c.statement]
    assert claim.verdict == "not reproduced"
    assert "the exact solver takes 1 s" in claim.reason
    without = [pair for pair in results if not pair[0]["method"].endswith("exact")]
    (claim,) = [c for c in s004_time._judge(without).claims if "less time" in c.statement]
    assert "exact" not in claim.reason


def test_samples_drawn_for_a_graph():
    X, y = classes(20, 6)
    assert s004_shared.sample_of(X, y, 20)[0] is X
    some, labels = s004_shared.sample_of(X, y, 8)
    rows = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in some]
    assert len(set(rows)) == 8
    np.testing.assert_array_equal(labels, y[rows])


def test_data_and_accuracies_of_source_002(small, monkeypatch):
    X, y = small
    monkeypatch.setattr(s002, "dataset", lambda name: (X, np.where(y == 2, 9, y)))
    kept, labels = s002._data("mnist")
    assert len(kept) == 30
    assert set(labels) == {1, 9}
    np.testing.assert_array_equal(s002._data("yale, expression")[1], np.arange(45) % 11)
    assert s002._data("yale, subject")[0] is X
    case = {"data": "yale, subject", "per_class": 5, "repeats": 2}
    plain = s002._accuracy(case, None)
    assert plain["pixels"] == 40
    model = s002._accuracy(case, lambda: FSSL(graph="lda", mu=3))
    assert 0 < model["pixels"] < 40
    assert model["accuracy"] > 0.5
    other = s002._accuracy(case, s002.METHODS["PCA"])
    assert other["pixels"] == 40
    monkeypatch.setattr(s002, "available_datasets", lambda: [])
    assert s002._table_cases(True) == s002._study_cases(True) == []


@pytest.mark.parametrize("method", s003.METHODS)
def test_components_of_faces(small, method, monkeypatch):
    monkeypatch.setattr(s003, "COUNT", 2)
    (row,) = s003._compute({"dataset": "digits", "method": method})
    components = np.array(row["components"])
    assert components.shape == (2, 40)
    assert row["zeros"] == pytest.approx(100 * np.mean(components == 0), abs=5)
    assert 0 < row["variance"] <= 100
    assert ("objective" in row) == (method in ("dictionary-spca", "scikit-learn"))
    if method == "dictionary-spca":
        assert row["rises"] == 0


def test_verdicts_of_source_003_need_their_rivals():
    ours = {"zeros": 80.0, "variance": 50.0, "seconds": 1.0, "components": [[0.0, 1.0]]}
    ours |= {"rises": 0, "steps": 9, "objective": 2.0}
    outcome = s003._judge([({"dataset": "digits", "method": "dictionary-spca"}, ours)])
    assert [claim.verdict for claim in outcome.claims] == ["reproduced"]


def test_outliers_of_source_000():
    rows = [s000._outlier_row({"seed": seed})[0] for seed in range(2)]
    assert all(row["JSPCA, samples"] < 0.1 < row["PCA"] for row in rows)
    outcome = s000._judge_outliers([({"seed": k}, row) for k, row in enumerate(rows)])
    assert f"PCA {np.median([row['PCA'] for row in rows]):.2f}" in outcome.claims[0].found


def test_peaks_that_the_paper_names():
    assert s004_sensitivity._own_peak("nowhere", 10.0) == ""
    assert s004_sensitivity._where("nowhere", []) == []
    name, peak = next(iter(s004_sensitivity.PEAKS.items()))
    assert s004_sensitivity._own_peak(name, 10 * peak).endswith("is 10.0 % of it")
    cells = [{"lam": peak, "eta": 1.0, "acc": 50.0}, {"lam": 0.5 * peak, "eta": 2.0, "acc": 40.0}]
    assert s004_sensitivity._where(name, cells)[0].verdict == "reproduced"
    cells[1]["acc"] = 60.0
    assert s004_sensitivity._where(name, cells)[0].verdict == "not reproduced"
    assert s004_sensitivity._time_claims(name, [{"lam": 1.0, "eta": 1.0, "iterations": 5}]) == []


class Client:
    """A stand-in for a client of Dask that knows versions only."""

    def __init__(self, *versions):
        self.versions = versions

    def get_versions(self, packages):
        workers = {
            f"tcp://{k}": {"packages": {"jointsparse": version}} if version != "dead" else "error"
            for k, version in enumerate(self.versions)
        }
        return {"client": {"packages": {"jointsparse": "1.2"}}, "workers": workers}

    def nthreads(self):
        return {f"tcp://{k}": 1 for k in range(len(self.versions))}


def test_workers_of_another_version_are_refused():
    cluster._check_versions(Client("1.2", "1.2"))
    with pytest.raises(cluster.ClusterError, match=r"tcp://1 has jointsparse 1\.1; install"):
        cluster._check_versions(Client("1.2", "1.1"))
    for nothing in (None, "dead"):
        with pytest.raises(cluster.ClusterError, match=r"tcp://0 has no jointsparse"):
            cluster._check_versions(Client(nothing))
    assert cluster.has_workers(Client("1.2"))
    assert not cluster.has_workers(Client())

"""What the experiments make of their results: rows made up to agree with a paper, and not to."""

import numpy as np
import pytest

from jointsparse.experiments import experiments
from jointsparse.experiments.pages import write_pages
from jointsparse.experiments.papers import s002
from jointsparse.experiments.papers.s004 import table3 as s004_table3
from jointsparse.experiments.papers.s004.clustering import CONVEX, METHODS, SPECTRAL
from jointsparse.experiments.papers.s004.shared import GRID


def verdicts(name, results, folder=None):
    """Return the verdicts by statement; with a folder, the pages and figures are written too."""
    outcome = experiments()[name].judge(results)
    if folder is not None:
        pages = write_pages(folder, name, "title", outcome)
        assert len(pages) == 2 + len(outcome.figures)
    return {claim.statement: claim.verdict for claim in outcome.claims}


@pytest.mark.parametrize(
    ("picks", "expected"),
    [([0, 1], "reproduced"), ([0, 5], "not reproduced")],
    ids=["right", "wrong"],
)
def test_figure_3(picks, expected, tmp_path):
    row = {"picks": picks, "acc": 90.0, "right": 1, "tried": 9}
    results = [
        ({"shape": shape, "method": method, "noise": noise}, row)
        for shape in ("two-moon", "three-ring", "three-curve")
        for method, noise in (("spca-psd", 1.0), ("udfs", 1.0), ("rne", 1.0), ("spca-psd", 2.0))
    ]
    found = verdicts("004-figure3", results, tmp_path)
    assert found["spca-psd picks the two true features"] == expected
    assert found["spca-psd finds the shapes hidden in noise"] == expected
    # The paper says that it does not: nothing follows where it does.
    others = found["udfs picks the two true features"]
    assert others == ("not testable" if expected == "reproduced" else "reproduced")
    assert not any(statement.startswith("rne") for statement in found)


@pytest.mark.parametrize("regions", [3, 9])
@pytest.mark.parametrize("side", [8, 32])
def test_table_4(regions, side, tmp_path):
    image = np.linspace(0, 1, side * side).tolist()
    shown = {"picks": [0, 5], "acc": 50.0, "r2": 80.0, "images": [image] * 4}
    where = "pie" if side == 32 else "digits"
    results = [
        ({"dataset": where, "method": "spca-psd"}, {**shown, "regions": regions, "acc": 51.0}),
        ({"dataset": where, "method": "spcafs"}, {**shown, "regions": 5}),
        ({"dataset": where, "method": "sogfs"}, {**shown, "regions": 4}),
    ]
    found = list(verdicts("004-table4", results, tmp_path).values())
    if where == "digits":
        assert found == ["not testable"] * 2
    else:
        assert found == ["reproduced" if regions == 9 else "not reproduced", "reproduced"]
    assert list(verdicts("004-table4", results[:2]).values()) == ["not testable"]


def grid_results(scores, dataset="isolet"):
    return [
        (
            {"dataset": dataset, "method": method, "penalty": penalty},
            {"count": count, "other": 1.0, "acc": scores[method] + change, "nmi": 50.0},
        )
        for method in METHODS
        if method in scores
        for penalty in ([None] if method in ("laplacian-score", "rne", "random", "all") else GRID)
        for count, change in ((50, 0.0), (100, 1.0))
    ]


def test_figures_4_and_5(tmp_path):
    better = dict.fromkeys(CONVEX, 60.0) | dict.fromkeys(SPECTRAL, 50.0)
    better |= {"spcafs": 55.0, "random": 40.0, "all": 45.0}
    found = verdicts("004-figure4-5", grid_results(better), tmp_path)
    tail = " (mean ACC over the numbers of features)"
    assert found[f"SPCA-based methods outperform spectral ones{tail}"] == "reproduced"
    assert (
        found[f"CSPCA-PSD or SPCA-PSD is the best{tail}"] == "not reproduced"
    )  # a tie is not better
    assert found[f"SPCA-PSD is better than features at random{tail}"] == "reproduced"
    assert found["the convex methods lie above SPCAFS on isolet"] == "reproduced"
    worse = better | {"spcafs": 60.5, "spca-psd": 30.0}
    found = verdicts("004-figure4-5", grid_results(worse))
    assert found[f"SPCA-PSD is better than features at random{tail}"] == "not reproduced"
    assert found["the convex methods lie above SPCAFS on isolet"] == "not reproduced"
    alone = {"spca-psd": 60.0, "random": 1.0}
    found = verdicts("004-figure4-5", grid_results(alone))
    assert found["the convex methods lie above SPCAFS on isolet"] == "not testable"
    assert found[f"SPCA-based methods outperform spectral ones{tail}"] == "not testable"
    two = grid_results(better) + grid_results(worse, "pie")
    found = verdicts("004-figure4-5", two)
    # on one of two datasets
    assert found[f"SPCA-PSD is better than features at random{tail}"] == "not reproduced"


def table_3(off=0.0, iterations=0, dataset="isolet"):
    results = []
    for method, published in s004_table3.PUBLISHED.items():
        acc, acc_sd, nmi, nmi_sd, steps, seconds = published[dataset]
        row = {"acc": acc + off, "acc_sd": acc_sd, "nmi": nmi - off, "nmi_sd": nmi_sd}
        row |= {"iterations": steps + iterations, "seconds": seconds, "greedy_acc": acc}
        row |= {"greedy_nmi": nmi, "few": {str(h): [40.0, 30.0] for h in s004_table3.FEW}}
        results.append(({"dataset": dataset, "method": method}, row))
    chance = dict(results[0][1]) | {"iterations": 0}
    results.append(({"dataset": dataset, "method": "random"}, chance))
    return results


@pytest.mark.parametrize(
    ("off", "iterations", "scores", "steps"),
    [
        (0.0, 2, {"reproduced"}, "reproduced"),
        (3.5, 3, {"close"}, "close"),
        (7.0, 11, {"not reproduced"}, "not reproduced"),
    ],
)
def test_table_3(off, iterations, scores, steps, tmp_path):
    found = verdicts("004-table3", table_3(off, iterations), tmp_path)
    for method in s004_table3.METHODS:
        pair = {found[f"{method} on isolet: ACC"], found[f"{method} on isolet: NMI"]}
        assert pair == scores
        assert found[f"{method} on isolet: iterations"] == steps
        assert found[f"{method} on usps: ACC, NMI"] == "not testable"
    for kind in ("cspca", "aw-spca"):
        assert found[f"{kind}-psd needs fewer iterations than {kind}"] == "reproduced"


def test_table_3_on_usps_says_why(tmp_path):
    results = table_3(9.0, 50, "usps")
    faint = [({**case, "scale": s004_table3.FAINT}, row) for case, row in results[:-1]]
    outcome = experiments()["004-table3"].judge(results + faint)
    assert len(outcome.tables) == 3
    assert len(outcome.tables[2][2]) == 9  # four methods and random, and four of them fainter
    reasons = {c.statement: c.reason for c in outcome.claims}
    assert "chosen at random cluster at ACC" in reasons["aw-spca on usps: ACC"]
    assert "scale of the pixels" in reasons["aw-spca on usps: iterations"]
    assert "not public" in reasons["cspca on usps: iterations"]


def test_eigenfaces(tmp_path):
    row = {"components": [[0.0, 1.0, -1.0, 0.0]] * 6, "variance": 60.0, "seconds": 1.0}
    ours = {**row, "zeros": 70.0, "objective": 1.0, "rises": 0, "steps": 9}
    results = [
        ({"dataset": "yale", "method": "dictionary-spca"}, ours),
        ({"dataset": "yale", "method": "pca"}, {**row, "zeros": 0.0}),
        ({"dataset": "yale", "method": "scikit-learn"}, {**row, "zeros": 70.0, "objective": 1.0}),
    ]
    found = list(verdicts("003-eigenfaces", results, tmp_path).values())
    assert found == ["reproduced"] * 3  # as fast as ours is efficient enough
    ours |= {"zeros": 40.0, "rises": 2, "seconds": 0.5}
    assert list(verdicts("003-eigenfaces", results).values()) == ["not reproduced"] * 3
    ours["objective"] = 1.01  # faster, but not at the same place
    assert list(verdicts("003-eigenfaces", results).values())[2] == "reproduced"
    without = verdicts("003-eigenfaces", results[1:])
    assert list(without.values()) == ["not testable"]


@pytest.mark.parametrize(
    ("off", "expected"), [(0.0, "reproduced"), (0.04, "close"), (0.2, "not reproduced")]
)
def test_nearest_neighbours_of_source_002(off, expected, tmp_path):
    results = [
        (
            {"data": data, "method": method, "per_class": size},
            {"accuracy": value - off, "error": 0.001, "pixels": 90.0},
        )
        for (data, method), values in s002.PUBLISHED.items()
        for value, size in zip(
            values, s002.MNIST_SIZES if data == "mnist" else s002.YALE_SIZES, strict=True
        )
    ]
    found = verdicts("002-tables", results, tmp_path)
    assert set(found.values()) == {expected}
    subject = [
        ({"data": "yale, subject", "method": "1-NN", "per_class": size}, {**row, "accuracy": 0.6})
        for size, (_, row) in zip(s002.YALE_SIZES, results, strict=False)
    ]
    found = verdicts("002-tables", results + subject)
    assert found["Yale faces are recognised in 17 % only, for want of samples"] == "not reproduced"
    partly = verdicts("002-tables", results[:4])
    assert partly["yale, expression: accuracy of FSSL"] == "not testable"


def study_002(name, mus, accuracy, folder=None):
    rows = [
        ({"norm": norm, "mu": mu}, {"accuracy": accuracy[k], "error": 0.01, "pixels": 9.0})
        for k, (norm, mu) in enumerate(mus)
    ]
    return list(verdicts(name, rows, folder).values())


def test_studies_of_source_002(tmp_path):
    (name,) = [n for n in experiments() if n.startswith("002") and n != "002-tables"]
    four = [("l21", 2.0), ("l21", 10.0), ("l11", 10.0), ("fro", 10.0)]
    assert study_002(name, four, [0.5, 0.6, 0.61, 0.62], tmp_path) == [
        "not reproduced",
        "reproduced",
    ]
    assert study_002(name, four, [0.6, 0.61, 0.5, 0.6]) == ["reproduced", "not reproduced"]
    assert study_002(name, four[:1], [0.5]) == ["not testable"] * 2


def test_tables_of_source_000(tmp_path):
    names = [n for n in experiments() if n.startswith("000")]
    found = {}
    for name in names:
        case = experiments()[name].cases(True)[0]
        if "iterations" in case:
            row = {"zeros": 152, "removed": 16, "variance": 27.6, "pca": 88.0, "rises": 0}
            later = {**row, "removed": 17}
            found = verdicts(name, [({"iterations": 50}, row)], tmp_path)
            assert set(found.values()) == {"reproduced"}
            both = [({"iterations": 50}, row), ({"iterations": 100}, later)]
            assert "not reproduced" in verdicts(name, both).values()
            far = {**row, "zeros": 145, "removed": 10, "variance": 29.0, "pca": 86.0}
            found = verdicts(name, [({"iterations": 50}, far)])
            assert list(found.values()) == ["close", "not reproduced", "close", "not reproduced"]
        elif case.get("method") == "pca":
            shares = {"reconstruction": 0.7, "adjusted": 0.7, "span": 0.7, "features": 9}
            shares |= {"points": [[0.0, 1.0], [1.0, 2.0]], "labels": [0, 1]}
            less = {**shares, "span": 0.6}
            three = [({"method": "pca"}, shares)]
            three += [({"method": name}, less) for name in ("spca", "jspca")]
            assert list(verdicts(name, three).values()) == ["not reproduced"]
            three[1] = ({"method": "spca"}, {**less, "adjusted": 0.8})
            assert list(verdicts(name, three).values()) == ["reproduced"]
    assert found

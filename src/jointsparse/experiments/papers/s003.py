"""Source 003: sparse PCA as dictionary learning; sparse eigenfaces."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, SparsePCA
from sklearn.exceptions import ConvergenceWarning

from jointsparse.datasets import available_datasets
from jointsparse.experiments.claims import Claim, Outcome
from jointsparse.experiments.data import dataset
from jointsparse.experiments.task import Experiment, Row
from jointsparse.methods.dictionary_spca import DictionarySPCA
from jointsparse.methods.spca import SPCA
from jointsparse.metrics import explained_variance

Cases = list[dict[str, Any]]
Results = list[tuple[dict[str, Any], Row]]

FACES = ("yale", "imm40")
METHODS = ("pca", "dictionary-spca", "spca", "scikit-learn")
COUNT = 6
SAME = 1e-4  # relative difference of objectives that two stationary points may have


def _cases(quick: bool) -> Cases:
    there = available_datasets()
    names = ["digits"] if quick else [name for name in FACES if name in there] or ["digits"]
    return [{"dataset": name, "method": method} for name in names for method in METHODS]


def _compute(case: dict[str, Any]) -> list[Row]:
    X, _ = dataset(case["dataset"])
    X = X - X.mean(axis=0)
    reference = DictionarySPCA(n_components=COUNT, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        alpha = float(reference.fit(X).alpha_)  # one penalty for all, in the units of the data
        make: dict[str, Any] = {
            "pca": lambda: PCA(COUNT),
            "dictionary-spca": lambda: DictionarySPCA(n_components=COUNT),
            "spca": lambda: SPCA(n_components=COUNT),
            "scikit-learn": lambda: SparsePCA(
                COUNT, alpha=alpha, ridge_alpha=0, method="cd", tol=1e-8, random_state=0
            ),
        }
        start = time.perf_counter()
        model = make[case["method"]]().fit(X)
        seconds = time.perf_counter() - start
    components = model.components_
    row: Row = {
        "components": [[round(float(v), 5) for v in line] for line in components],
        "zeros": 100 * float(np.mean(components == 0)),
        "variance": 100 * float(explained_variance(X, components).sum()),
        "seconds": seconds,
    }
    if case["method"] == "dictionary-spca":
        history = np.asarray(model.history_)
        rises = np.count_nonzero(np.diff(history) > 1e-12 * history[-1])
        row |= {"objective": float(model.objective_), "rises": int(rises), "steps": len(history)}
    elif case["method"] == "scikit-learn":
        row["objective"] = float(model.error_[-1])
    return [row]


def _judge(results: Results) -> Outcome:
    rows = {(case["dataset"], case["method"]): row for case, row in results}
    names = list(dict.fromkeys(name for name, _ in rows))
    claims = []
    for name in names:
        ours, pca = rows.get((name, "dictionary-spca")), rows.get((name, "pca"))
        other = rows.get((name, "scikit-learn"))
        if ours is None:
            continue
        claims.append(
            Claim(
                f"{name}: alternating block coordinate descent works",
                "effective in practice",
                f"the objective rises in {ours['rises']} of {ours['steps']} iterations",
                "reproduced" if ours["rises"] == 0 else "not reproduced",
            )
        )
        if pca is not None:
            claims.append(
                Claim(
                    f"{name}: components with many zeros, unlike those of PCA",
                    "many zero entries",
                    f"{ours['zeros']:.0f} % zeros and {ours['variance']:.1f} % of the variance; "
                    f"PCA {pca['zeros']:.0f} % and {pca['variance']:.1f} %",
                    "reproduced" if ours["zeros"] > 50 > pca["zeros"] else "not reproduced",
                )
            )
        if other is not None:
            claims.append(_against_sklearn(name, ours, other))
    if not claims:
        claims = [Claim("sparse eigenfaces", "an example", "-", "not testable", "not in this run")]
    header = ("dataset", "method", "zeros, %", "variance explained, %", "objective", "seconds")
    table = [
        (n, m, r["zeros"], r["variance"], r.get("objective", "-"), r["seconds"])
        for (n, m), r in rows.items()
    ]
    notes = [
        "The source subtracts the penalties where they must be added, and gives no numbers.",
        f"{COUNT} components; one penalty for DictionarySPCA and scikit-learn's SparsePCA.",
    ]
    figures: dict[str, Callable[[Any], None]] = {
        name: partial(_draw, name=name, rows=rows)
        for name in names
        if (name, "dictionary-spca") in rows
    }
    return Outcome(claims, [("Sparse components of images", header, table)], figures, notes)


def _against_sklearn(name: str, ours: Row, other: Row) -> Claim:
    off = ours["objective"] / other["objective"] - 1
    return Claim(
        f"{name}: a different algorithm, scikit-learn's, is more efficient",
        "more efficient",
        f"jointsparse takes {ours['seconds']:.2f} s, scikit-learn {other['seconds']:.2f} s",
        "not reproduced" if ours["seconds"] < other["seconds"] and off < SAME else "reproduced",
        f"objective of jointsparse against scikit-learn's: {off:+.1e} relative",
    )


def _draw(figure: Any, name: str, rows: dict[tuple[str, str], Row]) -> None:
    shown = [m for m in METHODS if (name, m) in rows]
    panels = figure.subplots(len(shown), COUNT, squeeze=False)
    for line, method in zip(panels, shown, strict=True):
        for axes in line:
            axes.set(xticks=[], yticks=[])
        for axes, values in zip(line, rows[(name, method)]["components"], strict=False):
            side = int(np.sqrt(len(values)))
            image = np.array(values).reshape(side, side)
            limit = np.abs(image).max() or 1.0
            # Faces are stored column by column, digits row by row.
            image = image.T if name in FACES else image
            axes.imshow(image, cmap="RdBu_r", vmin=-limit, vmax=limit)
        line[0].set_ylabel(method, fontsize=7)


EXPERIMENTS = (
    Experiment(
        "003-eigenfaces",
        "Sparse eigenfaces by dictionary learning, beside PCA and scikit-learn's SparsePCA",
        _cases,
        _compute,
        _judge,
    ),
)

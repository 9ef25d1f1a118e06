"""Make the picture of the README: the kept features of the bundled table, how good, how sure."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from jointsparse import SPCAPSD
from jointsparse.selection.verdict import mean_and_spread, patterns_in_words
from jointsparse.text import percent

KEPT, FAINT, RANDOM, QUIET = "#0072b2", "#b3b8bf", "#d55e00", "#57606a"

data = load_breast_cancer(as_frame=True).data
X = pd.DataFrame(StandardScaler().fit_transform(data), columns=data.columns)
selector = SPCAPSD().fit(X)
report = selector.selection_report_
worth, names = report.worth, X.columns
order = np.argsort(selector.ranking_)[: report.n_kept]


def stands_in_for(feature: int) -> str:
    """Name the dropped features of which a kept one has most, best first."""
    found = report.stand_ins
    mine = found.kept[:, 0] == feature
    best = found.dropped[mine][np.argsort(-found.r2[mine, 0])]
    shown = ", ".join(names[j] for j in best[:2])
    return f"{shown}, … ({best.size})" if best.size > 2 else shown


figure = plt.figure(figsize=(12, 5.2))
words, _, evidence = report.verdict.partition(": ")
figure.text(0.01, 0.965, f"{words}:", va="top", fontsize=13, fontweight="bold")
figure.text(0.01, 0.905, evidence, va="top", fontsize=12)

ax = figure.add_axes((0.145, 0.02, 0.455, 0.78))  # left, bottom, width, height
places = np.arange(order.size)
ax.barh(places, selector.feature_shares_[order], color=KEPT, height=0.62)
ax.set_yticks(places, [f"{names[j]}" for j in order])
ax.invert_yaxis()
for place, feature in enumerate(order):
    share = selector.feature_shares_[feature]
    text = {"va": "center", "fontsize": 8.5}
    ax.text(share - 0.02, place, percent(share), color="white", ha="right", **text)
    ax.text(1.03, place, stands_in_for(feature) or "–", color=QUIET, **text)
figure.text(0.375, 0.822, "each stands in for", fontsize=10)
ax.set(xlim=(0, 2.05), xticks=[], ylim=(order.size - 0.4, -0.6))
heading = f"The {order.size} kept features: share in common with others"
figure.text(0.01, 0.822, heading, fontsize=10)
ax.spines[["top", "right", "bottom", "left"]].set_visible(False)
ax.tick_params(length=0)

good = figure.add_axes((0.765, 0.48, 0.23, 0.32))
sure = figure.add_axes((0.625, 0.04, 0.37, 0.32))
chance = float(np.mean(worth.random))
bars = [
    (f"{report.n_kept} kept features", worth.r2, 0.0, KEPT, percent(worth.r2)),
    (
        f"{report.n_kept} random features",
        chance,
        float(np.std(worth.random, ddof=1)),
        RANDOM,
        mean_and_spread(worth.random),
    ),
    ("all other features together", worth.ceiling, 0.0, FAINT, percent(worth.ceiling)),
]
for place, (_, share, spread, colour, text) in enumerate(bars):
    good.barh(place, share, xerr=spread or None, color=colour, ecolor="black", height=0.6)
    good.text(share + spread + 0.02, place, text, va="center", fontsize=9)
good.set_yticks(range(len(bars)), [bar[0] for bar in bars])
good.invert_yaxis()
good.set(xlim=(0, 1.25), xticks=[])
figure.text(0.625, 0.822, "How good: what is predicted of the others in new samples", fontsize=10)
good.spines[["top", "right", "bottom"]].set_visible(False)
good.tick_params(length=0)

lines = [
    "New samples: the selection was repeated without them.",
    f"Above the noise: {patterns_in_words(report)}.",
    f"In this table: the kept account for {percent(report.r2)} of the variance.",
    f"The model is solved to within {selector.duality_gap_:.0e} (proved):",
    "a proof about the model, not about new data.",
]
sure.set_title("How sure", loc="left", fontsize=10)
sure.text(0, 0.95, "\n".join(lines), va="top", fontsize=9.5, color=QUIET, linespacing=1.6)
sure.axis("off")
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)

"""
A penalty of your own
=====================

A problem is a loss and penalties. Here every feature has a price of its own; the answer comes with
a proof, made from the penalty's polar.
"""

# %%
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from jointsparse import solve
from jointsparse.penalties import Trace

X = StandardScaler().fit_transform(load_wine().data)


@dataclass
class PricedColumns:
    """The sum of price times length over the columns."""

    prices: np.ndarray

    def value(self, matrix):
        """Return the penalty."""
        return float(self.prices @ np.linalg.norm(matrix, axis=0))

    def prox(self, matrix, step):
        """Shorten every column by its price."""
        lengths = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
        return matrix * np.maximum(1 - step * self.prices / lengths, 0)

    def polar(self, matrix):
        """Return the longest column, in units of its price."""
        return float(np.max(np.linalg.norm(matrix, axis=0) / self.prices))


# %%
# The dearer a feature, the shorter its column.
figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
for dearest, colour in ((100, "#bdbdbd"), (400, "#56b4e9"), (700, "#0072b2")):
    penalty = PricedColumns(np.linspace(20, dearest, 13))
    found = solve(X, penalties=(penalty, Trace(100)))
    lengths = np.linalg.norm(found.loadings, axis=1)
    ax.plot(
        lengths, "o-", color=colour, label=f"up to {dearest}: solved to {found.gap:.0e} (proved)"
    )
ax.set(xlabel="feature, the cheapest first", ylabel="length")
ax.legend(title="prices")

"""
Missing values: estimate, do not drop
=====================================

With a third of the values missing no complete row is left to work with. The scatter matrix of
greatest likelihood needs none.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from jointsparse import Moments

rng = np.random.default_rng(0)
X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 20))
X += 0.4 * rng.standard_normal(X.shape)
holes = np.where(rng.random(X.shape) < 0.33, np.nan, X)
print(f"complete rows: {int(np.isfinite(holes).all(axis=1).sum())} of 200")

# %%
# Correlations from the table with holes, beside those of the complete one.


def correlations(moments):
    """Return the correlations above the diagonal."""
    lengths = np.sqrt(np.diag(moments.scatter))
    return (moments.scatter / lengths / lengths[:, None])[np.triu_indices(20, 1)]


complete = correlations(Moments.from_data(X))
figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharex=True, sharey=True, layout="constrained")
for ax, missing in zip(axes, ("mean", "pairwise", "em"), strict=True):
    found = correlations(Moments.from_data(holes, missing=missing))
    error = np.sqrt(np.mean((found - complete) ** 2))
    ax.plot([-1, 1], [-1, 1], color="#bdbdbd", linewidth=1)
    ax.scatter(complete, found, s=8, color="#0072b2")
    ax.set(title=f'missing="{missing}": off by {error:.2f}', xlabel="complete table")
axes[0].set_ylabel("table with holes")

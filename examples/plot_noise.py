"""
Noise is said to be noise
=========================

A table of random numbers has a largest direction too. What lies above the one that noise alone
would have is an independent pattern; without one, nothing is kept.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from jointsparse import SPCAPSD, feature_significance

rng = np.random.default_rng(0)
noise = rng.standard_normal((80, 300))
planted = noise.copy()
planted[:, :20] += rng.standard_normal((80, 1))  # twenty columns share a factor

# %%
# The same question about both tables.
for name, X in (("noise", noise), ("planted", planted)):
    found = feature_significance(X)
    print(f"{name}: {found.n_significant} patterns, {int(found.significant.sum())} features")

selector = SPCAPSD().fit(planted)
print(selector.selection_report_.verdict)

# %%
# The share of each feature that the others account for, and the planted ones.
figure, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True, layout="constrained")
for ax, (name, X) in zip(axes, (("noise", noise), ("planted", planted)), strict=True):
    found = feature_significance(X)
    colours = np.where(found.significant, "#0072b2", "#bdbdbd")
    ax.scatter(np.arange(300), 100 * found.shares, c=colours, s=8)
    ax.set(title=f"{name}: {found.n_significant} patterns", xlabel="feature")
axes[0].set_ylabel("shared with others (%)")

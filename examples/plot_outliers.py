"""
Outlier samples: what ``robust`` is for
=======================================

Eight features carry the signal. A tenth of the samples is moved far away in all 30. The plain fit
keeps what the far samples have in common, and so do the published models with residuals that are
not squared; ``robust="samples"`` does not, and says which samples these are.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from jointsparse import CSPCA, SPCAPSD

rng = np.random.default_rng(0)
X = rng.standard_normal((200, 30))
X[:, :8] = 0.5 * X[:, :8] + rng.standard_normal((200, 2)) @ rng.choice([-1, 1], (2, 8)) / 2**0.5
X[:20] += 10.0

# %%
# The same model with the same certificate, on samples in which outliers have no say.
selectors = {
    "SPCA-PSD": SPCAPSD(n_features_to_select=8),
    "CSPCA-PSD (unsquared)": CSPCA(n_features_to_select=8),
    "SPCA-PSD, robust": SPCAPSD(n_features_to_select=8, robust="samples"),
}
figure, axes = plt.subplots(1, 3, figsize=(10, 3), sharex=True, layout="constrained")
for ax, (name, selector) in zip(axes, selectors.items(), strict=True):
    selector.fit(X)
    right = int(selector.get_support()[:8].sum())
    colours = np.where(selector.get_support(), "#0072b2", "#bdbdbd")
    ax.bar(np.arange(30), selector.feature_scores_, color=colours)
    ax.axvline(7.5, color="#d55e00", linewidth=1)
    ax.set(title=f"{name}: {right} of 8 right", xlabel="feature (signal: 0 to 7)")
axes[0].set_ylabel("score (kept in blue)")

# %%
# Which samples are outliers: those with a score above 2.8, as 1 in 400 clean samples would be.
robust = selectors["SPCA-PSD, robust"]
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
colours = np.where(robust.outliers_, "#d55e00", "#0072b2")
ax.scatter(np.arange(200), robust.outlier_scores_, c=colours, s=8)
ax.axhline(2.8, color="#bdbdbd")
ax.set(xlabel="sample", ylabel="outlier score", yscale="symlog")

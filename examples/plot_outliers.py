"""
Outlier samples: what robust losses are for
===========================================

Eight features carry the signal. Ten samples of 200 are wild in the other 22 features. With squared
residuals (SPCA-PSD) the wild samples choose the features; with residuals that are not squared
(CSPCA, AW-SPCA) they do not.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from jointsparse import AWSPCA, CSPCA, SPCAPSD

rng = np.random.default_rng(0)
X = 0.3 * rng.standard_normal((200, 30))
X[:, :8] += rng.standard_normal((200, 2)) @ rng.standard_normal((2, 8))
X[:10, 8:] += 8 * rng.standard_normal((10, 22))

# %%
# The same relative penalties for all three; AW-SPCA has no rank penalty. All are certified.
selectors = {
    "SPCA-PSD (squared)": SPCAPSD(alpha=0.3, eta=0.3, n_features_to_select=8),
    "CSPCA-PSD": CSPCA(alpha=0.3, eta=0.3, n_features_to_select=8),
    "AW-SPCA-PSD": AWSPCA(alpha=0.3, n_features_to_select=8),
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
# AW-SPCA also finds its own mean. Here five samples are moved far away from the others.
X[:5] += 500.0
robust = AWSPCA(alpha=0.3).fit(X)
moved = np.abs(X.mean(axis=0)).max(), np.abs(robust.mean_).max()
figure, ax = plt.subplots(figsize=(4, 3), layout="constrained")
ax.bar(["sample mean", "mean of AW-SPCA"], moved, color=["#bdbdbd", "#0072b2"])
ax.set_ylabel("largest entry (true mean: 0)")

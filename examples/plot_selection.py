"""
A set, not a ranking
====================

The pixels with the highest scores are neighbours that repeat each other. A set in which every pixel
adds to those before it accounts for more.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from jointsparse import SPCAPSD

X = load_digits().data

# %%
# The model is the same, the rule that makes a set of its scores is not.
published = SPCAPSD(n_features_to_select=16, rule="norm").fit(X)
ours = SPCAPSD(n_features_to_select=16).fit(X)
print(ours.selection_report_)

# %%
# Left and centre: kept pixels over the mean digit. Right: what the first h account for.
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
for ax, selector, title in (
    (axes[0], published, "the 16 highest scores"),
    (axes[1], ours, "16 that complement each other"),
):
    ax.imshow(X.mean(axis=0).reshape(8, 8), cmap="gray_r")
    rows, columns = np.divmod(np.flatnonzero(selector.get_support()), 8)
    ax.scatter(columns, rows, color="#d55e00", marker="s")
    ax.set(title=title, xticks=[], yticks=[])
counts = np.arange(1, 17)
axes[2].plot(counts, ours.selection_curve_, color="#0072b2", label="complementing")
axes[2].plot(counts, published.selection_curve_, color="#999999", label="highest scores")
axes[2].set(xlabel="number of pixels", ylabel="share of the variance", ylim=(0, 1))
axes[2].legend(frameon=False)

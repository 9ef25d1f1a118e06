"""
Clusters that variance does not show
====================================

Two of nine features hold two moons, the other seven are noise. Standardised, all nine have the same
variance: methods that look at neighbours find the two, a method that looks at variance does not.
(Before that, the moons had the largest variance, and SPCA-PSD found them, too.)
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from jointsparse import SOGFS, SPCAPSD, UDFS, LaplacianScore
from jointsparse.datasets import make_two_moon

X, y = make_two_moon(n_samples=300, random_state=0)
X = StandardScaler().fit_transform(X)
methods = {
    "Laplacian score": LaplacianScore(n_features_to_select=2, rule="norm"),
    "UDFS": UDFS(n_features_to_select=2, n_clusters=2, rule="norm"),
    "SOGFS": SOGFS(n_features_to_select=2, n_clusters=2, rule="norm"),
    "SPCA-PSD": SPCAPSD(n_features_to_select=2, rule="norm"),
}

# %%
# The samples in the plane of the two features that each method ranks first.
figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
for ax, (name, selector) in zip(axes, methods.items(), strict=True):
    first, second = np.argsort(selector.fit(X).ranking_)[:2]
    ax.scatter(X[:, first], X[:, second], c=y, s=8, cmap="coolwarm")
    ax.set(title=name, xlabel=f"feature {first + 1}", ylabel=f"feature {second + 1}")
    ax.set(xticks=[], yticks=[])

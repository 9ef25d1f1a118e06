"""
A set of features with a proof
==============================

Which ten of sixty-one pixels carry most variance in one direction, and could ten others carry more?
A search answers both: the value that is attained rises, the bound that nothing exceeds falls, and
where they meet the answer is proved.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from jointsparse import joint_components, sparse_component

X = load_digits().data
varying = X.std(axis=0) > 0
X = X[:, varying] / X[:, varying].std(axis=0)

found = sparse_component(X, 10)
print(found)

# %%
# The pixels, where they lie in the image. All others are proved to be in no better set of ten.
image = np.full(64, np.nan)
image[np.flatnonzero(varying)[found.features]] = found.vector[found.features]
figure, axes = plt.subplots(figsize=(3.2, 3.2), layout="constrained")
axes.imshow(image.reshape(8, 8), cmap="viridis")
axes.set_title(f"{100 * found.share:.1f} % of the variance, proved")
axes.set_axis_off()

# %%
# Two components that share five features are harder. At any time it is known how much better others
# could be; ``improve`` goes on from there.
steps = []
both = joint_components(X, 5, 2, max_nodes=1, callback=steps.append)
for _ in range(5):
    both = both.improve(max_nodes=2, callback=steps.append)
print(both)

figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
nodes = [step.nodes for step in steps]
axes.plot(nodes, [step.bound / steps[-1].value for step in steps], label="no five pixels do more")
axes.plot(nodes, [step.value / steps[-1].value for step in steps], label="attained")
axes.set_xlabel("nodes of the search")
axes.set_ylabel("variance, best = 1")
axes.legend()

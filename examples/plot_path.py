"""
The path of solutions
=====================

Six of 40 features carry a common signal. As the penalty falls, features enter the model one by one,
the true ones first. Every point of the path is solved to a proven gap.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from jointsparse import SPCAPSD, regularization_path

rng = np.random.default_rng(0)
X = rng.standard_normal((200, 40))
X[:, :6] += 2 * rng.standard_normal((200, 1))

# %%
# Each solution starts from the one before it, and features that are proved to be zero are left out.
path = regularization_path(SPCAPSD(eta=0.3), X, n_points=40)
print(f"largest gap on the path: {path.duality_gaps.max():.1e}")

# %%
figure, (scores, sizes) = plt.subplots(
    2, 1, figsize=(7, 5), sharex=True, height_ratios=(2, 1), layout="constrained"
)
for feature, line in enumerate(path.feature_scores.T):
    true = feature < 6
    scores.plot(path.alphas, line, color="#0072b2" if true else "#bdbdbd", zorder=2 + true)
scores.set(ylabel="score", title="Blue: the six features with a signal")
sizes.step(path.alphas, path.n_features, where="mid", color="black")
sizes.axhline(6, color="#d55e00", linewidth=1)
sizes.set(xscale="log", xlabel="alpha, as a share of the penalty that empties the model")
sizes.set_ylabel("features")
sizes.invert_xaxis()

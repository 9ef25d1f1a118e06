"""Make the picture of the README: the bundled table, its scores and the certificate."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from jointsparse import SPCAPSD
from jointsparse.plotting import ConvergenceDisplay, FeatureScoresDisplay

data = load_breast_cancer(as_frame=True).data
X = pd.DataFrame(StandardScaler().fit_transform(data), columns=data.columns)
selector = SPCAPSD(tol=1e-8).fit(X)

figure, (scores, convergence) = plt.subplots(
    1, 2, figsize=(11, 4.6), width_ratios=(1.25, 1), layout="constrained"
)
FeatureScoresDisplay.from_estimator(selector, n_features=20, ax=scores)
ConvergenceDisplay.from_estimator(selector, ax=convergence)
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)

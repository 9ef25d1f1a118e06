"""Make the picture of the README: the bundled table, what was kept, its worth, the certificate."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from jointsparse import SPCAPSD
from jointsparse.plotting import (
    ConvergenceDisplay,
    FeatureScoresDisplay,
    SelectionCurveDisplay,
)

data = load_breast_cancer(as_frame=True).data
X = pd.DataFrame(StandardScaler().fit_transform(data), columns=data.columns)
selector = SPCAPSD(tol=1e-8).fit(X)

figure = plt.figure(figsize=(11, 6.4), layout="constrained")
# The layout does not know the lower half of the convergence display: leave room for its labels.
figure.get_layout_engine().set(rect=(0, 0.06, 1, 0.94))
left, right = figure.subfigures(1, 2, width_ratios=(1.2, 1))
FeatureScoresDisplay.from_estimator(selector, n_features=30, ax=left.subplots())
curve, convergence = right.subplots(2, 1, height_ratios=(1, 1.3))
SelectionCurveDisplay.from_estimator(selector, ax=curve)
ConvergenceDisplay.from_estimator(selector, ax=convergence)
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)

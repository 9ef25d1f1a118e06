"""
Components: what they are made of, and where the samples lie
============================================================

Thirty measurements of cell nuclei, 569 tumours. SPCA gives every component its own few features;
JSPCA lets all components share one set of features, so the others need not be measured at all.
"""

# %%
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from jointsparse import JSPCA, SPCA
from jointsparse.plotting import BiplotDisplay, LoadingsDisplay

table = load_breast_cancer(as_frame=True)
X, kinds = table.data, table.target_names[table.target]

# %%
# Six features in each of three components. Where a loading is zero the table is empty.
spca = make_pipeline(StandardScaler(), SPCA(n_components=3, n_nonzero=6)).fit(X)
LoadingsDisplay.from_estimator(spca)

# %%
# The tumours on the first two components. These share no feature, so every arrow lies on an axis.
BiplotDisplay.from_estimator(spca, X, y=kinds)

# %%
# A joint penalty drops features from all components at once; the rows that are left are full.
jspca = make_pipeline(StandardScaler(), JSPCA(n_components=3, alpha=0.3)).fit(X)
LoadingsDisplay.from_estimator(jspca)

# %%
# Six arrows are enough here: the others are short.
BiplotDisplay.from_estimator(jspca, X, y=kinds, max_arrows=6)

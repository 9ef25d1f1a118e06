"""
Samples on a cluster: Dask in, Dask out
=======================================

Every estimator takes Dask arrays and DataFrames in the place of arrays. The samples are read in
blocks by the workers, once; what comes back is a scatter matrix, and ``transform`` computes nothing
before it is asked to.

Here the workers are two threads of this process. On a cluster the only difference is a line before
the first: ``client = distributed.Client("tcp://scheduler:8786")``.
"""

# %%
import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from jointsparse import SPCAPSD
from jointsparse.plotting import FeatureScoresDisplay


def load(number):
    """Stand for a file: 5 000 samples of 40 features, eight of which carry the signal."""
    rng = np.random.default_rng(number)
    loadings = np.random.default_rng(0).standard_normal((3, 8))
    block = 0.5 * rng.standard_normal((5000, 40))
    block[:, :8] += rng.standard_normal((5000, 3)) @ loadings
    return block


# %%
# Twenty blocks that no machine holds all at once. Their lengths need not be known.
blocks = [
    da.from_delayed(dask.delayed(load)(number), shape=(np.nan, 40), dtype=float)
    for number in range(20)
]
X = da.concatenate(blocks, allow_unknown_chunksizes=True)
with dask.config.set(scheduler="threads", num_workers=2):
    selector = SPCAPSD(n_features_to_select=8).fit(X)
print(f"optimum within {selector.duality_gap_:.0e} of the best possible")
print(selector.selection_report_)

# %%
# ``transform`` is lazy: this is another Dask array, to be stored or computed block by block.
kept = selector.transform(X)
print(kept)

# %%
# What the solver found is the same as from one large array.
whole = SPCAPSD(n_features_to_select=8).fit(np.concatenate([load(k) for k in range(20)]))
difference = np.abs(selector.feature_scores_ - whole.feature_scores_).max()
print(f"largest difference of a score: {difference:.0e}")
FeatureScoresDisplay.from_estimator(selector)
plt.show()

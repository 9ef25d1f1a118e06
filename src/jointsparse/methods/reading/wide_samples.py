"""Samples with more features than there are samples, as the solvers for many features see them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.device import is_device_array
from jointsparse.linalg import without_offsets
from jointsparse.moments import Moments
from jointsparse.operators.dense import DenseSamples
from jointsparse.operators.samples import Samples
from jointsparse.operators.sparse import SparseSamples, live_columns
from jointsparse.running.workspace import Slot
from jointsparse.solvers.products.columns import feature_columns
from jointsparse.solvers.products.gram import centred_where_held, double_where_held

LARGEST_COPY = 2**25  # entries of a centred copy of the data; beyond, they are centred on the way
MOST_ADVISED = 5000  # features that advice on an empty model looks at: those of largest variance


WIDE_DATA: Slot[Samples] = Slot("wide data")


def advised_by_few(moments: Moments) -> bool:
    """Whether advice looks at the strongest features only: there are many, or they are not here."""
    return moments.is_wide and (moments.n_features > MOST_ADVISED or moments.elsewhere)


def strongest(moments: Moments) -> NDArray[np.bool_]:
    """Return the few features of largest variance, which advice is based on."""
    mask = np.zeros(moments.n_features, dtype=bool)
    mask[np.argsort(-moments.variances)[:MOST_ADVISED]] = True
    return mask


def wide_data(moments: Moments) -> Samples:
    """Return the centred samples for the solvers; their Gram matrix is kept with the moments."""
    return moments.workspace.kept(WIDE_DATA, lambda: _wide_data(moments))


def _wide_data(moments: Moments) -> Samples:
    data: Any = moments.data
    if isinstance(data, Samples):
        return data
    if sp.issparse(data):
        return live_columns(data, moments.mean, moments.variances)
    if moments.n_samples * moments.n_features <= LARGEST_COPY:
        if moments.near_one is moments:  # as the greedy rule sees them: one copy, one XXᵀ
            return feature_columns(moments).samples
        return DenseSamples(centred_where_held(moments))
    return DenseSamples(data if is_device_array(data) else np.asarray(data), moments.native.mean)


def sparse_samples(
    moments: Moments, unit: float, features: NDArray[np.bool_] | None = None
) -> SparseSamples:
    """Return sparse samples (some features of them) divided by a unit, for the graphs."""
    # Before they are divided, which would round the digits that a large mean leaves.
    data, mean = without_offsets(sp.csr_array(moments.data, dtype=np.float64), moments.mean)
    samples = live_columns(data / unit, mean / unit, moments.variances)
    return samples if features is None else samples.columns(features)


def samples_for_graph(moments: Moments, unit: float = 1.0) -> Any:
    """Return centred samples divided by a unit: an array where they are, or sparse ones so."""
    if sp.issparse(moments.data):
        return sparse_samples(moments, unit)
    return double_where_held(moments) / unit

"""Samples with more features than there are samples, as the solvers for many features see them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.device import is_device_array
from jointsparse.graphs.sparse_samples import SparseSamples
from jointsparse.linalg import array_namespace
from jointsparse.moments import Moments
from jointsparse.solvers.products.device_gram import centred_in_double_there
from jointsparse.solvers.products.gram import centred_in_double
from jointsparse.solvers.wide.data import DenseWide, SparseWide, WideData

LARGEST_COPY = 2**25  # entries of a centred copy of the data; beyond, they are centred on the way
SMALL = 2**15  # entries, up to which solvers for samples convert all of them to double precision
MOST_ADVISED = 5000  # features that advice on an empty model looks at: those of largest variance


def advised_by_few(moments: Moments) -> bool:
    """Whether advice looks at the strongest features only: there are many, or they are not here."""
    return is_wide(moments) and (moments.n_features > MOST_ADVISED or by_products(moments))


def strongest(moments: Moments) -> NDArray[np.bool_]:
    """Return the few features of largest variance, which advice is based on."""
    mask = np.zeros(moments.n_features, dtype=bool)
    mask[np.argsort(-moments.variances)[:MOST_ADVISED]] = True
    return mask


def wide_data(moments: Moments) -> WideData:
    """Return the centred samples for the solvers; their Gram matrix is kept with the moments."""
    if "wide data" not in moments.cache:
        if by_products(moments):
            moments.cache["wide data"] = moments.data
        elif sp.issparse(moments.data):
            moments.cache["wide data"] = SparseWide(*live_columns(moments))
        elif moments.n_samples * moments.n_features <= LARGEST_COPY:
            moments.cache["wide data"] = DenseWide(_centred_copy(moments))
        else:
            samples = moments.data if is_device_array(moments.data) else np.asarray(moments.data)
            moments.cache["wide data"] = DenseWide(samples, moments.native.mean)
    data: WideData = moments.cache["wide data"]
    return data


def _centred_copy(moments: Moments) -> Any:
    """Return the centred samples where they are, in double precision if they are small."""
    if moments.n_samples * moments.n_features > SMALL:
        return moments.native.centred_data
    if is_device_array(moments.data):
        return moments.native.centred_as(array_namespace(moments.data).float64)
    return centred_in_double(moments)


def live_columns(moments: Moments) -> tuple[Any, NDArray[np.float64]]:
    """Return sparse samples and their mean, with zeros for features that are constant."""
    live = moments.variances > 0
    if live.all():
        return moments.data, moments.mean
    return moments.data.multiply(live).tocsr(), np.where(live, moments.mean, 0.0)


def sparse_samples(
    moments: Moments, unit: float, features: NDArray[np.bool_] | None = None
) -> SparseSamples:
    """Return sparse samples (some features of them) divided by a unit, for the graphs."""
    matrix, mean = live_columns(moments)
    if features is not None and not features.all():
        matrix, mean = matrix.tocsc()[:, np.flatnonzero(features)], mean[features]
    return SparseSamples(sp.csr_array(matrix, dtype=np.float64) / unit, mean / unit)


def samples_for_graph(moments: Moments, unit: float = 1.0) -> Any:
    """Return centred samples divided by a unit: an array where they are, or sparse ones so."""
    if sp.issparse(moments.data):
        return sparse_samples(moments, unit)
    if is_device_array(moments.data):
        return centred_in_double_there(moments) / unit
    return np.asarray(centred_in_double(moments) / unit)


def by_products(moments: Moments) -> bool:
    """Whether only products with the samples can be had, as on a cluster or from a large file."""
    return hasattr(moments.data, "transposed_times")


def is_wide(moments: Moments) -> bool:
    """Whether the Gram matrix of the samples is smaller than the scatter matrix."""
    return moments.has_samples and moments.n_features > moments.n_samples

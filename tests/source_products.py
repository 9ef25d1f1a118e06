"""Products with the centred samples of a source, each in one pass, to test reductions by."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import FloatArray
from jointsparse.methods.bases.components import centred_product
from jointsparse.sources.base import Block, Source


def times(source: Source, matrix: FloatArray, centre: FloatArray) -> FloatArray:
    """Return (X - 1cᵀ) matrix: one row for each sample."""
    return source.collect(partial(centred_product, matrix=matrix, centre=centre))


def transposed_times(source: Source, matrix: FloatArray, centre: FloatArray) -> FloatArray:
    """Return (X - 1cᵀ)ᵀ matrix, where the matrix has a row for each sample."""
    found = source.reduce(partial(_fold_transposed, centre=centre), np.add, matrix)
    return np.zeros((source.n_features, matrix.shape[1])) if found is None else np.asarray(found)


def _fold_transposed(
    state: Any, block: Block, start: int, part: FloatArray, centre: FloatArray
) -> FloatArray:
    if sp.issparse(block):
        product = block.T @ part - np.outer(centre, part.sum(axis=0))
    else:
        product = np.subtract(block, centre, dtype=np.float64).T @ part
    return product if state is None else state + product

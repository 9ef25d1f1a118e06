r"""Graphs that are learned: every row of S is a point of the simplex on k candidates.

.. math:: \min_{s_i\ge0,\ s_i^\top1=1}\ \sum_j d_{ij}s_{ij} + \gamma s_{ij}^2

has the solution "Euclidean projection of :math:`-d_i/(2\gamma)` onto the simplex". With
:math:`\gamma_i = \tfrac12(k d_{i,k+1} - \sum_{l\le k} d_{il})` over sorted distances exactly the k
nearest samples have a positive weight; that is the graph SOGFS starts from.
"""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.numerics.projections import project_rows_to_simplex


def initial_weights(distances: FloatArray, count: int) -> tuple[FloatArray, float]:
    """Return the weights of the ``count`` nearest samples, and the mean γ.

    ``distances`` holds the squared distances in ascending order, one more than ``count`` where
    there are as many other samples. Where all are equal the weights are.
    """
    beyond = distances[:, -1:]
    closer = np.clip(beyond - distances[:, :count], 0.0, None)
    total = closer.sum(axis=1, keepdims=True)
    # Rounding alone of distances that are equal is no order.
    even = total <= 1e-12 * count * beyond
    weights = np.where(even, 1.0 / count, closer / np.where(even, 1.0, total))
    strength = float(np.mean(total)) / 2
    typical = float(np.mean(distances))
    return weights, max(strength, 1e-12 * typical) or 1.0


def adapted_weights(
    embedding: FloatArray,
    indicators: FloatArray,
    candidates: IntArray,
    *,
    trade: float,
    strength: float,
) -> FloatArray:
    """Return the best weights on the candidates for ‖z_i - z_j‖² + trade ‖f_i - f_j‖²."""
    cost = np.zeros(candidates.shape)
    for column in range(candidates.shape[1]):
        for values, factor in ((embedding, 1.0), (indicators, trade)):
            difference = values - values[candidates[:, column]]
            cost[:, column] += factor * np.einsum("ij,ij->i", difference, difference)
    return project_rows_to_simplex(-cost / (2 * strength))

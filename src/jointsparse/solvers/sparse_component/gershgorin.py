r"""Features that are in no better support, from the rows of S alone.

With U = S off the diagonal and :math:`B_{ij} = |S_{ij}|\,w_j/w_i` for any w > 0, the matrix of the
certificate is diagonal, and every v with at most k nonzeros has

.. math:: v^\top S v \le \max_i r_i,\qquad
          r_i = S_{ii} + \frac1{w_i}\sum_{j\text{: }k-1\text{ largest}} |S_{ij}|\,w_j ,

Gershgorin's discs over the largest entries, scaled. (Where v ≥ 0, negative entries count as 0.) If
feature j is in the support, row i must count :math:`|S_{ij}|w_j` among its terms. Where all rows
then stay below what is attained, j is in no better support and leaves. That makes the rows of the
others shorter, so it is repeated. Starting from w = 1, w is moved towards the vector that minimises
the bound (the fixed point :math:`w_i \propto r_iw_i` of a monotone map), as every w is a proof.
"""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.sparse_component.certificate import UNIT, BoolArray, RowSums

ROUNDS = 12  # vectors w tried without any feature leaving
NARROWEST = 1e-6  # of the largest entry of w: the least one


def eliminate(
    S: FloatArray, k: int, included: BoolArray, level: float, *, nonnegative: bool = False
) -> tuple[IntArray, float]:
    """Return the features that may be in a support better than ``level``, and a bound.

    Parameters
    ----------
    S : ndarray of shape (p, p)
        Symmetric matrix.
    k : int
        Number of features in a support.
    included : ndarray of bool, shape (p,)
        Features that are in every support; they never leave.
    level : float
        Only supports better than this are looked for.
    nonnegative : bool
        Whether only v ≥ 0 are meant.

    Returns
    -------
    kept : ndarray
        Features that are left, in order. None at all where no support can be better.
    bound : float
        No support is better than the larger of this and ``level``.
    """
    kept = np.arange(len(S))
    weights = np.ones(len(S))
    bound, idle = np.inf, 0
    while kept.size > k and idle < ROUNDS:
        part = S[kept[:, None], kept]
        rows = Rows(part, kept.size, k, included[kept], weights[kept], nonnegative=nonnegative)
        bound = min(bound, float(rows.radii.max()))
        if bound <= level:
            return np.zeros(0, dtype=np.int64), bound
        gone = ~included[kept] & (rows.with_each().max(axis=0) <= level)
        weights[kept] = better_weights(weights[kept], rows.radii)
        kept, idle = kept[~gone], 0 if gone.any() else idle + 1
    return (kept if kept.size >= k else kept[:0]), bound


class Rows:
    """Some rows of the diagonal certificate for one w."""

    def __init__(
        self,
        part: FloatArray,
        p: int,
        k: int,
        included: BoolArray,
        weights: FloatArray,
        own: IntArray | None = None,
        *,
        nonnegative: bool,
    ) -> None:
        self.own = np.arange(p) if own is None else own
        self.diagonal = part[np.arange(self.own.size), self.own]
        entries = np.maximum(part, 0.0) if nonnegative else np.abs(part)
        self.n_features = p
        # 8u: two roundings here, and what the other row's two lose.
        entries = entries * (weights / weights[self.own][:, None] * (1 + 8 * UNIT))
        self.sums = RowSums(entries, k, included, self.own)
        self.radii = self._up(self.sums.total)

    def _up(self, sums: FloatArray) -> FloatArray:
        """Return the diagonal plus sums, rounded upwards."""
        diagonal = self.diagonal if sums.ndim == 1 else self.diagonal[:, None]
        charge = 8 * UNIT * (np.abs(diagonal) + np.where(np.isfinite(sums), np.abs(sums), 0.0))
        return diagonal + sums + charge

    def with_each(self, features: IntArray | None = None) -> FloatArray:
        """Return the rows with each feature in the support, a column for each."""
        features = np.arange(self.n_features) if features is None else features
        return self._up(self.sums.with_each(features))


def better_weights(weights: FloatArray, radii: FloatArray) -> FloatArray:
    """Return w a step nearer to the best; half a step, so that all on the way is tried."""
    size = float(np.max(np.abs(radii), where=np.isfinite(radii), initial=1e-300))
    moved = weights * np.sqrt(np.clip(radii / size, NARROWEST, 1.0))
    return np.asarray(np.maximum(moved / moved.max(), NARROWEST))

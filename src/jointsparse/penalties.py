"""Penalties: value, proximal step, reweighting. Weights are vectors, never diagonal matrices."""

from __future__ import annotations

from dataclasses import dataclass

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace, column_norms, positive_part


@dataclass(frozen=True)
class L21:
    r"""Sum of column norms, :math:`\lambda \sum_j \|m_j\|_2`: whole columns become zero together.

    One column belongs to one feature, as in source 004. (For a symmetric matrix the rows do too.)

    Parameters
    ----------
    strength : float
        λ ≥ 0.
    """

    strength: float

    def value(self, matrix: Array) -> float:
        """Return the penalty of a matrix."""
        xp = array_namespace(matrix)
        return self.strength * float(xp.sum(column_norms(matrix)))

    def prox(self, matrix: Array, step: float) -> Array:
        """Shorten every column by ``step * strength``, to exactly zero where it is not longer."""
        xp = array_namespace(matrix)
        norms = column_norms(matrix)
        # A zero column stays zero; dividing it by 1 instead of by 0 keeps NaN out.
        safe = xp.where(norms > 0, norms, xp.ones_like(norms))
        return matrix * positive_part(1 - step * self.strength / safe)

    def weights(self, norms: Array, smoothing: float) -> Array:
        r"""Return the weights :math:`1/(2\sqrt{\|m_j\|^2+\varepsilon})` of the reweighted form."""
        xp = array_namespace(norms)
        return 0.5 / xp.sqrt(norms**2 + smoothing)


def soft_threshold(values: Array, threshold: float) -> Array:
    """Move every entry towards 0 by ``threshold``, to exactly 0 where it is not larger.

    This is the proximal step of the sum of absolute values.
    """
    xp = array_namespace(values)
    return values - xp.clip(values, -threshold, threshold)

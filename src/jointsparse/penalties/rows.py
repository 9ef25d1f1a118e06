"""Penalties that see one length for each feature. Weights are vectors, never diagonal matrices."""

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

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.penalties import L21
    >>> matrix = np.array([[3.0, 0.1], [4.0, 0.0]])
    >>> L21(2.0).value(matrix)
    10.2
    >>> L21(2.0).prox(matrix, 0.5)
    array([[2.4, 0. ],
           [3.2, 0. ]])
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

    def polar(self, matrix: Array) -> float:
        """Return the longest column, in units of λ."""
        xp = array_namespace(matrix)
        return _ratio(float(xp.max(column_norms(matrix))), self.strength)

    def weights(self, norms: Array, smoothing: float) -> Array:
        r"""Return the weights :math:`1/(2\sqrt{\|m_j\|^2+\varepsilon})` of the reweighted form."""
        xp = array_namespace(norms)
        return 0.5 / xp.sqrt(norms**2 + smoothing)


@dataclass(frozen=True)
class L2p:
    r"""Sum of powers of column norms, :math:`\lambda\sum_j\|m_j\|_2^p`, 0 < p < 1: not convex.

    It has no polar, so that nothing solved with it comes with a proof.

    Parameters
    ----------
    strength : float
        λ ≥ 0.
    power : float
        p.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.penalties import L2p
    >>> round(L2p(1.0, power=0.5).value(np.array([[3.0, 0.0], [4.0, 1.0]])), 3)
    3.236
    """

    strength: float
    power: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.power < 1:
            raise ValueError(f"power={self.power} is not between 0 and 1; for 1 use L21")

    def value(self, matrix: Array) -> float:
        """Return the penalty of a matrix."""
        xp = array_namespace(matrix)
        return self.strength * float(xp.sum(column_norms(matrix) ** self.power))

    def weights(self, norms: Array, smoothing: float) -> Array:
        r"""Return :math:`\tfrac p2(\|m_j\|^2+\varepsilon)^{p/2-1}`."""
        return 0.5 * self.power * (norms**2 + smoothing) ** (self.power / 2 - 1)


def _ratio(size: float, strength: float) -> float:
    if size == 0:
        return 0.0
    return size / strength if strength > 0 else float("inf")

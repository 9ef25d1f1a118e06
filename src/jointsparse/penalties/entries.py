"""Penalties that see every entry by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace, positive_part, sum_of_squares


def soft_threshold(values: Array, threshold: float) -> Array:
    """Move every entry towards 0 by ``threshold``, to exactly 0 where it is not larger.

    This is the proximal step of the sum of absolute values.
    """
    if type(values) is np.ndarray:  # several times faster than a portable clip
        return values - np.minimum(np.maximum(values, -threshold), threshold)
    xp = array_namespace(values)
    return values - xp.clip(values, -threshold, threshold)


@dataclass(frozen=True)
class L1:
    r"""Sum of absolute values, :math:`\lambda\sum_{ij}|m_{ij}|`: single entries become zero.

    Parameters
    ----------
    strength : float
        λ ≥ 0.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.penalties import L1
    >>> L1(1.0).prox(np.array([[3.0, -0.2]]), 0.5)
    array([[2.5, 0. ]])
    """

    strength: float

    def value(self, matrix: Array) -> float:
        """Return the penalty of a matrix."""
        xp = array_namespace(matrix)
        return self.strength * float(xp.sum(xp.abs(matrix)))

    def prox(self, matrix: Array, step: float) -> Array:
        """Move every entry towards 0 by ``step * strength``."""
        return soft_threshold(matrix, step * self.strength)

    def polar(self, matrix: Array) -> float:
        """Return the largest entry, in units of λ."""
        xp = array_namespace(matrix)
        largest = float(xp.max(xp.abs(matrix)))
        if largest == 0:
            return 0.0
        return largest / self.strength if self.strength > 0 else float("inf")


@dataclass(frozen=True)
class ElasticNet:
    r"""Absolute values and squares, :math:`\lambda\sum_{ij}(r|m_{ij}| + \tfrac{1-r}{2}m_{ij}^2)`.

    Parameters
    ----------
    strength : float
        λ > 0.
    ratio : float
        r, between 0 (squares only) and 1 (where it is :class:`L1`; use that).

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.penalties import ElasticNet
    >>> ElasticNet(1.0, ratio=0.5).prox(np.array([[3.5, -0.2]]), 1.0)
    array([[2., 0.]])
    """

    strength: float
    ratio: float = 0.5

    def __post_init__(self) -> None:
        if not (self.strength > 0 and 0 <= self.ratio < 1):
            raise ValueError(
                f"ElasticNet needs strength > 0 and 0 <= ratio < 1, not {self.strength} and "
                f"{self.ratio}; for a ratio of 1 use L1"
            )

    def value(self, matrix: Array) -> float:
        """Return the penalty of a matrix."""
        xp = array_namespace(matrix)
        absolute = float(xp.sum(xp.abs(matrix)))
        return self.strength * (
            self.ratio * absolute + (1 - self.ratio) / 2 * sum_of_squares(matrix)
        )

    def prox(self, matrix: Array, step: float) -> Array:
        """Move every entry towards 0, then shrink it."""
        shrunk = soft_threshold(matrix, step * self.strength * self.ratio)
        return shrunk / (1 + step * self.strength * (1 - self.ratio))

    def conjugate(self, matrix: Array) -> float:
        r"""Return :math:`\sup_\Omega \langle M,\Omega\rangle - P(\Omega)`, in place of a polar."""
        xp = array_namespace(matrix)
        excess = positive_part(xp.abs(matrix) - self.strength * self.ratio)
        return sum_of_squares(excess) / (2 * self.strength * (1 - self.ratio))

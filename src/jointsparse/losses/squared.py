r"""The squared loss, ‖X - XΩᵀ‖²."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from jointsparse.arrays import Array
from jointsparse.linalg import Spectrum, array_namespace, double
from jointsparse.moments import Moments


@dataclass(frozen=True)
class SquaredLoss:
    r"""Squared reconstruction error, :math:`\sum_i\|x_i-\Omega x_i\|^2`, of centred samples.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import Moments
    >>> from jointsparse.losses import SquaredLoss
    >>> X = np.array([[1.0, 2.0], [3.0, 2.0], [2.0, 5.0]])
    >>> loss = SquaredLoss().on(Moments.from_data(X))
    >>> round(loss.value(np.zeros((2, 2))), 6)  # the total variance, n times
    8.0
    """

    def on(self, moments: Moments) -> SquaredLossOn:
        """Return the loss on some samples, of which their scatter matrix is all it needs."""
        return SquaredLossOn(moments)


class SquaredLossOn:
    r"""The squared loss on samples with scatter matrix S.

    .. math:: f(\Omega) = \operatorname{tr}\,(I-\Omega)S(I-\Omega)^\top

    Parameters
    ----------
    moments : Moments
        The samples, or their moments alone.
    """

    def __init__(self, moments: Moments) -> None:
        self.moments = moments

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.moments.n_features

    @cached_property
    def spectrum(self) -> Spectrum:
        """Eigenvalues of S, with their sum as the unit, and eigenvectors."""
        spectrum: Spectrum = self.moments.native.spectrum
        return spectrum

    @cached_property
    def scatter(self) -> Array:
        """S, in double precision."""
        return double(self.moments.native.scatter)

    @cached_property
    def empty(self) -> float:
        """Value at Ω = 0, tr S."""
        return float(self.spectrum.trace)

    @property
    def lipschitz(self) -> float:
        """How fast the gradient changes at most: twice the largest eigenvalue of S."""
        return 2 * float(self.spectrum.values[-1]) * self.spectrum.trace

    def value(self, omega: Array) -> float:
        """Return the loss of a matrix."""
        xp = array_namespace(omega)
        linear = float(xp.sum(omega * self.scatter))
        return self.empty - 2 * linear + float(xp.sum((omega @ self.scatter) * omega))

    def gradient(self, omega: Array) -> Array:
        """Return the slope, 2(Ω - I)S."""
        return 2 * (omega @ self.scatter - self.scatter)

    def nearest(self, centre: Array, weight: float, *, symmetric: bool) -> Array:
        r"""Return :math:`\arg\min_\Omega f(\Omega)+\tfrac w2\|\Omega-C\|_F^2`, symmetric or any.

        In the eigenbasis of S every entry is solved by itself.
        """
        xp = array_namespace(centre)
        s = double(self.spectrum.values) * self.spectrum.trace
        vectors = double(self.spectrum.vectors)
        rotated = vectors.T @ (centre @ vectors)
        right = weight * rotated + 2 * s * xp.eye(s.shape[0], dtype=s.dtype, device=s.device)
        # Of a symmetric Ω both halves of the slope count, SΩ + ΩS.
        left = s[:, None] + s[None, :] if symmetric else 2 * s[None, :]
        return vectors @ (right / (left + weight)) @ vectors.T

    def bound(self, omega: Array, share: float) -> float:
        r"""Return :math:`\min_\Omega f(\Omega) + t\langle G,\Omega\rangle` with G = -∇f(Ω̃).

        Scaling the slope by t scales the residuals :math:`I-\tilde\Omega` by t, so that the
        minimum is :math:`t\langle G,I\rangle - t^2f(\tilde\Omega)`.
        """
        return share * self._pull(omega) - share**2 * self._squares(omega)

    def best_share(self, omega: Array) -> float:
        """Return the t with the highest bound."""
        squares = self._squares(omega)
        return self._pull(omega) / (2 * squares) if squares > 0 else 1.0

    def _pull(self, omega: Array) -> float:
        xp = array_namespace(omega)
        return 2 * (self.empty - float(xp.sum(omega * self.scatter)))

    def _squares(self, omega: Array) -> float:
        return max(self.value(omega), 0.0)

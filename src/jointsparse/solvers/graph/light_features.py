r"""The lowest eigenpairs of A + diag(w) where most weights are so large that features are out.

With i the light features and o the heavy ones, whose weights :math:`D` are at least ``FAR`` times
the norm of A, eigenvectors are :math:`v_o = -(A_{oo}+D-\lambda)^{-1}A_{oi}v_i`, and

.. math:: \bigl(A_{ii} + W_i - A_{io}(A_{oo}+D-\lambda)^{-1}A_{oi}\bigr)\,v_i = \lambda v_i .

To first order in λ that is an eigenproblem of light features alone,

.. math:: (A_{ii} + W_i - C)\,v_i = \lambda\,(I + B^\top B)\,v_i,\qquad
          B = (A_{oo}+D)^{-1}A_{oi},\quad C = A_{io}B ,

and the inverse is a series in :math:`r = \|A\|/\min D`, of which :math:`r^3` is the last term taken
for C. What is left out, :math:`\|A\|\,(r^4 + r\,(\lambda/\min D)^2)`, is compared with the distance
of the eigenvalues. By Sylvester's law no eigenvalue below those of the heavy block is missed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from jointsparse.arrays import FloatArray
from jointsparse.linalg import add_to_diagonal, lowest_eigenpairs, symmetric_part

FAR = 1e3  # times the norm of A, and the least weights: from there on a feature is heavy
LARGEST_SHARE = 0.6  # of the features: with more light ones little is saved
ACCURATE = (
    1e-10  # angle between a wanted vector and the wanted space: what is left out over distance
)


class LightFeatures:
    """The lowest eigenpairs of A + diag(w), for one w after another.

    Parameters
    ----------
    matrix : ndarray of shape (n_features, n_features)
        A, symmetric.
    norm : float
        Largest modulus of its eigenvalues.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.graph.light_features import LightFeatures
    >>> A = np.cov(np.random.default_rng(0).standard_normal((5, 40)))
    >>> weights = np.array([1.0, 2.0, 1e5, 1e6, 1e6])
    >>> values, _ = LightFeatures(A, np.linalg.norm(A, 2)).lowest(weights, 1, 2)
    >>> bool(np.allclose(values, np.linalg.eigvalsh(A + np.diag(weights))[:2], rtol=1e-12))
    True
    """

    def __init__(self, matrix: FloatArray, norm: float) -> None:
        self.matrix, self.norm = matrix, norm
        self._heavy: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self._parts: tuple[FloatArray, ...] = ()

    def lowest(
        self, weights: FloatArray, count: int, width: int
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return ``width`` eigenpairs, the first ``count`` accurate; None where it would not do."""
        least = float(np.partition(weights, width - 1)[width - 1])
        heavy = weights >= FAR * max(self.norm, least)
        n_light = weights.size - int(np.count_nonzero(heavy))
        if not width <= n_light <= LARGEST_SHARE * weights.size:
            return None
        inside, across, outside = self._blocks(heavy)
        far = weights[heavy, None]
        first = across / far
        image = outside @ first
        second = image / far
        both = first - second  # B
        coupling = across.T @ first - first.T @ image + image.T @ second
        own = add_to_diagonal(symmetric_part(inside - coupling), weights[~heavy])
        root = np.linalg.cholesky(add_to_diagonal(both.T @ both, 1.0))
        inverse = dtrtri(root, lower=1)[0]
        turned = inverse @ own @ inverse.T
        values, axes = lowest_eigenpairs(symmetric_part(turned), width)
        if not self._accurate(values, count, float(far.min())):
            return None
        light = inverse.T @ axes
        short = second @ light
        lifted = short - first @ light - (outside @ short) / far
        vectors = np.empty((weights.size, values.size))
        vectors[~heavy], vectors[heavy] = light, lifted * (1 + values / far)
        return values[:width], vectors[:, :width]

    def _accurate(self, values: FloatArray, count: int, far: float) -> bool:
        ratio, largest = self.norm / far, float(np.max(np.abs(values[: count + 1])))
        left_out = self.norm * (ratio**4 + ratio * (largest / far) ** 2)
        return values.size > count and left_out <= ACCURATE * float(
            values[count] - values[count - 1]
        )

    def _blocks(self, heavy: NDArray[np.bool_]) -> tuple[FloatArray, ...]:
        """Return A of the light features, between heavy and light ones, and of the heavy ones."""
        if not np.array_equal(heavy, self._heavy):
            light, out = np.flatnonzero(~heavy), np.flatnonzero(heavy)
            pairs = ((light, light), (out, light), (out, out))
            self._heavy = heavy
            self._parts = tuple(self.matrix[np.ix_(*pair)] for pair in pairs)
        return self._parts

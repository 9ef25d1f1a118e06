r"""Correlations from the samples that have both values, and the nearest matrix that can be one.

.. math:: R_{jk} = \operatorname{corr}\{(x_{ij}, x_{ik}) : \text{both are there}\}

Each entry is from other samples, so that R may have negative eigenvalues. They become 0, and the
diagonal 1 again; how far that moved R is reported.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointsparse.arrays import FloatArray

NOTHING = 1e-12  # share of a variance that is rounding


class Pairs(NamedTuple):
    """Correlations of pairs.

    Attributes
    ----------
    correlation : ndarray of shape (n_features, n_features)
        Without a negative eigenvalue, but for rounding.
    counts : ndarray of shape (n_features, n_features)
        How many samples have both values.
    change : float
        How far negative eigenvalues moved the matrix, as a share of its Frobenius norm.
    n_rows : int
        How many samples there are.
    """

    correlation: FloatArray
    counts: FloatArray
    change: float
    n_rows: int

    @property
    def n_samples(self) -> int:
        r"""Complete samples that would tell as much: whose noise has as large an eigenvalue.

        The variance of a correlation of independent features is one over its number of pairs; let
        m be their harmonic mean. With the n samples at hand and zeros for what is missing, noise
        would have the largest eigenvalue :math:`(1+\sqrt{p/n})^2`, and correlations that are
        smaller than those of pairs by :math:`a = \sqrt{m/n}`. So that of pairs is

        .. math:: e = 1 + \frac{(1+\sqrt{p/n})^2 - 1}{a},\qquad
                  n' = \frac{p}{(\sqrt e - 1)^2}

        complete samples have the same. With few features n' is m.
        """
        p, n = len(self.counts), self.n_rows
        pairs = self.counts[~np.eye(p, dtype=bool)] if p > 1 else self.counts.ravel()
        mean = 1 / float(np.mean(1 / np.maximum(pairs, 1.0)))
        if mean >= n:
            return n
        edge = 1 + ((1 + np.sqrt(p / n)) ** 2 - 1) / np.sqrt(mean / n)
        return max(int(p / (np.sqrt(edge) - 1) ** 2), 1)


def pairwise(values: FloatArray) -> Pairs:
    """Return the correlations of all pairs of features.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_features)
        Samples around about 0; NaN where missing. A pair that no two samples have, or in which one
        feature does not vary, counts as uncorrelated.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.incomplete.pairwise import pairwise
    >>> x = np.array([[1.0, 2.0], [-1.0, -2.0], [0.0, 0.0], [5.0, np.nan]])
    >>> found = pairwise(x)
    >>> found.correlation.round(6).tolist(), found.n_samples
    ([[1.0, 1.0], [1.0, 1.0]], 3)
    """
    there = (~np.isnan(values)).astype(np.float64)
    filled = np.where(there > 0, values, 0.0)
    counts = there.T @ there
    safe = np.maximum(counts, 1.0)
    sums = filled.T @ there  # of feature j over the samples that have k
    squares = (filled**2).T @ there
    variances = np.maximum(squares - sums**2 / safe, 0.0)
    products = filled.T @ filled - sums * sums.T / safe
    lengths = np.sqrt(variances * variances.T)
    known = (counts > 1) & (lengths > NOTHING * np.sqrt(squares * squares.T))
    raw = np.divide(products, lengths, out=np.zeros_like(products), where=known)
    raw = np.clip((raw + raw.T) / 2, -1.0, 1.0)
    np.fill_diagonal(raw, 1.0)
    eigenvalues, vectors = np.linalg.eigh(raw)
    if eigenvalues[0] >= -NOTHING * len(raw):
        return Pairs(raw, counts, 0.0, len(values))
    half = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    correlation = half @ half.T
    np.fill_diagonal(correlation, 1.0)
    change = float(np.linalg.norm(correlation - raw) / np.linalg.norm(raw))
    return Pairs(correlation, counts, change, len(values))

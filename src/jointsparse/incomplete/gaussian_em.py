r"""Mean and covariance matrix of Gaussian samples with missing values, by maximum likelihood.

With :math:`x_O` the part of a sample that is there and :math:`x_M` the part that is not,

.. math:: \max_{\mu,\Sigma}\ \sum_i -\tfrac12\Bigl(\log\det\Sigma_{OO} +
          (x_O-\mu_O)^\top\Sigma_{OO}^{-1}(x_O-\mu_O)\Bigr),\qquad O = O(i).

EM repeats two steps, neither of which lowers the likelihood (Dempster, Laird, Rubin 1977): what is
missing is replaced by its conditional mean :math:`\mu_M+\Sigma_{MO}\Sigma_{OO}^{-1}(x_O-\mu_O)`;
then mean and covariance are those of the completed samples, with the conditional covariance
:math:`\Sigma_{MM}-\Sigma_{MO}\Sigma_{OO}^{-1}\Sigma_{OM}` added for every sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray

# Added to the diagonal of a correlation matrix before it is inverted: copies of a column have no
# inverse, and their missing values are still predicted to six digits.
RIDGE = 1e-6


class Fitted(NamedTuple):
    """What EM arrived at.

    Attributes
    ----------
    mean : ndarray of shape (n_features,)
        Mean.
    covariance : ndarray of shape (n_features, n_features)
        Covariance matrix, with divisor n.
    history : list of float
        Log-likelihood of what is there, before each step, without its constant.
    change : float
        Last change of the covariance matrix, as a share of its Frobenius norm.
    converged : bool
        Whether that is below the tolerance.
    """

    mean: FloatArray
    covariance: FloatArray
    history: list[float]
    change: float
    converged: bool


def gaussian_em(values: FloatArray, covariance: FloatArray, *, tol: float, max_iter: int) -> Fitted:
    """Fit mean and covariance matrix.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_features)
        Samples in units in which every variance is about 1, around about 0; NaN where missing. No
        sample misses all.
    covariance : ndarray of shape (n_features, n_features)
        Where to begin, without a negative eigenvalue.
    tol : float
        Change of the covariance matrix at which to stop, relative.
    max_iter : int
        Most steps.
    """
    patterns = patterns_of(np.isnan(values))
    mean = np.zeros(values.shape[1])
    history: list[float] = []
    change = np.inf
    while len(history) < max_iter and change > tol:
        likelihood, completed, extra = _completed(values, patterns, mean, covariance)
        history.append(likelihood)
        mean = completed.mean(axis=0)
        completed -= mean
        new = (completed.T @ completed + extra) / len(values)
        change = float(np.linalg.norm(new - covariance) / np.linalg.norm(new))
        covariance = new
    return Fitted(mean, covariance, history, change, change <= tol)


def patterns_of(missing: NDArray[np.bool_]) -> list[tuple[NDArray[np.bool_], IntArray]]:
    """Return each different pattern of missing values, with the rows that have it.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.incomplete.gaussian_em import patterns_of
    >>> [rows.tolist() for _, rows in patterns_of(np.array([[0, 1], [0, 0], [0, 1]], dtype=bool))]
    [[1], [0, 2]]
    """
    packed = np.packbits(missing, axis=1)
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(which.ravel()))[:-1])
    return [(missing[row], mine) for row, mine in zip(first, rows, strict=True)]


def _completed(
    values: FloatArray,
    patterns: list[tuple[NDArray[np.bool_], IntArray]],
    mean: FloatArray,
    covariance: FloatArray,
) -> tuple[float, FloatArray, FloatArray]:
    """Return the likelihood, the samples with conditional means, and their covariances summed."""
    completed, extra, likelihood = values.copy(), np.zeros_like(covariance), 0.0
    for missing, rows in patterns:
        there, lost = np.flatnonzero(~missing), np.flatnonzero(missing)
        inner = covariance[np.ix_(there, there)]
        inner.flat[:: there.size + 1] += RIDGE
        factor = scipy.linalg.cholesky(inner, lower=True, check_finite=False)
        deviations = values[np.ix_(rows, there)] - mean[there]
        half = scipy.linalg.solve_triangular(factor, deviations.T, lower=True, check_finite=False)
        likelihood -= 0.5 * float(np.sum(half**2))
        likelihood -= rows.size * float(np.log(np.diagonal(factor)).sum())
        if lost.size:
            across = scipy.linalg.solve_triangular(
                factor, covariance[np.ix_(there, lost)], lower=True, check_finite=False
            )
            completed[np.ix_(rows, lost)] = mean[lost] + half.T @ across
            left = covariance[np.ix_(lost, lost)] - across.T @ across
            extra[np.ix_(lost, lost)] += rows.size * left
    return likelihood, completed, extra

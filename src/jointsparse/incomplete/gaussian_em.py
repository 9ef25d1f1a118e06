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
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray

# Added to the diagonal of a correlation matrix before it is inverted: copies of a column have no
# inverse, and their missing values are still predicted to six digits.
RIDGE = 1e-6
AT_ONCE = 2**20  # entries of the matrices of some patterns side by side: 8 MB


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
    there, which = patterns_of(np.isnan(values))
    mean = np.zeros(values.shape[1])
    history: list[float] = []
    change = np.inf
    while len(history) < max_iter and change > tol:
        likelihood, completed, extra = _completed(values, there, which, mean, covariance)
        history.append(likelihood)
        mean = completed.mean(axis=0)
        completed -= mean
        new = (completed.T @ completed + extra) / len(values)
        change = float(np.linalg.norm(new - covariance) / np.linalg.norm(new))
        covariance = new
    return Fitted(mean, covariance, history, change, change <= tol)


def patterns_of(missing: NDArray[np.bool_]) -> tuple[FloatArray, IntArray]:
    """Return the different patterns of what is there, as 0 and 1, and which one each row has.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.incomplete.gaussian_em import patterns_of
    >>> there, which = patterns_of(np.array([[0, 1], [0, 0], [0, 1]], dtype=bool))
    >>> there.tolist(), which.tolist()
    ([[1.0, 1.0], [1.0, 0.0]], [1, 0, 1])
    """
    packed = np.packbits(missing, axis=1)
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return (~missing[first]).astype(np.float64), which.ravel()


def _completed(
    values: FloatArray,
    there: FloatArray,
    which: IntArray,
    mean: FloatArray,
    covariance: FloatArray,
) -> tuple[float, FloatArray, FloatArray]:
    """Return the likelihood, the samples with conditional means, and their covariances summed.

    Many patterns at a time: with ones on the diagonal in place of what is missing, the matrices
    Σ_OO of all patterns have the same shape, and the same determinants and inverses.
    """
    n_patterns, p = there.shape
    deviations = np.where(np.isnan(values), 0.0, values - mean)
    completed, extra, likelihood = np.empty_like(values), np.zeros((p, p)), 0.0
    counts = np.bincount(which, minlength=n_patterns)
    step = max(1, AT_ONCE // p**2)
    for first in range(0, n_patterns, step):
        masks = there[first : first + step]
        pairs = masks[:, :, None] * masks[:, None, :]
        inner = pairs * covariance
        diagonal = np.arange(p)
        inner[:, diagonal, diagonal] += np.where(masks > 0, RIDGE, 1.0)
        inverse = np.linalg.inv(inner) * pairs
        rows = np.flatnonzero((which >= first) & (which < first + step))
        mine = which[rows] - first
        weights = np.einsum("ijk,ik->ij", inverse[mine], deviations[rows])
        number = counts[first : first + step]
        likelihood -= 0.5 * float(np.sum(weights * deviations[rows]))
        likelihood -= 0.5 * float(number @ np.linalg.slogdet(inner)[1])
        completed[rows] = mean + np.where(masks[mine] > 0, deviations[rows], weights @ covariance)
        lost = 1 - masks
        left = covariance - covariance @ inverse @ covariance
        extra += np.einsum("i,ij,ijk,ik->jk", number, lost, left, lost, optimize=True)
    return likelihood, completed, extra

r"""The same with few factors: where there are many features, or no more samples than features.

.. math:: x = \mu + Wz + \varepsilon,\qquad z\sim N(0, I_k),\quad \varepsilon_j\sim N(0, d_j),
          \qquad \Sigma = WW^\top + \operatorname{diag}(d) .

A full covariance matrix has more entries than such samples can tell; k factors are those above the
noise. Given what is there of a sample, z is Gaussian with the inverse covariance
:math:`G_i = I + \sum_{j\in O(i)} w_jw_j^\top/d_j`. All samples and features are done at once:
:math:`G_i` and the regressions of the features on z are products of the mask with k × k matrices.

The scatter matrix returned is not :math:`n\Sigma` but what is expected of the samples under the
model: products of values that are there stay as they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.incomplete.gaussian_em import Fitted

AT_ONCE = 2**22  # entries of the arrays of some samples side by side: 32 MB
LEAST_NOISE = 1e-4  # of a variance of 1: a feature without any noise would be all that counts


class _Factors(NamedTuple):
    """What is known of z: its mean for every sample, and its covariance."""

    scores: FloatArray
    covariances: FloatArray


def factor_em(values: FloatArray, start: FloatArray, *, tol: float, max_iter: int) -> Fitted:
    """Fit mean and covariance matrix with k factors.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_features)
        Samples in units in which every variance is about 1, around about 0; NaN where missing.
    start : ndarray of shape (n_features, k)
        W to begin with.
    tol : float
        Change of the covariance matrix at which to stop, relative.
    max_iter : int
        Most steps.
    """
    there = (~np.isnan(values)).astype(np.float64)
    filled = np.where(there > 0, values, 0.0)
    loadings, mean = start, np.zeros(values.shape[1])
    noise = np.maximum(1 - (loadings**2).sum(axis=1), LEAST_NOISE)
    history: list[float] = []
    change = np.inf
    while len(history) < max_iter and change > tol:
        known, likelihood = _scores(filled, there, mean, loadings, noise)
        history.append(likelihood)
        new = _regressed(filled, there, known)
        change = _change(loadings, noise, new[0], new[2])
        loadings, mean, noise = new
    known, _ = _scores(filled, there, mean, loadings, noise)
    mean, covariance = _expected(filled, there, mean, loadings, noise, known)
    return Fitted(mean, covariance, history, change, change <= tol)


def _scores(
    filled: FloatArray, there: FloatArray, mean: FloatArray, loadings: FloatArray, noise: FloatArray
) -> tuple[_Factors, float]:
    """Return what is known of z, and the log-likelihood of what is there."""
    p, k = loadings.shape
    weighted = loadings / noise[:, None]
    squares = (loadings[:, :, None] * weighted[:, None, :]).reshape(p, k * k)
    inner = (there @ squares).reshape(-1, k, k) + np.eye(k)
    covariances: FloatArray = np.linalg.inv(inner).astype(np.float64, copy=False)
    deviations = there * (filled - mean)
    image = deviations @ weighted
    scores = np.einsum("ikl,il->ik", covariances, image)
    explained = float(np.sum(image * scores))
    left = float(np.sum(deviations**2 / noise)) - explained
    logs = float(np.linalg.slogdet(inner)[1].sum()) + float(there.sum(axis=0) @ np.log(noise))
    return _Factors(scores, covariances), -0.5 * (left + logs)


def _regressed(
    filled: FloatArray, there: FloatArray, known: _Factors
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return loadings, means and noise: the regression of each feature on z and a constant."""
    n, k = known.scores.shape
    with_one = np.concatenate([known.scores, np.ones((n, 1))], axis=1)
    moments = with_one[:, :, None] * with_one[:, None, :]
    moments[:, :k, :k] += known.covariances
    inner = (there.T @ moments.reshape(n, -1)).reshape(-1, k + 1, k + 1)
    image = filled.T @ with_one
    weights = np.linalg.solve(inner, image[:, :, None])[:, :, 0]
    counts = there.sum(axis=0)
    left = (filled**2).sum(axis=0) - (weights * image).sum(axis=1)
    return weights[:, :k], weights[:, k], np.maximum(left / counts, LEAST_NOISE)


def _change(
    loadings: FloatArray, noise: FloatArray, new_loadings: FloatArray, new_noise: FloatArray
) -> float:
    """Return ‖Σ' - Σ‖_F / ‖Σ'‖_F without forming either."""
    both = np.concatenate([new_loadings, loadings], axis=1)
    signs = np.repeat([1.0, -1.0], loadings.shape[1])
    gram = both.T @ both
    moved = new_noise - noise
    diagonal = float(((both**2 @ signs) * moved).sum())
    squared = float(np.sum(gram**2 * np.outer(signs, signs))) + 2 * diagonal + float(moved @ moved)
    inner = new_loadings.T @ new_loadings
    size = float(np.sum(inner**2)) + float(new_noise @ new_noise)
    size += 2 * float(((new_loadings**2).sum(axis=1) * new_noise).sum())
    return float(np.sqrt(max(squared, 0.0) / size))


def _expected(
    filled: FloatArray,
    there: FloatArray,
    mean: FloatArray,
    loadings: FloatArray,
    noise: FloatArray,
    known: _Factors,
) -> tuple[FloatArray, FloatArray]:
    """Return mean and covariance matrix of the samples, as expected under the model."""
    n, p = filled.shape
    lost = 1 - there
    completed = there * filled + lost * (mean + known.scores @ loadings.T)
    centre = completed.mean(axis=0)
    completed -= centre
    scatter = completed.T @ completed
    roots = np.linalg.cholesky(known.covariances)
    step = max(1, AT_ONCE // (p * loadings.shape[1]))
    for first in range(0, n, step):
        part = slice(first, first + step)
        # (W L_i) in the rows of what is missing, for some samples side by side.
        uncertain = np.einsum("jk,ikl->jil", loadings, roots[part]) * lost[part].T[:, :, None]
        uncertain = uncertain.reshape(p, -1)
        scatter += uncertain @ uncertain.T
    scatter.flat[:: p + 1] += lost.sum(axis=0) * noise
    return centre, scatter / n

"""Choosing parameters: the regularisation path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from jointsparse.methods.convex import ConvexSelector
from jointsparse.moments import Moments


@dataclass(frozen=True)
class RegularizationPath:
    """Solutions for a sequence of penalties, strongest first.

    Attributes
    ----------
    alphas : ndarray of shape (n_points,)
        Penalties as fractions of the one that empties the model.
    penalties : ndarray of shape (n_points,)
        The same in the units of the data (λ).
    feature_scores : ndarray of shape (n_points, n_features)
        Scores at each point; exactly zero for features left out.
    objectives, duality_gaps : ndarray of shape (n_points,)
        Objective and proven relative gap at each point.
    n_iter : ndarray of shape (n_points,)
        Iterations at each point.
    feature_names : ndarray of shape (n_features,) or None
        Names of the features, where X had any.
    """

    alphas: NDArray[np.float64]
    penalties: NDArray[np.float64]
    feature_scores: NDArray[np.float64]
    objectives: NDArray[np.float64]
    duality_gaps: NDArray[np.float64]
    n_iter: NDArray[np.int64]
    feature_names: NDArray[Any] | None

    @property
    def supports(self) -> NDArray[np.bool_]:
        """Which features are nonzero at each point."""
        return self.feature_scores > 0

    @property
    def n_features(self) -> NDArray[np.int64]:
        """Number of nonzero features at each point."""
        return np.count_nonzero(self.feature_scores, axis=1)


def regularization_path(
    estimator: ConvexSelector,
    X: Any,
    *,
    alphas: ArrayLike | None = None,
    n_points: int = 30,
    smallest: float = 1e-3,
) -> RegularizationPath:
    r"""Solve a convex model for a whole sequence of sparsity penalties.

    With η fixed, λ falls from just below the value that empties the model. The moments of X are
    computed once, and each solution starts from the one before it.

    Parameters
    ----------
    estimator : SPCAPSD, CSPCA or AWSPCA
        Unfitted; its ``alpha`` is not used. Not modified.
    X : array-like, data frame or sparse matrix of shape (n_samples, n_features), or Moments
        Samples, or their moments.
    alphas : array-like or None
        Penalties as fractions, between 0 and 1, of the one that empties the model; None takes
        ``n_points`` of them, evenly spaced on a logarithmic scale.
    n_points : int
        Number of points where ``alphas`` is None.
    smallest : float
        Smallest penalty where ``alphas`` is None.

    Returns
    -------
    RegularizationPath

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import SPCAPSD, regularization_path
    >>> X = StandardScaler().fit_transform(load_breast_cancer().data)
    >>> path = regularization_path(SPCAPSD(), X, alphas=[0.9, 0.5, 0.1])
    >>> path.n_features.tolist()
    [0, 30, 30]
    >>> bool(path.duality_gaps.max() < 1e-4)
    True
    """
    chosen = _fractions(alphas, n_points, smallest)
    model = clone(estimator)
    if not hasattr(model, "emptying_penalty"):
        raise TypeError(
            f"regularization_path is for SPCAPSD, CSPCA and AWSPCA, not {type(model).__name__}"
        )
    if isinstance(X, Moments):
        moments = X
    else:
        # Validation by the estimator itself gives its own messages.
        moments = model._take_in(X)
        moments.feature_names = getattr(model, "feature_names_in_", None)
    largest, eta = model.emptying_penalty(moments)
    absolute: dict[str, Any] = {"penalty_scale": "absolute", "n_features_to_select": "support"}
    if "eta" in model.get_params():
        absolute["eta"] = eta
    if "warm_start" in model.get_params():
        absolute["warm_start"] = True
    model.set_params(**absolute)
    points = []
    for alpha in chosen:
        model.set_params(alpha=float(alpha * largest))
        points.append(model.solution(moments))
    scores, solutions = zip(*points, strict=True)
    return RegularizationPath(
        alphas=chosen,
        penalties=chosen * largest,
        feature_scores=np.array(scores),
        objectives=np.array([s.objective for s in solutions]),
        duality_gaps=np.array([np.nan if s.gap is None else s.gap for s in solutions]),
        n_iter=np.array([s.n_iter for s in solutions]),
        feature_names=moments.feature_names,
    )


def _fractions(alphas: ArrayLike | None, n_points: int, smallest: float) -> NDArray[np.float64]:
    if alphas is None:
        return np.geomspace(0.95, smallest, n_points)
    fractions = np.sort(np.atleast_1d(np.asarray(alphas, dtype=np.float64)))[::-1]
    if fractions.size == 0 or not (fractions[-1] > 0 and fractions[0] < 1):
        raise ValueError("alphas must be fractions between 0 and 1, at least one of them")
    return fractions

"""The regularisation path: solutions for a whole sequence of penalties."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from jointsparse.metrics.loadings import explained_variance
from jointsparse.moments import Moments
from jointsparse.solvers.solution import Solution
from jointsparse.steps import steps


class PathMethod(Protocol):
    """What an estimator needs to be followed along a path.

    ``emptying_penalty`` returns the penalty at the start of the path and the parameters with which
    ``set_penalty`` is in the same units and ``solution`` starts from the last one.
    """

    def moments_of(self, X: Any, y: Any = None) -> Moments:
        """Return the moments of samples."""

    def emptying_penalty(self, moments: Moments) -> tuple[float, dict[str, Any]]:
        """Return the penalty that empties the model, and the parameters for the path."""

    def set_penalty(self, penalty: float) -> None:
        """Set the penalty, in the units of ``emptying_penalty``."""

    def solution(self, moments: Moments) -> tuple[NDArray[np.float64], Solution]:
        """Return the scores of the features and the solution."""


@dataclass(frozen=True)
class RegularizationPath:
    """Solutions for a sequence of penalties, strongest first.

    Attributes
    ----------
    alphas : ndarray of shape (n_points,)
        Penalties as fractions of the one that empties the model (of SPCA: its weakest component).
    penalties : ndarray of shape (n_points,)
        The same in the units of the data: λ, for FSSL 1/μ.
    feature_scores : ndarray of shape (n_points, n_features)
        Scores at each point; exactly zero for features left out.
    objectives : ndarray of shape (n_points,)
        Objective at each point.
    duality_gaps : ndarray of shape (n_points,)
        Proven relative gap at each point; NaN for methods that are not convex and have no proof.
    n_iter : ndarray of shape (n_points,)
        Iterations at each point.
    converged : ndarray of shape (n_points,)
        Whether each point reached the tolerance.
    feature_names : ndarray of shape (n_features,) or None
        Names of the features, where X had any.
    n_nonzero : ndarray of shape (n_points, n_components) or None
        Nonzero loadings of each component; None for methods without components. The components of
        each point are in the order of ``components_`` of a fit there.
    adjusted_variance : ndarray of shape (n_points, n_components) or None
        Share of the variance that each of them adds: kind "adjusted" of
        :func:`jointsparse.metrics.explained_variance`.
    """

    alphas: NDArray[np.float64]
    penalties: NDArray[np.float64]
    feature_scores: NDArray[np.float64]
    objectives: NDArray[np.float64]
    duality_gaps: NDArray[np.float64]
    n_iter: NDArray[np.int64]
    converged: NDArray[np.bool_]
    feature_names: NDArray[Any] | None
    n_nonzero: NDArray[np.int64] | None = None
    adjusted_variance: NDArray[np.float64] | None = None

    @property
    def supports(self) -> NDArray[np.bool_]:
        """Which features are nonzero at each point."""
        return self.feature_scores > 0

    @property
    def n_features(self) -> NDArray[np.int64]:
        """Number of nonzero features at each point."""
        return np.count_nonzero(self.feature_scores, axis=1)

    def _repr_html_(self) -> str:
        """Show the points as a small table in a notebook."""
        rows = [
            f"<tr><td>{alpha:.3g}</td><td>{penalty:.4g}</td><td>{count}</td><td>{gap:.1e}</td></tr>"
            for alpha, penalty, count, gap in zip(
                self.alphas, self.penalties, self.n_features, self.duality_gaps, strict=True
            )
        ]
        if len(rows) > 20:  # both ends are enough to see where it leads
            rows[10:-10] = ["<tr><td>…</td><td>…</td><td>…</td><td>…</td></tr>"]
        titles = ("alpha (share)", "penalty", "features", "proved gap")
        header = "".join(f"<th>{title}</th>" for title in titles)
        return (
            f"<table><caption>Path of {self.alphas.size} penalties, {self.feature_scores.shape[1]} "
            f"features</caption><thead><tr>{header}</tr></thead><tbody>{''.join(rows)}</tbody>"
            "</table>"
        )


def regularization_path(
    estimator: PathMethod,
    X: Any,
    y: Any = None,
    *,
    alphas: ArrayLike | None = None,
    n_points: int = 30,
    smallest: float = 1e-3,
) -> RegularizationPath:
    r"""Solve a model for a whole sequence of sparsity penalties.

    With every other parameter fixed, λ falls from just below the value that empties the model. The
    moments of X are computed once, and each solution starts from the one before it.

    Parameters
    ----------
    estimator : SPCAPSD, CSPCA, AWSPCA, SPCA, JSPCA or FSSL
        Unfitted; its ``alpha`` (``mu``) is not used. Not modified.
    X : array-like, data frame or sparse matrix of shape (n_samples, n_features), or Moments
        Samples, or their moments: for methods that need no more, those of a correlation matrix.
    y : array-like of shape (n_samples,) or None, default=None
        Classes, for methods that use them.
    alphas : array-like or None, default=None
        Penalties as fractions, between 0 and 1, of the one that empties the model; None takes
        ``n_points`` of them, evenly spaced on a logarithmic scale.
    n_points : int, default=30
        Number of points where ``alphas`` is None.
    smallest : float, default=1e-3
        Smallest penalty where ``alphas`` is None.

    Returns
    -------
    RegularizationPath

    Notes
    -----
    SPCAPSD, CSPCA, AWSPCA and FSSL are convex: every point is the optimum, as a fit with that
    penalty finds it. SPCA and JSPCA are not. Their points are stationary, but a fit that starts
    from the principal components may end in another one: more often a worse one than that of the
    path, sometimes a better one.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import SPCA, SPCAPSD, regularization_path
    >>> X = StandardScaler().fit_transform(load_breast_cancer().data)
    >>> path = regularization_path(SPCAPSD(), X, alphas=[0.9, 0.5, 0.1])
    >>> path.n_features.tolist()
    [0, 30, 30]
    >>> bool(path.duality_gaps.max() < 1e-4)
    True
    >>> path = regularization_path(SPCA(n_components=2), X, alphas=[0.8, 0.4, 0.2])
    >>> path.n_nonzero.tolist()
    [[4, 1], [5, 2], [7, 11]]
    """
    chosen = _fractions(alphas, n_points, smallest)
    if not hasattr(estimator, "get_params"):
        raise TypeError(
            f"the estimator comes before the samples; got {type(estimator).__name__} in its place"
        )
    model: Any = clone(estimator)
    if not hasattr(model, "emptying_penalty"):
        raise TypeError(
            f"{type(model).__name__} has no penalty that empties the model, where a path begins; "
            "regularization_path is for SPCAPSD, CSPCA, AWSPCA, SPCA, JSPCA and FSSL"
        )
    # Validation by the estimator itself gives its own messages.
    moments = X if isinstance(X, Moments) else model.moments_of(X, y)
    if isinstance(X, Moments) and y is not None and hasattr(model, "with_classes"):
        moments = model.with_classes(X, y)
    largest, following = model.emptying_penalty(moments)
    model.set_params(**following)
    scores, solutions, counts, variances = [], [], [], []
    for alpha in steps("penalties", chosen.tolist()):
        model.set_penalty(float(alpha * largest))
        found, solution = model.solution(moments)
        scores.append(found)
        # What only a later start needs (samples, factors) must not be kept for every point.
        solutions.append(replace(solution, loadings=None, state=None))
        if hasattr(model, "components_"):
            counts.append(np.count_nonzero(model.components_, axis=1))
            variances.append(explained_variance(moments, model.components_, kind="adjusted"))
    return RegularizationPath(
        alphas=chosen,
        penalties=chosen * largest,
        feature_scores=np.array(scores),
        objectives=np.array([s.objective for s in solutions]),
        duality_gaps=np.array([np.nan if s.gap is None else s.gap for s in solutions]),
        n_iter=np.array([s.n_iter for s in solutions]),
        converged=np.array([s.converged for s in solutions]),
        feature_names=moments.feature_names,
        n_nonzero=np.array(counts) if counts else None,
        adjusted_variance=np.array(variances) if counts else None,
    )


def _fractions(alphas: ArrayLike | None, n_points: int, smallest: float) -> NDArray[np.float64]:
    if alphas is None:
        return np.geomspace(0.95, smallest, n_points)
    fractions = np.sort(np.atleast_1d(np.asarray(alphas, dtype=np.float64)))[::-1]
    if fractions.size == 0 or not (fractions[-1] > 0 and fractions[0] < 1):
        raise ValueError("alphas must be fractions between 0 and 1, at least one of them")
    return fractions

"""GreedySelector: the features that explain most, chosen one by one; no penalty, no model."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from jointsparse.methods.selector import Selector, check_stopping, is_number
from jointsparse.moments import Moments
from jointsparse.selection import Choice, Wanted, choose_features, wanted_features
from jointsparse.solvers.columns import feature_columns
from jointsparse.solvers.greedy import DETERMINED, Target, row_axes, select_greedily
from jointsparse.solvers.solution import Solution

TARGETS = ("reconstruction", "clusters")


class GreedySelector(Selector):
    r"""Select the features that explain most of the data, one after the other.

    For centred X (n samples × p features), a target A and a set H of features, let

    .. math:: E_A(H) = \min_B\ \|XA^\top - X_HB\|_F^2 ,

    what a linear regression on the features of H leaves unexplained. Each pick is the feature that
    lowers :math:`E_A` most, given those picked before. Two targets:

    * ``"reconstruction"``: A = I, all features; the pick is the one with the largest gain of R²
      (orthogonal least squares). With ``n_components`` = m, A projects on the first m principal
      axes.
    * ``"clusters"``: :math:`XA^\top = U_m`, the first m = c - 1 principal components at equal
      length (whitened). Differences between c groups live in c - 1 directions, and a direction
      that separates two small groups counts as much as one that separates two large ones.

    Parameters
    ----------
    target : {"reconstruction", "clusters"}, default="reconstruction"
        What the kept features shall explain.
    n_components : int or None, default=None
        Number m of principal components in the target; None is all of them for "reconstruction".
    n_clusters : int or None, default=None
        Number c of clusters: the same as ``n_components`` = c - 1, which goes before it. "clusters"
        needs one of the two.
    n_features_to_select : int, float or str, default="auto"
        How many features to keep: a number; a share of all; "r2>=0.8", the fewest that explain 80 %
        of the variance of all features; "auto", the same with 90 %; "support", all that vary.
    tol : float, default=1e-9
        Share of its variance below which a feature counts as determined by the picks.

    Attributes
    ----------
    feature_scores_ : ndarray of shape (n_features,)
        Share of the target that each feature explains by itself.
    ranking_ : ndarray of shape (n_features,)
        1 for the first pick; behind the picks come the others by what each would add next.
    support_ : ndarray of shape (n_features,)
        Which features are kept.
    selection_curve_ : ndarray of shape (n_kept,)
        Share of the variance of all features that the first pick, the first two, … explain.
    selection_report_ : SelectionReport
        What the set is worth on held-out samples, beside PCA and random features, and the stand-ins
        of the dropped features. Computed when first asked for.
    objective_ : float
        Share of the target left unexplained.
    history_ : ndarray of shape (n_iterations,)
        The same after each pick.
    n_iter_ : int
        Picks made.
    converged_ : bool
        Always true.
    stopping_reason_ : str
        Why the picking stopped.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had any.

    Notes
    -----
    A pick costs one pass over X, and no p × p matrix is formed where p > n. Ties, also those up to
    rounding, go to the feature that comes first. The set is not the best of its size (finding that
    is a combinatorial problem), but every prefix of the ranking is the greedy set of its size.

    References
    ----------
    Chen, Cowan, Grant (1991). Orthogonal least squares learning algorithm for radial basis function
    networks. IEEE Transactions on Neural Networks 2(2): the rule for A = I.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import GreedySelector
    >>> data = load_breast_cancer()
    >>> X = StandardScaler().fit_transform(data.data)
    >>> selector = GreedySelector(n_features_to_select="r2>=0.8").fit(X)
    >>> data.feature_names[selector.ranking_.argsort()[:3]].tolist()
    ['mean concave points', 'mean fractal dimension', 'worst texture']
    >>> selector.selection_curve_.round(2).tolist()
    [0.4, 0.56, 0.63, 0.7, 0.75, 0.8]
    """

    def __init__(
        self,
        *,
        target: str = "reconstruction",
        n_components: int | None = None,
        n_clusters: int | None = None,
        n_features_to_select: int | float | str = "auto",
        tol: float = DETERMINED,
    ) -> None:
        self.target = target
        self.n_components = n_components
        self.n_clusters = n_clusters
        self.n_features_to_select = n_features_to_select
        self.tol = tol

    def _takes_products(self) -> bool:
        return True

    def _solve(self, moments: Moments) -> tuple[Solution, NDArray[np.float64]]:
        check_stopping(self.tol, 1)
        wanted = wanted_features(self.n_features_to_select, moments.n_features)
        varying = (moments.variances > 0).astype(np.float64)
        target = self._what_to_explain(moments)
        choice = choose_features(moments, varying, wanted, target=target, tol=self.tol)
        path = choice.path
        if path is None:
            path = select_greedily(feature_columns(moments), n_picks=0, target=target, tol=self.tol)
        left = 1 - np.cumsum(path.gains)
        solution = Solution(
            loadings=np.empty((moments.n_features, 0)),
            objective=float(left[-1]) if left.size else 1.0,
            gap=None,
            history=left.tolist(),
            gap_history=[],
            n_iter=left.size,
            converged=True,
            reason=path.reason,
            state=choice,
        )
        return solution, path.first

    def _choose(self, solution: Solution, moments: Moments, wanted: Wanted) -> Choice:
        choice: Choice = solution.state
        return choice

    def _what_to_explain(self, moments: Moments) -> Target | None:
        count = self._count()
        if count is None:
            return None
        values, axes = row_axes(feature_columns(moments), 1e-12, count)
        values, axes = values[:count], axes[:, :count]
        return axes if self.target == "clusters" else axes * values**0.5

    def _count(self) -> int | None:
        """Return the number of principal components in the target; None is all."""
        if self.target not in TARGETS:
            raise ValueError(f"target={self.target!r} is neither 'reconstruction' nor 'clusters'")
        for name in ("n_components", "n_clusters"):
            value = getattr(self, name)
            if value is not None and not (is_number(value, Integral) and value >= 1):
                raise ValueError(f"{name}={value!r} is not a whole number of at least 1")
        if self.n_components is not None:
            return int(self.n_components)
        if self.n_clusters is not None:
            return max(1, int(self.n_clusters) - 1)
        if self.target == "clusters":
            raise ValueError("target='clusters' needs n_clusters (or n_components, one less)")
        return None

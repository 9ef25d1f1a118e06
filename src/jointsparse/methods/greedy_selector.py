"""GreedySelector: the features that explain most, chosen one by one; no penalty, no model."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.device import to_host
from jointsparse.linalg import positive_part
from jointsparse.methods.bases.choosing import Model
from jointsparse.methods.bases.selector import Selector, check_stopping, is_number
from jointsparse.methods.reading.needs import Needs, copies_of
from jointsparse.moments import Moments
from jointsparse.selection.choosing import Choice
from jointsparse.selection.noise import noise_of
from jointsparse.solvers.picking.greedy import DETERMINED, TINY
from jointsparse.solvers.picking.residual import Residual
from jointsparse.solvers.picking.row_targets import Target, row_axes
from jointsparse.solvers.products.columns import feature_columns
from jointsparse.solvers.solution import Solution
from jointsparse.solvers.subset.constraints import Constraints

TARGETS = ("patterns", "reconstruction", "clusters")
OF_A_NUMBER = "the number of features asked for is reached"
AS_CALLED_FOR = "as many features are picked as new samples call for"


class GreedySelector(Selector):
    r"""Select the features that explain most of the data, one after the other.

    For centred X (n samples × p features), a target A and a set H of features, let

    .. math:: E_A(H) = \min_B\ \|XA^\top - X_HB\|_F^2 ,

    what a linear regression on the features of H leaves unexplained. Each pick is the feature that
    lowers :math:`E_A` most, given those picked before. Three targets:

    * ``"patterns"``: what lies above the noise, :math:`XA^\top = U\operatorname{diag}(\sqrt{s_i}\,
      (1 - e/s_i)_+)` with the singular vectors and eigenvalues of X and the noise edge e. Features
      that share nothing with others come last, and what a pick leaves of a candidate counts with
      its noise added: :math:`\|r_j^\top XA^\top\|^2/(\|r_j\|^2 + 3(n-1)d_j)`, with its noise
      variance d_j.
    * ``"reconstruction"``: A = I, all features; the pick is the one with the largest gain of R²
      (orthogonal least squares). With ``n_components`` = m, A projects on the first m principal
      axes.
    * ``"clusters"``: :math:`XA^\top = U_m`, the first m = c - 1 principal components at equal
      length (whitened). Differences between c groups live in c - 1 directions, and a direction
      that separates two small groups counts as much as one that separates two large ones.

    Parameters
    ----------
    target : {"patterns", "reconstruction", "clusters"}, default="patterns"
        What the kept features shall account for.
    n_components : int or None, default=None
        Number m of principal components in the target; None is those above the noise for
        "patterns", and all of them for "reconstruction".
    n_clusters : int or None, default=None
        Number c of clusters: the same as ``n_components`` = c - 1, which goes before it. "clusters"
        needs one of the two.
    :shared: n_features_to_select
    :shared: constraints
    tol : float, default=1e-9
        Share of its variance below which a feature counts as determined by the picks.
    :shared: missing
    :shared: scale
    :shared: robust

    Attributes
    ----------
    feature_scores_ : ndarray of shape (n_features,)
        Share of the target that each feature explains by itself.
    ranking_ : ndarray of shape (n_features,)
        1 for the first pick; behind the picks come the others by what each would add next.
    support_ : ndarray of shape (n_features,)
        Which features are kept.
    :shared: attributes
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
    :shared: robust_attributes
    :shared: features_in

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
    ['mean concavity', 'worst radius', 'texture error']
    >>> selector.selection_curve_.round(2).tolist()
    [0.4, 0.57, 0.63, 0.7, 0.75, 0.8]
    """

    def __init__(
        self,
        *,
        target: str = "patterns",
        n_components: int | None = None,
        n_clusters: int | None = None,
        n_features_to_select: int | float | str = "auto",
        constraints: Constraints | None = None,
        tol: float = DETERMINED,
        missing: str = "error",
        scale: str | None = None,
        robust: str | None = None,
    ) -> None:
        self.target = target
        self.n_components = n_components
        self.n_clusters = n_clusters
        self.n_features_to_select = n_features_to_select
        self.constraints = constraints
        self.tol = tol
        self.missing = missing
        self.scale = scale
        self.robust = robust

    def _needs(self) -> Needs:
        return Needs(products=True, fit_bytes=copies_of(8, 8))  # measured 5 to 8, with the samples

    def _solve(self, moments: Moments) -> tuple[Solution, NDArray[np.float64]]:
        check_stopping(self.tol, 1)
        self._count()
        target = self._what_to_explain(moments)
        columns = feature_columns(moments)
        known = Residual(columns, target, follow_target=True)
        shares = known.f * (known.squares > 0) / (known.g + TINY)
        self._alone = to_host(positive_part(shares))
        solution = Solution(
            loadings=np.empty((moments.n_features, 0)),
            objective=1.0,
            gap=None,
            history=[],
            gap_history=[],
            n_iter=0,
            converged=True,
            reason="the number of features asked for is reached",
            state=target,
        )
        return solution, (moments.variances > 0).astype(np.float64)

    def _as_model(self, solution: Solution, scores: FloatArray, moments: Moments) -> Model:
        given = self.target != "patterns" or self._count() is not None
        return Model(scores, solution.state, knows_noise=not given, tol=self.tol)

    def _make_set(self, model: Model, moments: Moments, y: Any = None) -> Choice:
        choice = super()._make_set(model, moments, y)
        self.feature_scores_ = self._alone
        del self._alone
        path = choice.path
        if path is not None:  # what the picks have left of the target, one after the other
            self.history_ = 1 - np.cumsum(path.gains)
            self.n_iter_ = self.history_.size
            self.objective_ = float(self.history_[-1]) if self.history_.size else 1.0
            self.stopping_reason_ = path.reason
            if self.n_features_to_select == "auto":  # where nobody asked for a number
                self.stopping_reason_ = path.reason.replace(OF_A_NUMBER, AS_CALLED_FOR)
        return choice

    def _what_to_explain(self, moments: Moments) -> Target | None:
        count = self._count()
        if count is None:
            return noise_of(moments).target if self.target == "patterns" else None
        values, axes = row_axes(feature_columns(moments), 1e-12, count)
        values, axes = values[:count], axes[:, :count]
        return axes if self.target == "clusters" else axes * values**0.5

    def _count(self) -> int | None:
        """Return the number of principal components in the target; None is all."""
        if self.target not in TARGETS:
            known = ", ".join(map(repr, TARGETS))
            raise ValueError(f"target={self.target!r} is not one of {known}")
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

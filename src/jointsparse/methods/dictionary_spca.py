"""DictionarySPCA: sparse principal components as a dictionary with sparse atoms."""

from __future__ import annotations

import numpy as np

from jointsparse.methods.bases.components import ComponentsMethod
from jointsparse.methods.bases.penalty_scale import absolute_penalty, check_scale
from jointsparse.methods.bases.selector import check_stopping
from jointsparse.methods.reading.needs import Needs, copies_of
from jointsparse.moments import Moments
from jointsparse.solvers.components.dictionary import solve_dictionary
from jointsparse.solvers.components.dictionary_root import Root
from jointsparse.solvers.products.gram import Gram
from jointsparse.solvers.solution import Solution

AUTO_ALPHA = 0.1  # share of the penalty that empties the model


class DictionarySPCA(ComponentsMethod):
    r"""Sparse principal components as a dictionary: scikit-learn's ``SparsePCA`` model, faster.

    For centred X (n samples × p features), solve

    .. math:: \min_{Y\in\mathbb R^{n\times q},\,D\in\mathbb R^{p\times q}}\
              \tfrac12\|X - YD^\top\|_F^2 + \lambda\|D\|_1 ,\qquad \|Y_k\|_2\le 1 ,

    by block coordinate descent. The rows of ``components_`` are the columns of D at unit length.
    Without the penalty they are the principal components. The problem depends on X only through
    S = XᵀX, so the cost of an iteration does not grow with n and ``fit_moments`` works.

    Parameters
    ----------
    n_components : int, default=2
        Number of components q. No more are fitted than the rank of the data.
    alpha : float or "auto", default="auto"
        Sparsity penalty λ on the scale of ``penalty_scale``. "auto" is 0.1 on the relative scale.
    penalty_scale : {"relative", "trace", "absolute"}, default="relative"
        Unit of ``alpha``. "relative": a fraction of the penalty that empties the model, the length
        of the longest column of X. (For codes of length at most 1, D = 0 is optimal whatever Y is
        if and only if no \|Xᵀy\| exceeds λ, and :math:`\max_{\|y\|\le1}\|X^\top y\|_\infty =
        \max_j\|x_j\|` by Cauchy-Schwarz.) "trace": multiples of the root √(tr S) of the total
        variance, because λ scales with X, not with its square. "absolute": the λ above, which is
        the ``alpha`` of scikit-learn's ``SparsePCA``.
    tol : float, default=1e-8
        Stop when an iteration lowers the objective by less than this fraction of ½ tr S, and no
        single atom or code could lower it by more (see ``diagnostics_``).
    max_iter : int, default=1000
        Largest number of iterations from each of the three starts.
    :shared: missing

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Atoms at unit length with exact zeros; the largest entry in absolute value is positive. The
        component that explains most comes first, then the one that adds most. An empty component
        is zero.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        What each component adds to the share of the variance that a regression of X on the scores
        explains: kind "reconstruction" of :func:`jointsparse.metrics.explained_variance`.
    mean_ : ndarray of shape (n_features,)
        Mean of the samples.
    reconstruction_ : ndarray of shape (n_components, n_features)
        Least squares map from scores back to features.
    alpha_ : float
        λ in units of the data.
    n_components_ : int
        Number of components fitted.
    feature_scores_ : ndarray of shape (n_features,)
        Length of each feature's loadings; exactly zero for features in no component.
    ranking_ : ndarray of shape (n_features,)
        1 for the best feature.
    objective_ : float
        Objective of the solution.
    history_ : ndarray of shape (n_iterations,)
        Objective after each iteration from the best start. It never rises.
    n_iter_ : int
        Iterations made from the best start.
    :shared: stopping
    diagnostics_ : dict
        "optimality": by how much the solution misses the conditions of a stationary point: for
        every atom and code the length of what its gradient misses, divided by √(tr S) and by the
        length of the code or atom it is multiplied with; the largest of them. Its square is what
        minimising over one of them would gain, as a share of ½ tr S. "optimality_bound": what it is
        not above where ``converged_``, √tol. Also how many components are empty, and how often an
        empty one was filled again.
    :shared: features_in

    Notes
    -----
    The problem is not convex: the solution is the best of the stationary points reached from three
    starts, the same on every run. A component that came out empty would gain nothing from any code:
    every feature is fitted to within λ. Where p > n nothing of size p × p is formed.

    References
    ----------
    Jenatton, Obozinski, Bach (2010). Structured Sparse Principal Component Analysis. AISTATS,
    equation (3) with the l1 norm; Mairal, Bach, Ponce, Sapiro (2010). Online Learning for Matrix
    Factorization and Sparse Coding. JMLR 11, 19-60, section 5.2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from jointsparse import DictionarySPCA
    >>> X = load_digits().data
    >>> model = DictionarySPCA(n_components=6, alpha=0.1).fit(X)
    >>> bool((model.components_ == 0).mean() > 0.6)
    True
    >>> bool(model.explained_variance_ratio_.sum() > 0.45)
    True
    """

    n_components: int

    def __init__(
        self,
        *,
        n_components: int = 2,
        alpha: float | str = "auto",
        penalty_scale: str = "relative",
        tol: float = 1e-8,
        max_iter: int = 1000,
        missing: str = "error",
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.penalty_scale = penalty_scale
        self.tol = tol
        self.max_iter = max_iter
        self.missing = missing

    def _needs(self) -> Needs:
        return Needs(fit_bytes=copies_of(0, 7))  # of wide samples: measured 7, with the samples

    def _solve(self, moments: Moments, gram: Gram) -> Solution:
        check_stopping(self.tol, self.max_iter)
        check_scale(self.penalty_scale)
        unit = float(np.sqrt(gram.trace))
        self.alpha_ = absolute_penalty(
            "alpha",
            self.alpha,
            scale=self.penalty_scale,
            auto=AUTO_ALPHA,
            largest=lambda: float(np.sqrt(np.max(gram.diagonal))) * unit,
            trace=unit,
        )
        through = gram.through_samples
        if through is not None and gram.of_sparse:
            values, vectors = gram.leading(int(self.n_components))
            rank = values.size
            codes = through.image(vectors) / np.sqrt(values[: vectors.shape[1]])
            root = Root(through.samples, 1 / unit, codes.T)
        else:
            values, vectors = gram.principal()
            rank = values.size
            varies = moments.variances > 0  # elsewhere eigenvectors are rounding
            scaled = gram.here(np.sqrt(values))[:, None] * vectors.T
            squares = np.where(varies, gram.diagonal, 0.0)
            root = Root(scaled * gram.here(varies.astype(np.float64)), squares=squares)
        count = min(int(self.n_components), rank)
        if count < self.n_components:
            self._warn(f"the data have rank {count}: no more components are fitted")
        solution = solve_dictionary(
            root,
            count,
            self.alpha_ / unit,
            trace=gram.trace,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        empty = np.flatnonzero(~np.any(solution.loadings, axis=0))
        if empty.size:
            self._warn(
                f"{empty.size} of {count} components are empty: at this alpha no feature is left "
                "to explain; lower alpha or n_components"
            )
        return solution

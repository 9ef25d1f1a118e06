"""RobustPCA: principal components of a table some of whose entries are grossly wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from jointsparse.arrays import FloatArray
from jointsparse.device import to_host
from jointsparse.linalg import column_medians
from jointsparse.methods.bases.components import ComponentsMethod, check_count
from jointsparse.methods.bases.selector import check_stopping, is_number
from jointsparse.methods.reading.needs import Needs
from jointsparse.moments import Moments
from jointsparse.solvers.products.gram import Gram, double_where_held
from jointsparse.solvers.pursuit import earlier_steps, solve_pursuit
from jointsparse.solvers.solution import Rounding, Solution, proven
from jointsparse.text import counted

NEGLIGIBLE = 1e-6  # of the largest singular value, or ten times the tolerance where that is more


class OutlierEntry(NamedTuple):
    """One entry that the low-rank part does not explain: value = expected + error."""

    sample: int
    feature: Any
    value: float
    expected: float
    error: float


class OutlierSample(NamedTuple):
    """One sample: share of its energy in the errors, how many entries, the worst of them."""

    sample: int
    share: float
    n_entries: int
    worst_feature: Any


class RobustPCA(ComponentsMethod):
    r"""Principal components of a low-rank table with sparse gross errors.

    For X (n samples × p features) around its coordinatewise median, solve the convex problem

    .. math:: \min_{L,E}\ \|L\|_* + \lambda\|E\|_1\quad\text{such that}\quad L + E = X

    (principal component pursuit; :math:`\|L\|_*` is the sum of the singular values). Where X is a
    matrix of low rank, with directions that spread over many samples and features, plus errors of
    any size in few places, both parts are recovered exactly. ``components_`` are the principal axes
    of the low-rank part. The solution comes with a certified duality gap.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components; None takes all that the low-rank part has.
    alpha : float or "auto", default="auto"
        λ in multiples of 1/√max(n, p), the value for which recovery is proven. "auto" is 1. Larger
        values leave more in the low-rank part, smaller ones more in the errors.
    tol : float, default=1e-7
        Certified relative gap at which to stop.
    max_iter : int, default=5000
        Largest number of iterations.

    Attributes
    ----------
    low_rank_, sparse_ : ndarray of shape (n_samples, n_features)
        The two parts of the training samples, in data coordinates: ``low_rank_ + sparse_`` is X.
        The errors ``sparse_`` have exact zeros; what the tolerance leaves of the constraint is in
        ``low_rank_``.
    rank_ : int
        Rank of ``low_rank_`` around its mean.
    outlier_entries_ : ndarray of bool of shape (n_samples, n_features)
        Where ``sparse_`` is not zero.
    outlier_samples_ : ndarray of shape (n_samples,)
        For each sample the share of its energy in the errors, ‖e‖² / (‖l‖² + ‖e‖²) with l around
        the median: near 1 for a sample that the components do not describe.
    duality_gap_ : float
        Proven upper bound on (objective - optimum) / objective, rounding included.
    gap_history_ : ndarray of shape (n_iterations,)
        The same, as known after each iteration.
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal principal axes of ``low_rank_``, the largest variance first; the largest entry
        in absolute value is positive. One zero row where the low-rank part is empty.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        What each component adds to the share of the variance of X (errors included) that a
        regression on the scores explains, as for the other component methods.
    mean_ : ndarray of shape (n_features,)
        Mean of ``low_rank_``: gross errors do not move it.
    reconstruction_ : ndarray of shape (n_components, n_features)
        Map from scores back to features: ``components_`` again, the orthogonal projection.
    alpha_ : float
        λ.
    n_components_ : int
        Number of components kept.
    feature_scores_ : ndarray of shape (n_features,)
        Share of each feature in the spread of the components, as a length: the square root of its
        part of their variance. The squares add up to 1.
    ranking_ : ndarray of shape (n_features,)
        1 for the best feature.
    objective_ : float
        Objective of the solution.
    history_ : ndarray of shape (n_iterations,)
        Objective known after each iteration; it is evaluated at every tenth. Before the first
        of these it is that of (0, X).
    n_iter_ : int
        Iterations made.
    :shared: stopping
    diagnostics_ : dict
        "optimality": ``duality_gap_`` again; "optimality_bound": ``tol``, which it is not above
        where ``converged_``. "rank": number of singular values of the low-rank part.
    :shared: features_in

    Notes
    -----
    It needs the samples (``fit_moments`` works with ``Moments.from_data``) and works on a dense
    copy. Dense noise of every entry is no gross error: small parts of it appear in ``sparse_``
    too, so read ``outlier_report`` from the top. A new sample is projected as it is; its own
    errors are not taken out. With few features (p ≪ √n) λ = 1/√n leaves little to the low-rank
    part; raise ``alpha``.

    References
    ----------
    Candès, Li, Ma, Wright (2011). Robust Principal Component Analysis? Journal of the ACM 58(3),
    problem (1.1) and theorem 1.1.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import RobustPCA
    >>> rng = np.random.default_rng(0)
    >>> clean = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40))
    >>> X = clean.copy()
    >>> X[7, 3] += 25
    >>> X[30, 11] -= 10
    >>> model = RobustPCA().fit(X)
    >>> model.rank_, bool(np.allclose(model.low_rank_, clean, atol=1e-4))
    (2, True)
    >>> for row in model.outlier_report():
    ...     print(row.sample, row.feature, f"{row.error:.2f}")
    7 3 25.00
    30 11 -10.00
    """

    n_components: int | None

    def __init__(
        self,
        *,
        n_components: int | None = None,
        alpha: float | str = "auto",
        tol: float = 1e-7,
        max_iter: int = 5000,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter

    def outlier_report(self, *, kind: str = "entries", n_rows: int | None = 20) -> list[Any]:
        """List the gross errors of the training samples, the largest first.

        Parameters
        ----------
        kind : {"entries", "samples"}, default="entries"
            One row for each wrong entry, by the size of its error, or one for each sample that has
            any, by the share of its energy in the errors.
        n_rows : int or None, default=20
            Length of the list; None for all.

        Returns
        -------
        list of named tuples
            (sample, feature, value, expected, error) or (sample, share, n_entries, worst_feature);
            features by name where they have names. ``pandas.DataFrame`` takes the list as it is.
        """
        check_is_fitted(self)
        if kind not in ("entries", "samples"):
            raise ValueError(f"kind={kind!r} is neither 'entries' nor 'samples'")
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        size = np.abs(self.sparse_)
        if kind == "samples":
            counts = np.count_nonzero(size, axis=1)
            order = np.argsort(-self.outlier_samples_, kind="stable")
            return [
                OutlierSample(
                    int(i),
                    float(self.outlier_samples_[i]),
                    int(counts[i]),
                    names[int(np.argmax(size[i]))],
                )
                for i in order[counts[order] > 0][:n_rows]
            ]
        rows, columns = np.nonzero(size)
        order = np.argsort(-size[rows, columns], kind="stable")[:n_rows]
        return [
            OutlierEntry(
                int(i),
                names[int(j)],
                float(self.low_rank_[i, j] + self.sparse_[i, j]),
                float(self.low_rank_[i, j]),
                float(self.sparse_[i, j]),
            )
            for i, j in zip(rows[order], columns[order], strict=True)
        ]

    def _check_n_components(self) -> None:
        if self.n_components is not None:
            check_count(self.n_components)

    def _keep_order(self) -> bool:
        return True  # that of the singular values

    def _centre(self, moments: Moments) -> FloatArray:
        return np.asarray(self.low_rank_.mean(axis=0))

    def _feature_scores(self) -> FloatArray:
        return self._scores

    def _reconstruction(self, solution: Solution, gram: Gram) -> FloatArray:
        # A regression of X on the scores would let the errors back in.
        return self.components_

    def _needs(self) -> Needs:
        return Needs(samples=True, sparse=False, dense_bytes=_bytes, fit_bytes=_bytes)

    def _solve(self, moments: Moments, gram: Gram) -> Solution:
        check_stopping(self.tol, self.max_iter)
        samples = double_where_held(moments)
        self.alpha_ = self._factor() / float(np.sqrt(max(samples.shape)))
        middle = column_medians(samples)
        rest = samples - middle
        solution = proven(
            lambda tol: solve_pursuit(rest, self.alpha_, tol=tol, max_iter=self.max_iter),
            self.tol,
            Rounding(samples.shape[0] * samples.shape[1], self.alpha_ * float(abs(rest).sum())),
        )
        data, median = to_host(samples), to_host(middle)
        errors, scores = map(to_host, solution.state)
        solution = replace(solution, loadings=to_host(solution.loadings))
        self.sparse_ = errors
        self.low_rank_ = data + moments.mean - errors
        self.outlier_entries_ = errors != 0
        self.outlier_samples_ = _share_of_errors(data - median - errors, errors)
        self.duality_gap_ = solution.gap
        self.gap_history_ = np.asarray(solution.gap_history)
        loadings, self._scores = self._axes(scores, np.asarray(solution.loadings), moments)
        if not np.any(loadings):
            self._warn("the low-rank part is empty; raise alpha")
        elif self.n_components is not None and loadings.shape[1] < self.n_components:
            self._warn(f"the low-rank part has only {counted(loadings.shape[1], 'component')}")
        return replace(solution.with_state(None), loadings=loadings)

    def _axes(
        self, scores: FloatArray, basis: FloatArray, moments: Moments
    ) -> tuple[FloatArray, FloatArray]:
        """Return the principal axes of the low-rank part around its mean, and feature scores."""
        _, lengths, turn = np.linalg.svd(scores - scores.mean(axis=0), full_matrices=False)
        # Around the median a matrix may have one direction more than around its mean.
        smallest = max(NEGLIGIBLE, 10 * self.tol) * np.max(lengths, initial=0.0)
        count = self.rank_ = int(np.count_nonzero(lengths > smallest))
        if self.n_components is not None:
            count = min(count, int(self.n_components))
        if count == 0:
            return np.zeros((moments.n_features, 1)), np.zeros(moments.n_features)
        loadings = basis @ turn[:count].T
        loadings[moments.variances == 0] = 0.0  # rounding
        spread = np.linalg.norm(loadings * lengths[:count], axis=1)
        return loadings, spread / np.linalg.norm(lengths[:count])

    def _factor(self) -> float:
        if isinstance(self.alpha, str) and self.alpha == "auto":
            return 1.0
        if not is_number(self.alpha) or not 0 < float(self.alpha) < float("inf"):
            raise ValueError(f"alpha={self.alpha!r} is neither a number above 0 nor 'auto'")
        return float(self.alpha)


def _share_of_errors(low_rank: FloatArray, errors: FloatArray) -> FloatArray:
    # Divided by the largest entry first: squares of very large or small data are not finite.
    unit = max(float(np.max(np.abs(low_rank))), float(np.max(np.abs(errors))))
    wrong = np.sum((errors / unit) ** 2, axis=1)
    total = wrong + np.sum((low_rank / unit) ** 2, axis=1)
    return wrong / np.where(total > 0, total, 1.0)


def _bytes(n_samples: int, n_features: int) -> int:
    """Return what the two parts, multipliers, what is left and earlier steps take."""
    size = n_samples * n_features
    steps = 2 * earlier_steps(size) + 4  # that are combined, and what combining them takes
    return (16 + steps) * 8 * size  # measured 25 to 28 in all

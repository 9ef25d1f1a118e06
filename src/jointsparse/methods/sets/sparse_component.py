"""One sparse component with a proof: the function, and what it returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import FloatArray
from jointsparse.methods.sets.proved import Callback, Proved, Question, check_limits
from jointsparse.moments import Moments
from jointsparse.operators.sparse import live_columns
from jointsparse.solvers.sparse_component.entries import ScatterEntries
from jointsparse.solvers.sparse_component.solve import (
    MOST_DENSE,
    Proof,
    power_of_two,
    prove_matrix,
    prove_samples,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class SparseComponent(Proved):
    """A sparse component, and how much better any other can be.

    Attributes
    ----------
    vector : ndarray of shape (n_features,)
        Loadings v at unit length, with exact zeros; the largest in absolute value is positive.
    features : ndarray
        The features with a loading, ascending.
    value : float
        vᵀSv, in the unit of the scatter matrix S.
    bound : float
        Proved: no vector with so many nonzeros has more.
    gap : float
        (bound - value) / value: how much better another can be at most.
    proved : bool
        Whether the gap is within the tolerance.
    share : float
        Share of the total variance: value / tr S.
    eliminated : ndarray
        Features that are proved to be in no set that is better by more than the tolerance.
    nodes : int
        Nodes of the search that were looked at.
    seconds : float
        Time spent.
    k : int
        Number of nonzeros allowed.
    tol : float
        Relative gap that counts as proved.
    feature_names : ndarray of shape (n_features,) or None
        Names of the features, where the data had any.
    """

    vector: FloatArray

    @classmethod
    def _vectors(cls, loadings: FloatArray) -> dict[str, Any]:
        sign = np.sign(loadings[np.argmax(np.abs(loadings))]) or 1.0
        return {"vector": sign * loadings + 0.0, "features": np.flatnonzero(loadings)}

    def __str__(self) -> str:
        return self._in_words(np.abs(self.vector), "")


def sparse_component(
    X: Any,
    k: int,
    *,
    is_scatter: bool | None = None,
    include: Iterable[Any] = (),
    exclude: Iterable[Any] = (),
    nonnegative: bool = False,
    time_limit: float | None = 60.0,
    max_nodes: int | None = None,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> SparseComponent:
    r"""Find the direction of largest variance that uses k features, and prove that it is the best.

    For the scatter matrix S of the samples,

    .. math:: \max_v\ v^\top S v\quad\text{with } \|v\|_2 = 1,\ \|v\|_0\le k .

    A good v is found at once. A search then lowers an upper bound that holds for every v with k
    nonzeros, until both meet or the time is over: the result says at any time how much better
    another v can be. Rounding is charged to the bound. The proof is about this table; it is no
    statement about new data.

    Parameters
    ----------
    X : array-like, data frame, sparse matrix, source, path or Moments
        Samples, one per row; or their :class:`Moments`, of which ``Moments.from_scatter`` makes
        some of a covariance or correlation matrix. Features are centred, not scaled.
    k : int
        Number of nonzeros allowed.
    is_scatter : bool or None, default=None
        Whether X is a scatter, covariance or correlation matrix instead of samples. With None it is
        taken for samples, and refused where it is square and symmetric and could be either.
    include, exclude : iterable of int or str, default=()
        Features that must be, or must not be, among the k: numbers or names. A feature that must
        be may have a loading of zero.
    nonnegative : bool, default=False
        Whether loadings must not be negative.
    time_limit : float or None, default=60.0
        Seconds after which to stop; None: when it is proved.
    max_nodes : int or None, default=None
        Nodes of the search after which to stop; None: as many as the time allows.
    tol : float, default=1e-6
        Relative gap that counts as proved.
    callback : callable or None, default=None
        Called after every node with an object that has ``value``, ``bound``, ``nodes``,
        ``open_nodes`` and ``seconds``; the search stops where it returns something true.

    Returns
    -------
    SparseComponent
        The vector, its value, the bound, and ``improve`` to go on.

    Notes
    -----
    Let U be symmetric and B ≥ 0, both with zero diagonals, :math:`B_{ij}B_{ji}\ge U_{ij}^2`, and
    t_i the sum of the k - 1 largest entries of row i of B. Then every unit v with k nonzeros has
    :math:`v^\top Sv\le\lambda_{\max}(S-U+\operatorname{diag}t)`: see the page *Proofs*. With
    ``nonnegative`` only the positive part of U counts; on one set of features the best v ≥ 0 is
    then found face by face, and in rare cases of equal eigenvalues a small gap stays.

    Above 2 000 features S is not formed where the samples are at hand: features that are in no
    better set leave by products with the samples, before the search begins. Where their number
    stays above, the bound is that of these products.

    Examples
    --------
    >>> from jointsparse import sparse_component
    >>> from jointsparse.datasets import load_pitprops
    >>> correlations = load_pitprops()[0]
    >>> found = sparse_component(correlations, 5, is_scatter=True)
    >>> round(found.value, 4), found.proved, found.gap <= 1e-6
    (3.4062, True, True)
    >>> sparse_component(correlations, 5, is_scatter=True, exclude=[0]).value < found.value
    True
    """
    question = Question.of(X, k, is_scatter=is_scatter, include=include, exclude=exclude)
    check_limits(time_limit, max_nodes, tol)
    proof = _proof_of(question, nonnegative=nonnegative, tol=tol)
    proof.run(time_limit=time_limit, max_nodes=max_nodes, callback=callback)
    return SparseComponent._of(
        proof,
        k=question.k,
        total=question.moments.total_variance,
        names=question.moments.feature_names,
        conditions=question.has_conditions or nonnegative,
    )


def _proof_of(question: Question, *, nonnegative: bool, tol: float) -> Proof:
    """Return the beginning of a proof, by the scatter matrix or by the samples."""
    moments, k = question.moments, question.k
    candidates, included = question.candidates, question.included
    options: dict[str, Any] = {"nonnegative": nonnegative, "tol": tol}
    if moments.n_features <= MOST_DENSE or not moments.has_samples:
        return prove_matrix(moments.scatter, k, candidates, included, **options)
    return prove_samples(_products(moments), k, candidates, included, **options)


def _products(moments: Moments) -> ScatterEntries:
    if moments.elsewhere:
        raise ValueError(
            f"a sparse component of {moments.n_features} features needs samples in memory; these "
            "are on a cluster or in a file"
        )
    scale = power_of_two(float(np.max(moments.variances)))
    if sp.issparse(moments.data):
        samples = live_columns(moments.data.astype(np.float64), moments.mean, moments.variances)
        return ScatterEntries(samples, scale, samples.mean)
    return ScatterEntries(moments.centred_data, scale)

"""One sparse component with a proof: the function, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import is_device_array, to_host
from jointsparse.io.errors import shown
from jointsparse.moments import Moments, check_variance
from jointsparse.selection import is_number
from jointsparse.solvers.sparse_component.samples import DenseSamples, SparseSamples
from jointsparse.solvers.sparse_component.search import Progress
from jointsparse.solvers.sparse_component.solve import (
    MOST_DENSE,
    Proof,
    power_of_two,
    prove_matrix,
    prove_samples,
)
from jointsparse.sources import is_streamed

SYMMETRIC = 1e-8  # relative difference of mirrored entries up to which a table seems to be one of S

MOST_NAMES = 10  # named in a sentence

Callback = Callable[[Progress], Any]


@dataclass(frozen=True, eq=False)
class SparseComponent:
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
    features: IntArray
    value: float
    bound: float
    gap: float
    proved: bool
    share: float
    eliminated: IntArray
    nodes: int
    seconds: float
    k: int
    tol: float
    feature_names: Any = None
    _proof: Proof = field(repr=False, kw_only=True)
    _total: float = field(repr=False, kw_only=True)
    _conditions: bool = field(repr=False, kw_only=True)

    def improve(
        self,
        *,
        time_limit: float | None = 60.0,
        max_nodes: int | None = None,
        callback: Callback | None = None,
    ) -> SparseComponent:
        """Go on with the search; return what is then known, and leave this result as it is.

        Parameters
        ----------
        time_limit : float or None, default=60.0
            Seconds to go on for; None: until it is proved.
        max_nodes : int or None, default=None
            Nodes to look at; None: as many as the time allows. Two searches of as many nodes come
            to the same, two of as many seconds need not.
        callback : callable or None, default=None
            As for :func:`sparse_component`.
        """
        _check_limits(time_limit, max_nodes, self.tol)
        proof = self._proof.copy()
        proof.run(time_limit=time_limit, max_nodes=max_nodes, callback=callback)
        return _result(proof, self.k, self._total, self.feature_names, conditions=self._conditions)

    def __str__(self) -> str:
        order = np.argsort(-np.abs(self.vector[self.features]), kind="stable")
        names = [self._name(j) for j in self.features[order[:MOST_NAMES]]]
        more = self.features.size - len(names)
        listed = ", ".join(names) + (f" and {more} more" if more else "")
        found = (
            f"{self.features.size} of {self.vector.size} features ({listed}) reach "
            f"{self.value:.6g}, {100 * self.share:.3g} % of the total variance."
        )
        allowed = " that meet the conditions" if self._conditions else ""
        if self.proved:
            return (
                f"{found} No other {self.k} features{allowed} do better by more than "
                f"{100 * max(self.gap, self.tol):.1g} % (proved for this table)."
            )
        return (
            f"{found} No {self.k} features{allowed} can reach more than {self.bound:.6g}: at most "
            f"{100 * self.gap:.2g} % better (proved for this table). Whether better ones exist is "
            "not known; improve() goes on."
        )

    def _name(self, j: int) -> str:
        return str(j) if self.feature_names is None else shown(self.feature_names[j])


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
    moments = _as_moments(X, is_scatter)
    check_variance(moments)
    _check_limits(time_limit, max_nodes, tol)
    p = moments.n_features
    names = moments.feature_names
    included, excluded = (
        _numbers(given, p, names, word)
        for given, word in ((include, "include"), (exclude, "exclude"))
    )
    _check_count(k, p, included, excluded)
    candidates = np.setdiff1d(np.arange(p), excluded)
    proof = proof_of(moments, int(k), candidates, included, nonnegative=nonnegative, tol=tol)
    proof.run(time_limit=time_limit, max_nodes=max_nodes, callback=callback)
    conditions = bool(included.size or excluded.size or nonnegative)
    return _result(proof, int(k), moments.total_variance, names, conditions=conditions)


def proof_of(
    moments: Moments,
    k: int,
    candidates: IntArray,
    included: IntArray,
    *,
    nonnegative: bool = False,
    tol: float = 1e-6,
) -> Proof:
    """Return the beginning of a proof, by the scatter matrix or by the samples."""
    options: dict[str, Any] = {"nonnegative": nonnegative, "tol": tol}
    if moments.n_features <= MOST_DENSE or not moments.has_samples:
        return prove_matrix(moments.scatter, k, candidates, included, **options)
    return prove_samples(_products(moments), k, candidates, included, **options)


def _products(moments: Moments) -> DenseSamples:
    if hasattr(moments.data, "transposed_times"):
        raise ValueError(
            f"a sparse component of {moments.n_features} features needs samples in memory; these "
            "are on a cluster or in a file"
        )
    scale = power_of_two(float(np.max(moments.variances)))
    if sp.issparse(moments.data):
        return SparseSamples(moments.data, moments.mean, scale)
    return DenseSamples(moments.centred_data, scale)


def _result(proof: Proof, k: int, total: float, names: Any, *, conditions: bool) -> SparseComponent:
    best, bound = proof.best, proof.bound
    vector = np.zeros(proof.n_features)
    vector[best.features] = best.loadings
    vector *= np.sign(vector[np.argmax(np.abs(vector))]) or 1.0
    value = best.value / proof.scale
    gap = (bound - best.value) / abs(best.value) if best.value else float(bound > 0)
    return SparseComponent(
        vector=vector,
        features=np.flatnonzero(vector),
        value=value,
        bound=bound / proof.scale,
        gap=float(gap),
        proved=proof.proved,
        share=value / total,
        eliminated=np.setdiff1d(proof.candidates, np.union1d(proof.kept, best.features)),
        nodes=proof.nodes,
        seconds=proof.seconds,
        k=k,
        tol=proof.problem.tol,
        feature_names=None if names is None else np.asarray(names, dtype=object),
        _proof=proof,
        _total=total,
        _conditions=conditions,
    )


def _as_moments(X: Any, is_scatter: bool | None) -> Moments:
    if isinstance(X, Moments):
        if is_scatter is not None:
            raise ValueError("moments know what they are: leave is_scatter at None")
        return X
    if is_scatter:
        return Moments.from_scatter(X, n_samples=1)
    if is_scatter is None and _seems_symmetric(X):
        raise ValueError(
            "X is square and symmetric: say by is_scatter=True that it is a covariance or "
            "correlation matrix, or by is_scatter=False that these are samples"
        )
    return Moments.from_data(X)


def _seems_symmetric(X: Any) -> bool:
    """Whether a table could be a scatter matrix."""
    if is_streamed(X):
        return False
    shape: Any = np.shape(X) if isinstance(X, list | tuple) else getattr(X, "shape", ())
    if len(shape) != 2 or shape[0] != shape[1]:
        return False
    if sp.issparse(X):
        return bool(abs(X - X.T).max() <= SYMMETRIC * abs(X).max())
    try:
        values = np.asarray(to_host(X) if is_device_array(X) else X, dtype=np.float64)
    except (TypeError, ValueError):  # not numbers: those who read it say so
        return False
    return bool(np.max(np.abs(values - values.T)) <= SYMMETRIC * np.max(np.abs(values)))


def _check_limits(time_limit: Any, max_nodes: Any, tol: Any) -> None:
    if time_limit is not None and not (is_number(time_limit) and time_limit >= 0):
        raise ValueError(f"time_limit={time_limit!r} is neither a number of seconds nor None")
    if max_nodes is not None and not (is_number(max_nodes, Integral) and max_nodes >= 0):
        raise ValueError(f"max_nodes={max_nodes!r} is neither a whole number nor None")
    if not (is_number(tol) and 0 <= tol < 1):
        raise ValueError(f"tol={tol!r} is not a number between 0 and 1")


def _numbers(given: Iterable[Any], p: int, names: Any, word: str) -> IntArray:
    """Return the numbers of features that are given by number or by name."""
    if isinstance(given, str):
        given = [given]
    places = {} if names is None else {str(name): j for j, name in enumerate(names)}
    found = set()
    for feature in given:
        if isinstance(feature, str):
            if feature not in places:
                known = "they have no names" if names is None else "there is no such feature"
                raise ValueError(f"{word}: {shown(feature)} is no name of a feature; {known}")
            found.add(places[feature])
        elif is_number(feature, Integral) and -p <= feature < p:
            found.add(int(feature) % p)
        else:
            raise ValueError(
                f"{word}: {feature!r} is neither a name nor a number of one of the {p} features"
            )
    return np.array(sorted(found), dtype=np.int64)


def _check_count(k: Any, p: int, included: IntArray, excluded: IntArray) -> None:
    left = p - excluded.size
    if not is_number(k, Integral) or not 1 <= k <= left:
        after = f" {left} of {p} that are not excluded" if excluded.size else f" features, {p}"
        raise ValueError(f"k={k!r} is not a whole number between 1 and the number of{after}")
    both = np.intersect1d(included, excluded)
    if both.size:
        raise ValueError(f"feature {both[0]} is in include and in exclude")
    if included.size > k:
        raise ValueError(f"include has {included.size} features, more than k={k}")

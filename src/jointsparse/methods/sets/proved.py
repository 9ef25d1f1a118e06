"""What is proved about k features: the result that all such functions return, and their input."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import is_device_array, to_host
from jointsparse.io.errors import shown
from jointsparse.moments import Moments, check_variance
from jointsparse.selection.choosing import is_number
from jointsparse.solvers.sparse_component.search import Progress
from jointsparse.solvers.sparse_component.solve import Proof
from jointsparse.sources import is_streamed
from jointsparse.text import few_digits_up

SYMMETRIC = 1e-8  # relative difference of mirrored entries up to which a table seems to be one of S
MOST_NAMES = 10  # named in a sentence

Callback = Callable[[Progress], Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Proved:
    """What k features reach, and how much more any others can."""

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
    _proof: Proof = field(repr=False)
    _total: float = field(repr=False)
    _conditions: bool = field(repr=False)

    @classmethod
    def _of(cls, proof: Proof, *, k: int, total: float, names: Any, conditions: bool) -> Self:
        """Return what is known now."""
        best, bound = proof.best, proof.bound
        value = best.value / proof.scale
        gap = (bound - best.value) / abs(best.value) if best.value else float(bound > 0)
        loadings = np.zeros((proof.n_features, *best.loadings.shape[1:]))
        loadings[best.features] = best.loadings
        return cls(
            **cls._vectors(loadings),
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

    @classmethod
    def _vectors(cls, loadings: FloatArray) -> dict[str, Any]:
        """Return the attributes that hold the loadings."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def improve(
        self,
        *,
        time_limit: float | None = 60.0,
        max_nodes: int | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Go on with the search; return what is then known, and leave this result as it is.

        Parameters
        ----------
        time_limit : float or None, default=60.0
            Seconds to go on for; None: until it is proved.
        max_nodes : int or None, default=None
            Nodes to look at; None: as many as the time allows. Two searches of as many nodes come
            to the same, two of as many seconds need not.
        callback : callable or None, default=None
            As for the function that returned this.
        """
        check_limits(time_limit, max_nodes, self.tol)
        proof = self._proof.copy()
        proof.run(time_limit=time_limit, max_nodes=max_nodes, callback=callback)
        return self._of(
            proof,
            k=self.k,
            total=self._total,
            names=self.feature_names,
            conditions=self._conditions,
        )

    def _in_words(self, sizes: FloatArray, how: str) -> str:
        """Return the result in words, with the features named in the order of their sizes."""
        order = np.argsort(-sizes[self.features], kind="stable")
        names = [self._name(j) for j in self.features[order[:MOST_NAMES]]]
        more = self.features.size - len(names)
        listed = ", ".join(names) + (f" and {more} more" if more else "")
        found = (
            f"{self.features.size} of {sizes.size} features ({listed}) reach "
            f"{self.value:.6g}{how}, {100 * self.share:.3g} % of the total variance."
        )
        allowed = " that meet the conditions" if self._conditions else ""
        others = f"{self.k} features" if self.k > 1 else "feature"
        verb = "do" if self.k > 1 else "does"
        least = self.tol * self.value if self.proved else 0.0
        points = few_digits_up(100 * max(self.bound - self.value, least) / self._total)
        said = (
            f"{found} No other {others}{allowed} {verb} more than {points} points better "
            "(proved for this table)."
        )
        if self.proved:
            return said
        return f"{said} Whether better ones exist is not known; improve() goes on."

    def _name(self, j: int) -> str:
        return str(j) if self.feature_names is None else shown(self.feature_names[j])


@dataclass(frozen=True)
class Question:
    """What is asked, checked."""

    moments: Moments
    k: int
    candidates: IntArray
    included: IntArray

    @classmethod
    def of(
        cls,
        X: Any,
        k: Any,
        *,
        is_scatter: bool | None,
        include: Iterable[Any],
        exclude: Iterable[Any],
    ) -> Question:
        """Check what a user gave."""
        moments = _as_moments(X, is_scatter)
        check_variance(moments)
        p, names = moments.n_features, moments.feature_names
        included = _numbers(include, p, names, "include")
        excluded = _numbers(exclude, p, names, "exclude")
        _check_count(k, p, included, excluded)
        return cls(moments, int(k), np.setdiff1d(np.arange(p), excluded), included)

    @property
    def has_conditions(self) -> bool:
        """Whether some features must be in, or must not."""
        return bool(self.included.size or self.candidates.size < self.moments.n_features)


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
    return Moments.from_data(X, copy=False)


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


def check_limits(time_limit: Any, max_nodes: Any, tol: Any) -> None:
    """Refuse limits of a search that make no sense."""
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

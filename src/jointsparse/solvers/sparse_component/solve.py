r"""From a matrix or samples to a component with a proof: units, elimination, search.

Everything below works in a unit in which the largest entry of S is near 1: S is multiplied by a
power of two, which changes no digit.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.sparse_component.entries import ScatterEntries
from jointsparse.solvers.sparse_component.many_features import ManyFeatures
from jointsparse.solvers.sparse_component.primal import Component
from jointsparse.solvers.sparse_component.problem import Problem
from jointsparse.solvers.sparse_component.search import BestFirst, JointSearch, Progress, Search

MOST_DENSE = 2000  # features of which S is formed: 32 MB
PASSES = 12  # over the rows of S in which no feature leaves, before the elimination gives up

Callback = Callable[[Progress], Any]


class Proof:
    """A component and what is proved about it; it can be stopped, looked at and gone on with.

    All numbers are in the unit that the kernels work in: those of S times ``scale``.

    Parameters
    ----------
    n_features : int
        Number of features in all.
    candidates : ndarray
        Features that may be in the support, ascending.
    scale : float
        Power of two by which S was multiplied.
    problem : Problem
        What is asked, of all features or (with samples) without the matrix.

    Attributes
    ----------
    kept : ndarray
        Features that are not proved to be in no better support.
    seconds : float
        Time spent.
    """

    search: BestFirst | None = None
    many: ManyFeatures | None = None

    def __init__(
        self, n_features: int, candidates: IntArray, scale: float, problem: Problem
    ) -> None:
        self.n_features, self.candidates = n_features, candidates
        self.scale, self.problem = scale, problem
        self.left = candidates  # what the search is about
        self.gone = -np.inf  # no support with features that left before the search is better
        self.idle = 0  # passes since a feature left
        self.seconds = 0.0

    @property
    def best(self) -> Component:
        """The best component, in terms of all features."""
        if self.search is None:
            assert self.many is not None
            return self.many.best
        return replace(self.search.best, features=self.left[self.search.best.features])

    @property
    def bound(self) -> float:
        """No support is better than this."""
        if self.search is None:
            assert self.many is not None
            return max(self.many.bound, self.many.best.value, self.gone)
        return max(self.search.bound, self.gone)

    @property
    def kept(self) -> IntArray:
        """Features that are not proved to be in no better support."""
        if self.search is None:
            assert self.many is not None
            return self.many.kept
        return self.left[self.search.kept]

    @property
    def proved(self) -> bool:
        """Whether nothing is better by more than the tolerance."""
        return self.bound <= self.problem.goal(self.best.value)

    @property
    def nodes(self) -> int:
        """Nodes of the search that were looked at."""
        return 0 if self.search is None else self.search.nodes

    def progress(self) -> Progress:
        """Return how far it has come, in the unit of the data."""
        n_open = 1 if self.search is None else self.search.n_open
        value, bound = self.best.value / self.scale, self.bound / self.scale
        return Progress(value, bound, self.nodes, n_open, self.seconds)

    def copy(self) -> Proof:
        """Return one that goes on from here and leaves this one as it is."""
        other = copy.copy(self)
        other.many = copy.copy(self.many)
        other.search = None if self.search is None else self.search.copy()
        return other

    def run(
        self,
        *,
        max_nodes: int | None = None,
        time_limit: float | None = None,
        callback: Callback | None = None,
    ) -> None:
        """Go on until it is proved, so many more nodes are looked at, or the time is over."""
        started, before = time.perf_counter(), self.seconds
        deadline = None if time_limit is None else started + time_limit

        def tell(_: Progress | None = None) -> Any:
            self.seconds = before + time.perf_counter() - started
            return callback(self.progress()) if callback is not None else False

        if self.search is None and (max_nodes is None or max_nodes > 0):
            self._eliminate(deadline, tell)
        if self.search is not None:
            left = None if deadline is None else max(deadline - time.perf_counter(), 0.0)
            self.search.run(max_nodes=max_nodes, time_limit=left, callback=tell)
        self.seconds = before + time.perf_counter() - started

    def _eliminate(self, deadline: float | None, tell: Callable[[], Any]) -> None:
        """Let features leave until S of the others can be formed."""
        many = self.many
        assert many is not None
        while many.kept.size > MOST_DENSE and self.idle < PASSES:
            before = many.kept.size
            level = self.problem.level(many.best.value)
            if not many.shrink(level, deadline):
                return
            self.gone = max(self.gone, level)
            self.idle = 0 if many.kept.size < before else self.idle + 1
            if many.kept.size > MOST_DENSE:
                many.improve()
            if tell():
                return
        if many.kept.size <= MOST_DENSE:
            self._begin_search()

    def _begin_search(self) -> None:
        many = self.many
        assert many is not None
        known = many.best
        # Those of the best component stay, whatever is proved: it is what the search starts from.
        self.left = np.union1d(many.kept, known.features)
        places = np.searchsorted(self.left, known.features)
        self.search = Search(
            many.samples.square(self.left),
            many.k,
            np.searchsorted(self.left, many.included),
            nonnegative=many.nonnegative,
            tol=self.problem.tol,
            error=many.error,
            known=replace(known, features=places),
        )


def prove_matrix(
    S: FloatArray,
    k: int,
    candidates: IntArray,
    included: IntArray,
    *,
    nonnegative: bool = False,
    tol: float = 1e-6,
) -> Proof:
    """Return the beginning of a proof about a symmetric matrix.

    Parameters
    ----------
    S : ndarray of shape (p, p)
        Symmetric matrix; its symmetric part counts.
    k : int
        Number of nonzeros allowed.
    candidates, included : ndarray
        Features that may be in the support, ascending, and those of them that must be.
    nonnegative : bool
        Whether only v ≥ 0 are meant.
    tol : float
        Relative distance of bound and value that counts as proved.
    """
    part, scale, places = _near_one(S, candidates, included)
    started = time.perf_counter()
    search = Search(part, k, places, nonnegative=nonnegative, tol=tol)
    return _of_search(search, len(S), candidates, scale, started)


def prove_jointly(
    S: FloatArray,
    k: int,
    r: int,
    candidates: IntArray,
    included: IntArray,
    *,
    tol: float = 1e-6,
) -> Proof:
    """Return the beginning of a proof about r components with k features in common.

    Parameters
    ----------
    r : int
        Number of components, at most k.
    S, k, candidates, included, tol
        As for :func:`prove_matrix`.
    """
    part, scale, places = _near_one(S, candidates, included)
    started = time.perf_counter()
    search = JointSearch(part, k, r, places, tol=tol)
    return _of_search(search, len(S), candidates, scale, started)


def _near_one(
    S: FloatArray, candidates: IntArray, included: IntArray
) -> tuple[FloatArray, float, IntArray]:
    """Return S of the candidates in the unit of the kernels, that unit, and places in it."""
    part = S[candidates[:, None], candidates]
    scale = power_of_two(float(np.max(np.abs(part))))
    return (part + part.T) / 2 * scale, scale, np.searchsorted(candidates, included)


def _of_search(
    search: BestFirst, n_features: int, candidates: IntArray, scale: float, started: float
) -> Proof:
    proof = Proof(n_features, candidates, scale, search.problem)
    proof.search, proof.left = search, candidates
    proof.seconds = time.perf_counter() - started
    return proof


def prove_samples(
    samples: ScatterEntries,
    k: int,
    candidates: IntArray,
    included: IntArray,
    *,
    nonnegative: bool = False,
    tol: float = 1e-6,
) -> Proof:
    """Return the beginning of a proof about the scatter matrix of samples, which is not formed.

    Parameters
    ----------
    samples : ScatterEntries
        Products with the centred samples, in a unit in which variances are near 1.
    k, candidates, included, nonnegative, tol
        As for :func:`prove_matrix`.
    """
    started = time.perf_counter()
    problem = Problem(np.ones((1, 1)), k, nonnegative, tol)
    proof = Proof(samples.n_features, candidates, samples.scale, problem)
    proof.many = ManyFeatures(samples, k, candidates, included, nonnegative=nonnegative)
    proof.seconds = time.perf_counter() - started
    return proof


def power_of_two(size: float) -> float:
    """Return the power of two that brings a size near 1."""
    exponent = int(np.frexp(size)[1]) if size > 0 else 0
    return float(2.0 ** -min(max(exponent, -1000), 1000))

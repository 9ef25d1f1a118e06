"""What the selectors share that look at the samples, not only at their scatter matrix."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import is_device_array, like, to_host
from jointsparse.graphs.laplacian import WEIGHTS, affinity, degrees
from jointsparse.linalg import column_norms, columns_near_one, columns_near_one_there, double
from jointsparse.methods.bases.penalty_scale import check_scale, penalty_in_units
from jointsparse.methods.bases.selector import Selector, is_number
from jointsparse.methods.reading.needs import Needs, copies_with_graph
from jointsparse.methods.reading.wide_samples import sparse_samples
from jointsparse.moments import Moments
from jointsparse.operators.dense import operator_of
from jointsparse.operators.sparse import SparseSamples
from jointsparse.solvers.products.gram import centred_in_double, double_where_held
from jointsparse.solvers.solution import Solution

AUTO_CLUSTERS = 5
AUTO_ALPHA = 0.3  # of the relative unit: about half of the features remain
EQUAL = 1e-12  # relative difference of columns that are equal


class GraphSelector(Selector):
    """Base of the selectors on graphs of the samples.

    Constant features are left out before (in these methods nothing is smoother than a constant)
    and score 0. A subclass defines ``_solve_samples(data, mean, unit)``: ``data`` are the other
    features, centred and divided by ``unit``, so that their mean square is 1; ``mean`` is what
    was taken off, in the same unit. Sparse samples stay sparse where ``_needs`` says so, and
    samples on a device stay there where ``_stays`` says so.
    A method whose results do not depend on the scale of a feature sets ``_scale_free``; it gets
    every feature in a unit of its own, in which squares neither underflow nor overflow.
    """

    _on_host = "neighbours and solver"

    _rewards_duplicates = False
    _scale_free = False

    def _needs(self) -> Needs:
        fit = copies_with_graph(11, pairs=4)
        return Needs(samples=True, sparse=False, dense_bytes=_bytes, fit_bytes=fit)

    def _stays(self, moments: Moments) -> bool:
        """Whether ``_solve_samples`` takes samples on a device as they are."""
        return not self._on_host

    def _tell_what_runs_on_the_host(self, moments: Moments) -> None:
        if not self._stays(moments):
            super()._tell_what_runs_on_the_host(moments)

    def _solve_samples(
        self, data: Any, mean: FloatArray, unit: float
    ) -> tuple[Solution, FloatArray]:
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _solve(self, moments: Moments) -> tuple[Solution, FloatArray]:
        self.__dict__.pop("loadings_", None)
        varies = moments.variances > 0
        size = moments.n_samples * int(np.count_nonzero(varies))
        unit = float(np.sqrt(moments.total_variance / size))
        data: Any = None
        if sp.issparse(moments.data) and self._needs().sparse:
            data = sparse_samples(moments, unit, varies)
        elif self._stays(moments) and is_device_array(moments.data):
            data = double_where_held(moments)[:, like(np.flatnonzero(varies), moments.data)]
            if self._rewards_duplicates:
                self._warn_of_multiples(data, varies)
            data = columns_near_one_there(data) if self._scale_free else data / unit
        else:
            data = centred_in_double(moments)
            data = data if varies.all() else data[:, varies]
            if self._rewards_duplicates and data.shape[1] < data.shape[0]:
                self._warn_of_multiples(data, varies)
            data = columns_near_one(data) if self._scale_free else data / unit
        solution, scores = self._solve_samples(data, moments.mean[varies] / unit, unit)
        loadings = embedded(np.asarray(solution.loadings), varies)
        if loadings.shape[1]:
            self.loadings_ = loadings
        return replace(solution, loadings=loadings), embedded(scores, varies)

    def _warn_of_multiples(self, data: Any, varies: NDArray[np.bool_]) -> None:
        there = is_device_array(data)
        columns = columns_near_one_there(data) if there else columns_near_one(double(data))
        labels = twin_labels(columns / column_norms(columns))
        if labels is not None:
            one = int(np.flatnonzero(np.bincount(labels) > 1)[0])
            pair = np.flatnonzero(varies)[np.flatnonzero(labels == one)[:2]]
            self._warn(
                f"features {pair[0]} and {pair[1]} are multiples of each other, and such "
                "features gain undeserved scores; remove one of them"
            )


def _bytes(n_samples: int, n_features: int) -> int:
    """Return what the samples, copies of them and the smaller matrix of their products take."""
    return 8 * (4 * n_samples * n_features + 4 * min(n_samples, n_features) ** 2)


def embedded(values: FloatArray, mask: NDArray[np.bool_]) -> FloatArray:
    """Return the rows at their places among all features, zero elsewhere."""
    full = np.zeros((mask.size, *values.shape[1:]))
    full[mask] = values
    return full


def twin_labels(columns: Any) -> IntArray | None:
    """Label columns that are equal up to sign alike; None where all differ."""
    n = columns.shape[0]
    draws = np.random.default_rng(0).standard_normal((n, 1))
    # One number for each column, the same for equal ones; few others come as close.
    samples = operator_of(columns)
    size = samples.size()
    probe = np.abs(to_host(samples.combined(like(draws.T, samples.empty)))).ravel()
    order = np.argsort(probe, kind="stable")
    labels = np.arange(probe.size)
    close = np.diff(probe[order]) <= EQUAL * max(float(probe.max()), size)
    for one, other in zip(order[:-1][close], order[1:][close], strict=True):
        pair = to_host(samples.take(np.array([one, other])))
        sign = 1.0 if float(pair[:, 0] @ pair[:, 1]) > 0 else -1.0
        if np.max(np.abs(pair[:, 0] - sign * pair[:, 1])) <= EQUAL * size:
            labels[other] = labels[one]
    return None if np.array_equal(labels, np.arange(probe.size)) else labels


def neighbour_graph(
    data: FloatArray | SparseSamples,
    n_neighbors: Any,
    *,
    weights: Any,
    width: Any,
    unit: float,
    search: str = "exact",
) -> sp.csr_array:
    """Return the weighted neighbour graph of samples that were divided by ``unit``.

    ``width`` is in units of the data as they came; the other parameters are those of
    :func:`~jointsparse.graphs.laplacian.affinity`.
    """
    count = check_count("n_neighbors", n_neighbors)
    if weights not in WEIGHTS:
        known = ", ".join(map(repr, WEIGHTS))
        raise ValueError(f"weights={weights!r} is not one of {known}")
    automatic = isinstance(width, str) and width == "auto"
    if not automatic and (not is_number(width) or not 0 < float(width) < float("inf")):
        raise ValueError(f"width={width!r} is neither a number above 0 nor 'auto'")
    scaled = None if automatic else float(width) / unit
    graph = affinity(data, count, weights=weights, width=scaled, search=search)
    if graph.nnz == 0 or degrees(graph).sum() == 0:
        raise ValueError(
            f"every weight is 0: width={width!r} is far below the distances between neighbours; "
            "raise it or leave it at 'auto'"
        )
    return graph


def check_count(name: str, value: Any) -> int:
    """Return a whole number of at least 1."""
    if not is_number(value, Integral) or value < 1:
        raise ValueError(f"{name}={value!r} is not a whole number of at least 1")
    return int(value)


def check_power(p: Any) -> float:
    """Return the exponent of the row norms."""
    if not is_number(p) or not 0 < p <= 1:
        raise ValueError(f"p={p!r} is not a number above 0 and at most 1")
    return float(p)


def row_penalty(
    value: Any, *, scale: str, power: float, shape: tuple[int, int], energy: float, trace: float
) -> float:
    """Return the weight g of Σ‖w_j‖^q in units of the data.

    The relative unit is ``energy`` divided by the penalty of a W (of this shape) with equal rows:
    there, penalty and quadratic form weigh the same.
    """
    p, m = shape
    # Where neighbours are equal throughout, there is no energy and no unit.
    unit = (energy or 1.0) / (p ** (1 - power / 2) * m ** (power / 2))
    return penalty_in_units(
        "alpha", value, scale=check_scale(scale), auto=AUTO_ALPHA, unit=lambda: unit, trace=trace
    )

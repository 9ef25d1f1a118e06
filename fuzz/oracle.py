r"""Sums over the samples of a container, against the same sums in long double.

The twin of a container has most of its sums from the same functions: what is wrong in these is
wrong in both, and the two agree. So the scatter matrix, with and without weights and batches, and
the products by which kernels see samples are compared with what NumPy makes of the numbers in long
double. A number may be off by ``ROUNDING`` of the product of the lengths of its two factors, and by
what rounding beside a large mean leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from jointsparse import Moments
from jointsparse.operators.dense import DenseSamples
from jointsparse.operators.samples import Samples
from jointsparse.operators.sparse import SparseSamples
from jointsparse.sources import as_source, is_streamed

ROUNDING = 1e-9  # sums of a thousand terms in any order have errors of some 1e-13
SINGLE_ROUNDING = 3e-5  # of products with samples that stay in single precision
CENTRING = 32 * np.finfo(np.float64).eps  # of the largest entry: what its mean may be off by
LEAST = np.longdouble(np.finfo(np.float64).smallest_subnormal)  # products below are rounded to it
SINGLE_LEAST = float(np.finfo(np.float32).smallest_subnormal)  # samples near it have no digits
SIZES = 1e-140, 1e140  # of samples whose squares double precision can hold
Numbers = np.ndarray[Any, np.dtype[np.longdouble]]


def wrong_sums(held: Any, values: np.ndarray, rng: np.random.Generator) -> Iterator[str]:
    """Say which sums over what a container holds are not those of its numbers.

    Parameters
    ----------
    held : Any
        The container.
    values : ndarray of shape (n_samples, n_features)
        Its numbers in double precision.
    rng : numpy.random.Generator
        Draws weights, batches and what samples are multiplied by.
    """
    size = np.max(np.abs(values), initial=0.0)
    if not SIZES[0] < size < SIZES[1]:  # nor where a value is not finite
        return
    given = _given(len(values), rng)
    try:
        moments = Moments.from_data(held, copy=False, **given)
    except ValueError:
        return  # whether it is rightly refused, the fit tells
    centred, weights = _centred(values.astype(np.longdouble), **given)
    what = " with ".join(["scatter matrix", *given])
    scatter = (centred * weights[:, None]).T @ centred
    lengths = np.sqrt(np.diagonal(scatter))
    # Weighted and centred samples are rounded once more, in single precision where they come in it.
    single = bool(given) and moments.dtype == np.float32
    unit, least = (SINGLE_ROUNDING, SINGLE_LEAST) if single else (ROUNDING, 0.0)
    off = CENTRING * np.abs(values).max(axis=0) + least
    slack = np.sqrt(np.longdouble(weights.sum())) * off
    allowed = unit * np.outer(lengths, lengths) + np.outer(slack, lengths + slack)
    allowed = allowed + np.outer(lengths, slack) + len(values) * LEAST
    if np.any(np.abs(moments.scatter - scatter) > allowed):
        yield f"the {what} is not that of the table"
    if not given:
        yield from _wrong_products(held, moments, centred, np.abs(values).max(axis=0), rng)


def _given(n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Draw nothing, counts, other weights, or batches."""
    return [
        {},
        {"sample_weight": rng.integers(0, 4, n)},
        {"sample_weight": rng.uniform(0.1, 2.0, n)},
        {"batch": rng.integers(0, 3, n)},
    ][int(rng.choice(4, p=[0.55, 0.15, 0.15, 0.15]))]


def _centred(values: Numbers, sample_weight: Any = None, batch: Any = None) -> tuple[Any, Any]:
    """Return samples less their mean, or less that of their batch, and the weight of each."""
    weights = np.ones(len(values), np.longdouble)
    if sample_weight is not None:
        weights = sample_weight.astype(np.longdouble)
        if sample_weight.dtype.kind == "f":  # of which only the ratios matter
            weights = weights * len(values) / weights.sum()
    codes = np.zeros(len(values), int) if batch is None else batch
    centred = values.copy()
    for code in np.unique(codes):
        own = codes == code
        centred[own] -= np.average(values[own], axis=0, weights=weights[own])
    return centred, weights


def _wrong_products(
    held: Any, moments: Moments, centred: Numbers, sizes: np.ndarray, rng: np.random.Generator
) -> Iterator[str]:
    samples = _operator(held, moments)
    if samples is None:
        return
    unit = SINGLE_ROUNDING if np.dtype(samples.dtype) == np.float32 else ROUNDING
    (n, p), off = centred.shape, np.broadcast_to(CENTRING * sizes, centred.shape)
    U, V = rng.standard_normal((p, 2)), rng.standard_normal((n, 2))
    bound, one, two = unit * np.abs(centred) + off, np.abs(U), np.abs(V)
    products = {
        "XU": (samples.times(U), centred @ U, bound @ one),
        "X'V": (samples.transposed_times(V), centred.T @ V, bound.T @ two),
        "XX'": (samples.gram(), centred @ centred.T, _twice(bound, centred)),
        "squared lengths": (
            samples.squared_lengths(),
            (centred**2).sum(axis=0),
            2 * (bound * (np.abs(centred) + off)).sum(axis=0),
        ),
    }
    for name, (found, expected, allowed) in products.items():
        if np.any(np.abs(np.asarray(found) - expected) > allowed + max(n, p) * LEAST):
            yield f"{name} is not that of the table"


def _twice(bound: Any, centred: Numbers) -> Any:
    """Return what a product of rows may be off by, where either factor may be."""
    product = bound @ (np.abs(centred) + bound).T
    return product + product.T


def _operator(held: Any, moments: Moments) -> Samples | None:
    """Return the samples as kernels see them, where they are on this machine."""
    if is_streamed(held):
        return as_source(held).operator()
    data = moments.data
    if sparse.issparse(data):
        return SparseSamples(data, moments.mean)
    return DenseSamples(data, moments.mean) if isinstance(data, np.ndarray) else None

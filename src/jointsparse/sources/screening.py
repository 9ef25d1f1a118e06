r"""Features that share something with others, found without any p × p matrix.

With Z the standardised samples, the leading eigenvectors of :math:`Z^\top Z` come from a few
products with a random matrix (subspace iteration), each of them one pass over the samples. With
:math:`Z^\top Z \approx V\Lambda V^\top`,

.. math:: s_j = \frac1n\sum_i \lambda_i v_{ji}^2

is the share of the variance of feature j that lies in the leading directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh, qr

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.sources.base import Block, Source
from jointsparse.sources.batch_sums import BatchSums, fold_batches
from jointsparse.sources.sums import check_finite, check_sparse_finite, rounding
from jointsparse.sources.views.columnwise import standardised
from jointsparse.sources.weighting import batch_codes

DIRECTIONS = 32  # as many patterns are told apart; a pass costs in proportion
PASSES = 3  # of subspace iteration; shares of planted patterns are then right to 0.01


@dataclass(frozen=True)
class Screening:
    """Which features share most.

    Attributes
    ----------
    columns : ndarray of int
        Their numbers, in ascending order.
    shares : ndarray of shape (n_features,)
        Share of the variance of every feature that lies in the leading directions.
    """

    columns: IntArray
    shares: FloatArray

    @property
    def left_out(self) -> float:
        """Largest share of a feature that is not among them; 0 where all are."""
        others = np.delete(self.shares, self.columns)
        return float(others.max(initial=0.0))


def most_shared(
    source: Source, count: int, *, always: Sequence[int] = (), seed: int = 0, batch: Any = None
) -> Screening:
    """Find the features that share most with others.

    Each of the leading directions is there with the feature that stands for it best beside those
    of the others (a pivoted QR decomposition), so that none is lost to stronger ones.

    Parameters
    ----------
    source : Source
        Samples, read five times.
    count : int
        How many features to take.
    always : sequence of int
        Features to take in any case.
    seed : int
        Of the random start.
    batch : array-like of shape (n_samples,) or None
        The batch of each sample: what features share within batches counts. Sparse samples stay
        sparse all the same.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.sources import as_source
    >>> from jointsparse.sources.screening import most_shared
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 90))
    >>> X[:, 40:44] += 2 * rng.standard_normal((500, 1))
    >>> most_shared(as_source(X), 4, always=[7]).columns.tolist()
    [7, 40, 41, 42, 43]
    """
    found = _Centred.of(source) if batch is None else _Centred.within(source, batch)
    factors = np.where(found.deviations > 0, 1 / np.maximum(found.deviations, 1e-300), 0.0)
    width = min(DIRECTIONS, source.n_features)
    basis = np.random.default_rng(seed).standard_normal((source.n_features, width))
    for _ in range(PASSES):
        basis = np.linalg.qr(basis)[0]
        product = _gram_times(source, basis, found, factors)
        previous, basis = basis, product
    # Nyström's approximation of ZᵀZ, closer than what is within the basis: a product more is in it.
    values, turn = eigh(previous.T @ product)
    some = values > values[-1] * source.n_features * np.finfo(np.float64).eps
    values, loadings = values[some], product @ (turn[:, some] / np.sqrt(values[some]))
    shares = np.asarray((loadings**2).sum(axis=1) / found.n_samples)
    # One for each direction that is more than noise, which has n (1 + √(p/n))² at most.
    edge = found.n_samples * (1 + np.sqrt(source.n_features / found.n_samples)) ** 2
    leading = loadings[:, values > edge]
    stand_for = qr(leading.T, mode="economic", pivoting=True)[2][: leading.shape[1]]
    best = np.argsort(-shares, kind="stable")
    room = max(count, stand_for.size)
    taken = list(dict.fromkeys([*map(int, stand_for), *map(int, best)]))[:room]
    return Screening(np.array(sorted({*taken, *map(int, always)}), dtype=np.int64), shares)


class _Centred(NamedTuple):
    """Means of batches, one without any, and standard deviations around them."""

    n_samples: int
    means: FloatArray
    deviations: FloatArray
    aligned: tuple[IntArray, ...]  # the batch of every sample, where there are several

    @classmethod
    def of(cls, source: Source) -> _Centred:
        found = standardised(source)
        return cls(found.n_samples, found.mean[None], found.deviations, ())

    @classmethod
    def within(cls, source: Source, batch: Any) -> _Centred:
        names, codes = batch_codes(batch, source.n_samples)
        fold = partial(_fold_checked, n_batches=names.size)
        sums = source.reduce(fold, _add, codes)
        assert sums is not None
        squares = sums.squares.sum(axis=0)
        # What is constant within batches has squares of rounding.
        squares = np.where(squares <= rounding(sums.total, codes.size), 0.0, squares)
        return cls(codes.size, sums.means, np.sqrt(squares / codes.size), (codes,))


def _fold_checked(
    state: BatchSums | None, block: Block, start: int, codes: IntArray, *, n_batches: int
) -> BatchSums:
    if sp.issparse(block):
        check_sparse_finite(block, start)
    else:
        check_finite(np.sum(block, axis=0, dtype=np.float64), block, start)
    return fold_batches(state, block, start, codes, np.ones(codes.size), n_batches=n_batches)


def _add(one: BatchSums, other: BatchSums) -> BatchSums:
    return one + other


def _gram_times(
    source: Source, matrix: FloatArray, centred: _Centred, factors: FloatArray
) -> FloatArray:
    """Return ZᵀZ times a matrix, in one pass."""
    fold = partial(_fold, matrix=factors[:, None] * matrix, means=centred.means)
    found = source.reduce(fold, np.add, *centred.aligned)
    assert found is not None
    return np.asarray(factors[:, None] * found)


def _fold(
    state: Any,
    block: Block,
    start: int,
    codes: IntArray | None = None,
    *,
    matrix: FloatArray,
    means: FloatArray,
) -> FloatArray:
    m = block.shape[0]
    codes = np.zeros(m, dtype=np.int64) if codes is None else codes
    if sp.issparse(block):
        scores = block @ matrix - (means @ matrix)[codes]
        member = sp.csr_array((np.ones(m), codes, np.arange(m + 1)), shape=(m, len(means)))
        product = block.T @ scores - means.T @ (member.T @ scores)
    else:
        rows = np.subtract(block, means[codes] if len(means) > 1 else means, dtype=np.float64)
        product = rows.T @ (rows @ matrix)
    return np.asarray(product if state is None else state + product)

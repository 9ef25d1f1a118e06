r"""One pass over the samples: the norms of their residuals, and sums weighted by them.

Losses that sum norms over samples are minimised by reweighting. All that an iteration needs of the
samples is, for the residuals of a linear reconstruction about a centre m,

.. math:: e_i = (x_i-m) - PQ^\top(x_i-m),\qquad r_i = \sqrt{\|e_i\|^2+\varepsilon^2},\qquad
          \sum_i r_i,\quad \sum_i \frac1{r_i},\quad \sum_i \frac{x_i}{r_i},\quad
          \sum_i \frac{x_ix_i^\top}{r_i} .

Rows may therefore come in blocks, from anywhere: :func:`block_sums` is what one block contributes,
:func:`summed` adds contributions, and a source of blocks is anything with the one method of
:class:`Passes`. Apart from the sums, of size p × p, one number for each sample is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from jointsparse.arrays import Array
from jointsparse.device import on_accelerator
from jointsparse.linalg import array_namespace
from jointsparse.operators.dense import operator_of
from jointsparse.operators.samples import Samples
from jointsparse.sources.base import BLOCK_ENTRIES

DEVICE_ENTRIES = 2**26  # of a block on an accelerator: 512 MB, so that launches do not matter


@dataclass(frozen=True)
class LinearFit:
    """What to compute residuals of.

    Attributes
    ----------
    projection, recovery : array of shape (n_features, rank) or None
        Q and P; None stands for zero.
    mean : array of shape (n_features,) or None
        m; None stands for zero.
    smoothing : float
        ε.
    second : tuple of arrays (p × m, m × m) or None
        B and R of another matrix BRBᵀ, of whose residuals only the norms are asked for.
    """

    projection: Array | None = None
    recovery: Array | None = None
    mean: Array | None = None
    smoothing: float = 0.0
    second: tuple[Array, Array] | None = None


@dataclass(frozen=True)
class WeightedSums:
    """What some rows contribute.

    Attributes
    ----------
    norms : array of shape (n_rows,)
        r.
    second_norms : array of shape (n_rows,) or None
        Norms of the residuals of the second matrix, without smoothing.
    weight : float
        Σ 1/r_i.
    first : array of shape (n_features,)
        Σ x_i/r_i.
    scatter : array of shape (n_features, n_features) or None
        Σ x_i x_iᵀ/r_i, not centred.
    """

    norms: Array
    second_norms: Array | None
    weight: float
    first: Array
    scatter: Array | None

    def without_norms(self) -> WeightedSums:
        """Return the sums alone: of many samples the norms are the larger part."""
        none = array_namespace(self.norms).empty_like(self.norms[:0])
        return replace(self, norms=none, second_norms=None)


class Passes(Protocol):
    """A source of samples that can be read again and again."""

    def weighted_pass(self, fit: LinearFit, *, scatter: bool = True) -> WeightedSums:
        """Return the sums over all samples; norms in the order of the samples.

        Without ``scatter`` the p × p sum is left out.
        """
        ...


def block_sums(rows: Array, fit: LinearFit, *, scatter: bool = True) -> WeightedSums:
    """Return what a block of rows, in double precision, contributes."""
    xp = array_namespace(rows)
    centred = rows if fit.mean is None else rows - fit.mean
    # The residual itself: differences of squares would lose the digits of small ones. In place, and
    # up to its sign: one more array of the size of the block, not three.
    residual = centred
    if fit.projection is not None and fit.recovery is not None:
        residual = (centred @ fit.projection) @ fit.recovery.T
        residual -= centred
    norms = xp.sqrt(xp.vecdot(residual, residual) + fit.smoothing**2)
    second = None
    if fit.second is not None:
        basis, rotated = fit.second
        second = xp.linalg.vector_norm(centred - ((centred @ basis) @ rotated) @ basis.T, axis=1)
    weights = 1 / norms
    return WeightedSums(
        norms=norms,
        second_norms=second,
        weight=float(xp.sum(weights)),
        first=weights @ rows,
        scatter=(rows * weights[:, None]).T @ rows if scatter else None,
    )


def summed(parts: Iterable[WeightedSums]) -> WeightedSums:
    """Add the contributions of blocks that follow each other; at least one."""
    norms, second_norms, weight = [], [], 0.0
    first, scatter = None, None
    for part in parts:
        norms.append(part.norms)
        second_norms.append(part.second_norms)
        weight += part.weight
        first = part.first if first is None else first + part.first
        if scatter is None:
            scatter = part.scatter
        else:
            scatter += part.scatter
    xp = array_namespace(norms[0])
    second = None if second_norms[0] is None else xp.concat(second_norms)
    return WeightedSums(xp.concat(norms), second, weight, first, scatter)


class RowPasses:
    """Passes over samples at hand, some rows at a time.

    Parameters
    ----------
    data : array of shape (n_samples, n_features) or Samples
        Samples about some centre.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.samples.weighted_pass import LinearFit, RowPasses
    >>> sums = RowPasses(np.array([[3.0, 4.0], [0.0, 2.0]])).weighted_pass(LinearFit())
    >>> sums.norms, sums.first
    (array([5., 2.]), array([0.6, 1.8]))
    """

    def __init__(self, data: Array | Samples) -> None:
        self.samples = operator_of(data)

    def weighted_pass(self, fit: LinearFit, *, scatter: bool = True) -> WeightedSums:
        """Return the sums over all rows, made block by block."""
        count, width = self.samples.shape
        # A block, its residuals and what is made of them are in memory together.
        entries = DEVICE_ENTRIES if on_accelerator(self.samples.empty) else BLOCK_ENTRIES // 4
        step = max(1, entries // max(width, 1))
        if step >= count:
            return block_sums(self.samples.rows(slice(None)), fit, scatter=scatter)
        return summed(
            block_sums(self.samples.rows(slice(first, first + step)), fit, scatter=scatter)
            for first in range(0, count, step)
        )

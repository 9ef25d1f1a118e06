r"""How the rows of a table were made of samples: what a test of noise has to know of them.

Weights and batches make a table whose rows are not as many independent samples:

* *Whole-number weights* are copies: all rows of one sample tell as much as one of them.
* *Other weights* make rows :math:`\sqrt{w_i}(x_i - \mu)`, of which the loud ones decide.
* *Batches*: of the rows of a batch, around their own mean, one follows from the others. With the
  shares :math:`f_i` of a batch's weight, a row of equally noisy samples keeps the part
  :math:`1 - 2f_i + \sum_k f_k^2` of its variance, and one of weight 1/variance :math:`1 - f_i`.

With m samples in b batches, n - b directions become m - b. The rows have the scatter matrix
:math:`X^\top D^{1/2}PD^{1/2}X`, with weights D and the projection P that takes out the batches, so
that products of two independent columns vary as if there were

.. math:: \frac{(\operatorname{tr} DP)^2}{\operatorname{tr} DPDP}

directions of equal weight: :math:`(\sum w_i)^2/\sum w_i^2`, less what batches take.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray

ALONE = 1e-9  # share of a row's variance below which it is the mean of its batch: nothing is left


@dataclass(frozen=True)
class Origin:
    """What the rows of a table are.

    Attributes
    ----------
    sample, batch : ndarray of shape (n_rows,)
        The number of the sample in each row, and that of its batch: from 0, none left out.
    weights : ndarray of shape (n_rows,)
        What each row counts; rows of one sample count alike.
    mixed : bool
        Whether rows were mixed by a reflection (:mod:`jointsparse.sources.weighting`).
    levelled : bool
        Whether weights are one over noise levels, so that weighted rows are equally noisy; if not,
        the samples are taken to be.
    joined : int
        Directions that lie between tables that were added.
    worth : float
        What of a complete row each tells, where values are missing.
    shrunk : bool
        Whether far rows were shrunk, by ``robust="samples"``: their ranks tell by how much.
    unknown : str
        Why patterns cannot be told from noise here, in words; nothing where they can.
    """

    sample: IntArray
    batch: IntArray
    weights: FloatArray
    mixed: bool = False
    levelled: bool = False
    joined: int = 0
    worth: float = 1.0
    shrunk: bool = False
    unknown: str = ""

    @classmethod
    def of_rows(
        cls,
        n_rows: int,
        *,
        sample: IntArray | None = None,
        batch: IntArray | None = None,
        weights: FloatArray | None = None,
        shrunk: bool = False,
        unknown: str = "",
    ) -> Origin:
        """Return that of rows of which some things are known; the rest is as usual."""
        return cls(
            np.arange(n_rows) if sample is None else numbered(sample),
            np.zeros(n_rows, dtype=np.int64) if batch is None else numbered(batch),
            np.ones(n_rows) if weights is None else weights,
            mixed=weights is not None,
            shrunk=shrunk,
            unknown=unknown,
        )

    @property
    def is_usual(self) -> bool:
        """Whether each row is a sample like all others."""
        return self.is_even and self.sample.size == self.n_samples

    @property
    def is_even(self) -> bool:
        """Whether rows have one weight, and are in one batch."""
        return not self.mixed and self.n_batches == 1

    @property
    def is_single(self) -> bool:
        """Whether rows are independent of each other: each a sample of its own, in no batch."""
        return self.n_batches == 1 and self.sample.size == self.n_samples

    @cached_property
    def n_samples(self) -> int:
        """How many samples there are."""
        return int(self.sample.max()) + 1

    @cached_property
    def n_batches(self) -> int:
        """How many batches there are."""
        return int(self.batch.max()) + 1

    @cached_property
    def first(self) -> IntArray:
        """The first row of each sample."""
        return np.unique(self.sample, return_index=True)[1]

    @cached_property
    def totals(self) -> FloatArray:
        """Weight of each sample, of all its rows."""
        return np.asarray(np.bincount(self.sample, weights=self.weights), dtype=np.float64)

    @cached_property
    def shares(self) -> FloatArray:
        """Share of each sample in the weight of its batch."""
        return self.totals / self._of_batches(self.totals)[self.batch[self.first]]

    @cached_property
    def live(self) -> NDArray[np.bool_]:
        """Samples of which something is left: not those that are alone in their batch."""
        return self.shares < 1 - ALONE

    @cached_property
    def left(self) -> FloatArray:
        """Share of each sample's variance that the mean of its batch leaves of noise."""
        if self.levelled:
            return 1 - self.shares
        squares = self._of_batches(self.shares**2)[self.batch[self.first]]
        return 1 - 2 * self.shares + squares

    @cached_property
    def n_directions(self) -> int:
        """In how many directions the rows of noise vary."""
        return max(round(self.worth * (self.n_samples - self.n_batches + self.joined)), 1)

    @cached_property
    def levels(self) -> FloatArray:
        """Noise levels of the samples, of mean 1, if all were equally noisy before weights."""
        totals = self.totals[self.live]
        return totals / totals.mean() if totals.size else np.ones(1)

    @cached_property
    def n_effective(self) -> float:
        """How many directions of equal weight would tell as much of the product of two columns."""
        w, batch = self.totals, self.batch[self.first]
        batches, squares = self._of_batches(w), self._of_batches(w**2)
        first = float((w * (1 - self.shares)).sum())
        second = float((w**2).sum() - 2 * (w**3 / batches[batch]).sum())
        second += float(((squares / batches) ** 2).sum())
        found = self.worth * first**2 / second if second > 0 else 1.0
        return min(found, float(self.n_directions))

    def _of_batches(self, values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(self.batch[self.first], weights=values), dtype=np.float64)

    def lengths(self, rows: FloatArray) -> FloatArray:
        """Return what noise of one level has of squared lengths, for each sample that is left."""
        return np.bincount(self.sample, weights=rows)[self.live] / self.left[self.live]

    def for_rows(self, values: FloatArray) -> FloatArray:
        """Return one number for each row, of one for each sample that is left; 1 for others."""
        every = np.ones(self.n_samples)
        every[self.live] = values
        return every[self.sample]

    def of(self, rows: IntArray) -> Origin:
        """Return that of some of the rows."""
        some = replace(self, sample=numbered(self.sample[rows]), batch=numbered(self.batch[rows]))
        weights = self.weights[rows]
        return replace(some, weights=weights * (rows.size / weights.sum()))

    def reweighted(self, weights: FloatArray) -> Origin:
        """Return that of the same rows with other weights, which make them equally noisy."""
        return replace(self, weights=weights, levelled=True)

    def plus(self, other: Origin) -> Origin:
        """Return that of the rows of two tables, which have a mean in common."""
        return Origin(
            np.concatenate([self.sample, other.sample + self.n_samples]),
            np.concatenate([self.batch, other.batch + self.n_batches]),
            np.concatenate([self.weights, other.weights]),
            joined=self.joined + other.joined + 1,
            shrunk=self.shrunk or other.shrunk,
            unknown=self.unknown or other.unknown,
        )

    def centred(self, rows: FloatArray) -> FloatArray:
        """Return rows around the weighted means of their batches, times the root of the weight."""
        places = np.arange(self.batch.size), self.batch
        inside = sp.csr_array((self.weights, places), shape=(self.batch.size, self.n_batches))
        means = (inside.T @ rows) / np.bincount(self.batch, weights=self.weights)[:, None]
        return np.asarray(np.sqrt(self.weights)[:, None] * (rows - means[self.batch]))


def numbered(codes: IntArray) -> IntArray:
    """Return codes counted from 0, in their order, with none left out.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.sources.origin import numbered
    >>> numbered(np.array([7, 3, 7])).tolist()
    [1, 0, 1]
    """
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)

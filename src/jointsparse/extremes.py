r"""Columns and samples that hold a few gross values, which defeat every regression.

The share of a column's sum of squares that one value holds,

.. math:: h_{ij} = \frac{(x_{ij}-\mu_j)^2}{S_{jj}} ,

is the leverage of that sample in a regression on the column: what the fit without the sample says
of it errs by :math:`1/(1-h_{ij})` times the usual variance. A column counts as extreme where its
largest :math:`h_{ij}` is

* risky: above 0.2 (Huber's bound), so that the value is a fifth of the column's variance or more;
* more than chance: :math:`h_{ij}\,n/(n-1)` is Beta(1/2, (n-2)/2) in a Gaussian column, and by the
  union bound over all entries less than 0.5 % of Gaussian tables have a column beyond this, however
  their columns depend on each other;
* far from the others: five times as far from the column's usual value (its median) as half of the
  values that differ from it. A word that two documents use, or a pixel at the edge, has no others
  to be far from: it is rare, and no logarithm and no rank changes that.

Of samples the same is the mean over the standardised columns, :math:`b_i`. With the eigenvalues w
of the correlation matrix, as shares of their sum, Gaussian samples have

.. math:: P\bigl(n\,b_i > 1 + 2\lVert w\rVert_2\sqrt x + 2w_1x\bigr) \le e^{-x}

(Laurent and Massart), and x is set so that 0.5 % of tables may exceed it. Here w is estimated from
the table, so that this half of the rate is measured, not proved. A sample counts from 5 % of all
squares on: in a regression on four columns its leverage is a fifth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import betainc

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import like, to_host
from jointsparse.linalg import array_namespace, double, without_offsets
from jointsparse.moments import Moments
from jointsparse.running.workspace import Slot
from jointsparse.significance import feature_significance
from jointsparse.text import counted, cut_middle, percent, visible

# Share of Gaussian tables with a false alarm: half for columns, half for samples.
FALSE_ALARMS = 0.01
_ALARMS = FALSE_ALARMS / 2
RISKY = 0.2  # leverage; Huber (Robust Statistics, 1981): below 0.2 safe, above 0.5 to be avoided
RISKY_SAMPLE = RISKY / 4  # share of all squares: the leverage is as large on four columns
FAR = 5.0  # times the median distance; a Gaussian column has 3.4 standard deviations there
MANY = 0.1  # share of the columns from which on extreme ones matter although none is kept
AT_ONCE = 2**22  # entries of a block of samples, a few copies of which are made
NAME_LENGTH = 40  # characters of a column's name in a sentence

ADVICE = (
    "their logarithms (numpy.log1p) or ranks (sklearn.preprocessing.QuantileTransformer) make them "
    "comparable, and jointsparse.Wrap leaves such values without a say"
)
BELONGS = "such a sample alone can decide what is found: see whether it belongs here"
ADVICE_SAMPLES = f"{BELONGS}, or leave it without a say (jointsparse.SpatialSign)"


@dataclass(frozen=True)
class Extremes:
    """Columns and samples with gross values.

    Attributes
    ----------
    columns : ndarray of int
        Columns that hold a few values far from the rest, worst first.
    column_shares : ndarray
        Share of each one's sum of squares in its most extreme value.
    column_samples : ndarray of int
        The sample that has it.
    samples : ndarray of int
        Samples far from the rest in many columns, worst first.
    sample_shares : ndarray
        Share of all squares, each column standardised, that each of them holds.
    n_samples, n_features : int
        Size of the table.
    """

    columns: IntArray
    column_shares: FloatArray
    column_samples: IntArray
    samples: IntArray
    sample_shares: FloatArray
    n_samples: int
    n_features: int

    def __bool__(self) -> bool:
        return bool(self.columns.size or self.samples.size)

    def matter(self, kept: IntArray) -> bool:
        """Tell whether they concern a set: a kept column, many columns, or a sample is extreme."""
        many = self.columns.size >= MANY * self.n_features
        concerned = bool(self.columns.size) and (many or bool(np.isin(self.columns, kept).any()))
        return concerned or bool(self.samples.size)

    def sentences(
        self,
        names: Sequence[str] | None = None,
        advice: str = ADVICE,
        advice_samples: str = ADVICE_SAMPLES,
        first_row: int = 0,
    ) -> list[str]:
        """Return what was found in plain words; nothing where there is nothing to say.

        Parameters
        ----------
        names : sequence of str or None
            Names of the columns; None calls them by their numbers, counted from 0.
        advice, advice_samples : str
            What to do about columns and about samples.
        first_row : int
            Number of the first sample.
        """
        found = []
        if self.columns.size:
            worst, many = int(self.columns[0]), self.columns.size > 1
            name = f"column {worst}" if names is None else visible(str(names[worst]))
            found.append(
                f"{self.columns.size} of {counted(self.n_features, 'column')} "
                f"{'hold' if many else 'holds'} a few values far from the rest "
                f"({'first: ' if many else ''}{cut_middle(name, NAME_LENGTH)}); {advice}"
            )
        if self.samples.size:
            many = self.samples.size > 1
            found.append(
                f"{self.samples.size} of {counted(self.n_samples, 'sample')} "
                f"{'are' if many else 'is'} far from the rest in many columns "
                f"({'first: ' if many else ''}row {first_row + int(self.samples[0])}, with "
                f"{percent(float(self.sample_shares[0]))} of all squares); {advice_samples}"
            )
        return found

    def __str__(self) -> str:
        return " ".join(f"{text}." for text in self.sentences()) or "No extreme values."


def extreme_values(X: Any) -> Extremes | None:
    """Find columns and samples that hold a few gross values.

    See the top of this file for what counts as gross: at most 1 % of Gaussian tables have any.

    Parameters
    ----------
    X : array-like, data frame, sparse matrix, tensor or Moments
        Samples in rows, or their moments.

    Returns
    -------
    Extremes or None
        None where the samples are not in memory: their sums do not tell.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.extremes import extreme_values
    >>> X = np.random.default_rng(0).standard_normal((100, 8))
    >>> print(extreme_values(X))
    No extreme values.
    >>> X[7, 3] = 50.0
    >>> found = extreme_values(X)
    >>> found.columns.tolist(), found.column_samples.tolist()
    ([3], [7])
    """
    moments = X if isinstance(X, Moments) else Moments.from_data(X, copy=False)
    if not moments.has_samples or moments.elsewhere:
        return None
    return moments.workspace.kept(EXTREMES, lambda: _found(moments))


EXTREMES: Slot[Extremes] = Slot("extremes")


def _found(moments: Moments) -> Extremes:
    base = moments.near_one
    n, p = base.n_samples, base.n_features
    live = base.variances > 0
    if n < 3 or not live.any():  # of two samples each holds half
        nothing, none = np.empty(0), np.empty(0, dtype=np.int64)
        return Extremes(none, nothing, none, none, nothing, n, p)
    factors = np.where(live, base.variances, 1.0) ** -0.5 * live
    largest, places, rows = _squares(base, factors)
    likely = np.flatnonzero((largest > RISKY) & (_tail(largest, n) * n * live.sum() <= _ALARMS))
    columns = likely[_far(base, likely, places[likely])]
    columns = columns[np.argsort(-largest[columns], kind="stable")]
    shares = rows / live.sum()
    samples = np.flatnonzero(shares > max(RISKY_SAMPLE, _most(moments, int(live.sum()))))
    samples = samples[np.argsort(-shares[samples], kind="stable")]
    return Extremes(columns, largest[columns], places[columns], samples, shares[samples], n, p)


def _tail(shares: FloatArray, n: int) -> FloatArray:
    """Return how probable such a share is for one given value of a Gaussian column."""
    left = np.clip(1 - shares * n / (n - 1), 0.0, 1.0)
    return np.asarray(betainc((n - 2) / 2, 0.5, left))


def _most(moments: Moments, live: int) -> float:
    """Return the share of all squares that no sample of a Gaussian table has, but for 0.5 %."""
    found = feature_significance(moments)
    # Eigenvalues that are not known one by one are below the noise edge, or the last that is.
    rest = max(found.noise_edge, float(found.patterns[-1]) if found.limited else 0.0)
    known = found.patterns / live
    first = max(rest / live, float(known[0]) if known.size else 0.0)
    squares = float(known @ known) + rest / live * max(0.0, 1 - float(known.sum()))
    x = np.log(moments.n_samples / _ALARMS)
    most = 1 + 2 * np.sqrt(min(squares, 1.0) * x) + 2 * min(first, 1.0) * x
    return float(most) / moments.n_samples


def _squares(moments: Moments, factors: FloatArray) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return each column's largest standardised square, the sample that has it, and row sums."""
    if sp.issparse(moments.data):
        return _sparse_squares(moments, factors)
    data, mean = moments.native.data, moments.native.mean
    xp = array_namespace(data)
    n, p = moments.n_samples, moments.n_features
    largest, places = np.full(p, -1.0), np.zeros(p, dtype=np.int64)
    rows = np.empty(n)
    here = like(factors, double(mean))
    step = max(1, AT_ONCE // p)
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        squares = ((double(data[part]) - double(mean)) * here) ** 2
        rows[part] = to_host(xp.sum(squares, axis=1))
        highest, place = to_host(xp.max(squares, axis=0)), to_host(xp.argmax(squares, axis=0))
        more = highest > largest
        largest[more], places[more] = highest[more], start + place[more]
    return largest, places, rows


def _sparse_squares(
    moments: Moments, factors: FloatArray
) -> tuple[FloatArray, IntArray, FloatArray]:
    data, mean = without_offsets(moments.data, moments.mean)
    entries = data.tocoo()
    row, column = entries.row, entries.col
    values = entries.data.astype(np.float64)
    scale = factors[column]
    squares = ((values - mean[column]) * scale) ** 2
    zeros = (mean * factors) ** 2  # of values that are not stored
    largest = np.where(np.bincount(column, minlength=mean.size) < data.shape[0], zeros, 0.0)
    np.maximum.at(largest, column, squares)
    # Where no stored value is the largest all zeros are, and any of them will do.
    places = np.zeros(mean.size, dtype=np.int64)
    attained = squares == largest[column]
    places[column[attained]] = row[attained]
    change = squares - zeros[column]
    rows = np.bincount(row, weights=change, minlength=data.shape[0]) + zeros.sum()
    return largest, places, rows


def _far(moments: Moments, columns: IntArray, places: IntArray) -> NDArray[np.bool_]:
    """Tell whether those values are far from the others of their columns, as far as these vary."""
    far = np.zeros(columns.size, dtype=bool)
    data = moments.data.tocsc() if sp.issparse(moments.data) else moments.native.data
    for number, (column, place) in enumerate(zip(columns.tolist(), places.tolist(), strict=True)):
        values = (
            data[:, [column]].toarray()[:, 0] if sp.issparse(data) else to_host(data[:, column])
        )
        distances = np.abs(values.astype(np.float64) - np.median(values))
        others = distances[distances > 0]
        far[number] = others.size > 0 and distances[place] >= FAR * np.median(others)
    return far

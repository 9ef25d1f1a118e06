r"""What is known of a table before any model: its spectrum, how loud features and samples are.

Samples are seen as :math:`Y = P\,\mathrm{diag}(\sqrt w)\,X\,\mathrm{diag}(f)`: X centred, features
multiplied by factors f (1, or what makes them equally long), samples weighted by w (1, or one over
their noise levels), P the projection that takes the mean out again. With
:math:`Y = U\,\mathrm{diag}(\sqrt s)\,V^\top` everything asked for here is

.. math:: s,\qquad (y_j^\top u_i)^2 = s_iv_{ij}^2,\qquad
          \sum_j y_{ij}^2 - \sum_{k\le r} s_ku_{ik}^2 .

The smaller of YYᵀ and YᵀY is decomposed, where the samples are: in memory (sparse ones stay
sparse), on a device, in a file or on a cluster. Of matrices too large for that only the leading
eigenpairs are found, by products, and the other eigenvalues are put at their mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import is_device_array, like, to_host
from jointsparse.eigen.lanczos import LARGEST_GRAM, leading_pairs
from jointsparse.eigen.tridiagonal import Eigenpairs, KnownPairs, eigenpairs
from jointsparse.io.budget import available_memory
from jointsparse.linalg import RANK, array_namespace
from jointsparse.moments import Moments
from jointsparse.operators.dense import DenseSamples
from jointsparse.operators.samples import Samples
from jointsparse.operators.sparse import SparseSamples
from jointsparse.running.workspace import Slot
from jointsparse.solvers.products.gram import centred_in_double
from jointsparse.sources.origin import Origin
from jointsparse.sources.weighting import plain_rows

FIRST_PAIRS, MOST_PAIRS = 32, 512  # leading eigenpairs of a matrix too large to decompose
NOTHING = 1e-10  # of a squared length: what is left of it is rounding
# Entries of a table of which centred and standardised copies are made: 4 MB each, of which two are
# not counted beforehand. Larger tables are looked at through the samples, a tenth longer.
HELD = 2**19
EVEN_COPIES = 4  # arrays as large as the table, in float64, that weighting takes beside batches
EQUAL = 1e-9  # relative difference of lengths below which features are equally long already
FEW = 2**13  # features of whose squares the host takes sums sooner than a device launches them


@dataclass
class Patterns:
    """The spectrum of a table, and what its leading directions leave of features and samples.

    Attributes
    ----------
    n_samples : int
        Number of samples.
    n_features : int
        Number of features that are not constant.
    n_directions : int
        In how many directions samples can vary: one less than their number, or their rank; less
        what batches and copies take (:mod:`jointsparse.sources.origin`).
    squares : ndarray of shape (all features,)
        Squared lengths of the features, 0 for constant ones.
    values : ndarray
        Eigenvalues above rounding, largest first; all, or the leading ones.
    others : tuple of (int, float)
        Number and mean of the eigenvalues that are not known one by one.
    row_variance : float
        Variance that the squared length of a sample would have, relative to its mean squared, if
        samples of equal noise level were made of independent entries; nan without samples.
    origin : Origin or None
        What the rows are; None where each is a sample like all others.
    """

    n_samples: int
    n_features: int
    n_directions: int
    squares: FloatArray
    values: FloatArray
    others: tuple[int, float]
    row_variance: float
    _view: _View
    _pairs: Eigenpairs
    origin: Origin | None = None
    _images: list[Array] = field(default_factory=list)
    _row_images: tuple[int, FloatArray | float] = (0, 0.0)  # of how many directions, and their sum

    @cached_property
    def leverages(self) -> FloatArray:
        """Σ_i x_ij⁴ / (Σ_i x_ij²)², from 1/n where all samples hold as much to 1 where one has all.

        0 for constant features, and for all without samples.
        """
        return self._view.leverages()

    @cached_property
    def varying(self) -> NDArray[np.bool_] | slice:
        """Which features are not constant; all of them need no copy."""
        return slice(None) if self.n_features == self.squares.size else self.squares > 0

    @cached_property
    def _squares(self) -> Array:
        return self.squares if self.squares.size <= FEW else like(self.squares, self._view.factors)

    def images(self, count: int) -> Array:
        """Return (y_jᵀu_i)² for every feature j, first ``count`` directions i; on its device."""
        parts = self._parts(count)
        return parts[0] if len(parts) == 1 else array_namespace(parts[0]).concat(parts, axis=1)

    def _parts(self, count: int) -> list[Array]:
        """Return the same in parts, as they were asked for: those known before are kept."""
        known = sum(part.shape[1] for part in self._images)
        if known < count or not self._images:
            axes = self._pairs.leading(known, count)
            self._images.append(self._view.images(axes, self.values[known:count]))
        parts, left = [], count
        for part in self._images:
            parts.append(part[:, :left])
            left -= parts[-1].shape[1]
        return parts

    def residual_squares(self, count: int) -> Array:
        """Return what they leave of each feature's squared length.

        On the device of the samples; on the host of few features.
        """
        if count == 0:
            return self._squares
        along = sum(part.sum(axis=1) for part in self._parts(count))
        left = self._squares - (to_host(along) if self.squares.size <= FEW else along)
        return left * (left > NOTHING * self._squares)

    @property
    def has_rows(self) -> bool:
        """Whether samples are at hand."""
        return self._view.rows is not None

    @property
    def known_levels(self) -> FloatArray:
        """Noise levels of the samples, of mean 1, if nothing but weights makes them differ."""
        return np.ones(1) if self.origin is None else self.origin.levels

    def residual_rows(self, count: int) -> FloatArray | None:
        """Return what they leave of each sample's squared length; None without samples.

        Of noise in equal samples these are alike, whatever batches left of a row.
        """
        rows = self._view.rows
        if rows is None:
            return None
        known, images = self._row_images
        if count < known:
            known, images = 0, 0.0
        if count > known:
            axes = self._pairs.leading(known, count)
            images = images + self._view.row_images(axes, self.values[known:count])
        self._row_images = (count, images)
        left = rows - images
        left = np.where(left > NOTHING * (float(rows.sum()) / rows.size), left, 0.0)
        return left if self.origin is None else self.origin.lengths(left)


class _View:
    """Y through whichever is smaller, YYᵀ or YᵀY, where the samples are."""

    def __init__(
        self,
        moments: Moments,
        samples: Samples | None,
        factors: FloatArray,
        weights: FloatArray | None,
        mean: FloatArray | None,
        *,
        even: bool = False,
    ) -> None:
        home = moments.native.scatter if samples is None else samples.empty
        self.host_factors, self.factors = factors, like(factors, home)
        self.weighted = even or weights is not None
        n, p = moments.n_samples, moments.n_features
        self.by_rows = samples is not None and (p > n or moments.elsewhere)
        self.moments_scatter = None if self.by_rows else moments.native
        self.plain = moments.variances
        self.rows: FloatArray | None = None
        self.fourth = np.zeros(p)  # Σ_i (f_jx_ij)⁴ for every feature
        self.samples: Any = None
        if samples is not None:
            small = not even or n * p <= HELD
            if isinstance(samples, DenseSamples) and samples.is_held and small:
                self._hold(samples, weights, mean)
            else:
                self._look(moments, samples, weights, mean)

    def _hold(
        self, samples: DenseSamples, weights: FloatArray | None, mean: FloatArray | None
    ) -> None:
        """Make Y an array: of a small table it costs less than looking through X at every step."""
        centred = samples.array if mean is None else samples.array - mean
        Y = centred * self.host_factors
        if weights is not None:
            Y *= np.sqrt(weights)[:, None]
        self.samples, squares = DenseSamples(Y), Y * Y
        self.rows = np.einsum("ij->i", squares)
        self.fourth = np.einsum("ij,ij->j", squares, squares)

    def _look(
        self,
        moments: Moments,
        samples: Samples,
        weights: FloatArray | None,
        mean: FloatArray | None,
    ) -> None:
        """Look at Y through X."""
        factors, home = self.host_factors, samples.empty
        self.samples = samples.scaled(self.factors)
        if self.weighted and weights is None:  # those of a copy, which nobody else asks for
            self.rows, self.fourth = map(to_host, self.samples.powers())
            return
        self.rows, self.fourth = _powers(moments, self.samples, factors)
        if weights is None or mean is None:
            return
        centre = mean * factors
        cross = self.samples.times(like(centre, home)[:, None])[:, 0]
        around = self.rows - 2 * to_host(cross) + float(centre @ centre)
        self.rows = np.maximum(weights * around, 0.0)
        weighted = samples.reweighted(like(weights, home), like(mean, home))
        self.samples = weighted.scaled(self.factors)

    def row_variance(self, squares: FloatArray, total: float) -> float:
        """Return the relative variance of Σ_j y_ij² for independent entries of equal level."""
        if self.samples is None or not total > 0:
            return np.nan
        n = self.samples.shape[0]
        return float(n * self.fourth.sum() - squares @ squares) / total**2

    def leverages(self) -> FloatArray:
        """Return Σ_i x_ij⁴ / (Σ_i x_ij²)² of samples that are not weighted."""
        below = (self.host_factors**2 * self.plain) ** 2
        return np.divide(self.fourth, below, out=np.zeros_like(below), where=below > 0)

    def matrix(self, unit: float) -> Array:
        """Return YYᵀ or YᵀY, divided by a number; an array of its own."""
        if self.samples is not None and (self.by_rows or self.weighted):
            return (self.samples.gram() if self.by_rows else self.samples.scatter()) / unit
        assert self.moments_scatter is not None
        return self.moments_scatter.scatter * (self.factors[:, None] * (self.factors / unit))

    def product(self, vectors: FloatArray) -> FloatArray:
        """Return the matrix times vectors, without forming it."""
        thin = vectors.reshape(len(vectors), -1)
        if self.samples is not None:
            Y = self.samples
            image = Y.times(Y.transposed_times(thin)) if self.by_rows else Y.scatter_times(thin)
        else:
            assert self.moments_scatter is not None
            image = self.moments_scatter.scatter @ (self.factors[:, None] * thin)
            image = self.factors[:, None] * image
        return np.asarray(image.reshape(vectors.shape))

    def images(self, axes: Array, values: FloatArray) -> Array:
        """Return (y_jᵀu_i)² for eigenvectors of the matrix."""
        if not values.size:
            return like(np.zeros((self.factors.shape[0], 0)), axes)
        if self.by_rows:
            return self.samples.transposed_times(axes) ** 2
        return axes**2 * like(values, axes)

    def row_images(self, axes: Array, values: FloatArray) -> FloatArray:
        """Return Σ_i s_iu_ki² for every sample k."""
        if self.by_rows:
            return to_host(axes**2) @ values
        return to_host((self.samples.times(axes) ** 2).sum(axis=1))


def patterns_of(
    moments: Moments,
    *,
    standardised: bool,
    levels: FloatArray | None = None,
    pairs: int = FIRST_PAIRS,
) -> Patterns:
    """Return the spectrum of a table.

    Parameters
    ----------
    moments : Moments
        The table.
    standardised : bool
        Whether features are first made equally long: squares that add up to n.
    levels : ndarray of shape (n_samples,) or None
        Noise levels of the samples, which are divided by their square roots; None takes samples
        as they are.
    pairs : int
        How many eigenpairs to find where the matrix is too large for all.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import Moments
    >>> from jointsparse.solvers.picking.patterns import patterns_of
    >>> X = np.random.default_rng(0).standard_normal((50, 3)) * [1, 10, 100]
    >>> patterns = patterns_of(Moments.from_data(X), standardised=True)
    >>> float(patterns.values.sum().round(6)), patterns.n_directions
    (150.0, 49)
    """
    samples, origin = centred_samples(moments), charged(moments)
    weights = mean = None
    if levels is not None and samples is not None:
        weights = _rows_over(moments, levels)
    if origin is not None and weights is not None:
        origin = origin.reweighted(weights)
    even = origin is not None and (origin.mixed or (weights is not None and not origin.is_even))
    even = even and samples is not None and can_be_evened(moments)
    if origin is not None and even:
        samples, weights = _even_samples(moments, origin), None
        squares = to_host(samples.squared_lengths())
        squares[(moments.variances == 0) | (squares <= RANK * moments.variances)] = 0.0
    else:
        squares, mean = _squares(moments, samples, weights)
    live = squares > 0
    factors = live.astype(np.float64)
    if standardised:
        factors = _standardising(squares, moments.n_samples)
        squares = moments.n_samples * live.astype(np.float64)
    view = _View(moments, samples, factors, weights, mean, even=even)
    if origin is not None and origin.mixed and not even:
        view.rows = None  # they are mixtures, which hide the loudest
    total = float(squares.sum())
    values, found, complete = _eigenpairs(moments, view, total, pairs)
    n, p = moments.n_samples, int(np.count_nonzero(live))
    n_directions = directions_of(moments)
    if complete and p >= n and 2 * values.size >= n_directions - 1:
        # Directions that were taken out of all samples (groups that were centred one by one), and
        # samples that are there twice, do not vary. A table of very low rank is structure instead.
        n_directions = min(n_directions, max(values.size, 1))
    count = 0 if complete else max(min(n_directions, p) - values.size, 0)
    others = (count, max(total - float(values.sum()), 0.0) / count) if count else (0, 0.0)
    spread = view.row_variance(squares, total)
    return Patterns(n, p, n_directions, squares, values, others, spread, view, found, origin)


def _standardising(squares: FloatArray, n_samples: int) -> FloatArray:
    """Return what features are multiplied by to be equally long; 0 for constant ones."""
    live = squares > 0
    factors = np.zeros(squares.size)
    return np.sqrt(np.divide(n_samples, squares, out=factors, where=live), out=factors)


SAMPLES: Slot[Samples] = Slot("centred samples")
POWERS: Slot[tuple[FloatArray, FloatArray]] = Slot("powers of standardised samples")


# Eigenpairs of XXᵀ divided by a number, and the number, where there are more features than samples.
ROW_PAIRS: Slot[tuple[Eigenpairs, float]] = Slot("eigenpairs of rows")


def charged(moments: Moments) -> Origin | None:
    """Return what the rows are; None where each is a sample like all others."""
    origin = moments.origin
    return None if origin is None or origin.is_usual or origin.unknown else origin


def directions_of(moments: Moments) -> int:
    """Return in how many directions noise would vary: n - 1, less what batches and copies take."""
    origin = charged(moments)
    return max(moments.n_samples - 1, 1) if origin is None else origin.n_directions


def can_be_evened(moments: Moments) -> bool:
    """Whether samples can be weighted by their levels: not where a copy of them has no place."""
    origin = charged(moments)
    if origin is None or origin.is_even:
        return True
    needed = EVEN_COPIES * 8 * moments.n_samples * moments.n_features
    return not moments.elsewhere and needed <= available_memory()


def weights_of(moments: Moments, levels: FloatArray) -> FloatArray:
    """Return one over the levels of samples, of mean 1, for each row."""
    weights = _rows_over(moments, levels)
    return np.asarray(weights / weights.mean())


def _rows_over(moments: Moments, levels: FloatArray) -> FloatArray:
    origin = charged(moments)
    return 1 / levels if origin is None else origin.weights / origin.for_rows(levels)


def _even_samples(moments: Moments, origin: Origin) -> DenseSamples:
    """Return the samples with other weights, around the means of their batches."""
    rows = to_host(moments.data).astype(np.float64) - moments.mean
    assert moments.origin is not None
    centred = origin.centred(plain_rows(rows, moments.origin))
    home = moments.data
    return DenseSamples(like(centred, home) if is_device_array(home) else centred)


def centred_samples(moments: Moments) -> Samples | None:
    """Return the centred samples where they are; None where only their sums are known."""
    if not moments.has_samples:
        return None
    return moments.workspace.kept(SAMPLES, lambda: _operator(moments))


def _operator(moments: Moments) -> Samples:
    if moments.elsewhere:
        elsewhere: Samples = moments.data
        return elsewhere
    if sp.issparse(moments.data):
        return SparseSamples(moments.data, moments.mean)
    if not is_device_array(moments.data) and moments.data.size <= HELD:
        return DenseSamples(centred_in_double(moments))
    return DenseSamples(moments.native.data, moments.native.mean)


def _powers(
    moments: Moments, samples: Samples, factors: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return Σ_j y_ij² of every sample and Σ_i (f_jx_ij)⁴ of every feature, by these factors.

    Fourth powers are summed once, of standardised features, which are of one size: in any other
    unit they follow.
    """
    usual = _standardising(moments.variances, moments.n_samples)
    same = np.array_equal(factors, usual)

    def both() -> tuple[FloatArray, FloatArray]:
        standard = samples if same else _operator(moments).scaled(like(usual, samples.empty))
        rows, fourth = standard.powers()
        return to_host(rows), to_host(fourth)

    rows, fourth = moments.workspace.kept(POWERS, both)
    if same:
        return rows, fourth
    ratio = np.divide(factors, usual, out=np.zeros_like(usual), where=usual > 0)
    return to_host(samples.row_squares()), fourth * ratio**4


def _squares(
    moments: Moments, samples: Samples | None, weights: FloatArray | None
) -> tuple[FloatArray, FloatArray | None]:
    """Return the squared lengths of the features of weighted samples around their mean; and it."""
    plain = moments.variances
    if samples is None or weights is None:
        return plain, None
    here = like(weights, samples.empty)
    around = to_host(samples.weighted_squares(here))
    mean = to_host(samples.transposed_times(here[:, None]))[:, 0] / weights.sum()
    squares = around - weights.sum() * mean**2
    # A feature that varies in samples of no weight alone is constant in the others.
    return np.where((plain > 0) & (squares > RANK * around), squares, 0.0), mean


def _eigenpairs(
    moments: Moments, view: _View, total: float, pairs: int
) -> tuple[FloatArray, Eigenpairs, bool]:
    """Return eigenvalues above rounding, largest first, eigenpairs, and whether it is all."""
    size = moments.n_samples if view.by_rows else moments.n_features
    if not total > 0:
        return np.zeros(0), KnownPairs(np.zeros(0), np.zeros((size, 0))), True
    if size > LARGEST_GRAM and not is_device_array(view.factors):
        values, axes = leading_pairs(size, view.product, pairs)
        return values, KnownPairs(values[::-1], axes[:, ::-1]), False
    found: Eigenpairs
    scale = None if view.weighted else _common(view.host_factors)
    unit = total
    if scale is not None and view.by_rows:
        found, trace = moments.workspace.kept(
            ROW_PAIRS, lambda: (eigenpairs(view.matrix(total)), total / scale**2)
        )
        unit = trace * scale**2
    elif scale is not None:  # the spectrum that solvers ask for, too
        found, trace = moments.native.eigenpairs()
        unit = trace * scale**2
    elif is_device_array(moments.data) and not (view.by_rows or view.weighted):
        # Features of equal length: the correlations, which the greedy rule decomposes, too.
        found, unit = KnownPairs(*moments.native.correlation_spectrum[1:]), moments.n_samples
    else:
        found = eigenpairs(view.matrix(total))
    ascending = to_host(found.values)
    first = ascending.size - int(np.count_nonzero(ascending > RANK * ascending[-1]))
    return ascending[first:][::-1] * unit, found, True


def _common(factors: FloatArray) -> float | None:
    """Return the one factor of all features that are not constant; None where they differ."""
    live = factors[factors > 0]
    least = float(live.min())
    return least if float(live.max()) - least <= EQUAL * least else None

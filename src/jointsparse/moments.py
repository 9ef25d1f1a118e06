r"""The one door data comes in by: samples become a count, a mean and a scatter matrix.

.. math:: n,\qquad \mu = \frac1n\sum_i x_i,\qquad S = \sum_i (x_i-\mu)(x_i-\mu)^\top

Samples come from a :class:`Source`, block by block; the caller's array is never changed, and a fit
does not copy it. All sums are accumulated in float64 whatever the type of the data.
"""

from __future__ import annotations

import math
from copy import copy as shallow_copy
from functools import cached_property, partial
from numbers import Integral
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.device import checked_samples, is_device_array, kept_type, to_host
from jointsparse.eigen.tridiagonal import Eigenpairs, KnownPairs, eigenpairs
from jointsparse.incomplete import Estimate, MissingValues
from jointsparse.io.errors import table_error
from jointsparse.linalg import Spectrum, positive_part
from jointsparse.numerics.semidefinite import Checked, checked_scatter
from jointsparse.numerics.variance import check_variance as check_variance
from jointsparse.numerics.variance import mean_is_small, mean_seems_small, standard_deviations
from jointsparse.operators.dense import DenseSamples, scaled_columns
from jointsparse.operators.device_moments import DeviceMoments, single_is_safe
from jointsparse.operators.samples import NeedsSamplesError, Samples
from jointsparse.operators.sparse import live_columns
from jointsparse.preparation import Prepared, prepared, with_holes
from jointsparse.robust import learning
from jointsparse.running.workspace import Slot, Workspace
from jointsparse.sources import Source, as_source
from jointsparse.sources.door import as_samples, how_moments_estimate, own
from jointsparse.sources.in_memory import ArraySource
from jointsparse.sources.origin import Origin
from jointsparse.sources.refusals import bytes_for_moments as bytes_for_moments
from jointsparse.sources.refusals import check_memory
from jointsparse.sources.refusals import not_finite as not_finite
from jointsparse.sources.sums import (
    NotFiniteError,
    add_halves,
    add_sums,
    fold_halves,
    fold_sums,
    half_of,
    mean_of,
    squares_around,
)
from jointsparse.sources.weighting import Batches

EXTREME = 120  # binary exponent of a spread whose fourth power is near the limits
# What is kept until samples are added.
DERIVED = ["variances", "total_variance", "_pairs", "spectrum", "thin_spectrum", "centred_data"]
DERIVED += ["_mean_seems_small"]
NEAR_ONE: Slot[Moments] = Slot("near one")


class Moments:
    """Count, mean and scatter matrix of a set of samples.

    Moments of disjoint sets can be added, and methods be fitted from them (``fit_moments``).

    Parameters
    ----------
    n_samples : int
        Number of samples n.
    mean : ndarray of shape (n_features,)
        Mean μ.
    scatter : ndarray of shape (n_features, n_features) or None
        Scatter matrix S (n - 1 times the covariance matrix), refused where it can be none; None
        computes it from ``data`` when it is first asked for.
    feature_names : sequence of str or None
        Names of the columns, where the data had any.
    data : ndarray or sparse matrix of shape (n_samples, n_features) or None
        The samples themselves, where they are at hand. Kept as a reference, not copied.
    halves : tuple of two Moments or None
        Moments of two random halves of samples that are not at hand, by which to judge a selection.

    Attributes
    ----------
    dtype : numpy.dtype
        Type in which methods keep what they learn, as scikit-learn's do: float32 where the samples
        are, float64 otherwise. Mean and scatter matrix are float64 in any case.
    repair_change : float
        How far ``repair`` moved the scatter matrix, as a share of its Frobenius norm; otherwise 0.
    missing : MissingValues or None
        What was missing, and what was done about it; None where nothing was.
    batches : Batches or None
        What lay between batches and was taken out; None without batches.
    origin : Origin or None
        What the rows of the table are; None where each is a sample like all others.
    scale : {None, "standard", "robust"}
        How a selector scaled the features.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import Moments
    >>> X = np.arange(12.0).reshape(6, 2) ** 2
    >>> whole = Moments.from_data(X)
    >>> parts = Moments.from_data(X[:2]) + Moments.from_data(X[2:])
    >>> bool(np.allclose(whole.scatter, parts.scatter)), parts.n_samples
    (True, 6)
    """

    def __init__(
        self,
        n_samples: int,
        mean: FloatArray,
        scatter: FloatArray | Checked | None = None,
        feature_names: Any = None,
        *,
        data: Any = None,
        halves: tuple[Moments, Moments] | None = None,
    ) -> None:
        if scatter is None and data is None:
            raise ValueError("moments need a scatter matrix or samples to compute it from")
        if scatter is not None and not isinstance(scatter, Checked):
            scatter = checked_scatter(np.asarray(scatter), n_samples)
        self.n_samples, self.mean = n_samples, mean
        self.feature_names, self.halves = feature_names, halves
        self.mixed = False  # whether the samples are sums of others, rounded beside their mean
        self.dtype = kept_type(getattr(data, "dtype", None))
        self.workspace = Workspace()  # what methods derive from these moments and need again
        self.robust: learning.Robust | None = None  # how the samples were made robust
        self.labels: Any = None  # classes of the samples, for the methods that want them
        self.missing: MissingValues | None = None
        self.batches: Batches | None = None
        self.origin: Origin | None = None
        self.scale: str | None = None
        self._scatter: FloatArray | None
        self._scatter, self.repair_change = scatter or (None, 0.0)
        self._data = data
        self._device = DeviceMoments(data) if is_device_array(data) else None

    def with_labels(self, labels: Any) -> Moments:
        """Return the same moments with other classes of the samples; nothing is copied.

        Parameters
        ----------
        labels : ndarray of shape (n_samples,) or None
            Class of each sample.
        """
        other = shallow_copy(self)
        other.labels = labels
        return other

    @property
    def native(self) -> Any:
        """The same arrays where the samples are: on their device; these moments for NumPy.

        Kernels that run in any array namespace take their input from here. Everything else of a
        ``Moments`` is NumPy, wherever it was computed.
        """
        return self if self._device is None else self._device

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.mean.shape[0])

    @property
    def scatter(self) -> FloatArray:
        """Scatter matrix, computed when first asked for: p × p."""
        if self._scatter is None and self._device is not None:
            self._scatter = to_host(self._device.scatter)
        if self._scatter is None and self._mean_seems_small:
            raw = self._data.T @ self._data  # half the work, as it is symmetric
            if mean_is_small(self.mean, np.diagonal(raw), self.n_samples):
                mean = self.n_samples**0.5 * self.mean  # so that it stays symmetric to the digit
                raw -= np.outer(mean, mean)
                self._scatter = raw
        if self._scatter is None:
            sums = ArraySource(self._data).reduce(fold_sums, add_sums)
            assert sums is not None
            self._scatter = sums.complete()
        return self._scatter

    @cached_property
    def _mean_seems_small(self) -> bool:
        return mean_seems_small(self._data, self.mean)

    @cached_property
    def total_variance(self) -> float:
        """Trace of the scatter matrix."""
        return float(np.sum(self.variances))

    @cached_property
    def variances(self) -> FloatArray:
        """Diagonal of the scatter matrix, exactly 0 for constant features."""
        if self._scatter is not None:
            return np.diagonal(self._scatter).copy()
        if self._device is not None:
            return to_host(self._device.variances)
        if self._mean_seems_small:
            squares = np.einsum("ij,ij->j", self._data, self._data)
            if mean_is_small(self.mean, squares, self.n_samples):
                return np.asarray(squares - self.n_samples * self.mean**2)
        return squares_around(ArraySource(self._data), self.mean)

    @property
    def has_samples(self) -> bool:
        """Whether the samples themselves are at hand."""
        return self._data is not None

    @property
    def elsewhere(self) -> bool:
        """Whether only products with the samples can be had: in a large file, or on a cluster."""
        return isinstance(self._data, Samples)

    @property
    def is_wide(self) -> bool:
        """Whether there are more features than samples, in whose space kernels work then."""
        return self.has_samples and self.n_features > self.n_samples

    @property
    def data(self) -> Any:
        """The samples as they came, dense or sparse; None where only their moments are known."""
        return self._data

    @cached_property
    def spectrum(self) -> Spectrum:
        """Eigendecomposition of the scatter matrix, all p vectors."""
        if self._device is not None:
            return self._device.spectrum.on_host()
        pairs, trace = self.eigenpairs()
        values, vectors = pairs.everything()
        del self._pairs  # as large as the vectors, which have it all
        return Spectrum(positive_part(values), vectors, trace)

    def eigenpairs(self) -> tuple[Eigenpairs, float]:
        """Return the eigenpairs of the scatter matrix over its trace, as asked for; the trace."""
        if "spectrum" in self.__dict__:
            return KnownPairs(self.spectrum.values, self.spectrum.vectors), self.spectrum.trace
        return self._pairs

    @cached_property
    def _pairs(self) -> tuple[Eigenpairs, float]:
        trace = float(np.trace(self.scatter))
        return eigenpairs(self.scatter / trace), trace

    @cached_property
    def thin_spectrum(self) -> Spectrum:
        """The same without any p × p matrix where there are more features than samples."""
        if self.is_wide:
            if self._device is not None:
                return self._device.thin_spectrum.on_host()
            if sp.issparse(self._data):
                samples = live_columns(self._data, self.mean, self.variances)
                return Spectrum.of_rows(samples.gram(), samples.transposed_times)
            return Spectrum.thin(self.centred_data)
        return self.spectrum

    @cached_property
    def centred_data(self) -> NDArray[Any]:
        """The samples with the mean taken off: a dense n × p copy.

        float32 stays float32, unless its squares would underflow or overflow.
        """
        if self._data is None:
            raise NeedsSamplesError(
                "this needs the samples themselves, not only their scatter matrix: fit it with "
                "fit(X), or with moments from Moments.from_data(X)"
            )
        if self._device is not None:
            return to_host(self._device.centred_data)
        dense = self._data.toarray() if sp.issparse(self._data) else np.asarray(self._data)
        if dense.dtype == np.float32 and not single_is_safe(self.total_variance / dense.size):
            dense = dense.astype(np.float64)
        centred: NDArray[Any] = DenseSamples(dense, self.mean).dense()
        centred[:, self.variances == 0] = 0.0
        return centred

    @classmethod
    def from_data(
        cls,
        X: Any,
        *,
        sample_weight: Any = None,
        batch: Any = None,
        missing: str = "error",
        robust: str | None = None,
        copy: bool = True,
    ) -> Self:
        """Compute the moments of samples.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or memmap of shape (n_samples, n_features)
            Samples, one per row. Never modified, nor made dense; tensors stay on their device. A
            source, or the path of a file or folder, is read once, block by block, and not kept.
        sample_weight : array-like of shape (n_samples,) or None
            Weights, at least 0. Whole numbers are counts: a sample of weight 2 is there twice, one
            of weight 0 is not. Others are divided by their mean: only their ratios matter. Where
            patterns are told from noise a sample counts once, however often it is there.
        batch : array-like of shape (n_samples,) or None
            Which samples were measured together: the scatter *within* batches is computed, and
            ``batches`` tells what lay between them.
        missing : {"error", "mean", "pairwise", "em"}, default="error"
            Refuse missing values (NaN), replace them by the mean of their column, or estimate the
            scatter matrix from what is there: from pairs, or by maximum likelihood. Of estimates
            the samples are not kept, and ``n_samples`` is the number of complete samples that would
            tell as much.
        robust : {None, "samples", "cells"}, default=None
            Bound what outliers can do first, as :class:`SpatialSign` or :class:`Wrap` does with
            units="original"; with neither weights nor batches nor missing values.
        copy : bool, default=True
            Whether samples in memory are copied: they are looked at later, and may have changed.
        """
        if sample_weight is not None or batch is not None or missing != "error":
            learning.refuse_with_robust(robust, sample_weight=sample_weight, batch=batch)
            options = {"sample_weight": sample_weight, "batch": batch, "missing": missing}
            if is_device_array(X):
                samples = checked_samples(X, missing=missing != "error")
                return cls.of_prepared(prepared(samples, **options), copy=copy)
            source = with_holes(X)
            return cls.of_prepared(prepared(source, **options), source.feature_names, copy=copy)
        if robust is not None:
            X, how = learning.robust_samples(X, robust, comparable=False)
            moments = cls.from_data(X, copy=copy)
            return moments.made_robust(how)
        if is_device_array(X):
            samples = checked_samples(X)
            device = DeviceMoments(own(samples) if copy else samples)
            moments = cls(device.n_samples, to_host(device.mean), data=device.data)
            moments._device = device
            return moments
        source = as_source(X, how_moments_estimate)
        if source.array is None:
            return cls.from_source(source)
        n_samples, mean = mean_of(source)
        data = own(source.array) if copy else source.array
        return cls(n_samples, mean, None, source.feature_names, data=data)

    @classmethod
    def of_prepared(cls, table: Prepared, feature_names: Any = None, *, copy: bool = False) -> Self:
        """Take what weights, batches and missing values were made into."""
        if table.estimate is None:
            moments = cls.from_data(table.samples, copy=copy)
        else:
            moments = cls._of_estimate(table.estimate)
        moments.missing, moments.batches = table.missing, table.batches
        moments.mixed = table.mixed or table.batches is not None
        moments.feature_names = feature_names
        return moments.made_of(table.origin)

    def made_of(self, origin: Origin | None) -> Self:
        """Note what the rows are, and those of two halves; return these moments."""
        self.origin = origin
        if origin is not None and self.halves and origin.is_single:
            first = half_of(0, origin.sample.size)
            for half, rows in zip(self.halves, (first, ~first), strict=True):
                half.origin = origin.of(np.flatnonzero(rows))
        return self

    def made_robust(self, how: learning.Robust) -> Self:
        """Note how the samples were made robust; return these moments."""
        self.robust = how
        if how.rule.kind == "samples":
            self.origin = Origin.of_rows(self.n_samples, shrunk=True)
        return self

    @classmethod
    def _of_estimate(cls, found: Estimate) -> Self:
        halved = found.halves
        halves = halved and (cls._of_estimate(halved[0]), cls._of_estimate(halved[1]))
        scatter = Checked(found.scatter, found.told.repair_change)
        return cls(found.told.n_samples, found.mean, scatter, halves=halves)

    @classmethod
    def from_source(cls, source: Source, *, offset: int = 0) -> Self:
        """Compute the moments of samples, and of two random halves of them, in one pass.

        Parameters
        ----------
        source : Source
            Samples; read once, and not kept.
        offset : int
            How many samples came before these, so that they are cut in half as one whole.
        """
        check_memory(source)
        try:
            halves = source.reduce(partial(fold_halves, offset=offset), add_halves)
        except NotFiniteError as error:
            raise not_finite(source, error) from error
        if halves is None:
            raise table_error(source.name, "has no rows.")
        whole = sum(halves[1:], start=halves[0])
        names = source.feature_names
        one, other = (Moments(h.n, h.mean, Checked(h.complete()), names) for h in halves)
        scatter = Checked(whole.complete())
        moments = cls(whole.n, whole.mean, scatter, names, halves=(one, other))
        moments.dtype = kept_type(source.dtype)
        return moments

    @classmethod
    def from_scatter(
        cls, scatter: Any, n_samples: int, feature_names: Any = None, *, repair: str | None = None
    ) -> Self:
        """Take a scatter, covariance or correlation matrix as it is (mean zero).

        Every relative penalty is free of the scale of the matrix; absolute penalties refer to the
        matrix given here.

        Parameters
        ----------
        scatter : array-like or data frame of shape (n_features, n_features)
            Symmetric, without a negative eigenvalue.
        n_samples : int
            How many samples it was computed from.
        feature_names : sequence of str or None
            Names of the features; those of the data frame by default.
        repair : {None, "nearest"}
            What to do about negative eigenvalues that are more than rounding (matrices of
            pairwise correlations and rounded ones often have some): refuse the matrix, or take the
            nearest one without them in the Frobenius norm, of a correlation matrix the nearest
            with a unit diagonal. ``repair_change`` tells how far that is.
        """
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} is not a whole number of at least 1")
        matrix, names = as_samples(scatter, sparse=False)
        names = names if feature_names is None else feature_names
        found = checked_scatter(matrix, int(n_samples), repair)
        return cls(int(n_samples), np.zeros(len(matrix)), found, names)

    def __add__(self, other: Moments) -> Moments:
        if self.n_features != other.n_features:
            counts = f"{self.n_features} and of {other.n_features}"
            raise ValueError(f"moments of {counts} features cannot be added")
        if self.n_samples == 0 or other.n_samples == 0:  # half of one sample
            return other if self.n_samples == 0 else self
        n = self.n_samples + other.n_samples
        shift = other.mean - self.mean
        # The pairwise update of Chan, Golub and LeVeque: no difference of large numbers.
        between = np.outer(shift, shift) * (self.n_samples * other.n_samples / n)
        mean = self.mean + shift * (other.n_samples / n)
        halves = None
        if self.halves and other.halves:
            halves = (self.halves[0] + other.halves[0], self.halves[1] + other.halves[1])
        scatter = Checked(self.scatter + other.scatter + between)
        total = Moments(n, mean, scatter, self.feature_names, halves=halves)
        total.dtype = np.result_type(self.dtype, other.dtype)
        total.robust = learning.joined(self.robust, other.robust)
        if self.origin or other.origin:
            own, more = (m.origin or Origin.of_rows(m.n_samples) for m in (self, other))
            total.origin = own.plus(more)
        return total

    def partial_fit(self, X: Any) -> Self:
        """Add more samples, in place.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix, source or path
            Samples with the same features. Not kept.
        """
        source = as_source(to_host(X) if is_device_array(X) else X)
        source, how = learning.like_before(source, self.robust)
        known: Moments = self
        if self._data is not None:
            values = self._data if self._device is None else to_host(self._data)
            known = Moments.from_source(ArraySource(values)).made_of(self.origin)
        more = Moments.from_source(source, offset=self.n_samples)
        more.robust = how if known is self else None
        total = known + more
        self.n_samples, self.mean, self._scatter = total.n_samples, total.mean, total.scatter
        self.halves, self._data, self._device = total.halves, None, None
        self.missing = self.batches = self.scale = None
        self.origin = total.origin
        self.workspace = Workspace()  # not emptied: moments with other labels share it
        self.robust, self.labels, self.dtype = how, None, total.dtype
        for kept in DERIVED:
            self.__dict__.pop(kept, None)
        return self

    def scaled(self, factors: FloatArray) -> Moments:
        """Return the moments of the features multiplied by factors; no sample is read again."""
        if not np.all(np.isfinite(factors)):
            raise ValueError("factors has a value that is missing or infinite")
        half = self.halves
        halves = half and (half[0].scaled(factors), half[1].scaled(factors))
        scatter = self._scatter
        known = None if scatter is None else Checked(scatter * factors * factors[:, None])
        data = None if self._data is None else scaled_columns(self._data, factors)
        mean, names = self.mean * factors, self.feature_names
        scaled = Moments(self.n_samples, mean, known, names, data=data, halves=halves)
        if self.elsewhere:  # no pass over them for what is known
            scaled.__dict__["variances"] = self.variances * factors * factors
        scaled.missing, scaled.batches, scaled.mixed = self.missing, self.batches, self.mixed
        scaled.origin = self.origin
        return scaled

    @property
    def near_one(self) -> Moments:
        """The same in a unit in which fourth powers neither underflow nor overflow.

        These moments themselves, but for data of extreme size, which are divided by a power of two:
        no digit changes. For kernels whose results do not depend on the unit.
        """
        exponent = (math.frexp(self.total_variance)[1] + 1) // 2  # of the root
        if abs(exponent) < EXTREME:
            return self  # never kept: what refers to itself, samples and all, waits for a collector
        factors = np.full(self.n_features, 2.0**-exponent)
        return self.workspace.kept(NEAR_ONE, lambda: self.scaled(factors))

    def standardised(self) -> Moments:
        """Return the moments of the features divided by their standard deviations.

        Examples
        --------
        >>> import numpy as np
        >>> from jointsparse import Moments
        >>> X = np.random.default_rng(0).standard_normal((100, 2)) * [1, 1000]
        >>> Moments.from_data(X).standardised().variances.round(6).tolist()
        [100.0, 100.0]
        """
        deviations = standard_deviations(self.variances, self.n_samples)
        return self.scaled(1 / np.where(deviations > 0, deviations, 1.0))

    def __repr__(self) -> str:
        return f"Moments(n_samples={self.n_samples}, n_features={self.n_features})"

r"""What a kernel may ask of the samples X (n × p), wherever they are: a few products, never a copy.

X is centred, X = R - 1μᵀ, and may be the rows of a table in memory, on a device, in a file or on a
cluster, dense or sparse. Every kernel asks by the words of :class:`Samples`; none looks at what is
behind them. One file for each home of the data defines them:

* :mod:`~jointsparse.operators.dense`: arrays of any namespace, in memory or on a device;
* :mod:`~jointsparse.operators.sparse`: matrices of SciPy, never made dense;
* :mod:`~jointsparse.operators.blocks`: blocks of columns that are elsewhere, in a file
  (:mod:`jointsparse.sources.files.samples`) or on a cluster
  (:mod:`jointsparse.sources.dask.samples`).

Features in another unit (``scaled``), some of them (``columns``) and weighted samples about another
centre (``reweighted``) are samples again. Results are float64 whatever the data are stored in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace, blocks, double


class NeedsSamplesError(ValueError):
    """Samples are asked for of which only sums were kept."""


class Samples:
    """Centred samples X. What raises here is defined by each home.

    Attributes
    ----------
    shape : tuple of (int, int)
        n and p.
    dtype : dtype
        Type of solutions: float32 where the samples are, float64 otherwise.
    home : {"memory", "device", "file", "cluster"}
        Where the samples are kept.
    is_sparse : bool
        Whether products cost much less than n × p, so that iterations are better than matrices.
    empty : array of shape (n_features, 0)
        Its dtype is that of solutions, its namespace and device those of results.
    """

    shape: tuple[int, int]
    dtype: Any
    home: str
    is_sparse = False
    empty: Array
    _kept_gram: Array = None

    @property
    def is_array(self) -> bool:
        """Whether X is dense and at hand, so that a dense array costs no more than it does."""
        return not (self.is_sparse or self.is_elsewhere)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the samples are in a file or on a cluster, where each product costs a pass."""
        return self.home in ("file", "cluster")

    @property
    def held_bytes(self) -> int:
        """What the samples take in memory here: an array as it was read, centred, and in part."""
        n, p = self.shape
        return 3 * n * p * self.dtype.itemsize if self.is_array else 0

    @property
    def xp(self) -> Any:
        """The functions for arrays of results."""
        return array_namespace(self.empty)

    def times(self, columns: Array) -> Array:
        """Return XU (n × k) for a p × k array U."""
        raise NotImplementedError  # pragma: no cover

    def transposed_times(self, rows: Array) -> Array:
        """Return XᵀV (p × k) for an n × k array V."""
        raise NotImplementedError  # pragma: no cover

    def combined(self, weights: Any) -> Array:
        """Return WX (m × p) for an m × n array W; where X is on the host, W may be sparse."""
        return self.transposed_times(weights.T).T

    def squared_lengths(self, rows: Array | None = None) -> Array:
        """Return ‖Vᵀx_j‖² for every feature (p,), without holding XᵀV; ‖x_j‖² without V."""
        raise NotImplementedError  # pragma: no cover

    def weighted_squares(self, weights: Array) -> Array:
        """Return Σ_i w_i x_ij² for every feature (p,)."""
        raise NotImplementedError  # pragma: no cover

    def row_squares(self) -> Array:
        """Return ‖x_i‖² for every sample (n,)."""
        raise NotImplementedError  # pragma: no cover

    def size(self) -> float:
        """Return the largest absolute value of an entry of X, or a little more."""
        raise NotImplementedError  # pragma: no cover

    def powers(self) -> tuple[Array, Array]:
        """Return Σ_j x_ij² for every sample (n,), and Σ_i x_ij⁴ for every feature (p,)."""
        raise NotImplementedError  # pragma: no cover

    def gram(self) -> Array:
        """Return XXᵀ (n × n), computed once."""
        if self._kept_gram is None:
            self._kept_gram = self._gram()
        return self._kept_gram

    def _gram(self) -> Array:
        raise NotImplementedError  # pragma: no cover

    def scatter_lengths(self) -> Array:
        """Return ‖Xᵀx_j‖² for every feature: squared lengths of the columns of XᵀX."""
        xp = self.xp
        lengths = xp.zeros(self.shape[1], dtype=xp.float64, device=self.empty.device)
        for part in blocks(self.shape[1]):
            lengths[part] = xp.sum(self.transposed_times(self.take(part)) ** 2, axis=0)
        return lengths

    def scatter(self, weights: Array | None = None) -> Array:
        """Return Σ_i w_i x_i x_iᵀ (p × p); only asked for where that fits in memory."""
        raise NotImplementedError  # pragma: no cover

    def block(self, features: Any, weights: Array) -> Array:
        """Return Σ_i w_i x_i x_iᵀ of few features."""
        part = self.take(features)
        return part.T @ (part * weights[:, None])

    def scatter_times(self, columns: Array) -> Array:
        """Return XᵀXU (p × k)."""
        return self.transposed_times(self.times(columns))

    def inner(self, rows: Array, features: Any) -> Array:
        """Return x_jᵀV for few features j, one row for each."""
        return self.take(features).T @ rows

    def entries(self, rows: Any, columns: Any) -> Array:
        """Return x_iᵀx_j, few features i in rows and some j in columns: entries of XᵀX."""
        return self.inner(self.take(rows), columns).T

    def take(self, features: Any) -> Array:
        """Return few columns, given by a slice or their numbers, as an array in float64."""
        raise NotImplementedError  # pragma: no cover

    def rows(self, part: Any) -> Array:
        """Return few samples, given by a slice or their numbers, as an array in float64."""
        raise NotImplementedError  # pragma: no cover

    def dense(self) -> Array:
        """Return X as an array; only asked for where few features are left."""
        raise NotImplementedError  # pragma: no cover

    def columns(self, chosen: Array) -> Samples:
        """Return the samples with some features, given by a mask; these where it is all."""
        raise NotImplementedError  # pragma: no cover

    def scaled(self, factors: Array) -> Samples:
        """Return the samples with features multiplied by factors."""
        raise NotImplementedError  # pragma: no cover

    def reweighted(self, weights: Array, mean: Array | None = None) -> Samples:
        """Return the rows √w_i (x_i - m).

        Parameters
        ----------
        weights : array of shape (n_samples,)
            w, at least 0.
        mean : array of shape (n_features,) or None
            m, which has to be the weighted mean Σ w_i x_i / Σ w_i; None stands for zero.
        """
        from jointsparse.operators.views import Reweighted  # which builds on this

        return Reweighted(self, weights, mean)


def reweighted_gram(gram: Array, weights: Array, *, about_mean: bool) -> Array:
    """Return the Gram matrix of the rows √w_i (x_i - m), given that of the samples."""
    xp = array_namespace(weights)
    if about_mean:
        share = weights / xp.sum(weights)
        gram = gram - (share @ gram)[None, :]
        gram = gram - (gram @ share)[:, None]
    roots = xp.sqrt(weights)
    return gram * roots[:, None] * roots[None, :]


def centred_block(block: Array, mean: Array | None) -> Array:
    """Return a block of columns less their means, in float64: the one place where it is done."""
    if mean is None:
        return double(block)
    # On a device the difference converts on the way: a pass less over numbers of twice the size.
    converts = type(block) is not np.ndarray and block.dtype == array_namespace(block).float32
    return (block if converts else double(block)) - mean

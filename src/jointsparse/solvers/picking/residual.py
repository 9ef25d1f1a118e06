r"""What greedy picks leave of the features and of the target.

With P the projection that takes the picked columns of X out, and K the kernel of the target (see
:mod:`~jointsparse.solvers.picking.greedy`), two numbers of every feature are followed:

.. math:: g_j = x_j^\top P x_j,\qquad f_j = x_j^\top PKP x_j .

A pick takes one more direction out. With q its unit vector, :math:`v = X^\top q` and
:math:`w = X^\top(2PKq - (q^\top Kq)\,q)`,

.. math:: g \leftarrow g - v\circ v,\qquad f \leftarrow f - v\circ w .

On a device every operation costs a launch, and every number that Python asks for a wait: g and f
are the rows of one array, and what a pick adds is not waited for here. Of few features the launches
would take longer than the sums: there X and K stay on the device, v and w come over, and g and f
are followed by the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jointsparse.arrays import Array
from jointsparse.device import is_device_array, like, to_host
from jointsparse.linalg import BLOCK, array_namespace, column_products, less_product, positive_part
from jointsparse.solvers.picking.row_targets import (
    BLOCK_ENTRIES,
    ImplicitKernel,
    Target,
    row_gram,
    row_products,
)
from jointsparse.solvers.products.columns import Columns

DIGITS = 1e-5  # a downdated number this much smaller than it was may need to be computed anew
FEW = 2**13  # features up to which g and f are followed by the host: v and w are 131 kB


class Residual:
    """What the picks so far leave of the columns and, where it is followed, of the target.

    Parameters
    ----------
    columns : Columns
        The features.
    target : callable, array or None
        What they shall explain.
    follow_target : bool
        Whether f is asked for.

    Attributes
    ----------
    squares : array of shape (n_features,)
        Squared lengths of the columns, where g and f are.
    levels : array of shape (1 or 2, n_features)
        g and, where it is followed, f; ``g`` and ``f`` are its rows.
    g_known, f_known : array of shape (n_features,)
        The same when they were last computed from the columns.
    both : array of shape (2, n_features)
        f and what it was when last computed, where the target is followed.
    told : tuple of numbers, where the columns are
        Of the last pick: the share of the variance and, where the target is followed, *half* of
        the share of it that the pick adds. For :meth:`note`, as numbers of Python.
    """

    def __init__(self, columns: Columns, target: Target | None, *, follow_target: bool) -> None:
        self.columns = columns
        self.target = target
        self.follow_target = follow_target
        self.xp = columns.xp
        self._basis = self._empty_rows(8)
        self.size = 0
        self.told: tuple[Array, ...] = ()
        self.unexplained = 1.0  # 1 - R²
        self.target_left = 1.0
        self._target_known = 1.0  # its size when the kernel was last computed from the columns
        self._target_unit = self._target_total = 1.0
        self._factor: Array | None = None  # F of the kernel FFᵀ, where it has few columns
        self._by_host = is_device_array(columns.squares) and columns.n_features <= FEW
        self.squares = self._brought(columns.squares)
        copies = [self.squares] * (4 if follow_target else 2)
        rows = array_namespace(self.squares).stack(copies)
        self.g, self.g_known = rows[0, :], rows[-1, :]
        self.levels = rows[: 1 + follow_target, :]
        if follow_target:
            self.f, self.f_known, self.both = rows[1, :], rows[2, :], rows[1:3, :]
            self._start()

    def _start(self) -> None:
        """Compute the kernel and f, or take them from an earlier run for the same target."""
        earlier = self.columns.last_start
        if earlier is not None and earlier[0] is self.target:
            _, self.kernel, self._factor, self._target_unit, self._target_total, known = earlier
            self.both[...] = known
            return
        self.kernel = self._target_kernel()
        self.recompute()
        self.columns.last_start = (
            self.target,
            self.kernel,
            self._factor,
            self._target_unit,
            self._target_total,
            1 * self.f,
        )

    def _brought(self, array: Array) -> Array:
        """Return numbers of features, from where the columns are, where g and f are."""
        return to_host(array) if self._by_host else array

    def here(self, array: Any) -> Array:
        """Return a NumPy array where g and f are."""
        return like(array, self.squares)

    def _empty_rows(self, count: int) -> Array:
        squares = self.columns.squares
        shape = (count, self.columns.n_rows)
        return self.xp.empty(shape, dtype=squares.dtype, device=squares.device)

    @property
    def span(self) -> Array:
        """Orthonormal rows that span the picked columns."""
        return self._basis[: self.size, :]

    def off(self, vectors: Array) -> Array:
        """Take the span of the picks out of some columns; twice, so that none of it stays."""
        if self.size:
            span = self.span
            across = span.T
            for _ in range(2):
                vectors = less_product(vectors, across, span @ vectors)
        return vectors

    def _target_kernel(self) -> Any:
        """Return P X Aᵀ A Xᵀ P, in the unit in which its first trace was 1."""
        if self.columns.samples.is_sparse:
            return self._implicit_kernel()
        if self.target is None:
            kernel = row_gram(self.columns, self.off)
        else:
            mapped = self._mapped()
            if self.size == 0:  # the squares of a target of any scale must not overflow
                largest = float(self.xp.max(abs(mapped))) if mapped.shape[1] else 0.0
                self._target_unit = largest or 1.0
            mapped = self.off(mapped / self._target_unit)
            kernel = mapped @ mapped.T
        if self.size == 0:
            self._target_total = float(self.xp.linalg.trace(kernel)) or 1.0
        if self.target is not None and mapped.shape[1] < mapped.shape[0]:
            self._factor = mapped / self._target_total**0.5
        return kernel / self._target_total

    def _implicit_kernel(self) -> ImplicitKernel:
        factor = None
        if self.target is not None:
            mapped = self._mapped()
            if self.size == 0:
                self._target_unit = float(np.max(np.abs(mapped), initial=0.0)) or 1.0
            factor = self.off(mapped / self._target_unit)
            if self.size == 0:
                self._target_total = float(np.sum(factor**2)) or 1.0
        return ImplicitKernel(self.columns, factor, self._target_total)

    def _mapped(self) -> Array:
        """Return XAᵀ."""
        if callable(self.target):
            return row_products(self.columns, self.target)
        return self.target

    def recompute(self, features: Array | None = None) -> None:
        """Compute f and g of some features from their columns; all where f is followed."""
        if features is None and self.columns.samples.is_elsewhere:
            self.g[:], self.f[:] = self.columns.left_over(self.span, self.kernel)
            self.g_known[:], self.f_known[:] = self.g, self.f
            return
        if features is None and isinstance(self.kernel, ImplicitKernel) and self.size == 0:
            self.both[...] = self.kernel.forms()  # nothing is taken off yet, and g is known
            return
        everyone = self.columns.n_features if features is None else features.shape[0]
        step = min(BLOCK, max(1, BLOCK_ENTRIES // self.columns.n_rows))
        for start in range(0, everyone, step):
            part = slice(start, min(start + step, everyone))
            chosen = part if features is None else features[part]
            residual = self.off(self.columns.take(chosen))
            lengths = self._brought(column_products(residual, residual))
            self.g[chosen] = self.g_known[chosen] = lengths
            if self.follow_target and self._factor is not None:
                images = self._factor.T @ residual
                self.both[:, chosen] = self._brought(column_products(images, images))
            elif self.follow_target:
                f = column_products(residual, self.kernel @ residual)
                self.both[:, chosen] = self._brought(positive_part(f))  # rounding

    @property
    def worn(self) -> bool:
        """Whether the residual of the kernel has lost digits against what it was."""
        return self.follow_target and self.target_left < DIGITS * self._target_known

    def renew_target(self) -> None:
        """Compute the kernel anew."""
        self.kernel = self._target_kernel()
        self.recompute()
        self.target_left = self._target_known = self._trace()

    def _trace(self) -> float:
        if not isinstance(self.kernel, ImplicitKernel):
            return float(self.xp.linalg.trace(self.kernel))
        factor = self.kernel.factor
        return float(self.g.sum() if factor is None else np.sum(factor**2) / self.kernel.unit)

    def fallen(self, share: float) -> Array:
        """Features whose f or g is below a share of what it was when last computed."""
        fallen = self.g < share * self.g_known
        return fallen | (self.f < share * self.f_known) if self.follow_target else fallen

    def remove(self, feature: int) -> None:
        """Take a feature out of everything."""
        xp, size = self.xp, self.size
        if size + 2 > self._basis.shape[0]:
            self._basis = xp.concat([self._basis, self._empty_rows(size)])
        q = self._basis[size, :]
        # In the unit of the samples, as its length becomes 1.
        left = self.off(self.columns.samples.take(slice(feature, feature + 1))[:, 0])
        xp.divide(left, (left @ left) ** 0.5, out=q)
        if self.follow_target:
            half = self._image(q)
            images = self._brought(self.columns.project(self._basis[size : size + 2, :]))
            v = images[0, :]
            self.told = v @ v, self._brought(half)
        else:
            images = self._brought(self.columns.project(q[None, :]))
            v = images[0, :]
            self.told = (v @ v,)
        self.levels -= v * images
        self.size += 1

    def _image(self, q: Array) -> Array:
        """Put 2PKq - (qᵀKq)q into the row after q; return half of qᵀKq."""
        span = self._basis[: self.size + 1, :]
        image = self.kernel @ q
        along = span @ image
        half = along[-1:]
        half *= 0.5
        image = less_product(image, span.T, along)
        if self.size:  # once more, but for q, of which half is to stay
            span = self.span
            image = less_product(image, span.T, span @ image)
        self.xp.multiply(image, 2.0, out=self._basis[self.size + 1, :])
        return half[0]

    def note(self, explained: float, half: float = 0.0) -> float:
        """Count what the last pick adds, as :attr:`told`; return its share of the target."""
        self.unexplained -= explained
        self.target_left -= 2 * half
        return 2 * half

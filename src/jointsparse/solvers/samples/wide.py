r"""Weighted models for more features than samples: nothing of size p × p, no copy of the data.

The rows :math:`\sqrt{w_i/2}\,(x_i-m)` are TX with an n × n matrix T, so that everything the solver
asks for (:mod:`~jointsparse.solvers.wide.data`) is a product with X, and their Gram matrix is
T(XXᵀ)Tᵀ. Residuals are never formed: with Y = XU and G = UᵀU (k × k), for Ω = UUᵀ

.. math:: \|x_i - \Omega x_i\|^2 = \|x_i\|^2 - 2\|y_i\|^2 + y_i^\top G\,y_i ,

and the dual points of :func:`~jointsparse.solvers.wide.convex.solve_wide` know the same sums for
their own matrices.
"""

from __future__ import annotations

from collections.abc import Iterator

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace, blocks, double, long_product, positive_part
from jointsparse.solvers.convex.reweighted import SMOOTHING, Step, sample_bound
from jointsparse.solvers.wide.convex import WideState, solve_wide
from jointsparse.solvers.wide.data import DenseWide, WideData, as_wide
from jointsparse.solvers.wide.scatter_access import LARGEST_GRAM

ROUNDING = 1e-14  # of a squared norm
LEAST_TOLERANCE = 1e-7  # of a weighted model whose iterates are float32
ACCEPTED = 100.0  # times the tolerance: the next weighted model goes on from there


class WeightedRows(DenseWide):
    """The rows √(w_i/2)(x_i - m) of a centred array.

    Parameters
    ----------
    data : DenseWide
        X, centred.
    weights : array of shape (n_samples,)
        w.
    mean : array of shape (n_features,) or None
        m, the weighted mean; None stands for zero.
    """

    def __init__(self, data: DenseWide, weights: Array, mean: Array | None = None) -> None:
        super().__init__(data.array, data.mean)
        xp = array_namespace(weights)
        self.source, self.shift, self._direct = data, mean, False
        self.weights, self.scale = weights, xp.sqrt(weights / 2)

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        for part, block in super()._blocks():
            centred = block if self.shift is None else block - self.shift[part]
            yield part, centred * self.scale[:, None]

    def gram(self) -> Array:
        """Return the Gram matrix from that of X."""
        if self._gram is None:
            xp = array_namespace(self.weights)
            gram = self.source.gram()
            if self.shift is not None:
                share = self.weights / xp.sum(self.weights)
                gram = gram - (share @ gram)[None, :]
                gram = gram - (gram @ share)[:, None]
            self._gram = gram * self.scale[:, None] * self.scale[None, :]
        return self._gram

    def columns(self, chosen: Array) -> DenseWide:
        """Return some columns as an array of their own; this where it is all of them."""
        xp = array_namespace(self.array)
        if bool(xp.all(chosen)):
            return self
        block = double(self.array[:, chosen])
        for offset in (self.mean, self.shift):
            if offset is not None:
                block = block - offset[chosen]
        return DenseWide(xp.astype(block * self.scale[:, None], self.dtype, copy=False))

    def dense(self) -> Array:
        """Return the rows as an array."""
        xp = array_namespace(self.array)
        result = xp.empty(self.shape, dtype=self.dtype, device=self.array.device)
        for part, block in self._blocks():
            result[:, part] = xp.astype(block, self.dtype, copy=False)
        return result


class WeightedProducts:
    """The same rows where X is known through its products: sparse samples, or samples elsewhere.

    With s the weights divided by their sum, m = Xᵀs and T = diag(√(w/2))(I - 1sᵀ), the rows are TX.

    Parameters
    ----------
    data : WideData
        X, centred.
    weights : array of shape (n_samples,)
        w.
    mean : array of shape (n_features,) or None
        m, the weighted mean; None stands for zero.
    """

    def __init__(self, data: WideData, weights: Array, mean: Array | None = None) -> None:
        xp = array_namespace(weights)
        self.source, self.weights, self.shift = data, weights, mean
        self.scale, self.share = xp.sqrt(weights / 2), weights / xp.sum(weights)
        self.shape, self.empty, self.dtype = data.shape, data.empty, data.empty.dtype
        self._gram: Array = None

    def times(self, columns: Array) -> Array:
        """Return TXU."""
        image = self.source.times(columns)
        if self.shift is not None:
            image = image - self.share @ image
        return image * self.scale[:, None]

    def transposed_times(self, rows: Array) -> Array:
        """Return (TX)ᵀV."""
        return self.source.transposed_times(self._back(rows))

    def squared_lengths(self, rows: Array | None = None) -> Array:
        """Return ‖Vᵀ(TX)_j‖² for every feature."""
        if rows is not None:
            return self.source.squared_lengths(self._back(rows))
        return self.weighted_squares(array_namespace(self.weights).ones_like(self.weights))

    def weighted_squares(self, weights: Array) -> Array:
        """Return the weighted sum of squares of every feature."""
        xp = array_namespace(self.weights)
        inner = weights * self.weights / 2
        squares = self.source.weighted_squares(inner)
        if self.shift is None:
            return squares
        mixed = self.source.transposed_times(inner[:, None])[:, 0]
        return positive_part(squares - self.shift * (2 * mixed - xp.sum(inner) * self.shift))

    def row_squares(self) -> Array:
        """Return the squared length of every row."""
        squares = self.source.row_squares()
        if self.shift is not None:
            image = self.source.times(self.shift[:, None])[:, 0]
            squares = positive_part(squares - 2 * image + float(self.shift @ self.shift))
        return squares * self.weights / 2

    def gram(self) -> Array:
        """Return the Gram matrix from that of X."""
        if self._gram is None:
            gram = self.source.gram()
            if self.shift is not None:
                gram = gram - (self.share @ gram)[None, :]
                gram = gram - (gram @ self.share)[:, None]
            self._gram = gram * self.scale[:, None] * self.scale[None, :]
        return self._gram

    def columns(self, chosen: Array) -> WideData:
        """Return the rows of some features."""
        if bool(array_namespace(chosen).all(chosen)):
            return self
        mean = None if self.shift is None else self.shift[chosen]
        return weighted_rows(self.source.columns(chosen), self.weights, mean)

    def dense(self) -> Array:
        """Return the rows as an array."""
        xp = array_namespace(self.weights)
        rows = double(self.source.dense())
        if self.shift is not None:
            rows = rows - self.shift
        return xp.astype(rows * self.scale[:, None], self.dtype, copy=False)

    def _back(self, rows: Array) -> Array:
        """Return TᵀV."""
        xp = array_namespace(rows)
        scaled = rows * self.scale[:, None]
        if self.shift is None:
            return scaled
        return scaled - self.share[:, None] * xp.sum(scaled, axis=0)


def weighted_rows(data: WideData, weights: Array, mean: Array | None = None) -> WideData:
    """Return the rows √(w_i/2)(x_i - m) in the form that suits the data."""
    kind = WeightedRows if type(data) is DenseWide else WeightedProducts
    return kind(data, weights, mean)  # type: ignore[arg-type]


def squared_rows(data: WideData) -> Array:
    """Return ‖x_i‖² of every sample; from the Gram matrix where the solvers need that anyway."""
    if data.shape[0] > LARGEST_GRAM:
        return data.row_squares()
    return positive_part(array_namespace(data.empty).linalg.diagonal(data.gram()))


class WideModel:
    """CSPCA-PSD or AW-SPCA-PSD on samples with more features than there are samples.

    Parameters
    ----------
    data : array of shape (n_samples, n_features) or WideData
        X, centred, or centred on the way.
    lam, eta : float
        Penalties in the units of the data; lam positive, eta at least 0.
    free_mean : bool
        Whether the mean is free.
    """

    def __init__(self, data: Array | WideData, lam: float, eta: float, *, free_mean: bool) -> None:
        self.data = as_wide(data)
        self.lam, self.eta, self.free_mean = lam, eta, free_mean
        self.state: WideState | None = None
        xp = array_namespace(self.data.empty)
        distances = xp.sqrt(squared_rows(self.data))
        self.smoothing = SMOOTHING * float(xp.mean(distances))
        self.norms = self._smoothed(distances**2)
        value, offset = float(xp.sum(distances)), None
        if free_mean:
            offset = xp.zeros(self.data.shape[1], dtype=xp.float64, device=distances.device)
        self.empty = Step(value, 0.0, self.norms, self.data.empty, offset, iterations=0)

    def solve(self, mixture: list[float], weights: Array, tol: float, max_iter: int) -> Step:
        """Solve with these weights; how they were mixed does not matter here."""
        xp = array_namespace(weights)
        mean = None
        if self.free_mean:
            mean = self.data.transposed_times((weights / xp.sum(weights))[:, None])[:, 0]
        rows = weighted_rows(self.data, weights, mean)
        if rows.empty.dtype == xp.float32:
            tol = max(tol, LEAST_TOLERANCE)
        solution = solve_wide(
            rows,
            self.lam,
            self.eta,
            tol=tol,
            max_iter=max_iter,
            start=self.state,
            keep_state=True,
            accept=ACCEPTED * tol,
        )
        self.state = solution.state
        squares = squared_rows(rows)
        bound = 0.0
        for dual in solution.dual:
            left = positive_part(squares - 2 * dual.linear + dual.quadratic)
            # the rounding of the sum above must not make a norm too small
            left = xp.sqrt(left + ROUNDING * squares)
            value = 2 * float(xp.sum(squares - dual.linear))
            longest = float(xp.max(xp.sqrt(2 * weights) * left))
            bound = max(bound, sample_bound(dual.limit, value, longest))
        factor = solution.loadings
        image, gram = rows.times(factor), long_product(factor.T, factor)
        left = positive_part(squares + xp.sum((image @ gram - 2 * image) * image, axis=1))
        norms = xp.sqrt(left * (2 / weights))
        objective = float(xp.sum(norms)) + self.eta * float(xp.linalg.trace(gram))
        objective += self.lam * _sum_of_scores(factor, gram)
        offset = None
        if mean is not None:
            wide = double(factor)
            offset = mean - wide @ (wide.T @ mean)
        new = self._smoothed(norms**2)
        return Step(objective, bound, new, factor, offset, iterations=solution.n_iter)

    def _smoothed(self, squares: Array) -> Array:
        return array_namespace(squares).sqrt(squares + self.smoothing**2)


def _sum_of_scores(factor: Array, gram: Array) -> float:
    """‖UUᵀ‖₂,₁, given UᵀU."""
    xp = array_namespace(factor)
    total = 0.0
    for part in blocks(factor.shape[0]):
        rows = double(factor[part, :])
        total += float(xp.sum(xp.sqrt(positive_part(xp.sum((rows @ gram) * rows, axis=1)))))
    return total

r"""Stationary points of row-sparse eigenproblems: Newton's method on the rows that are in use.

Passes of :mod:`jointsparse.solvers.graph.reweighted_eigen` settle within ten or so which features
matter, but let the others go by a factor in each, and approach the point where leverages reproduce
themselves no faster. Every one costs an eigendecomposition. Here the objective itself,

.. math:: f(W) = \operatorname{tr}(W^\top AW) + g\sum_j(\|w_j\|^2+\varepsilon)^{q/2},

is minimised over the spaces spanned by W (it depends on nothing else), by steps ξ with
:math:`W^\top\xi=0`. With :math:`D = \tfrac{gq}2\operatorname{diag}(\|w_j\|^2+\varepsilon)^{q/2-1}`,
K = A + D and :math:`\Lambda=W^\top KW`, gradient and Hessian are twice

.. math:: KW - W\Lambda,\qquad \xi \mapsto P\bigl(K\xi - \xi\Lambda
          - [\,h_j\langle w_j,\xi_j\rangle w_j\,]_j\bigr),\qquad
          h_j = \frac{(2-q)\,d_j}{\|w_j\|^2+\varepsilon}

(P the projector onto the complement of W). Conjugate gradients within a trust region, with
:math:`(K-\sigma)^{-1}` as preconditioner, take products with A alone and one Cholesky
factorisation for each step, a tenth of an eigenproblem.

The objective has a kink where a row is zero, which the quadratic model knows nothing of: a row that
would pass through zero is made shorter in the step, and leaves once it is negligible. For q = 1 it
comes back where :math:`2\|(AW)_j\| > g`; for q < 1 rows that are zero stay so. At the end all rows
take part, as short as smoothing leaves them, so that the point is stationary for all features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.eigen.orthonormal import orthonormal_rows
from jointsparse.linalg import add_to_diagonal
from jointsparse.solvers.graph.quadratic_forms import QuadraticForm

MOST_STEPS, MOST_PRODUCTS = 300, 30  # of Newton's method in all, of conjugate gradients in a step
FIRST_RADIUS, LARGEST_RADIUS, SMALLEST_RADIUS = 0.5, 2.0, 1e-9  # of the trust region; W has norm √m
GOOD, BAD = 0.7, 0.2  # of what the model promised: at which the region grows, and shrinks
SHORTER = 0.1  # what is left of the length of a row that would pass through zero
GONE = 1e-8  # ‖w_j‖² of a row that leaves
RETURNING = 1e-3  # length of a row that comes back
MOST_RETURNS = 200  # rounds of such rows, each of which lowers the objective
NEARLY = 0.05  # relative gradient at which to look for them
MOST_ROWS = 1000  # a Cholesky factorisation of so many takes some milliseconds
TINY = 1e-300
ROUNDING = 1e-15  # of the objective: less is no gain
BELOW = 0.9  # of the smallest eigenvalue of Λ: the shift σ
MOST_SHIFTS = 60  # to reach below all eigenvalues; each is twice as far as the one before
LEAST_ACCURATE = 0.1  # residual of conjugate gradients, relative to the gradient


class _Point(NamedTuple):
    """W, in rows of ``vectors``, with AW, ‖w_j‖² + ε and the objective."""

    vectors: FloatArray
    images: FloatArray
    squares: FloatArray
    objective: float


class _Slope(NamedTuple):
    """The gradient at a point, relative to that of the penalty, and what products need."""

    gradient: FloatArray
    relative: float
    weights: FloatArray
    inner: FloatArray
    bend: FloatArray


def stationary_leverages(
    form: QuadraticForm,
    vectors: FloatArray,
    penalty: float,
    power: float,
    smoothing: float,
    tol: float,
) -> FloatArray | None:
    """Return the leverages ‖w_j‖² of a stationary point that is below a given one.

    Parameters
    ----------
    form : QuadraticForm
        A.
    vectors : ndarray of shape (n_features, count)
        Where to start: W with orthonormal columns.
    penalty, power, smoothing : float
        g, q and ε.
    tol : float
        Norm of the gradient, relative to that of the penalty's, at which to stop.

    Returns
    -------
    ndarray of shape (n_features,) or None
        None where so many features are in use that a matrix of them is too much.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.graph.quadratic_forms import DenseForm
    >>> from jointsparse.solvers.graph.stationary_rows import stationary_leverages
    >>> form, start = DenseForm(np.diag([1.0, 1.2, 3.0])), np.array([[0.6], [0.8], [0.0]])
    >>> stationary_leverages(form, start, 0.5, 1.0, 1e-10, 1e-8).round(6).tolist()
    [1.0, 0.0, 0.0]
    """
    used = np.flatnonzero(np.vecdot(vectors, vectors) > GONE)
    if not vectors.shape[1] < used.size <= MOST_ROWS:
        return None
    search = _Search(form, used, vectors, (penalty, power, smoothing))
    for _ in range(MOST_STEPS):
        slope = search.slope()
        if slope.relative <= NEARLY and search.bring_back():
            continue
        done = slope.relative <= tol or not search.step(slope)
        if done and not search.take_all():
            break
    return search.leverages()


class _Search:
    """A point, with its features, and the radius of the trust region."""

    def __init__(
        self,
        form: QuadraticForm,
        used: IntArray,
        vectors: FloatArray,
        model: tuple[float, float, float],
    ) -> None:
        self.form, self.used = form, used
        self.penalty, self.power, self.smoothing = model
        self.size = vectors.shape[0]
        self.matrix = form.block(used)
        self.at = self._of(vectors)
        self.radius, self.returns, self.whole = FIRST_RADIUS, 0, False

    def leverages(self) -> FloatArray:
        """Return those of all features; where a row is out, what smoothing leaves of it."""
        if self.whole:
            return np.clip(self.at.squares - self.smoothing, 0.0, 1.0)
        return self._smoothed(self._all_images())

    def take_all(self) -> bool:
        """Add the rows that smoothing leaves of all others; False where there is nothing to add.

        They are 1e-5 long and many: what they do to those in use is above usual tolerances.
        """
        if self.whole or self.size > MOST_ROWS:
            return False
        images = self._all_images()
        lengths = np.sqrt(self._smoothed(images) / np.maximum(np.vecdot(images, images), TINY))
        rows = -lengths[:, None] * images
        rows[self.used] = self.at.vectors.T
        self.whole = True
        self._restrict(np.arange(self.size), rows)
        return True

    def _smoothed(self, images: FloatArray) -> FloatArray:
        """Return the leverages of all features, given AW."""
        weight = self.penalty * (self.power / 2) * self.smoothing ** ((self.power - 2) / 2)
        weight = max(weight, TINY)
        # Longer ones are cut below: next to no penalty, their squares would be no numbers.
        lengths = np.minimum(np.sqrt(np.vecdot(images, images)), weight * GONE**0.5)
        first = (lengths / weight) ** 2
        # Such a row is -(AW)_j over its weight, and the weight is that of this row.
        shrinking = 1 - (2 - self.power) * first / self.smoothing
        found = np.minimum(first / np.maximum(shrinking, first / GONE), GONE)
        found[self.used] = self.at.squares - self.smoothing
        return np.clip(found, 0.0, 1.0)

    def slope(self) -> _Slope:
        """Return the gradient."""
        W, images, squares, _ = self.at
        weights = self.penalty * (self.power / 2) * squares ** ((self.power - 2) / 2)
        weighted = weights * W
        whole = images + weighted
        inner = whole @ W.T
        inner = (inner + inner.T) / 2
        gradient = whole - inner @ W
        size = float(np.linalg.norm(weighted))
        relative = float(np.linalg.norm(gradient)) / size if size > 0 else 0.0
        return _Slope(gradient, relative, weights, inner, (2 - self.power) * weights / squares * W)

    def step(self, slope: _Slope) -> bool:
        """Move to a lower point, and let rows go; False where none is found any more."""
        W, before = self.at.vectors, self.at.objective
        K = add_to_diagonal(self.matrix.copy(), slope.weights)
        factor = _factor(K, slope.inner)
        if factor is None:
            return False
        while self.radius > SMALLEST_RADIUS:
            step, promised, cut = self._direction(slope, K, factor)
            moved = W + step
            through = np.add.reduce(W * moved, axis=0) <= 0
            moved[:, through] = SHORTER * W[:, through]
            basis = orthonormal_rows(moved)
            if basis is None:  # rows that were made shorter held the space up
                self.radius /= 4
                continue
            trial = self._point(basis)
            gained = before - trial.objective
            length = float(np.linalg.norm(step))
            if gained > 0:
                if gained < BAD * promised:
                    self.radius = length / 2
                elif cut and gained > GOOD * promised:
                    self.radius = min(2 * self.radius, LARGEST_RADIUS)
                self.at = trial
                self._let_go()
                return True
            if promised <= ROUNDING * abs(before):
                return False
            self.radius = min(self.radius, length) / 4
        return False

    def _direction(
        self, slope: _Slope, K: FloatArray, factor: FloatArray
    ) -> tuple[FloatArray, float, bool]:
        """Return a step, what it promises, and whether the trust region cut it short."""
        W = self.at.vectors

        def curvature(step: FloatArray) -> FloatArray:
            image = step @ K - slope.inner @ step - slope.bend * np.add.reduce(W * step, axis=0)
            return np.asarray(image - (image @ W.T) @ W)

        def preconditioned(residual: FloatArray) -> FloatArray:
            image = dpotrs(factor, residual.T, lower=1)[0].T
            return np.asarray(image - (image @ W.T) @ W)

        accuracy = min(LEAST_ACCURATE, slope.relative**0.5)
        return within_region(curvature, preconditioned, slope.gradient, self.radius, accuracy)

    def bring_back(self) -> bool:
        """Give a short row to features that are out and would lower the objective."""
        if self.whole or self.power < 1 or self.returns == MOST_RETURNS:
            return False
        images = self._all_images()
        pulls = 2 * np.sqrt(np.vecdot(images, images))
        pulls[self.used] = 0.0
        back = np.flatnonzero(pulls > self.penalty)
        if not back.size:
            return False
        self.returns += 1
        rows = np.zeros((self.size, images.shape[1]))
        rows[self.used] = self.at.vectors.T
        rows[back] = (-2 * RETURNING / pulls[back, None]) * images[back]
        self._restrict(np.union1d(self.used, back), rows)
        return True

    def _let_go(self) -> None:
        """Leave out rows that are next to nothing and would not come back."""
        out = self.at.squares <= GONE
        if self.whole or not out.any():
            return
        if self.power == 1:
            images = self.at.images[:, out]
            out[out] = 2 * np.sqrt(np.sum(images**2, axis=0)) < self.penalty
        if out.any() and np.count_nonzero(~out) > self.at.vectors.shape[0]:
            rows = np.zeros((self.size, self.at.vectors.shape[0]))
            rows[self.used] = self.at.vectors.T
            self._restrict(self.used[~out], rows)

    def _restrict(self, used: IntArray, rows: FloatArray) -> None:
        self.used, self.matrix = used, self.form.block(used)
        self.at = self._of(rows)

    def _of(self, rows: FloatArray) -> _Point:
        """Return the point of these rows, which are nearly orthonormal columns."""
        basis = orthonormal_rows(rows[self.used].T)
        if basis is None:
            basis = np.linalg.qr(rows[self.used])[0].T
        return self._point(basis)

    def _all_images(self) -> FloatArray:
        rows = np.zeros((self.size, self.at.vectors.shape[0]))
        rows[self.used] = self.at.vectors.T
        return self.form.product(rows)

    def _point(self, W: FloatArray) -> _Point:
        images = W @ self.matrix
        squares = np.add.reduce(W * W, axis=0) + self.smoothing
        objective = np.vdot(W, images) + self.penalty * np.add.reduce(squares ** (self.power / 2))
        return _Point(W, images, squares, float(objective))


def within_region(
    curvature: Callable[[FloatArray], FloatArray],
    preconditioned: Callable[[FloatArray], FloatArray],
    gradient: FloatArray,
    radius: float,
    accuracy: float,
) -> tuple[FloatArray, float, bool]:
    """Minimise a quadratic model within a ball by conjugate gradients (Steihaug).

    Returns
    -------
    tuple
        The step, twice the decrease that the model promises, and whether the ball cut it short.
    """
    step, residual = np.zeros_like(gradient), gradient
    better = preconditioned(residual)
    size = enough = float(np.vdot(residual, better))
    direction, cut = -better, False
    for _ in range(MOST_PRODUCTS):
        image = curvature(direction)
        curve = float(np.vdot(direction, image))
        length = size / curve if curve > 0 else np.inf
        across, along = float(np.vdot(step, direction)), float(np.vdot(direction, direction))
        left = radius**2 - float(np.vdot(step, step))
        if curve <= 0 or length * (2 * across + length * along) >= left:
            length = (np.sqrt(across**2 + along * max(left, 0.0)) - across) / along
            cut = True
        step = step + length * direction
        residual = residual + length * image
        if cut:
            break
        better = preconditioned(residual)
        after = float(np.vdot(residual, better))
        if after <= accuracy**2 * enough:
            break
        direction = after / size * direction - better
        size = after
    promised = -float(np.vdot(gradient, step)) - float(np.vdot(residual, step))
    return step, promised, cut


def _factor(K: FloatArray, inner: FloatArray) -> FloatArray | None:
    """Return a Cholesky factor of K less a number below its eigenvalues; None: there is none."""
    values = np.linalg.eigvalsh(inner)
    size = float(np.max(np.abs(values)))
    shift = float(BELOW * values[0]) if values[0] > 0 else float(values[0]) - (1 - BELOW) * size
    for _ in range(MOST_SHIFTS):
        factor, failed = dpotrf(add_to_diagonal(K.copy(), -shift).T, lower=1, overwrite_a=1)
        if not failed:
            return np.asarray(factor)
        if shift > size / 8:
            shift /= 2
        else:  # A has eigenvalues below those of the space
            shift, size = min(shift, 0.0) - size, 2 * size
    return None

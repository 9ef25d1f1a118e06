r"""Greedy choice of features: each pick explains the most of what the earlier ones leave.

X is m × p and centred (the samples, or any root of the scatter matrix S = XᵀX); A is a target with
p columns, known only through X ↦ XAᵀ. With P the projection that takes the picked columns of X out,
the pick is the feature that lowers the unexplained part of the target, tr(A XᵀPX Aᵀ), most:

.. math:: \text{score}_j = \frac{\|A X^\top P x_j\|^2}{\|P x_j\|^2} = \frac{x_j^\top P K P x_j}
          {x_j^\top P x_j}, \qquad K = X A^\top A X^\top .

A = I is orthogonal least squares: the score is the gain of R². Everything happens in the space of
the m rows, so a pick costs *one* pass over X for two vectors: with q the unit vector along P x_j,

.. math:: v = X^\top q,\quad t = X^\top PKq,\quad
          f \leftarrow f - 2v\circ t + (q^\top Kq)\,v\circ v,\quad g \leftarrow g - v\circ v ,

and score = f/g. No p × p matrix, no h × p matrix: O(h(mp + m² + hm)) after K.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jointsparse.linalg import BLOCK, blocks
from jointsparse.solvers.columns import Columns, FloatArray
from jointsparse.solvers.remote_columns import RemoteColumns
from jointsparse.solvers.sparse_columns import ImplicitKernel, SparseColumns

IntArray = NDArray[np.int64]
# Either XAᵀ itself (m × q), or what turns a block of rows of X (k × p) into rows of it (k × q).
Target = FloatArray | Callable[[FloatArray], FloatArray]

DETERMINED = 1e-9  # share of its variance below which a feature is determined by the picks
TIE = 1e-8  # relative difference of scores that rounding may make
EXPLAINED = 1e-20  # share of the target below which nothing of it is left
DIGITS = 1e-5  # a downdated number this much smaller than it was may need to be computed anew
NO_DIGITS = 1e-10  # this much smaller, it may be anything
BLOCK_ENTRIES = 2**21  # entries of a block converted to float64: 16 MB


@dataclass(frozen=True)
class GreedyPath:
    """What a greedy run found.

    Attributes
    ----------
    picks : ndarray of int
        Features in the order in which they were taken, the given ones first.
    curve : ndarray
        Share of the variance of all features that the first pick, the first two, … explain (R²).
    gains : ndarray
        Share of the target that each pick added; zeros where the criterion has none.
    first : ndarray of shape (n_features,)
        Scores before the first pick that was not given.
    left : ndarray of shape (n_features,)
        Scores after the last pick: 0 for what is picked, determined or no candidate.
    reason : str
        Why the run ended.
    exhausted : bool
        Whether it ended because nothing was left to pick.
    """

    picks: IntArray
    curve: FloatArray
    gains: FloatArray
    first: FloatArray
    left: FloatArray
    reason: str
    exhausted: bool


class _Residual:
    """What the picks so far leave of the columns (g) and, where it is followed, the target (f)."""

    def __init__(self, columns: Columns, target: Target | None, *, follow_target: bool) -> None:
        self.columns = columns
        self.target = target
        self.follow_target = follow_target
        self._basis = np.empty((8, columns.n_rows))
        self.size = 0
        self.unexplained = 1.0  # 1 - R²
        self.target_left = 1.0
        self._target_known = 1.0  # its size when the kernel was last computed from the columns
        self._target_unit = self._target_total = 1.0
        self.g, self.f = columns.squares.copy(), np.zeros(columns.n_features)
        self._g_known, self._f_known = self.g.copy(), self.f.copy()
        if follow_target:
            self._start()

    def _start(self) -> None:
        """Compute the kernel and f, or take them from an earlier run for the same target."""
        earlier = self.columns.last_start
        if earlier is not None and earlier[0] is self.target:
            _, self.kernel, self._target_unit, self._target_total, f = earlier
            self.f, self._f_known = f.copy(), f.copy()
            return
        self.kernel = self._target_kernel()
        self.recompute()
        self.columns.last_start = (
            self.target,
            self.kernel,
            self._target_unit,
            self._target_total,
            self.f.copy(),
        )

    @property
    def span(self) -> FloatArray:
        """Orthonormal rows that span the picked columns."""
        return self._basis[: self.size]

    def off(self, vectors: FloatArray) -> FloatArray:
        """Take the span of the picks out of some columns; twice, so that none of it stays."""
        for _ in range(2 if self.size else 0):
            vectors = vectors - self.span.T @ (self.span @ vectors)
        return vectors

    def _target_kernel(self) -> FloatArray | ImplicitKernel:
        """Return P X Aᵀ A Xᵀ P, in the unit in which its first trace was 1."""
        if isinstance(self.columns, SparseColumns):
            return self._implicit_kernel(self.columns)
        if self.target is None:
            kernel = row_gram(self.columns, self.off)
        else:
            mapped = self._mapped()
            if self.size == 0:  # the squares of a target of any scale must not overflow
                self._target_unit = float(np.max(np.abs(mapped), initial=0.0)) or 1.0
            mapped = self.off(mapped / self._target_unit)
            kernel = mapped @ mapped.T
        if self.size == 0:
            self._target_total = float(np.trace(kernel)) or 1.0
        return np.asarray(kernel / self._target_total)

    def _implicit_kernel(self, columns: SparseColumns) -> ImplicitKernel:
        factor = None
        if self.target is not None:
            mapped = self._mapped()
            if self.size == 0:
                self._target_unit = float(np.max(np.abs(mapped), initial=0.0)) or 1.0
            factor = self.off(mapped / self._target_unit)
            if self.size == 0:
                self._target_total = float(np.sum(factor**2)) or 1.0
        return ImplicitKernel(columns, factor, self._target_total)

    def _mapped(self) -> FloatArray:
        """Return XAᵀ."""
        if callable(self.target):
            return row_products(self.columns, self.target)
        return np.asarray(self.target)

    def recompute(self, features: IntArray | None = None) -> None:
        """Compute f and g of some features (all by default) from their columns."""
        if features is None and isinstance(self.columns, RemoteColumns):
            kernel = self.kernel if self.follow_target else None
            self.g, self.f = self.columns.left_over(self.span, kernel)
            self._g_known, self._f_known = self.g.copy(), self.f.copy()
            return
        if features is None and isinstance(self.kernel, ImplicitKernel) and self.size == 0:
            self.f = self.kernel.forms()  # nothing is taken off yet, and g is known
            self._f_known = self.f.copy()
            return
        everyone = self.g.size if features is None else features.size
        step = min(BLOCK, max(1, BLOCK_ENTRIES // self.columns.n_rows))
        for start in range(0, everyone, step):
            part = slice(start, min(start + step, everyone))
            chosen = part if features is None else features[part]
            residual = self.off(self.columns.take(chosen))
            self.g[chosen] = np.einsum("ij,ij->j", residual, residual)
            if self.follow_target:
                f = np.einsum("ij,ij->j", residual, self.kernel @ residual)
                self.f[chosen] = np.maximum(f, 0.0)  # rounding
            self._g_known[chosen], self._f_known[chosen] = self.g[chosen], self.f[chosen]

    def renew_target(self) -> None:
        """Compute the kernel anew where its residual has lost digits against what it was."""
        if self.follow_target and self.target_left < DIGITS * self._target_known:
            self.kernel = self._target_kernel()
            self.recompute()
            self.target_left = self._target_known = self._trace()

    def _trace(self) -> float:
        if not isinstance(self.kernel, ImplicitKernel):
            return float(np.trace(self.kernel))
        factor = self.kernel.factor
        return float(self.g.sum() if factor is None else np.sum(factor**2) / self.kernel.unit)

    def fallen(self, share: float) -> NDArray[np.bool_]:
        """Features whose f or g is below a share of what it was when last computed."""
        return (self.f < share * self._f_known) | (self.g < share * self._g_known)

    def remove(self, feature: int) -> None:
        """Take a feature out of everything."""
        q = self.off(self.columns.take([feature]))[:, 0]
        q /= np.linalg.norm(q)
        if self.follow_target:
            image = self.off(self.kernel @ q)
            gain = float(q @ image)
            v, t = self.columns.project(np.stack([q, image]))
            self.f += v * (gain * v - 2 * t)
            self.target_left -= gain
        else:
            v = self.columns.project(q[None])[0]
        self.g -= v * v
        self.unexplained -= float(v @ v)
        if self.size == len(self._basis):
            self._basis = np.concatenate([self._basis, np.empty_like(self._basis)])
        self._basis[self.size] = q
        self.size += 1


def row_gram(
    columns: Columns, off: Callable[[FloatArray], FloatArray] = lambda block: block
) -> FloatArray:
    """Return XXᵀ, with something taken off the columns first."""
    if isinstance(columns, RemoteColumns):
        return off(off(columns.gram()).T)
    gram = np.zeros((columns.n_rows, columns.n_rows))
    for part in blocks(columns.n_features):
        block = off(columns.take(part))
        gram += block @ block.T
    return gram


def row_axes(
    columns: Columns, smallest: float, count: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues of XXᵀ, largest first, above a share of the largest; and eigenvectors.

    At least ``count`` of them, where no more are needed; all by default.
    """
    values, axes = columns.leading_axes(count)
    large = values > smallest * values[0]
    return values[large], axes[:, large]


def row_products(columns: Columns, transform: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Apply something to all rows of X, block by block."""
    step = max(1, BLOCK_ENTRIES // columns.n_features)
    starts = range(0, columns.n_rows, step)
    return np.concatenate([transform(columns.rows(slice(k, k + step))) for k in starts])


def select_greedily(
    columns: Columns,
    *,
    n_picks: int,
    r2: float = np.inf,
    target: Target | None = None,
    criterion: str = "gain",
    weights: FloatArray | None = None,
    candidates: NDArray[np.bool_] | None = None,
    given: Iterable[int] = (),
    tol: float = DETERMINED,
) -> GreedyPath:
    """Pick features one by one, each the best given the earlier ones.

    Parameters
    ----------
    columns : Columns
        The features.
    n_picks : int
        Number of features to stop at, the given ones included.
    r2 : float
        Share of the variance of all features to stop at.
    target : callable, ndarray of shape (n_rows, q) or None
        XAᵀ, or what returns its rows for a block of rows of X; None is A = I.
    criterion : {"gain", "residual"}
        "gain": the share of the target that the feature adds. "residual": the share of the
        feature's own variance that the picks leave unexplained.
    weights : ndarray of shape (n_features,) or None
        What the criterion of each feature is multiplied by.
    candidates : ndarray of bool of shape (n_features,) or None
        Features that may be picked.
    given : iterable of int
        Features that are taken first, in this order, whatever they add, until ``r2`` is reached.
    tol : float
        Share of its variance below which a feature counts as determined by the picks.

    Returns
    -------
    GreedyPath
        Among scores that differ by rounding only the feature that comes first is picked.
    """
    run = _Run(columns, target, criterion, weights, candidates, tol)
    for feature in given:
        if run.explained >= r2:
            break
        run.take(int(feature))
    score = first = run.scores()
    while len(run.picks) < n_picks and not run.explained >= r2 and score.max(initial=0.0) > 0:
        best = int(np.argmax(score >= (1 - TIE) * score.max()))
        run.take(best)
        score = run.scores()
    exhausted = len(run.picks) < n_picks and not run.explained >= r2
    return GreedyPath(
        picks=np.array(run.picks, dtype=np.int64),
        curve=np.array(run.curve),
        gains=np.array(run.gains),
        first=first,
        left=score,
        reason=run.why_exhausted() if exhausted else _why_enough(run.explained >= r2),
        exhausted=exhausted,
    )


def _why_enough(explained: bool) -> str:
    what = "the share of the variance" if explained else "the number of features"
    return f"{what} asked for is reached"


class _Run:
    """Picks so far, and the scores of the other features."""

    def __init__(
        self,
        columns: Columns,
        target: Target | None,
        criterion: str,
        weights: FloatArray | None,
        candidates: NDArray[np.bool_] | None,
        tol: float,
    ) -> None:
        self.by_gain = criterion == "gain"
        self.residual = _Residual(columns, target, follow_target=self.by_gain)
        self.squares = columns.squares
        self.floor = tol * columns.squares
        self.free = columns.squares > 0
        if candidates is not None:
            self.free &= candidates
        self.weights = weights
        self.picks: list[int] = []
        self.curve: list[float] = []
        self.gains: list[float] = []

    @property
    def explained(self) -> float:
        """R² of the picks so far."""
        return self.curve[-1] if self.curve else 0.0

    def take(self, feature: int) -> None:
        """Add a feature to the picks."""
        left = self.residual.target_left
        if self.residual.g[feature] > self.floor[feature]:
            self.residual.remove(feature)
        self.free[feature] = False
        self.picks.append(feature)
        self.gains.append(left - self.residual.target_left)
        self.curve.append(float(np.clip(1 - self.residual.unexplained, self.explained, 1.0)))

    def scores(self) -> FloatArray:
        """Return the scores of all features, computed anew where cancellation has cost digits."""
        if not np.any(self._left()):
            return np.zeros(self.squares.size)
        self.residual.renew_target()
        lost = self._left() & self.residual.fallen(NO_DIGITS)
        if lost.any():
            self.residual.recompute(np.flatnonzero(lost))
        score = self._downdated_scores()
        # A score that has lost some digits is wrong by less than half of the best.
        doubtful = self.residual.fallen(DIGITS) & (score > 0.5 * score.max())
        while doubtful.any():
            self.residual.recompute(np.flatnonzero(doubtful))
            score = self._downdated_scores()
            doubtful = self.residual.fallen(DIGITS) & (score > 0.5 * score.max())
        return score

    def _downdated_scores(self) -> FloatArray:
        score = np.zeros(self.squares.size)
        if self.by_gain and self.residual.target_left <= EXPLAINED:
            return score
        left = self._left()
        if self.by_gain:
            np.divide(np.maximum(self.residual.f, 0.0), self.residual.g, out=score, where=left)
        else:
            np.divide(self.residual.g, self.squares, out=score, where=left)
        return score if self.weights is None else score * self.weights

    def _left(self) -> NDArray[np.bool_]:
        return self.free & (self.residual.g > self.floor)

    def why_exhausted(self) -> str:
        """Say why there is nothing left to pick."""
        count = len(self.picks)
        if np.any(self._left()):
            return f"the first {count} picks explain the target completely"
        return f"the first {count} picks determine every feature that may be picked"

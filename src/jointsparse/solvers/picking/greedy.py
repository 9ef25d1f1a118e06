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

Late in a run what is left of a feature is mostly noise, and dividing by its length g rewards
exactly the features of which nothing else is left. With :math:`\tau_j` the squares of each feature
that say nothing about new samples (:mod:`jointsparse.selection.noise`) the score is
:math:`f_j/(g_j + \tau_j)`.

Under constraints (:class:`Rules`) only what may still join is asked. A whole group counts with the
mean of the scores of its features, taken one after the other; with prices, scores are divided by
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import numbers, to_host
from jointsparse.linalg import BLOCK, column_products, positive_part
from jointsparse.solvers.picking.greedy_groups import group_score
from jointsparse.solvers.picking.row_targets import (
    BLOCK_ENTRIES,
    ImplicitKernel,
    Target,
    row_gram,
    row_products,
)
from jointsparse.solvers.products.columns import Columns
from jointsparse.solvers.subset.rules import Room, Rules

DETERMINED = 1e-9  # share of its variance below which a feature is determined by the picks
TIE = 1e-8  # relative difference of scores that rounding may make
SINGLE_TIE = 1e-6  # … that of columns centred in single precision, whose unit is 6e-8
EXPLAINED = 1e-20  # share of the target below which nothing of it is left
DIGITS = 1e-5  # a downdated number this much smaller than it was may need to be computed anew
NO_DIGITS = 1e-10  # this much smaller, it may be anything


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
        self.xp = columns.xp
        self._basis = self._empty_rows(8)
        self.size = 0
        self.unexplained = 1.0  # 1 - R²
        self.target_left = 1.0
        self._target_known = 1.0  # its size when the kernel was last computed from the columns
        self._target_unit = self._target_total = 1.0
        self.g, self.f = self._copy(columns.squares), self.xp.zeros_like(columns.squares)
        self._g_known, self._f_known = self._copy(self.g), self._copy(self.f)
        if follow_target:
            self._start()

    def _start(self) -> None:
        """Compute the kernel and f, or take them from an earlier run for the same target."""
        earlier = self.columns.last_start
        if earlier is not None and earlier[0] is self.target:
            _, self.kernel, self._target_unit, self._target_total, f = earlier
            self.f, self._f_known = self._copy(f), self._copy(f)
            return
        self.kernel = self._target_kernel()
        self.recompute()
        self.columns.last_start = (
            self.target,
            self.kernel,
            self._target_unit,
            self._target_total,
            self._copy(self.f),
        )

    def _copy(self, array: Array) -> Array:
        return array.copy() if type(array) is np.ndarray else self.xp.asarray(array, copy=True)

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
                vectors = vectors - across @ (span @ vectors)
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
        """Compute f and g of some features (all by default) from their columns."""
        if features is None and self.columns.samples.is_elsewhere:
            kernel = self.kernel if self.follow_target else None
            self.g, self.f = self.columns.left_over(self.span, kernel)
            self._g_known, self._f_known = self.g.copy(), self.f.copy()
            return
        if features is None and isinstance(self.kernel, ImplicitKernel) and self.size == 0:
            self.f = self.kernel.forms()  # nothing is taken off yet, and g is known
            self._f_known = self.f.copy()
            return
        everyone = self.g.shape[0] if features is None else features.shape[0]
        step = min(BLOCK, max(1, BLOCK_ENTRIES // self.columns.n_rows))
        for start in range(0, everyone, step):
            part = slice(start, min(start + step, everyone))
            chosen = part if features is None else features[part]
            residual = self.off(self.columns.take(chosen))
            self.g[chosen] = column_products(residual, residual)
            if self.follow_target:
                f = column_products(residual, self.kernel @ residual)
                self.f[chosen] = positive_part(f)  # rounding
            self._g_known[chosen], self._f_known[chosen] = self.g[chosen], self.f[chosen]

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
        if self.follow_target:
            return (self.f < share * self._f_known) | (self.g < share * self._g_known)
        return self.g < share * self._g_known

    def remove(self, feature: int) -> None:
        """Take a feature out of everything."""
        q = self.off(self.columns.take(slice(feature, feature + 1)))[:, 0]
        q = q / (q @ q) ** 0.5
        if self.follow_target:
            image = self.off(self.kernel @ q)
            gain = q @ image
            v, t = self.columns.project(q, image)
            self.f += v * (gain * v - 2 * t)
            share, explained = numbers(gain, v @ v)
            self.target_left -= share
        else:
            (v,) = self.columns.project(q)
            explained = float(v @ v)
        self.g -= v * v
        self.unexplained -= explained
        if self.size == self._basis.shape[0]:
            self._basis = self.xp.concat([self._basis, self._empty_rows(self.size)])
        self._basis[self.size, :] = q
        self.size += 1


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
    noise: FloatArray | None = None,
    near: float = 0.0,
    target_share: float = np.inf,
    tol: float = DETERMINED,
    rules: Rules | None = None,
    per_price: bool = False,
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
    noise : ndarray of shape (n_features,) or None
        τ, what of the sum of squares of each feature says nothing about new samples, as a share of
        the total variance; by "gain" only.
    near : float
        Features whose score is below the best by no more than this share count as equally good:
        of them, the one that accounts for most by itself is picked. It stands for more of the
        others, and is the likelier one to be picked again on other samples.
    target_share : float
        Share of the target to stop at; by "gain" only.
    tol : float
        Share of its variance below which a feature counts as determined by the picks.
    rules : Rules or None
        Constraints.
    per_price : bool
        Whether scores are divided by prices.

    Returns
    -------
    GreedyPath
        Among features that are equally good but for rounding, the first is picked.
    """
    run = _Run(columns, target, criterion, weights, candidates, noise, tol)
    if rules is not None:
        run.obey(rules, per_price)

    def enough() -> bool:
        return run.explained >= r2 or 1 - run.residual.target_left >= target_share

    # What must be in, and the rest of a group that is whole, is taken whatever is reached.
    needed = set() if rules is None else set(rules.include)
    mates = {} if rules is None else {j: members for members in rules.wholes for j in members}
    for feature in map(int, given):
        if enough() and feature not in needed:
            break
        run.take(feature)
        needed |= set(mates.get(feature, ()))
    score = first = run.scores()
    while len(run.picks) < n_picks and not enough():
        unit = run.best_unit(score, first, near, n_picks - len(run.picks))
        if not unit:
            break
        for feature in unit:
            run.take(feature, adds=len(unit) == 1)
        score = run.scores()
    exhausted = len(run.picks) < n_picks and not enough()
    return GreedyPath(
        picks=np.array(run.picks, dtype=np.int64),
        curve=np.array(run.curve),
        gains=np.array(run.gains),
        first=to_host(first),
        left=to_host(score),
        reason=run.why_exhausted() if exhausted else _why_enough(enough()),
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
        noise: FloatArray | None,
        tol: float,
    ) -> None:
        self.by_gain = criterion == "gain"
        self.residual = _Residual(columns, target, follow_target=self.by_gain)
        self.squares = columns.squares
        self.floor = tol * columns.squares
        self.free = columns.squares > 0
        if candidates is not None:
            self.free &= columns.here(candidates)
        self.weights = None if weights is None else columns.here(weights)
        self.prices: Array | None = None
        self.room: Room | None = None
        self.groups: list[tuple[int, ...]] = []
        self.noise = None if noise is None else columns.here(noise)
        self.xp = columns.xp
        self.tie = SINGLE_TIE if columns.single else TIE
        self.picks: list[int] = []
        self.curve: list[float] = []
        self.gains: list[float] = []

    @property
    def explained(self) -> float:
        """R² of the picks so far."""
        return self.curve[-1] if self.curve else 0.0

    def take(self, feature: int, *, adds: bool = False) -> None:
        """Add a feature to the picks; ``adds``: it is known not to be determined by the others."""
        left = self.residual.target_left
        if adds or self.residual.g[feature] > self.floor[feature]:
            self.residual.remove(feature)
        self.free[feature] = False
        if self.room is not None:
            self.room.take([feature])
            self.free &= self.residual.columns.here(self.room.free)
        self.picks.append(feature)
        self.gains.append(left - self.residual.target_left)
        self.curve.append(min(max(1 - self.residual.unexplained, self.explained), 1.0))

    def obey(self, rules: Rules, per_price: bool) -> None:
        """Pick nothing from now on but what constraints allow."""
        here = self.residual.columns.here
        candidates = to_host(self.free)
        self.groups = [members for members in rules.wholes if candidates[list(members)].any()]
        self.room = rules.room()
        self.free &= here(self.room.free)
        if per_price:
            self.prices = here(rules.prices)

    def best_unit(self, score: Array, alone: Array, near: float, most: int) -> Sequence[int]:
        """Return the feature or whole group to take next; nothing where none adds anything."""
        single = self.best(score, alone, near)
        best: Sequence[int] = () if single is None else (single,)
        level = float(score[single]) if self.groups and single is not None else 0.0
        for members in self.groups:
            if len(members) > most or self.room is None or not self.room.fits(members):
                continue
            worth = self._group_score(list(members))
            if worth > level:
                best, level = members, worth
        return best

    def _group_score(self, members: list[int]) -> float:
        return group_score(
            self.residual.off(self.residual.columns.take(members)),
            members,
            self.residual.kernel if self.by_gain else None,
            floor=self.floor,
            below=self.noise if self.by_gain else self.squares,
            weights=self.weights,
            prices=self.prices,
        )

    def best(self, score: Array, alone: Array, near: float) -> int | None:
        """Return the feature with the highest score; None where none has any.

        Of several that are nearly as good, the one with the highest score at the start.
        """
        xp = self.xp
        top = highest = score.max()
        if near > 0:
            score = xp.where(score >= (1 - near) * top, alone, 0.0)
            highest = score.max()
        equal = score >= (1 - self.tie) * highest
        if type(equal) is not np.ndarray:
            # Counted, because not every library finds the first of several equal truth values.
            equal = xp.astype(equal, xp.int8)
        level, first = numbers(top, equal.argmax())
        return int(first) if level > 0 else None

    def scores(self) -> Array:
        """Return the scores of all features, computed anew where cancellation has cost digits."""
        xp = self.xp
        left = self._left()
        if self.residual.worn and bool(left.any()):
            self.residual.renew_target()
            left = self._left()
        fallen = left & self.residual.fallen(DIGITS)
        some, doubted = numbers(left.any(), fallen.any())
        if not some:
            return xp.zeros_like(self.squares)
        if not doubted:
            return self._downdated_scores(left)
        lost = left & self.residual.fallen(NO_DIGITS)
        if bool(xp.any(lost)):
            self.residual.recompute(xp.nonzero(lost)[0])
        score = self._downdated_scores()
        # A score that has lost some digits is wrong by less than half of the best.
        doubtful = self._doubtful(score)
        while bool(xp.any(doubtful)):
            self.residual.recompute(xp.nonzero(doubtful)[0])
            score = self._downdated_scores()
            doubtful = self._doubtful(score)
        return score

    def _doubtful(self, score: Array) -> Array:
        return self.residual.fallen(DIGITS) & (score > 0.5 * self.xp.max(score))

    def _downdated_scores(self, left: Array | None = None) -> Array:
        xp = self.xp
        if self.by_gain and self.residual.target_left <= EXPLAINED:
            return xp.zeros_like(self.squares)
        left = self._left() if left is None else left
        above = positive_part(self.residual.f) if self.by_gain else self.residual.g
        below = self.residual.g if self.by_gain else self.squares
        if self.by_gain and self.noise is not None:
            below = below + self.noise
        score = xp.where(left, above / xp.where(left, below, 1.0), 0.0)
        if self.weights is not None:
            score = score * self.weights
        return score if self.prices is None else score / self.prices

    def _left(self) -> Array:
        return self.free & (self.residual.g > self.floor)

    def why_exhausted(self) -> str:
        """Say why there is nothing left to pick."""
        count = len(self.picks)
        if bool(self.xp.any(self._left())):
            return f"the first {count} picks explain the target completely"
        return f"the first {count} picks determine every feature that may be picked"

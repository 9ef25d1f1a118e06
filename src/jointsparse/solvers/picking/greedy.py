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

and score = f/g. No p × p matrix, no h × p matrix: O(h(mp + m² + hm)) after K
(:mod:`~jointsparse.solvers.picking.residual`).

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
from math import inf

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import numbers, to_host
from jointsparse.linalg import array_namespace, positive_part
from jointsparse.solvers.picking.greedy_groups import group_score
from jointsparse.solvers.picking.residual import DIGITS, Residual
from jointsparse.solvers.picking.row_targets import Target
from jointsparse.solvers.products.columns import Columns
from jointsparse.solvers.subset.rules import Room, Rules

DETERMINED = 1e-9  # share of its variance below which a feature is determined by the picks
TIE = 1e-8  # relative difference of scores that rounding may make
SINGLE_TIE = 1e-6  # … that of columns centred in single precision, whose unit is 6e-8
EXPLAINED = 1e-20  # share of the target below which nothing of it is left
TINY = 1e-300  # beside any length nothing; what is divided by is not 0 where a length is
NO_DIGITS = 1e-10  # a downdated number this much smaller than it was may be anything


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
    limited = min(r2, target_share) < inf
    for feature in map(int, given):
        if limited:
            run.settle()
        if enough() and feature not in needed:
            break
        run.take(feature)
        needed |= set(mates.get(feature, ()))
    single = run.look(near)
    while len(run.picks) < n_picks and not enough():
        unit = run.best_unit(single, n_picks - len(run.picks))
        if not unit:
            break
        for feature in unit:
            run.take(feature, adds=len(unit) == 1)
        single = run.look(near)
    exhausted = len(run.picks) < n_picks and not enough()
    return GreedyPath(
        picks=np.array(run.picks, dtype=np.int64),
        curve=np.array(run.curve),
        gains=np.array(run.gains),
        first=to_host(positive_part(run.first)),
        left=to_host(positive_part(run.score)),
        reason=run.why_exhausted() if exhausted else _why_enough(enough()),
        exhausted=exhausted,
    )


def _why_enough(explained: bool) -> str:
    what = "the share of the variance" if explained else "the number of features"
    return f"{what} asked for is reached"


class _Run:
    """Picks so far, and the scores of the other features.

    On a device a pick takes one wait: what it adds is read together with the next choice.
    """

    score: Array  # at the last look …
    first: Array = None  # … and at the first

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
        self.residual = Residual(columns, target, follow_target=self.by_gain)
        squares = self.residual.squares
        self.xp, self.here = array_namespace(squares), self.residual.here
        self.floor = tol * squares
        self.free = to_host(squares > 0)
        if candidates is not None:
            self.free = self.free & candidates
        self.weights = None if weights is None else self.here(weights)
        self.prices: Array | None = None
        self.room: Room | None = None
        self.groups: list[tuple[int, ...]] = []
        # What is added to g before f is divided by that; or what g is divided by.
        added = None if noise is None else self.here(noise)
        self.beside = added if self.by_gain else squares
        self.tie = SINGLE_TIE if columns.single else TIE
        self.picks: list[int] = []
        self.curve: list[float] = []
        self.gains: list[float] = []
        self.added = self.xp.stack([self.floor, self.floor])
        self._mark()

    def _mark(self) -> None:
        """Note what is left to pick, as two rows that are added to g.

        Minus the limit below which g is to be looked at again, and what is divided by besides;
        infinity for a feature that is not to be picked, which so is never in doubt, nor the best.
        """
        xp, left = self.xp, self._left()
        limit = xp.maximum(DIGITS * self.residual.g_known, self.floor)
        self.added[0, :] = xp.where(left, -limit, inf)
        self.added[1, :] = xp.where(left, TINY if self.beside is None else self.beside + TINY, inf)

    @property
    def explained(self) -> float:
        """R² of the picks so far."""
        return self.curve[-1] if self.curve else 0.0

    def settle(self, *asked: Array) -> list[float]:
        """Return some numbers; with them comes, in one wait, what the last pick adds."""
        if len(self.gains) == len(self.picks):
            return numbers(*asked) if asked else []
        found = numbers(*asked, *self.residual.told)
        self.gains.append(self.residual.note(*found[len(asked) :]))
        self.curve.append(min(max(1 - self.residual.unexplained, self.explained), 1.0))
        return found[: len(asked)]

    def take(self, feature: int, *, adds: bool = False) -> None:
        """Add a feature to the picks; ``adds``: it is known not to be determined by the others."""
        if not adds:
            left, floor = self.settle(self.residual.g[feature], self.floor[feature])
            adds = left > floor
        self.picks.append(feature)
        if adds:
            self.residual.remove(feature)
        else:
            self.gains.append(0.0)
            self.curve.append(self.explained)
        self.free[feature] = False
        self.added[:, feature] = inf
        if self.room is not None:
            self.room.take([feature])
            self._allow(self.room.free)

    def _allow(self, allowed: NDArray[np.bool_]) -> None:
        free = self.free & allowed
        if not np.array_equal(free, self.free):
            self.free = free
            self._mark()

    def obey(self, rules: Rules, per_price: bool) -> None:
        """Pick nothing from now on but what constraints allow."""
        self.groups = [members for members in rules.wholes if self.free[list(members)].any()]
        self.room = rules.room()
        self._allow(self.room.free)
        if per_price:
            self.prices = self.here(rules.prices)

    def best_unit(self, single: int | None, most: int) -> Sequence[int]:
        """Return the feature or whole group to take next; nothing where none adds anything."""
        best: Sequence[int] = () if single is None else (single,)
        level = float(self.score[single]) if self.groups and single is not None else 0.0
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
            below=self.beside,
            weights=self.weights,
            prices=self.prices,
        )

    def look(self, near: float) -> int | None:
        """Score all features, and return the one with the highest score; None where none has any.

        Of several that are nearly as good, the one with the highest score at the first look. Where
        cancellation has cost digits, numbers are computed anew.
        """
        level, known, best, margin = self.settle(*self._best(near))
        # What has fallen that far is below half of the best score, unless all have.
        fallen = margin < 0 or DIGITS * known > 0.5 * level
        if fallen or (self.residual.worn and margin < inf):
            self._renew()
            level, _, best, _ = numbers(*self._best(near))
        if self.by_gain and self.residual.target_left <= EXPLAINED:
            self.score, level = self.xp.zeros_like(self.score), 0.0
        self.first = self.score if self.first is None else self.first
        return int(best) if level > 0 else None

    def _best(self, near: float) -> tuple[Array, Array, Array, Array]:
        """Return the highest score, that of the known f, whose the first is, and the margin of g.

        All of them are numbers where the columns are.
        """
        shifted = self.residual.g + self.added
        scores = self._scores(shifted[1, :])
        score = self.score = scores[0, :]
        tops = self.xp.max(scores, axis=1)
        highest = tops[0]
        if near > 0 and self.first is not None:
            score = (score >= (1 - near) * highest) * self.first
            highest = score.max()
        equal = score >= (1 - self.tie) * highest
        # As integers, because not every library finds the first of several equal truth values.
        return tops[0], tops[-1], equal.view(self.xp.int8).argmax(), shifted[0, :].min()

    def _scores(self, below: Array) -> Array:
        """Return scores as a row; by gain above another, with f as it was when last computed."""
        residual = self.residual
        scores = residual.both / below if self.by_gain else residual.levels / self.added[1, :]
        if self.weights is not None:
            scores = scores * self.weights
        return scores if self.prices is None else scores / self.prices

    def _renew(self) -> None:
        """Compute anew what cancellation has cost digits."""
        xp, residual = self.xp, self.residual
        left = self._left()
        if residual.worn and bool(xp.any(left)):
            residual.renew_target()
            left = self._left()
        doubtful = left & residual.fallen(NO_DIGITS)
        while True:
            if bool(xp.any(doubtful)):
                residual.recompute(xp.nonzero(doubtful)[0])
            self._mark()
            # A score that has lost some digits is wrong by less than half of the best.
            score = self._scores(residual.g + self.added[1, :])[0, :]
            doubtful = residual.fallen(DIGITS) & (score > 0.5 * xp.max(score))
            if not bool(xp.any(doubtful)):
                break

    def _left(self) -> Array:
        return self.here(self.free) & (self.residual.g > self.floor)

    def why_exhausted(self) -> str:
        """Say why there is nothing left to pick."""
        count = len(self.picks)
        if bool(self.xp.any(self._left())):
            return f"the first {count} picks explain the target completely"
        return f"the first {count} picks determine every feature that may be picked"

r"""From a fitted model to a set of features that keeps to constraints.

What must be in is taken first; what may not be in is never taken, but still to be explained. Each
rule then goes on as it does without constraints, among what still fits: a feature or a whole group
that costs more than is left, or of whose group there are enough, is passed over.

**Prices.** The rules that ask for gains ("greedy", "swap") pick twice: by gain, and by gain for
each unit of the price. The set that accounts for more of the target is kept. The first run begins
with the best single choice, the usual guard against cheap features that add little. (Leskovec et
al. 2007, for submodular targets; what a regression accounts for is not quite one, so how good the
set is has to be proved for each table.) All other rules keep to their order.

**Whole groups** count with the mean of the scores of their features, each after those before it in
the group; every feature counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.moments import Moments
from jointsparse.selection.choosing import (
    BY_GAIN,
    IN_ORDER,
    Choice,
    Rule,
    Wanted,
    by_score,
    exchanged,
    pick_in_tiers,
    picks_then_others,
)
from jointsparse.solvers.picking.greedy import GreedyPath, select_greedily
from jointsparse.solvers.products.columns import Columns, feature_columns
from jointsparse.solvers.subset.rules import Rules


def choose_allowed(
    moments: Moments, scores: FloatArray, wanted: Wanted, rule: Rule, rules: Rules
) -> Choice:
    """Make a set of features out of a model, as constraints allow it.

    As :func:`choose_features`; with "support" those of the model's features that may be in, best
    first as long as they fit, and what must be in.

    Parameters
    ----------
    moments : Moments
        The data.
    scores : ndarray of shape (n_features,)
        The model's scores; at least 0.
    wanted : Wanted
        How many; not "auto".
    rule : Rule
        How the set is made.
    rules : Rules
        Constraints.
    """
    if rule.name == "variance" and not wanted.support:
        scores = moments.variances
    variances = moments.variances
    order = by_score(scores, variances)
    nonzero = (scores > 0) & rules.allowed
    available = int(nonzero.sum())
    walk = _Walk(rules, scores, variances)
    inside = np.array(rules.include, dtype=np.int64)
    if wanted.support:
        picks = walk.on(inside, len(order), _with_groups(nonzero, rules))
        return Choice(_first(picks, order), picks.size, available=available)
    eligible = nonzero if available else (variances > 0) & rules.allowed
    count = int(eligible.sum()) if wanted.count is None else wanted.count
    if available == 0 and wanted.count is None:
        count = 0  # an empty model, and a share of the variance: as without constraints
    count = max(min(count, rules.most_features()), inside.size)
    columns = feature_columns(moments)
    path = None
    picks = inside
    if count > inside.size and rule.name in IN_ORDER:
        picks = walk.on(inside, count, _with_groups(eligible, rules))
    elif count > inside.size:
        path = _best_path(
            columns, count, _tiers(eligible, rule, rules), scores, wanted, rule, rules
        )
        picks, order = path.picks, picks_then_others(path, order)
    else:
        order = rule.before_picks(order)
    stopped = path is not None and not path.exhausted and path.picks.size < count
    if wanted.count is not None and picks.size < count and not stopped:
        picks = walk.on(picks, count, rules.allowed)  # more than have a score, or add anything
    if picks.size == 0:
        return Choice(order, 0, path=path, available=available)
    known = select_greedily(
        columns,
        n_picks=picks.size,
        criterion="residual",
        given=picks,
        tol=rule.tol,
        r2=np.inf if wanted.r2 is None else wanted.r2,
        rules=rules,
    )
    curve, short = known.curve, known.picks.size < picks.size
    picks = rules.cut(picks, known.picks.size)
    if short and picks.size > curve.size:  # a group is kept as a whole
        curve = select_greedily(
            columns, n_picks=picks.size, criterion="residual", given=picks, tol=rule.tol
        ).curve
    return Choice(_first(picks, order), picks.size, curve, path, available)


def _tiers(eligible: NDArray[np.bool_], rule: Rule, rules: Rules) -> list[NDArray[np.bool_]]:
    """Return whom to pick from: features that share something with others, then all."""
    tiers = [_with_groups(tier, rules) for tier in rule.tiers(eligible)]
    for tier in tiers:
        tier[list(rules.include)] = True
    return tiers


def _with_groups(mask: NDArray[np.bool_], rules: Rules) -> NDArray[np.bool_]:
    """Return a mask with all features of whole groups of which it has one."""
    mask = mask.copy()
    for members in rules.wholes:
        mask[list(members)] = mask[list(members)].any()
    return mask


def _best_path(
    columns: Columns,
    count: int,
    tiers: list[NDArray[np.bool_]],
    scores: FloatArray,
    wanted: Wanted,
    rule: Rule,
    rules: Rules,
) -> GreedyPath:
    """Pick; with prices by gain and by gain for the price, whichever accounts for more."""
    r2 = np.inf if wanted.r2 is None else wanted.r2
    limits = rule.limits(scores, r2)
    twice = rules.costs is not None and rule.name in BY_GAIN
    paths = [
        pick_in_tiers(
            columns,
            count,
            tiers,
            rule.target,
            limits | {"rules": rules, "per_price": per_price},
            given=rules.include,
        )
        for per_price in ((False, True) if twice else (False,))
    ]
    best = paths[0]
    for other in paths[1:]:
        better = other.gains.sum() > best.gains.sum()
        if wanted.r2 is not None:  # what is asked for is reached, or as much as can be
            better = best.curve[-1:].sum() < min(r2, other.curve[-1:].sum())
        best = other if better else best
    if rule.name == "swap":
        return exchanged(columns, best, tiers, rule.target, limits | {"rules": rules})
    return best


def _first(picks: IntArray, order: IntArray) -> IntArray:
    """Return all features, the picks first."""
    return np.concatenate([picks, order[~np.isin(order, picks)]])


class _Walk:
    """Takes units in the order of their scores, as long as they fit."""

    def __init__(self, rules: Rules, scores: FloatArray, variances: FloatArray) -> None:
        self.rules = rules
        self.units = rules.units
        if rules.wholes:
            means = [
                np.array([values[list(unit)].mean() for unit in self.units])
                for values in (scores, variances)
            ]
            self.order = by_score(*means)
        else:
            members = np.array([unit[0] for unit in self.units], dtype=np.int64)
            self.order = by_score(scores[members], variances[members])

    def on(self, start: IntArray, count: int, among: NDArray[np.bool_]) -> IntArray:
        """Return a set that begins with some features, with at most ``count`` in all."""
        room, picks = self.rules.room(start), list(start.tolist())
        for number in self.order.tolist():
            unit = self.units[number]
            if len(picks) >= count:
                break
            if len(picks) + len(unit) <= count and among[unit[0]] and room.fits(unit):
                room.take(unit)
                picks += unit
        return np.array(picks, dtype=np.int64)

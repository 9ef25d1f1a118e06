r"""From a fitted model to a set of features: how many, and which.

A model gives every feature a score. Keeping the highest scores keeps copies: features that share a
component all score high. The rules here build a *set*, one feature after the other:

* ``"greedy"``: the feature that accounts for most of the model's target beyond those already kept.
* ``"residual"``: the highest score × share of the feature's own variance that is still unexplained.
* ``"norm"``: the highest scores, as published; redundancy plays no part.
* ``"variance"``: the largest variances, whatever the model says: the set that makes up most of the
  total variance by itself.
* ``"swap"``: as greedy; then one of the set is exchanged for another feature as long as the set
  accounts for more of the target. Scores that are no model of the data decide where it begins.

Features that share nothing with the others (:func:`~jointsparse.feature_significance`) are left for
last by the first two: each of them is a direction of its own, which no set of others replaces and
which stands in for nothing. One in twenty of those that seem to share something does not. Where the
number is left to "auto", those come first of which not one does, in 95 of 100 tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import like, on_accelerator, to_host
from jointsparse.eigen.inverse_root import inverse_root_times
from jointsparse.io.budget import available_memory, size_in_words
from jointsparse.linalg import Spectrum, array_namespace, double
from jointsparse.moments import Moments
from jointsparse.solvers.picking.greedy import DETERMINED, TIE, GreedyPath, select_greedily
from jointsparse.solvers.picking.row_targets import Projection, Target, row_axes, row_products
from jointsparse.solvers.products.columns import Columns, feature_columns
from jointsparse.solvers.subset.picks import exchange_picks
from jointsparse.solvers.subset.rules import Rules
from jointsparse.text import counted

RULES = ("greedy", "residual", "norm", "variance", "swap")
BY_GAIN = ("greedy", "swap")  # rules that ask what a feature adds to the target
IN_ORDER = ("norm", "variance")  # rules that do not ask what the kept features leave
EXCHANGE_MATRICES = 6  # of n_rows × n_features held at once by exchanges: measured 5.0
NOISE_WEIGHT = 3.0  # of the noise in a feature's length; 1 … 3 did alike on 16 tables, 0 worse
NEAR = 0.01  # gains that differ by less are equal: on 13 tables that cost nothing, nor did 0.03
# Picks in a part of the samples before they are judged, and as many for each independent pattern;
# where these do not cover what can be predicted, more are picked. All the same for the answer.
FIRST_PICKS, PICKS_PER_PATTERN = 200, 5
MORE_PICKS = 4  # times as many
TRIAL_SHARE = 0.995  # of the target, at which picking in a part of the samples stops
SMALL_EIGENVALUE = (
    1e-6  # of the largest: directions below are noise, and whitening would blow it up
)

_R2 = re.compile(r"r2\s*>=\s*(\d*\.?\d+(?:e-?\d+)?)", re.IGNORECASE)


def is_number(value: Any, kind: type = Real) -> bool:
    """Whether a parameter is a number (True and False are not)."""
    return isinstance(value, kind) and not isinstance(value, bool)


@dataclass(frozen=True)
class Wanted:
    """How many features to keep: a number, enough for an R², the model's support, or "auto"."""

    count: int | None = None
    r2: float | None = None
    auto: bool = False

    @property
    def support(self) -> bool:
        """Whether the nonzero scores themselves decide."""
        return self.count is None and self.r2 is None and not self.auto


def wanted_features(value: Any, n_features: int) -> Wanted:
    """Read ``n_features_to_select``, or say what it can be."""
    if isinstance(value, str):
        if value == "auto":
            return Wanted(auto=True)
        if value == "support":
            return Wanted()
        target = _R2.fullmatch(value.strip())
        if target and 0 < float(target[1]) <= 1:
            return Wanted(r2=float(target[1]))
    elif is_number(value, Integral):
        if not 1 <= value <= n_features:
            raise ValueError(
                f"n_features_to_select={value} is not between 1 and the number of features, "
                f"{n_features}"
            )
        return Wanted(count=int(value))
    elif is_number(value) and 0 < value <= 1:
        return Wanted(count=max(1, round(float(value) * n_features)))
    raise ValueError(
        f"n_features_to_select={value!r} is neither a number of features, nor a share between "
        "0 and 1, nor a share of this table's variance, such as 'r2>=0.9', nor 'auto' "
        "(as many as new samples call for), nor 'support'"
    )


def check_rule(rule: Any) -> str:
    """Return the rule, or say which ones there are."""
    if rule not in RULES:
        raise ValueError(f"rule={rule!r} is not one of {', '.join(map(repr, RULES))}")
    return str(rule)


@dataclass(frozen=True)
class Choice:
    """A set of features.

    Attributes
    ----------
    order : ndarray of shape (n_features,)
        All features, best first; the first ``n_kept`` are the set.
    n_kept : int
        Size of the set.
    curve : ndarray of shape (n_kept,) or None
        R² of the first kept feature, the first two, …; None where it was not asked for.
    path : GreedyPath or None
        The greedy run, where there was one.
    available : int
        How many features the model lets be kept: those with a nonzero score.
    """

    order: IntArray
    n_kept: int
    curve: FloatArray | None = None
    path: GreedyPath | None = None
    available: int = 0

    @property
    def ranking(self) -> IntArray:
        """Ranks of the features, 1 for the best."""
        ranks = np.empty(self.order.size, dtype=np.int64)
        ranks[self.order] = np.arange(1, self.order.size + 1)
        return ranks

    @property
    def support(self) -> NDArray[np.bool_]:
        """Mask of the kept features."""
        mask = np.zeros(self.order.size, dtype=bool)
        mask[self.order[: self.n_kept]] = True
        return mask


def by_score(scores: FloatArray, variances: FloatArray, samples: Any = None) -> IntArray:
    """Return the features with the highest score first.

    Among equal scores (the zeros, those of repeated columns) more variance comes first, so that
    constant features come last, and then the order of the columns; what differs by rounding only
    is equal. Where the samples are given and are on a device, it sorts.
    """
    if not on_accelerator(samples):
        return np.lexsort((tied_steps(-variances), tied_steps(-scores)))
    xp = array_namespace(samples)
    order = xp.argsort(tied_steps(like(-variances, samples)), stable=True)
    steps = tied_steps(like(-scores, samples))[order]
    return to_host(order[xp.argsort(steps, stable=True)])


def tied_steps(values: Array) -> Array:
    """Return steps counted from the lowest value; what rounding may have told apart is one."""
    xp = array_namespace(values)
    order = xp.argsort(values, stable=False)  # equal values are one step, in any order
    ascending = values[order]
    sizes = abs(ascending)
    sizes = xp.maximum(sizes[1:], sizes[:-1])
    steps = xp.zeros_like(order)
    steps[order[1:]] = (ascending[1:] - ascending[:-1] > TIE * sizes).cumsum(0)
    return steps


@dataclass(frozen=True)
class Rule:
    """How a set is made.

    Attributes
    ----------
    name : {"greedy", "residual", "norm", "variance", "swap"}
        See the top of this file.
    target : callable, ndarray or None
        What the greedy rule accounts for (see :func:`select_greedily`); None is all features alike.
        Where the target is accounted for completely, what is left of all features follows; where
        that is too, another round among the features left over.
    weigh : bool
        Multiply the gains of the greedy rule by the scores: for methods that have scores but no
        model of the data.
    significant : ndarray of bool of shape (n_features,) or None
        Features that share something with others; the rest come after them, but not by "norm" and
        "variance".
    first : ndarray of bool of shape (n_features,) or None
        Of these, the ones to pick from before any other.
    noise : ndarray of shape (n_features,) or None
        What of the sum of squares of each feature says nothing about new samples, as a share of the
        total variance: noise, and what hangs on single samples
        (:mod:`jointsparse.selection.noise`).
    target_share : float
        Share of the target at which to stop.
    tol : float
        Share of its variance below which a feature counts as determined by the others.
    """

    name: str = "greedy"
    target: Target | None = None
    weigh: bool = False
    significant: NDArray[np.bool_] | None = None
    first: NDArray[np.bool_] | None = None
    noise: FloatArray | None = None
    target_share: float = np.inf
    tol: float = DETERMINED

    def tiers(self, eligible: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
        """Return whom to pick from: first, where these are used up, and so on; the last is all."""
        masks = [self.first, self.significant]
        wanted = [*(mask & eligible for mask in masks if mask is not None), eligible]
        sizes = [int(mask.sum()) for mask in wanted]
        # Each holds the one before it, so that those of one size are the same.
        smaller = [k for k in range(len(wanted) - 1) if 0 < sizes[k] < sizes[k + 1]]
        return [*(wanted[k] for k in smaller), eligible]

    def before_picks(self, order: IntArray) -> IntArray:
        """Return an order by score where nothing is picked: whom a pick would ask first lead."""
        if self.significant is None or self.name in IN_ORDER:
            return order
        return order[np.argsort(~self.significant[order], kind="stable")]

    def limits(self, scores: FloatArray, r2: float) -> dict[str, Any]:
        """Return what the greedy kernel is to be told."""
        limits: dict[str, Any] = {"tol": self.tol, "r2": r2, "criterion": "gain"}
        if self.name == "residual":
            limits["criterion"] = "residual"
        else:
            limits |= {"noise": self.noise, "target_share": self.target_share}
            limits["near"] = 0.0 if self.noise is None else NEAR
        if (self.name == "residual" or self.weigh) and scores.any():
            limits["weights"] = scores / scores.max()
        return limits


def choose_features(
    moments: Moments, scores: FloatArray, wanted: Wanted, rule: Rule | None = None
) -> Choice:
    """Make a set of features out of a model.

    Features with a nonzero score are picked, those that share something with others first; where
    more are asked for, those with the largest variance follow. Of a model without any nonzero score
    all features may be picked, by what they account for. With "support" the model has made the set
    itself, and its scores order it.

    Parameters
    ----------
    moments : Moments
        The data.
    scores : ndarray of shape (n_features,)
        The model's scores; at least 0.
    wanted : Wanted
        How many; not "auto".
    rule : Rule or None
        How the set is made; None is the greedy rule for all features alike.
    """
    rule = rule or Rule()
    if rule.name == "variance" and not wanted.support:
        scores = moments.variances
    order = by_score(scores, moments.variances, moments.data)
    nonzero = scores > 0
    available = int(nonzero.sum())
    if wanted.count == 0:
        return Choice(rule.before_picks(order), 0, available=available)
    if wanted.support or (available == 0 and wanted.count is None):
        return Choice(order, available, available=available)
    columns = feature_columns(moments)
    eligible = nonzero if available else moments.variances > 0
    count = int(eligible.sum())
    if wanted.count is not None:
        count = min(wanted.count, count)
    r2 = np.inf if wanted.r2 is None else wanted.r2
    path = None
    if rule.name not in IN_ORDER and count > 0:
        tiers = rule.tiers(eligible)
        limits = rule.limits(scores, r2)
        path = pick_in_tiers(columns, count, tiers, rule.target, limits)
        if rule.name == "swap":
            path = exchanged(columns, path, tiers, rule.target, limits)
        order = picks_then_others(path, order)
    if path is not None and path.picks.size:
        stopped = path.picks.size < count and not path.exhausted  # enough of the target
        if wanted.count in (None, path.picks.size) or stopped:
            return Choice(order, path.picks.size, path.curve, path, available)
    # None is picked where what all of them explain is lost in rounding beside the other features.
    # In an order that is known: scores as published, variances, or more features than have a score.
    given = order[: wanted.count or available]
    known = select_greedily(
        columns, n_picks=given.size, criterion="residual", given=given, tol=rule.tol, r2=r2
    )
    return Choice(order, known.picks.size, known.curve, path, available)


def pick_in_tiers(
    columns: Columns,
    count: int,
    tiers: list[NDArray[np.bool_]],
    target: Target | None,
    limits: dict[str, Any],
    given: Sequence[int] = (),
) -> GreedyPath:
    """Pick among the first candidates, then go on among the next, up to a count."""
    path = None
    for tier in tiers:
        most = min(count, int(tier.sum()))
        if path is None:
            path = _in_rounds(columns, most, tier, target, limits, given=given)
        elif path.picks.size < most and not _enough(path, limits):
            path = _in_rounds(columns, most, tier, target, limits, given=path.picks)
    assert path is not None
    return replace(path, exhausted=path.exhausted and path.picks.size < count)


def _enough(path: GreedyPath, limits: dict[str, Any]) -> bool:
    """Whether as much is accounted for, of the variance or of the target, as was asked for."""
    share = limits.get("target_share", np.inf)
    return _reached(path) >= limits["r2"] or float(path.gains.sum()) >= share


def _reached(path: GreedyPath) -> float:
    return float(path.curve[-1]) if path.curve.size else 0.0


def exchanged(
    columns: Columns,
    path: GreedyPath,
    tiers: list[NDArray[np.bool_]],
    target: Target | None,
    limits: dict[str, Any],
) -> GreedyPath:
    """Exchange picks for other features while more of the target is accounted for.

    Picks of a later tier stay, as the first one was used up; so does everything where the share of
    the variance that was asked for would be lost. The set is ordered as the greedy rule would, what
    must be in first.
    """
    _check_exchange(columns)
    first = tiers[0]
    later = tuple(int(j) for j in path.picks if not first[j])
    known: Rules = limits.get("rules") or Rules.none(first.size)
    rules = replace(known, include=(*known.include, *later), allowed=first & known.allowed)
    with threadpool_limits(1, user_api="blas"):
        found = exchange_picks(columns, path.picks, target=target, rules=rules)
    if found.swaps == 0:
        return path
    inside = np.zeros(first.size, dtype=bool)
    inside[found.features] = True
    # Of a set that is allowed nothing has to be asked but the order.
    endless = limits | {"r2": np.inf, "target_share": np.inf, "rules": None, "per_price": False}
    size, parts = path.picks.size, [tier & inside for tier in tiers]
    again = pick_in_tiers(columns, size, parts, target, endless, given=known.include)
    if again.picks.size < size or again.curve[-1] < limits["r2"] <= path.curve[-1]:
        return path
    after = select_greedily(
        columns, n_picks=size, target=target, candidates=tiers[-1], given=again.picks, **endless
    )
    return replace(path, picks=again.picks, curve=again.curve, gains=again.gains, left=after.left)


def _check_exchange(columns: Columns) -> None:
    """Refuse exchanges among more features than fit in memory."""
    needed = EXCHANGE_MATRICES * 8 * columns.n_rows * columns.n_features
    if columns.samples.is_elsewhere or needed > available_memory():
        raise ValueError(
            f"rule='swap' needs {counted(columns.n_features, 'feature')} in memory at once, "
            f"{size_in_words(needed)}: use rule='greedy'"
        )


def _in_rounds(
    columns: Columns,
    count: int,
    candidates: NDArray[np.bool_],
    target: Target | None,
    limits: dict[str, Any],
    given: Iterable[int] = (),
) -> GreedyPath:
    """Pick greedily, and once more among the rest where the picks determine all of it.

    With few samples a small set determines every feature *of these samples*. The next round takes
    the best of those left over: they repeat the first, which averages out noise in new samples.
    """
    path = select_greedily(
        columns, n_picks=count, target=target, candidates=candidates, given=given, **limits
    )
    if path.exhausted and target is not None:
        rest = select_greedily(
            columns, n_picks=count, candidates=candidates, given=path.picks, **limits
        )
        more = np.zeros(rest.picks.size - path.picks.size)
        path = replace(rest, first=path.first, gains=np.concatenate([path.gains, more]))
    free, rules = candidates.copy(), limits.get("rules")
    free[path.picks] = False
    while path.exhausted and limits["r2"] == np.inf and free.any():
        left = count - path.picks.size
        if rules is not None:
            limits = limits | {"rules": rules.after(path.picks)}
        again = select_greedily(columns, n_picks=left, target=target, candidates=free, **limits)
        if again.picks.size == 0:
            break
        free[again.picks] = False
        path = replace(
            path,
            picks=np.concatenate([path.picks, again.picks]),
            curve=np.concatenate([path.curve, np.full(again.picks.size, _reached(path))]),
            gains=np.concatenate([path.gains, np.zeros(again.picks.size)]),
            left=again.left,
            exhausted=path.picks.size + again.picks.size < count,
        )
    return path


def picks_then_others(path: GreedyPath, order: IntArray) -> IntArray:
    """Return the picks, then what would add something, then the others by their score."""
    taken = np.zeros(order.size, dtype=bool)
    taken[path.picks] = True
    rest = order[~taken[order]]
    turns = tied_steps(-path.left[rest])
    return np.concatenate([path.picks, rest[np.argsort(turns, kind="stable")]])


def about_choice(choice: Choice, wanted: Wanted) -> str:
    """Return what the user should know about a set; nothing where it is as it was asked for."""
    curve, available = choice.curve, choice.available
    one = available == 1
    if wanted.r2 is not None and curve is not None and curve[-1] < wanted.r2 - 1e-8:
        kept = "it is kept" if one else "all of them are kept"
        if choice.n_kept < available:  # some are determined by others
            rest = available - choice.n_kept
            kept = (
                f"{choice.n_kept} of them {'is' if choice.n_kept == 1 else 'are'} kept, to which "
            )
            kept += f"the other {'one adds' if rest == 1 else f'{rest} add'} nothing"
        return (
            f"the {counted(available, 'feature') if not one else 'one feature'} with a nonzero "
            f"score {'accounts' if one else 'account'} for {curve[-1]:.1%} of the variance, "
            f"not the "
            f"{wanted.r2:.0%} asked for; {kept}"
        )
    if wanted.count is not None and wanted.count > available:
        rest = wanted.count - available
        return (
            f"only {counted(available, 'feature')} {'has' if one else 'have'} a nonzero score; the "
            f"other {'one' if rest == 1 else rest} kept {'is that' if rest == 1 else 'are those'} "
            "with the largest variance"
        )
    return ""


def projection_target(loadings: Array) -> Projection:
    """Return the target X @ loadings: the scores of components."""
    return Projection(double(loadings))


def whitened_target(loadings: Array, moments: Moments) -> Target:
    """Return the target X S^(-1/2) loadings: every direction of the data counts alike.

    Directions with an eigenvalue below 1e-6 of the largest are left out.
    """
    if moments.is_wide:
        # With X = U D Vᵀ it is U D⁻¹ Uᵀ X loadings: nothing as long as the features is needed.
        columns = feature_columns(moments)
        if columns.many_rows:
            image = columns.times(double(loadings))
            return inverse_root_times(columns.squared, image, smallest=SMALL_EIGENVALUE)
        values, axes = row_axes(columns, SMALL_EIGENVALUE)
        image = axes.T @ row_products(columns, projection_target(loadings))
        return axes @ (image / values[:, None] ** 0.5)
    spectrum: Spectrum = moments.native.spectrum
    values, vectors = spectrum.values, spectrum.vectors
    large = values > SMALL_EIGENVALUE * values[-1]
    vectors = vectors[:, large]
    return projection_target(vectors @ ((vectors.T @ loadings) / values[large][:, None] ** 0.5))

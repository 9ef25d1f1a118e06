"""From a model to a set: what all estimators share that keep some of the features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.methods.bases.shared_docs import with_shared
from jointsparse.methods.bases.worth import OF_NOISE, SelectionWorth
from jointsparse.methods.sets.constraining import about_constrained, check_size, rules_of
from jointsparse.moments import Moments, check_variance
from jointsparse.running.notices import warn_caller
from jointsparse.selection.choosing import (
    BY_GAIN,
    FIRST_PICKS,
    IN_ORDER,
    MORE_PICKS,
    NOISE_WEIGHT,
    PICKS_PER_PATTERN,
    TRIAL_SHARE,
    Choice,
    Rule,
    Wanted,
    about_choice,
    check_rule,
    choose_features,
    wanted_features,
)
from jointsparse.selection.constrained import choose_allowed
from jointsparse.selection.noise import noise_of
from jointsparse.significance import FDR, TABLE
from jointsparse.solvers.picking.feature_test import beyond_doubt
from jointsparse.solvers.picking.greedy import DETERMINED
from jointsparse.solvers.picking.patterns import EQUAL
from jointsparse.solvers.picking.row_targets import Target
from jointsparse.solvers.subset.constraints import Constraints
from jointsparse.solvers.subset.rules import Rules
from jointsparse.text import counted
from jointsparse.trials import (
    COVERED,
    FEWEST_SAMPLES,
    Cut,
    Picked,
    Trials,
    choose_count,
)

AUTO_R2 = 0.9  # share of this table's variance that "auto" wants where no sample can be held out
MOST_BEYOND = 100  # picks beyond the number asked for, for the curve of other numbers
KEEP_SOME = "Give n_features_to_select a number to keep some all the same"
LOUD = 10  # times the median standard deviation: such a column rules the model


@dataclass(frozen=True)
class Model:
    """What a method says about the features.

    Attributes
    ----------
    scores : ndarray of shape (n_features,)
        Its score of each, at least 0.
    target : callable, ndarray or None
        What the greedy rule shall account for; None is all features.
    weigh : bool
        Whether the method has scores only: then what lies above the noise is the target, and each
        gain is multiplied by the score.
    knows_noise : bool
        Whether the greedy rule takes the noise in the features into account, and leaves those that
        share nothing with others for last.
    tol : float
        Share of its variance below which a feature counts as determined by the picks.
    """

    scores: FloatArray
    target: Target | None = None
    weigh: bool = False
    knows_noise: bool = True
    tol: float = DETERMINED


class ChoosesFeatures(SelectionWorth):
    """Makes a set out of a model, decides how many on new samples, and says what it is worth.

    A subclass has the parameters ``n_features_to_select`` and ``rule`` and defines
    ``_model_of(moments, rows, y)`` for trials on some of the samples.
    """

    n_features_to_select: int | float | str
    rule: str = "greedy"
    constraints: Constraints | None = None
    _swapped_size = 0  # of the set that exchanges made; 0 while that is open

    n_features_in_: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__doc__:
            cls.__doc__ = with_shared(cls.__doc__)

    def _model_of(self, moments: Moments, rows: IntArray | None, y: Any) -> Model:
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _check_wanted(self, n_features: int) -> Wanted:
        check_rule(self.rule)
        wanted = wanted_features(self.n_features_to_select, n_features)
        if self.constraints is not None:
            rules = self._rules_of(n_features)
            if wanted.count is not None:
                check_size(rules, wanted.count)
        return wanted

    def _rules(self, moments: Moments) -> Rules:
        """Return the constraints with features as numbers."""
        return self._rules_of(moments.n_features)

    def _rules_of(self, n_features: int) -> Rules:
        return rules_of(self.constraints, n_features, getattr(self, "feature_names_in_", None))

    def _ask_about_noise(self, moments: Moments, wanted: Wanted) -> None:
        """Tell patterns from noise, unless the model alone decides: then it may wait."""
        for stale in (*OF_NOISE, "_remembered"):
            self.__dict__.pop(stale, None)
        if not wanted.support:
            self._note_noise(moments)

    def _rule(self, model: Model, moments: Moments, wanted: Wanted) -> Rule:
        """Return how the set is made from the model.

        One in twenty of the significant features may be noise. Whoever asks for a number takes the
        best; where that is open, noise has no place, and what is beyond doubt comes first.
        """
        first = self._beyond_doubt(moments) if wanted.auto else None
        if self.rule not in BY_GAIN:
            return Rule(self.rule, significant=self.significant_, first=first)
        if not (model.knows_noise or model.weigh):
            return Rule(self.rule, target=model.target, tol=model.tol)
        noise = noise_of(moments)
        return Rule(
            self.rule,
            target=noise.target if model.weigh else model.target,
            weigh=model.weigh,
            significant=self.significant_,
            first=first,
            noise=NOISE_WEIGHT * noise.squares + noise.hanging,
            tol=model.tol,
        )

    def _beyond_doubt(self, moments: Moments) -> NDArray[np.bool_]:
        found, live = np.zeros(moments.n_features, dtype=bool), moments.variances > 0
        found[live] = beyond_doubt(self.feature_pvalues_[live], FDR)
        return found

    def _make_set(self, model: Model, moments: Moments, y: Any = None) -> Choice:
        """Keep features, and say so where it is not what was asked for."""
        wanted = self._check_wanted(moments.n_features)
        self.__dict__.pop("selection_curve_", None)
        self.__dict__.pop("_swapped_size", None)
        self.feature_scores_ = model.scores
        cut, exact = self._how_many(wanted, moments, y)
        if exact.support:
            rule = Rule(self.rule)
        elif exact.count == 0:
            rule = Rule(self.rule, significant=self.significant_)
        else:
            rule = self._rule(model, moments, wanted)
        only = self.significant_ if wanted.auto else None
        choice = self._choose(moments, model.scores, exact, rule, only)
        self.ranking_ = choice.ranking
        self.support_ = choice.support
        if choice.curve is not None:
            self.selection_curve_ = choice.curve
        if self.rule == "swap":  # what is judged is a set of this size, exchanged in each part too
            self._swapped_size, cut = choice.n_kept, None
        whole = self._remember(moments, cut, y)
        if wanted.support and (moments.workspace.found(TABLE) is not None or not whole):
            self._note_noise(moments)  # known anyway, or not to be known later
        message = self._remark(choice, wanted, moments)
        if message:
            self._warn(message)
        return choice

    def _choose(
        self,
        moments: Moments,
        scores: FloatArray,
        wanted: Wanted,
        rule: Rule,
        only: NDArray[np.bool_] | None,
    ) -> Choice:
        """Make the set, with or without constraints.

        Where constraints end the picks of what shares something with others, nothing else is taken
        in its place unless a number was asked for: ``only`` is what may be in by itself.
        """
        if self.constraints is None:
            return choose_features(moments, scores, wanted, rule)
        rules = self._rules(moments)
        if only is not None and rule.name not in IN_ORDER and not rules.wholes:
            inside = np.isin(np.arange(moments.n_features), rules.include)
            rules = replace(rules, allowed=rules.allowed & (only | inside))
        return choose_allowed(moments, scores, wanted, rule, rules)

    def _how_many(self, wanted: Wanted, moments: Moments, y: Any) -> tuple[Cut | None, Wanted]:
        """Return the count that "auto" stands for, with its trials, or what was asked for."""
        if not wanted.auto:
            return None, wanted
        least = len(self._rules(moments).include)  # what must be in is kept in any case
        if self._is_noise:
            return None, Wanted(count=least)
        most = max(FIRST_PICKS, PICKS_PER_PATTERN * self.n_significant_)
        while True:
            # A selection that is repeated with fewer picks begins like one with more.
            self._most_picks = most if self.constraints is None else moments.n_features
            try:
                cut = self._cut(moments, y)
            finally:
                del self._most_picks
            if not cut.picked:
                return cut, Wanted(r2=AUTO_R2)  # nothing to hold out: the same in this table
            curve = Trials(moments, cut).curve()
            longest = max(picked.order.size for picked in cut.picked)
            if longest < most or (curve.coverage[-1:] >= COVERED).any():
                return cut, Wanted(count=max(choose_count(curve), least))
            most *= MORE_PICKS

    def _pick_on(self, moments: Moments, rows: IntArray | None, *, y: Any) -> Picked:
        trial = clone(self)
        check_variance(moments)
        trial._note_noise(moments)
        rules = self._rules(moments)  # of all samples: parts of them have no names
        none = Picked(np.array(rules.include, dtype=np.int64), trial.significant_)
        if trial._is_noise:
            return none
        model = trial._model_of(moments, rows, y)
        wanted = self._check_wanted(moments.n_features)
        enough = TRIAL_SHARE if wanted.count is None else np.inf  # a number is what is judged
        rule = replace(trial._rule(model, moments, wanted), target_share=enough)
        among = (moments.variances if rule.name == "variance" else model.scores) > 0
        if rule.name not in IN_ORDER:
            among = among & trial.significant_
        among = among & rules.allowed
        most = wanted.count or self.__dict__.get("_most_picks", moments.n_features)
        if wanted.count and rule.name != "swap" and self.constraints is None:
            most += min(wanted.count, MOST_BEYOND)  # the first picks stay what they are
        count = min(moments.n_samples - 2, most)
        if wanted.count is None:  # a number is filled up with others, here as on all samples
            count = min(count, int(among.sum()))
        if count <= len(rules.include):
            return none
        if rule.name == "swap" and not self._swapped_size:
            # While the size is still open the greedy order stands for the sets of all sizes.
            rule = replace(rule, name="greedy")
        elif rule.name == "swap":
            count = min(count, self._swapped_size)
        only = trial.significant_ if wanted.auto else None
        choice = self._choose(moments, model.scores, Wanted(count=count), rule, only)
        return Picked(choice.order[: choice.n_kept], trial.significant_)

    def _remark(self, choice: Choice, wanted: Wanted, moments: Moments) -> str:
        """Return what the user should know about the set; nothing where it is as asked for."""
        if choice.available == 0:
            which = "" if self.constraints is None else " that may be kept"
            return f"no feature{which} has a nonzero score{self._how_to_keep_some(moments)}"
        if moments.origin is not None and moments.origin.unknown and not wanted.support:
            why = f"patterns are not told from noise ({moments.origin.unknown})"
            return why if choice.n_kept else f"{why}: nothing is kept. {KEEP_SOME}"
        if not wanted.support and self._is_noise:
            few = ""
            if moments.n_samples < FEWEST_SAMPLES:
                few = f" ({counted(moments.n_samples, 'sample')} show strong structure only)"
            if choice.n_kept == 0:
                return f"no structure beyond noise: nothing is kept{few}. {KEEP_SOME}"
            if wanted.auto:
                return f"no structure beyond noise: only what must be kept is{few}"
            if choice.n_kept == moments.n_features:
                return f"no structure beyond noise: every feature is kept{few}"
            if few:
                rest = "another" if choice.n_kept == 1 else "others"
                return (
                    f"no structure beyond noise: nothing speaks for the {choice.n_kept} kept "
                    f"rather than {rest}{few}"
                )
            kept = "the 1 kept is" if choice.n_kept == 1 else f"the {choice.n_kept} kept are"
            return f"no structure beyond noise: {kept} no better than random features"
        if wanted.auto and choice.n_kept == 0:
            return (
                "there is structure, but no set that was tried predicts the other features in new "
                f"samples: nothing is kept. {KEEP_SOME}"
            )
        if self.rule == "variance" and not wanted.support and _all_equal(moments.variances):
            return (
                "rule='variance' takes the first columns here, as all have the same variance: they "
                "were standardised. Give it the columns as they are"
            )
        if self.constraints is not None and choice.n_kept and not wanted.support:
            reached = getattr(self, "selection_curve_", np.zeros(1))[-1]
            rules = self._rules(moments)
            return about_constrained(choice, wanted, rules, float(reached))
        said = about_choice(choice, wanted)
        return f"{said}{_about_sizes(moments.variances)}" if said else ""

    def _how_to_keep_some(self, moments: Moments) -> str:
        """Advice for a model that came out empty; the subclasses know what to lower."""
        return ""

    def _warn(self, message: str) -> None:
        warn_caller(f"{type(self).__name__}: {message}")


def _about_sizes(variances: FloatArray) -> str:
    """Return what to do where one column is so loud that a model sees no other."""
    varying = variances[variances > 0]
    if varying.size < 2 or varying.max() <= LOUD**2 * np.median(varying):
        return ""
    return (
        ". The columns are of very different size, and the largest rule the model: standardise "
        "them first"
    )


def _all_equal(variances: FloatArray) -> bool:
    varying = variances[variances > 0]
    return varying.size > 1 and bool(np.ptp(varying) <= EQUAL * varying.max())

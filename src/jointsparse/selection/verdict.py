"""The answer in plain words: what a set of features is good for, in a sentence with its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.text import counted, percent
from jointsparse.trials import COVERED

if TYPE_CHECKING:
    from jointsparse.selection_report import SelectionReport

# Conventions: where less than a tenth of the variance can be predicted from other features, most
# features are unrelated; a stand-in is called good where it predicts at least half.
UNRELATED, GOOD = 0.10, 0.50

# Of twenty random sets: one may be lucky; where five are as good, the set is an ordinary one.
LUCKY, ORDINARY = 1, 5

ALL = 1 - 1e-6  # of the variance

NO_STRUCTURE = "No structure beyond noise"


def verdict_of(report: SelectionReport) -> str:
    """Return the first sentence that applies."""
    if report.is_noise:
        return _about_noise(report)
    if report.emptied:
        return "Nothing is kept: the penalties remove every feature from the model; use lower ones."
    if report.n_kept == 0:
        what = f"the table has {patterns_in_words(report)}"
        if report.n_patterns == 0:
            what = f"{report.n_significant} of {report.n_features} features go together in pairs"
        return (
            f"Nothing is kept: {what}, but no set that was tried predicts the other features in "
            "new samples."
        )
    if report.n_kept == report.n_features:
        return f"All {report.n_features} features are kept: there is nothing to predict."
    worth = report.worth
    if worth is None:
        return (
            f"{_kept(report)} account for {percent(report.r2)} of the variance in this table; "
            f"{_random_here(report)}. "
            f"How well they predict the others in new samples is not known: {report.why_not}."
        )
    if report.mostly_unrelated and report.n_related_dropped == 0:
        return _all_related_kept(report)
    if report.beaten_by > LUCKY:
        how = "No" if report.beaten_by > ORDINARY else "Little"
        what = f"of the other {_few_related(report, named=True)}"
        if not report.mostly_unrelated:
            what = _evidence(report)
        return f"{how} better than random features: {what}."
    if report.mostly_unrelated:
        if 2 * report.n_significant > report.n_features:
            return (
                "Features predict little of each other: all others together "
                f"{percent(worth.ceiling)} of the dropped ones in new samples. Of the other "
                f"{_few_related(report, named=True)}."
            )
        return (
            f"Most features are unrelated to the others; {report.n_significant} of "
            f"{report.n_features} are not. Of the other {_few_related(report)}."
        )
    if worth.coverage >= COVERED and worth.r2_significant >= GOOD:
        if worth.r2 >= GOOD or report.n_related_dropped == 0:
            return f"Good stand-ins for the rest: {_evidence(report)}."
        return (
            "Good stand-ins for features that share something: of the other "
            f"{_few_related(report, named=True)}. Of all others {percent(worth.r2)}."
        )
    if worth.coverage >= COVERED:
        return (
            f"They carry what can be predicted of the rest: {_evidence(report)}; all others "
            f"together predict {percent(worth.ceiling)}."
        )
    return (
        f"They carry part of what can be predicted of the rest: {_evidence(report)}; all others "
        f"together predict {percent(worth.ceiling)}."
    )


def patterns_in_words(report: SelectionReport) -> str:
    """Return "1 independent pattern", or "15 or more independent patterns"."""
    more = " or more" if report.more_patterns else ""
    plural = "" if report.n_patterns == 1 and not more else "s"
    return f"{report.n_patterns}{more} independent pattern{plural}"


def _about_noise(report: SelectionReport) -> str:
    if report.untested:
        kept = "nothing" if report.n_kept == 0 else _kept(report)
        verb = "are" if report.n_kept > 1 else "is"
        return f"Patterns are not told from noise: {report.untested}; {kept} {verb} kept."
    if report.n_kept == 0:
        return f"{NO_STRUCTURE}: nothing is kept."
    kept, verb = "the 1 kept is", "it predicts"
    if report.n_kept > 1:
        kept, verb = f"the {report.n_kept} kept are", "they predict"
    if report.worth is None:
        if report.n_kept == report.n_features:
            which = "the only feature" if report.n_features == 1 else "every feature"
            return f"{NO_STRUCTURE}: {which} is kept, and there is nothing to predict."
        others = "another" if report.n_kept == 1 else "others"
        return (
            f"{NO_STRUCTURE}: nothing speaks for the {report.n_kept} kept rather than {others}. "
            f"How well {'it predicts' if report.n_kept == 1 else 'they predict'} the rest in new "
            f"samples is not known: {report.why_not}."
        )
    start = f"{NO_STRUCTURE}: {kept} no better than random features"
    return f"{start} ({verb} {percent(report.worth.r2)} of the others in new samples)."


def _all_related_kept(report: SelectionReport) -> str:
    count, n_features = report.n_significant, report.n_features
    which = "that shares something is" if count == 1 else "that share something are all"
    if 2 * count > n_features:
        return f"Features predict little of each other; the {count} {which} kept."
    return f"Most features are unrelated to the others; the {count} of {n_features} {which} kept."


def _kept(report: SelectionReport) -> str:
    return f"{report.n_kept} of {counted(report.n_features, 'feature')}"


def _evidence(report: SelectionReport) -> str:
    assert report.worth is not None
    others = report.n_features - report.n_kept
    verb = "predicts" if report.n_kept == 1 else "predict"
    return (
        f"{counted(report.n_kept, 'feature')} {verb} {percent(report.worth.r2)} of the other "
        f"{'one' if others == 1 else others} in new samples; "
        f"{_random(report.n_kept, report.worth.random)}"
    )


def _few_related(report: SelectionReport, *, named: bool = False) -> str:
    assert report.worth is not None
    others = report.n_related_dropped
    verb = "predicts" if report.n_kept == 1 else "predict"
    share = "shares" if others == 1 else "share"
    which = f"that {share} something with others" if named else "of these"
    return (
        f"{'one' if others == 1 else others} {which}, the {report.n_kept} kept {verb} "
        f"{percent(report.worth.r2_significant)} in new samples; "
        f"{_random(report.n_kept, report.worth.random_significant)}"
    )


def _random(count: int, shares: FloatArray) -> str:
    verb = "one predicts" if count == 1 else "ones predict"
    return f"{count} random {verb} {mean_and_spread(shares)}"


def _random_here(report: SelectionReport) -> str:
    """Return what random sets account for in this table: of few samples, as much."""
    count, verb = report.n_kept, "accounts" if report.n_kept == 1 else "account"
    if report.r2 > ALL and report.random_r2.min() > ALL:
        return f"with so few samples any {count} would"
    which = "one" if count == 1 else "ones"
    return f"{count} random {which} {verb} for {mean_and_spread(report.random_r2)}"


def mean_and_spread(shares: FloatArray) -> str:
    """Return "71 ± 4 %": mean and standard deviation of some shares."""
    spread = percent(float(np.std(shares, ddof=1)))
    return f"{percent(float(np.mean(shares)), bare=True)} ± {spread}"


def rows_of(report: SelectionReport) -> dict[str, str]:
    """Return the numbers of a report, each under its name."""
    count = report.n_kept
    rows = {
        "above the noise": patterns_in_words(report),
        "features that share something with others": f"{report.n_significant} of "
        f"{report.n_features}",
    }
    if report.worth is not None:
        worth = report.worth
        rows |= {
            f"{count} kept predict, of the others in new samples": percent(worth.r2),
            f"{count} random features predict": mean_and_spread(worth.random),
            "all other features together predict": percent(worth.ceiling),
            f"{count} principal components (of all features) give": percent(worth.pca),
        }
    if count:
        rows |= {
            f"{count} kept account for, in this table": percent(report.r2),
            f"{count} kept make up, of the total variance": percent(report.own_share),
        }
    if report.extremes is not None and report.extremes_matter:
        rows["extreme values"] = (
            f"in {counted(report.extremes.columns.size, 'column')} and "
            f"{counted(report.extremes.samples.size, 'sample')}"
        )
    return rows

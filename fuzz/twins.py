r"""A fit to any container of a table must be that to the dense array of its numbers, its twin.

Where samples are read in blocks, and only sums over them kept, the noise is estimated from these,
and with it what "auto" stands for and what the greedy rule picks: the twin of a container that is
read so is the same array, read in the same way (``as_stream``). What both have in common could be
wrong in both: with every choice that hangs on the noise taken from it (``decided``), the container
is compared with the array in memory as well. Everything else is compared with that alone.

Four questions, the next one only where the one before is answered by no:

1. *The same?* Scores, components and objective agree to ``ROUNDING`` of their size (an objective
   that is a share of 1, to that of 1), and the kept features and the ranking are the same. Sums
   in another order cost a few units of 1e-16; the iterations in between multiply that, on tables
   of ordinary condition by less than a million. Samples in single precision stay so in the memory
   of methods that look at each of them, which costs units of 6e-8 in place of 1e-16:
   ``SINGLE_ROUNDING``.
2. *The same limit?* Samples that are not in memory have solvers of their own, and two solvers that
   stop at the same tolerance stop at different points. Both are solved again, to tolerances far
   below; the answers there have to be the same, as follows. Where both prove that they reached
   their tolerance, the objectives may differ by the two gaps and no more, before and at ``TIGHT``;
   the scores there may differ by ``GROWTH`` times the root of the gaps, since near an optimum the
   objective grows with the square of the distance (of copies of a column, only the sum of theirs
   is compared: how a row is divided among them costs nothing). Where nothing is proved (there are
   many stationary points), both have to converge at ``STATIONARY``, and scores, components and
   objectives there may differ by rounding and twice that tolerance, which is one of loadings: each
   of the two may be so far from where both lead. Other kept
   features, or another ranking, are a tie only where the twin, solved to tolerances between the
   two, does not agree with itself about them.
3. *Does the twin have a tie?* The twin is fitted again, to numbers changed by their own rounding:

   .. math:: x_{ij}\,(1 + 2u\,\xi_{ij}) + \max(n, p)\,u\,|x_{ij} - \mu_j|\,\zeta_{ij},
             \qquad \xi, \zeta \in [-1, 1],

   u = 1.1e-16 (6e-8 for single precision), which is what a sum of so many terms in any order
   may have added. Nothing but what changes with it is free: a number may differ ``SAMPLED`` times
   as much as it did among these twins; the rank of a feature must be one that it had among them,
   or as far from those as they are apart, unless it changed places with equal scores only; the kept
   features must be those of one of them but for some whose scores are no larger than scores move
   among these, or, where they do not all keep the same, explain as much as those of one of them,
   by a regression made for the purpose. Where the scores of these twins
   are ``NO_DIGIT`` of their size apart, the table in the other order of memory is one of them, too:
   sums along the other side of an array are rounded otherwise. What the changed twins agree on,
   the container has to agree on too. Where neither fit converged and nothing is proved, both were
   cut off on their way, and rounding decides how far they came: then the twin with other limits
   on its iterations (``STOPS``) is one of the changed twins, too. Scores are sums of squares of
   loadings: they may also move by the square of what the components of these twins may. Two
   features may change places whose scores are no further apart than scores move so. Some published
   algorithms diverge: where neither fit converged and rounding changes the scores of the twin by
   ``NO_DIGIT`` of their size, there is nothing to agree on.
4. *Do both say that they are not there?* Of tables without enough digits both fits may end above
   their tolerance, each with the gap that it proved (and with a warning). Then the one optimum has
   to lie within both: neither objective is below the bound of the other, and the kept features
   explain as much, less the two gaps. Where nothing is proved, one that says so is enough if its
   objective is that of the other to ``ROUNDING``, and all else to the root of it, since near a
   stationary point the objective grows with the square of the distance: weights that are nearly
   singular let rounding end one of two fits a little before the other. These are counted by
   themselves, as ``OPEN``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from fuzz.containers import Container, least_memory
from fuzz.refusals import kind_of
from jointsparse import SOGFS, GreedySelector, SubsetSelector
from jointsparse.sources import is_streamed
from jointsparse.sources.base import MappedSource
from jointsparse.sources.in_memory import ArraySource

ROUNDING = 1e-8
SINGLE_ROUNDING = 3e-5
TIGHT = 1e-6  # relative gap of a solver when only its limit counts
STATIONARY = 1e-7  # tolerance of a solver without gaps then: SPCA cannot tell B to more digits
TIGHT_LIMIT = 5000  # iterations for that, …
SHARES = (GreedySelector, SubsetSelector)  # whose objective is what of 1 is not explained
ALTERNATING = (SOGFS,)  # … but of these: no tolerance ends their alternations, which can go in turn
GROWTH = 10.0
SAMPLED = 10.0  # the largest difference among some twins is not the largest there is
NO_DIGIT = 0.5  # of their size: numbers that rounding changes by so much are none
# Where noise would decide: what is taken in its place, and what in any case, since the greedy rule
# looks at the noise too and searches for the number of features try several.
GIVEN: dict[str, Any] = {"alpha": 0.1, "eta": 0.05, "n_components": 1, "n_clusters": 2}
GIVEN_ALWAYS: dict[str, Any] = {"n_features_to_select": 1, "rule": "norm"}
STOPS = (0.25, 0.5, 2.0, 4.0)  # times the iterations of a fit that did not end by itself
MOST_TWINS = 48
TURNED = 4  # … in the other order of memory
PATIENCE = 4.0  # seconds of processor time for them
GOOD_OUTCOMES = SAME, SAME_LIMIT, TIED, OPEN, REFUSED = (
    "fitted",
    "same limit",
    "tied",
    "open",
    "refused",
)


@dataclass
class Answer:
    """What is compared of a fit.

    Attributes
    ----------
    scores, ranking, support : ndarray of shape (n_features,)
        Of the features.
    objective : float
        Where the solver stopped.
    components : ndarray of shape (n_components, n_features) or None
        Where the method has any.
    gap : float or None
        Proved bound on how far the objective is from the optimum, as a share of it.
    converged : bool
        Whether the tolerance was reached.
    unit : float
        What the objective is a share of, where it is one; otherwise 0, and it is its own unit.
    refused : str or None
        What a refusal was about; all else is empty then.
    words : str
        Its sentence.
    """

    scores: np.ndarray
    ranking: np.ndarray
    support: np.ndarray
    objective: float
    components: np.ndarray | None = None
    gap: float | None = None
    converged: bool = True
    unit: float = 0.0
    refused: str | None = None
    words: str = ""

    @classmethod
    def of(cls, fitted: Any) -> Answer:
        """Return the answer of a fitted estimator, or of a selector around one."""
        inner = getattr(fitted, "estimator_", fitted)
        return cls(
            fitted.feature_scores_,
            fitted.ranking_,
            fitted.get_support(),
            inner.objective_,
            getattr(inner, "components_", None),
            getattr(inner, "duality_gap_", None),
            bool(inner.converged_),
            float(isinstance(inner, SHARES)),
        )

    @classmethod
    def refusal(cls, kind: str, words: str) -> Answer:
        """Return the answer of an estimator that refuses."""
        nothing = np.empty(0)
        return cls(nothing, nothing, nothing, np.nan, refused=kind, words=words)


Fit = Callable[[Any], Answer]  # of an unfitted estimator, to what a container holds


def fit_quietly(estimator: Any, samples: Any, y: Any = None) -> Any:
    """Return the fitted estimator; what does not converge is compared all the same."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return clone(estimator).fit(samples, y)


def answer(estimator: Any, samples: Any, y: Any = None) -> Answer:
    """Return the answer of an estimator, also where that is a refusal that is documented."""
    try:
        return Answer.of(fit_quietly(estimator, samples, y))
    except ValueError as error:
        kind = kind_of(error, estimator)
        if kind is None:
            raise
        return Answer.refusal(kind, str(error))


def verdict(
    estimator: Any,
    fit: Fit,
    values: np.ndarray,
    y: Any = None,
    *,
    single: bool = False,
    may_not_fit: bool = False,
    found: Answer | None = None,
    view: Callable[[np.ndarray], Any] | None = None,
) -> str:
    """Compare a fit with that of the twin: a word of ``GOOD_OUTCOMES``, or a fault.

    Parameters
    ----------
    estimator : estimator
        Not fitted, nor will it be.
    fit : callable
        Fits an estimator to what the container holds.
    values : ndarray of shape (n_samples, n_features)
        The twin: the same numbers in double precision.
    y : array-like or None
        Classes.
    single : bool
        Whether the container holds them in single precision.
    may_not_fit : bool
        Whether the container allows so little memory that a refusal is right.
    found : Answer or None
        What ``fit(estimator)`` returns, where it is known already.
    view : callable or None
        Another way to take the array in that is the same as well, asked for first: see
        ``as_stream``.
    """
    found = fit(estimator) if found is None else found
    if may_not_fit and found.refused == "memory":
        return REFUSED
    in_memory: Callable[[np.ndarray], Any] = lambda array: array  # noqa: E731
    if view is not None:
        outcome = _compared(estimator, fit, view, values, y, found, single)
        if outcome in GOOD_OUTCOMES:
            given = decided(estimator)
            again = fit(given)
            if outcome == REFUSED or (may_not_fit and again.refused == "memory"):
                return outcome
            other = _compared(given, fit, in_memory, values, y, again, single)
            return outcome if other in GOOD_OUTCOMES else f"beside the array in memory: {other}"
    return _compared(estimator, fit, in_memory, values, y, found, single)


def decided(estimator: Any) -> Any:
    """Return the estimator with numbers for all that it would choose by the noise."""
    known = estimator.get_params()
    open_ = {name: value for name, value in GIVEN.items() if known.get(name, 0) in ("auto", None)}
    fixed = {name: value for name, value in GIVEN_ALWAYS.items() if name in known}
    return clone(estimator).set_params(**open_, **fixed)


def as_stream(values: np.ndarray, memory: int | None = None) -> MappedSource:
    """Return the array as a source of rows that are read and not kept, like those of a file."""
    source = MappedSource(ArraySource(values), _as_they_are, values.shape[1])
    source.memory = memory
    return source


def view_of(
    container: Container, held: Any, values: np.ndarray
) -> Callable[[np.ndarray], MappedSource] | None:
    """Return how the twin of a container is read where it is read in blocks; None elsewhere."""
    memory = least_memory(values) if container.scarce else None
    return partial(as_stream, memory=memory) if is_streamed(held) else None


def _as_they_are(block: Any) -> Any:
    return block


def _compared(
    estimator: Any,
    fit: Fit,
    view: Callable[[np.ndarray], Any],
    values: np.ndarray,
    y: Any,
    found: Answer,
    single: bool,
) -> str:
    expected = answer(estimator, view(values), y)
    rounding = SINGLE_ROUNDING if single else ROUNDING
    if found.refused and found.refused == expected.refused:
        return REFUSED
    faults = list(differences(found, expected, rounding))
    if not faults:
        return SAME
    proved = found.gap is not None and expected.gap is not None
    if not (found.refused or expected.refused) and (not proved or _both_converged(found, expected)):
        beyond = list(_beyond_the_gaps(found, expected)) if proved else []
        tight = TIGHT if proved else STATIONARY
        go_on = partial(_limit, estimator, fit, lambda one: answer(one, view(values), y), values)
        outcome = "" if beyond else go_on(tight, rounding)
        if outcome:
            return outcome
        faults += beyond
    elsewhere = []
    if not (proved or found.converged or expected.converged):
        elsewhere = list(_stopped_elsewhere(estimator, lambda one: answer(one, view(values), y)))
    fit_twin = lambda X: answer(estimator, view(X), y)  # noqa: E731
    if _is_tied(found, expected, values, fit_twin, single=single, others=elsewhere):
        return TIED
    is_open = _both_open(found, expected, values) if proved else _one_open(found, expected)
    return OPEN if is_open else "; ".join(faults)


def _both_open(found: Answer, expected: Answer, values: np.ndarray) -> bool:
    """Whether both say that they are not there, and the one optimum can be that of both."""
    if found.converged or expected.converged or list(_beyond_the_gaps(found, expected)):
        return False
    slack = (found.gap or 0.0) + (expected.gap or 0.0)
    return explained(values, found.support) >= explained(values, expected.support) - slack


def _one_open(found: Answer, expected: Answer) -> bool:
    """Whether one says that it is not there, and is so near the other that no digit is at stake."""
    if found.refused or expected.refused or _both_converged(found, expected):
        return False
    near = ROUNDING**0.5
    apart = distances(found, expected)
    differ = found.support != expected.support
    scores = np.maximum(found.scores, expected.scores)
    return (
        apart["objectives"] <= ROUNDING
        and max(apart.values()) <= near
        and bool(np.all(scores[differ] <= near * np.max(scores)))
        and not np.any(_out_of_order(found, expected, near))
    )


def differences(found: Answer, expected: Answer, rounding: float) -> Iterator[str]:
    """Say in what an answer differs from that of the twin by more than rounding."""
    if found.refused or expected.refused:
        yield f"{_in_short(found)} where the twin was {_in_short(expected)}"
        return
    for name, distance in distances(found, expected).items():
        if not distance <= rounding:
            yield f"{name} differ by {distance:.1e}"
    if not np.array_equal(found.support, expected.support):
        kept, wanted = np.flatnonzero(found.support), np.flatnonzero(expected.support)
        yield f"kept {kept.tolist()} where the twin keeps {wanted.tolist()}"
    elif not np.array_equal(found.ranking, expected.ranking):
        yield f"ranking {found.ranking.tolist()} where the twin has {expected.ranking.tolist()}"


def distances(found: Answer, expected: Answer) -> dict[str, float]:
    """Return how far the numbers of two answers are apart, in their own size."""
    apart = {
        "scores": _relative(found.scores, expected.scores),
        "objectives": _relative(
            np.array(found.objective), np.array(expected.objective), expected.unit
        ),
    }
    if expected.components is not None and found.components is not None:
        apart["components"] = _relative(found.components, expected.components)
    return apart


def _relative(found: np.ndarray, expected: np.ndarray, unit: float = 0.0) -> float:
    if found.shape != expected.shape:
        return np.inf
    size = float(np.max(np.abs(expected), initial=unit))
    apart = float(np.max(np.abs(found - expected), initial=0.0))
    return 0.0 if apart == 0 else apart / size if size > 0 else np.inf


def _in_short(one: Answer) -> str:
    return f"refused ({one.words})" if one.refused else "fitted"


def _beyond_the_gaps(found: Answer, expected: Answer) -> Iterator[str]:
    proved = _gaps(found, expected)
    apart = abs(found.objective - expected.objective)
    if not apart <= proved + ROUNDING * abs(expected.objective):
        yield f"objectives differ by {apart:.3e}, their proved gaps add up to {proved:.3e}"


def _gaps(one: Answer, other: Answer) -> float:
    return sum((each.gap or 0.0) * abs(each.objective) for each in (one, other))


def _limit(
    estimator: Any, fit: Fit, fit_twin: Fit, values: np.ndarray, tol: float, rounding: float
) -> str:
    """Compare what the solvers find when they go on: "same limit", "tied", or "" for neither."""
    known = estimator.get_params()
    # Without iterations to limit, a tolerance is one of the gap, or none of a solver at all.
    if "tol" not in known or ("max_iter" not in known and tol != TIGHT):
        return ""
    limit = clone(estimator).set_params(tol=min(tol, estimator.tol))
    if "max_iter" in known and not isinstance(estimator, ALTERNATING):
        limit.set_params(max_iter=TIGHT_LIMIT)
    there, twin = fit(limit), fit_twin(limit)
    if there.gap is not None and twin.gap is not None:
        if list(_beyond_the_gaps(there, twin)):
            return ""
        near = ROUNDING + GROWTH * (_gaps(there, twin) / abs(twin.objective or 1.0)) ** 0.5
        apart = distances(*(_with_copies_alike(one, values) for one in (there, twin)))
    else:
        if not _both_converged(there, twin):
            return ""
        near = rounding + 2 * limit.tol
        apart = distances(there, twin)
    if any(distance > near for distance in apart.values()):
        return ""
    if np.array_equal(there.ranking, twin.ranking) and np.array_equal(there.support, twin.support):
        return SAME_LIMIT
    if _equal_but_for_copies(there, twin, values):
        return TIED
    between = np.geomspace(estimator.tol, limit.tol, 4)
    sets = {tuple(fit_twin(clone(limit).set_params(tol=tol)).ranking) for tol in between}
    return TIED if len(sets) > 1 else ""


def _with_copies_alike(one: Answer, values: np.ndarray) -> Answer:
    """Return an answer in which copies of a column have their mean score.

    A convex penalty on the lengths of rows is the same however a row is divided among copies of its
    column: only the sum of their scores is determined.
    """
    _, copies = np.unique(values, axis=1, return_inverse=True)
    copies = copies.ravel()
    means = np.bincount(copies, one.scores) / np.bincount(copies)
    return replace(one, scores=means[copies])


def _equal_but_for_copies(one: Answer, other: Answer, values: np.ndarray) -> bool:
    """Whether two rankings, and sets, are the same once copies of a column have no names."""
    _, copies = np.unique(values, axis=1, return_inverse=True)
    return all(
        np.array_equal(*(each[np.lexsort((each, copies.ravel()))] for each in both))
        for both in ((one.ranking, other.ranking), (one.support, other.support))
    )


def _both_converged(one: Answer, other: Answer) -> bool:
    return one.converged and other.converged


def _stopped_elsewhere(estimator: Any, fit_twin: Fit) -> Iterator[Answer]:
    """Return what the twin answers with fewer iterations, and with more."""
    most = estimator.get_params().get("max_iter")
    if isinstance(most, int):
        for limit in {max(1, int(share * most)) for share in STOPS}:
            yield fit_twin(clone(estimator).set_params(max_iter=limit))


def _is_tied(
    found: Answer,
    expected: Answer,
    values: np.ndarray,
    fit: Callable[..., Answer],
    *,
    single: bool,
    others: list[Answer],
) -> bool:
    """Whether the twin gives answers like this one when its numbers are changed by rounding.

    ``others`` are answers of the twin that count as well.
    """
    if not np.all(np.isfinite(values)):
        return False
    rng = np.random.default_rng(0)
    others = list(others)
    since = time.process_time()
    for count in range(1, MOST_TWINS + 1):
        others.append(fit(rounded_otherwise(values, rng, single=single)))
        if count in (3, 6, 12, 24, 48) and _like_one_of(found, expected, others, values, single):
            return True
        if time.process_time() - since > PATIENCE:
            break
    if max((distances(other, expected)["scores"] for other in others), default=0.0) > NO_DIGIT:
        # Rounding alone leads to another point: then so may sums along the other side of the array.
        changed = [rounded_otherwise(values, rng, single=single) for _ in range(TURNED)]
        others += [fit(np.asfortranarray(one)) for one in (values, *changed)]
    return _like_one_of(found, expected, others, values, single)


def rounded_otherwise(
    values: np.ndarray, rng: np.random.Generator, *, single: bool = False
) -> np.ndarray:
    """Return numbers that rounding does not tell from these; constant columns stay so."""
    unit = float(np.finfo(np.float32 if single else np.float64).eps) / 2
    one, other = rng.uniform(-1, 1, (2, *values.shape))
    with np.errstate(all="ignore"):
        deviations = np.abs(values - values.mean(axis=0))
        changed = values * (1 + 2 * unit * one) + max(values.shape) * unit * deviations * other
    return np.where(np.ptp(values, axis=0) == 0, values, changed)


def _like_one_of(
    found: Answer, expected: Answer, others: list[Answer], values: np.ndarray, single: bool
) -> bool:
    if found.refused:
        return any(other.refused == found.refused for other in others)
    fitted = [other for other in (expected, *others) if not other.refused]
    if not fitted:
        return False
    middle = fitted[0]
    rounding = SINGLE_ROUNDING if single else ROUNDING
    cut_off = not (found.converged or middle.converged)
    apart = distances(found, middle)
    among = {
        name: max((distances(other, middle)[name] for other in fitted[1:]), default=0.0)
        for name in apart
    }
    allowed = {name: rounding + SAMPLED * distance for name, distance in among.items()}
    equal = rounding
    if cut_off:
        if among["scores"] > NO_DIGIT:
            return True
        # Where loadings move, scores do by the square of that, however little they moved before.
        squared = allowed.get("components", 0.0) ** 2
        allowed["scores"] = max(allowed["scores"], squared)
        # Either of two may have moved so far, towards the other.
        equal += max(2 * among["scores"], squared)
    if any(not distance <= allowed[name] for name, distance in apart.items()):
        return False
    moved = among["scores"] * float(np.max(middle.scores, initial=0.0))
    worth = [explained(values, other.support) for other in fitted]
    slack = rounding + (max(worth) - min(worth))
    undecided = any(not np.array_equal(other.support, middle.support) for other in fitted)
    as_good = undecided and bool(explained(values, found.support) >= min(worth) - slack)
    sets = np.array([other.support for other in (found, *fitted)])
    # Which of them is kept decides on their ranks, and moves those of the others by one.
    exchanged = (sets.any(axis=0) & ~sets.all(axis=0)) if as_good else np.zeros_like(found.support)
    ranks = np.array([other.ranking for other in fitted])
    first, last = ranks.min(axis=0), ranks.max(axis=0)
    elsewhere = np.abs(found.ranking - (first + last) / 2) > 1.5 * (last - first)
    if np.any(elsewhere & _out_of_order(found, middle, equal, exchanged)):
        return False
    for other in fitted:
        differ = found.support != other.support
        if np.all(np.maximum(found.scores, other.scores)[differ] <= moved):
            return True
    return as_good


def _out_of_order(
    found: Answer, expected: Answer, equal: float, free: np.ndarray | bool = False
) -> np.ndarray:
    """Return which features changed places with one whose score is not equal to theirs.

    Those that are ``free`` have no place.
    """
    places = np.sign(found.ranking[:, None] - found.ranking)
    changed = places != np.sign(expected.ranking[:, None] - expected.ranking)
    scores = expected.scores
    alike = np.abs(scores[:, None] - scores) <= equal * np.max(scores, initial=0.0)
    bound = ~(np.zeros_like(found.support) | free)
    return np.any(changed & ~alike & np.outer(bound, bound), axis=1)


def explained(values: np.ndarray, support: np.ndarray) -> float:
    """Return the share of the variance of all features that a regression on some explains."""
    centred = values - values.mean(axis=0)
    size = np.max(np.abs(centred), initial=0.0)
    centred = centred / (size if size > 0 else 1.0)
    fitted = centred[:, support] @ np.linalg.lstsq(centred[:, support], centred, rcond=None)[0]
    total = np.sum(centred**2)
    return float(1 - np.sum((centred - fitted) ** 2) / total) if total > 0 else 1.0

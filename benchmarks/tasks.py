"""What is measured: a suite has tasks, a task has problems, and every competitor gets them all."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

OURS = "jointsparse"  # the competitor to which all others are compared


@dataclass(frozen=True)
class Problem:
    """One dataset with its parameters."""

    suite: str
    task: str
    name: str
    dataset: Any
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Metric:
    """The number by which results are compared."""

    name: str
    higher_is_better: bool
    relative: bool = False  # differences as a share of ours
    same: float = 1e-9  # differences this small count as none

    def lead(self, ours, theirs):
        """Return by how much ours is better; negative where it is worse."""
        difference = ours - theirs if self.higher_is_better else theirs - ours
        return difference / abs(ours) if self.relative and ours else difference


@dataclass(frozen=True)
class Bar:
    """What was promised, what was found, and whether that is enough (None: not measured)."""

    promise: str
    found: str
    met: bool | None


@dataclass(frozen=True)
class Task:
    """One objective, on several problems.

    ``load`` returns the arrays of a problem; those whose name begins with an underscore (labels,
    held-out samples) are for ``evaluate`` alone and never reach a competitor. The result of the
    ``leader``, where there is one, is turned by ``lead`` into parameters of the others.
    """

    suite: str
    name: str
    title: str
    problems: Callable[[bool], list[Problem]]
    load: Callable[[Problem], dict[str, Any]]
    evaluate: Callable[[dict, dict, dict], dict[str, float]]
    metric: Metric | None = None
    leader: str | None = None
    lead: Callable[[dict, dict, dict], dict[str, Any]] | None = None
    bars: Callable[[dict], list[Bar]] = lambda outcomes: []
    notes: str = ""
    sizes: Callable[[str], float] | None = None  # of a problem, where slopes are to be fitted


def by_name(outcomes):
    """Return {competitor: outcome} of those that finished."""
    return {outcome.competitor: outcome for outcome in outcomes if outcome.good}


def ratios(outcomes, rival, ours=OURS):
    """Return {problem: time of the rival over ours} where both finished."""
    found = {}
    for problem, rows in outcomes.items():
        pair = by_name(rows)
        if rival in pair and ours in pair:
            found[problem] = pair[rival].median / pair[ours].median
    return found

"""Claims and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Table = tuple[str, Sequence[str], Sequence[Sequence[Any]]]  # caption, header, rows
Verdict = Literal["reproduced", "close", "not reproduced", "not testable"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "close", "not reproduced", "not testable")


@dataclass(frozen=True)
class Claim:
    """One statement of a source, beside what was found.

    Attributes
    ----------
    statement : str
        What is claimed.
    published, found : str
        The published value and the one that came out, as they are to be read.
    verdict : {"reproduced", "close", "not reproduced", "not testable"}
        What became of it.
    reason : str
        Why, where the numbers do not say it themselves.
    """

    statement: str
    published: str
    found: str
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class Outcome:
    """What an experiment found.

    Attributes
    ----------
    claims : list of Claim
        The claims it tests.
    tables : list of (caption, header, rows)
        Numbers beyond the claims.
    figures : dict of name to callable
        Each draws on an empty matplotlib figure that it is given.
    notes : list of str
        What a reader should know.
    """

    claims: list[Claim] = field(default_factory=list)
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[Any]]]] = field(
        default_factory=list
    )
    figures: dict[str, Callable[[Any], None]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Return how many claims have each verdict."""
        return {name: sum(c.verdict == name for c in self.claims) for name in VERDICTS}


def judged(published: float, found: float, *, exact: float, close: float) -> Verdict:
    """Return the verdict on a number from how far it is off.

    Parameters
    ----------
    published, found : float
        The two numbers.
    exact, close : float
        Largest absolute differences that count as reproduced and as close.
    """
    off = abs(published - found)
    if off <= exact:
        return "reproduced"
    return "close" if off <= close else "not reproduced"

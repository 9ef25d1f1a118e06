"""What an experiment is: independent tasks, and a way to judge their results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jointsparse.experiments.claims import Outcome

Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One piece of work that is done as a whole or not at all.

    Attributes
    ----------
    experiment : str
        Name of the experiment it belongs to.
    case : dict
        What distinguishes it from the others: dataset, method, parameters, seed. Only text,
        numbers, lists and dictionaries, so that it can be written down.
    """

    experiment: str
    case: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The case as text: equal cases have equal texts."""
        return json.dumps(self.case, sort_keys=True, allow_nan=False)

    @property
    def key(self) -> str:
        """A name under which its results are kept; the same on every machine."""
        return hashlib.sha256(f"{self.experiment}\n{self.text}".encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Failed:
    """A task that raised an error."""

    task: Task
    message: str


@dataclass(frozen=True)
class Experiment:
    """A published table or figure.

    Attributes
    ----------
    name : str
        Name on the command line, such as "004-table3".
    title : str
        What it shows, in one line.
    cases : callable
        ``cases(quick)`` returns the cases; with ``quick`` few enough for a minute on two cores.
    compute : callable
        ``compute(case)`` returns the results of a case: rows of numbers and text.
    judge : callable
        ``judge(results)`` gets all (case, row) pairs and returns the :class:`Outcome`.
    """

    name: str
    title: str
    cases: Callable[[bool], Sequence[dict[str, Any]]]
    compute: Callable[[dict[str, Any]], list[Row]]
    judge: Callable[[list[tuple[dict[str, Any], Row]]], Outcome]

    def tasks(self, *, quick: bool = False) -> list[Task]:
        """Return the tasks of the experiment."""
        return [Task(self.name, dict(case)) for case in self.cases(quick)]

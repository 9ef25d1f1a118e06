"""One file per competitor; a file says what it needs, and in which environment it runs.

A file has ``ENVIRONMENT`` (a name of :mod:`benchmarks.environments`), ``DISTRIBUTION`` (whose
version is stored) and ``SOLVERS``: classes with a ``name``, the ``tasks`` they can do, the three
methods described in :mod:`benchmarks.worker`, and, where they cannot do every problem,
``refuses(data, params)``, which returns why not. What a file imports at its top must be in the
standard library or be NumPy: it is read here as well as in the competitor's environment.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Solver:
    """A competitor, and where to find it."""

    name: str
    tasks: tuple[str, ...]
    environment: str
    distribution: str
    file: str
    cls: str
    refuses: Callable[[dict, dict], Any] = lambda data, params: None


def of_module(module):
    """Return the solvers of one competitor's file."""
    return [
        Solver(
            cls.name,
            cls.tasks,
            module.ENVIRONMENT,
            module.DISTRIBUTION,
            module.__file__,
            cls.__name__,
            getattr(cls, "refuses", lambda data, params: None),
        )
        for cls in module.SOLVERS
    ]


def all_solvers():
    """Return every solver of every file, ours first."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    names.sort(key=lambda name: name != "ours")
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [solver for module in modules for solver in of_module(module)]

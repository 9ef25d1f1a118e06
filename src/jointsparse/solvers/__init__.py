"""Solvers: :class:`Splitting` and others as values for :func:`jointsparse.solve` and estimators.

The modules below are the kernels: arrays in, :class:`Solution` out.
"""

from __future__ import annotations

import importlib
from typing import Any

# Loaded when first used: a kernel does not need the others.
_HOMES = {
    "Exact": "jointsparse.solvers.choice",
    "Factored": "jointsparse.solvers.choice",
    "Published": "jointsparse.solvers.choice",
    "Solution": "jointsparse.solvers.solution",
    "Solver": "jointsparse.solvers.choice",
    "Splitting": "jointsparse.solvers.choice",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))

r"""A problem put together from parts: :func:`solve`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jointsparse.losses import SquaredLoss
from jointsparse.moments import Moments
from jointsparse.penalties import L21, Trace
from jointsparse.solvers.choice import (
    Exact,
    Factored,
    Published,
    Splitting,
    check_requirements,
)
from jointsparse.solvers.solution import Solution

NAMES = {"exact": Exact, "factored": Factored, "published": Published, "splitting": Splitting}


def solve(
    X: Any,
    *,
    loss: Any = None,
    penalties: Sequence[Any],
    solver: Any = "auto",
    start: Any = None,
) -> Solution:
    r"""Minimise a loss and penalties over p × p matrices Ω.

    .. math:: \min_\Omega\ f(X,\Omega) + \sum_k P_k(\Omega)

    The estimators are such problems with names. Here the parts are yours to choose, or to bring: a
    penalty is any object with ``value`` and what the solver names in ``requires`` (see
    :mod:`jointsparse.penalties`), a solver any object with ``requires`` and
    ``solve(loss, penalties, start=...)``.

    Parameters
    ----------
    X : array-like, sparse matrix, file source or Moments
        Samples in rows, centred on the way in.
    loss : loss or None, default=None
        From :mod:`jointsparse.losses`; None is ``SquaredLoss()``.
    penalties : sequence of penalties
        At least one. Their strengths are in the units of the loss: the objective is what is
        written above, nothing is rescaled.
    solver : {"auto", "exact", "splitting", "factored", "published"} or solver, default="auto"
        "auto" is "exact" where it can be (squared loss, L21 and Trace), otherwise "splitting".
    start : object or None, default=None
        Passed on to the solver: the ``state`` of an earlier solution, where it takes one.

    Returns
    -------
    Solution
        ``loadings``, ``objective``, ``gap`` (a proven bound on what is lost against the optimum;
        None without a proof), ``history``, ``reason``.

    See Also
    --------
    SPCAPSD : The squared loss with L21 and Trace, and what to keep of the features.

    Examples
    --------
    Few features, few directions and few entries: three penalties at once.

    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import solve
    >>> from jointsparse.penalties import L1, L21, Trace
    >>> X = StandardScaler().fit_transform(load_wine().data)
    >>> found = solve(X, penalties=(L21(300.0), Trace(500.0), L1(20.0)))
    >>> found.converged, found.loadings.shape, (found.loadings != 0).any(axis=1).sum()
    (True, (13, 2), np.int64(12))
    """
    if not penalties:
        raise ValueError("solve needs a penalty: without one every feature reconstructs itself")
    chosen = _solver(solver, loss, penalties)
    check_requirements(chosen, penalties)
    moments = X if isinstance(X, Moments) else Moments.from_data(X, copy=False)
    solution: Solution = chosen.solve((loss or SquaredLoss()).on(moments), penalties, start=start)
    return solution


def _solver(solver: Any, loss: Any, penalties: Sequence[Any]) -> Any:
    if solver == "auto":
        squared = loss is None or isinstance(loss, SquaredLoss)
        both = sorted(type(penalty).__name__ for penalty in penalties) == ["L21", "Trace"]
        own = all(isinstance(penalty, L21 | Trace) for penalty in penalties)
        return Exact() if squared and both and own else Splitting()
    if isinstance(solver, str):
        if solver not in NAMES:
            raise ValueError(
                f"solver={solver!r} is not one of 'auto', {', '.join(map(repr, NAMES))}"
            )
        return NAMES[solver]()
    return solver

"""What every kernel returns, and the one stopping rule they share."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from jointsparse.arrays import Array

if TYPE_CHECKING:  # Python 3.13 has defaults of its own: Solution is Solution[Any]
    from typing_extensions import TypeVar as WithDefault

    State = WithDefault("State", default=Any, covariant=True)
else:
    State = TypeVar("State")
Other = TypeVar("Other")

EPSILON = sys.float_info.epsilon
logger = logging.getLogger("jointsparse.solvers")


@dataclass(frozen=True)
class Solution(Generic[State]):
    """Result of a kernel; the type of its state says what a later call may start from.

    Attributes
    ----------
    loadings : array of shape (n_features, rank)
        The solution, one row per feature.
    objective : float
        Objective of ``loadings``, in the units of the data.
    gap : float or None
        Proven upper bound on (objective - optimum) / objective; None where there is no proof.
    history, gap_history : list of float
        Objective and gap known after each iteration. Between two evaluations the last one stands.
    n_iter : int
        Iterations made.
    converged : bool
        Whether the stopping rule was met (as against the iteration limit).
    reason : str
        Why the kernel stopped, in words.
    diagnostics : dict
        Whatever else the kernel knows: residuals, step sizes.
    state : State
        What a later call may start from, or what else the kernel found; each kernel names the type.
        None where it was not asked for.
    proved_zero : array of shape (n_features,) or None
        Features that are zero in *every* optimum, where that is known.
    dual : object or None
        The dual points behind the gap, where a solver built on top of the kernel needs them.
    """

    loadings: Array
    objective: float
    gap: float | None
    history: list[float]
    gap_history: list[float]
    n_iter: int
    converged: bool
    reason: str
    diagnostics: dict[str, float] = field(default_factory=dict)
    state: State = None  # type: ignore[assignment]  # kernels that have none: Solution[None]
    proved_zero: Array | None = None
    dual: Any = None

    def with_state(self, state: Other) -> Solution[Other]:
        """Return the same with another state."""
        return cast("Solution[Other]", replace(self, state=state))  # type: ignore[arg-type]

    def in_unit(self, unit: float) -> Solution[State]:
        """Return the same with its objectives multiplied by what 1 stood for in the kernel."""
        history = [unit * objective for objective in self.history]
        return replace(self, objective=unit * self.objective, history=history)


class Trace:
    """History and stopping rule of one run.

    A kernel calls :meth:`record` whenever it has evaluated its objective. ``measure`` is what has
    to fall to ``tol``: the certified relative gap where there is one, otherwise the change that
    the kernel names in ``measure_name``. A ``tol`` of 0 asks for ``max_iter`` iterations. Every
    record is logged (logger ``jointsparse.solvers``, level INFO), with the numbers as attributes of
    the log record, so that a progress bar can follow. ``known`` is an objective known
    before the first iteration, if there is one.
    """

    def __init__(
        self, tol: float, max_iter: int, measure_name: str, *, known: float = float("inf")
    ) -> None:
        self.tol = tol
        self.max_iter = max_iter
        self.measure_name = measure_name
        self.known = known
        self.history: list[float] = []
        self.gap_history: list[float] = []
        self.measure = float("inf")

    def record(
        self, iteration: int, objective: float, *, gap: float | None = None, measure: float
    ) -> bool:
        """Note the objective after an iteration; return whether the run may stop."""
        previous = self.history[-1] if self.history else self.known
        skipped = iteration - 1 - len(self.history)
        self.history += [previous] * skipped + [objective]
        if gap is not None:
            previous_gap = self.gap_history[-1] if self.gap_history else 1.0
            self.gap_history += [previous_gap] * skipped + [gap]
        self.measure = measure
        logger.info(
            "iteration %d: objective %.8g, %s %.2e",
            iteration,
            objective,
            self.measure_name,
            measure,
            extra={
                "iteration": iteration,
                "max_iter": self.max_iter,
                "objective": objective,
                "gap": gap,
                "tol": self.tol,
            },
        )
        return self.converged

    @property
    def converged(self) -> bool:
        """Whether the measure has reached the tolerance; without one, whether all was done."""
        if self.tol == 0:
            return len(self.history) >= self.max_iter
        return self.measure <= self.tol

    @property
    def reason(self) -> str:
        """Why the run ended, in words."""
        if self.tol == 0:
            return f"made the {self.max_iter} iterations asked for"
        if self.converged:
            return f"{self.measure_name} {self.measure:.1e} reached the tolerance {self.tol:.1e}"
        return f"stopped at the iteration limit ({self.max_iter}) with {self.lacking}"

    @property
    def lacking(self) -> str:
        """What is missing, in words."""
        return f"{self.measure_name} {self.measure:.1e} above the tolerance {self.tol:.1e}"

    def solution(
        self,
        loadings: Array,
        objective: float,
        gap: float | None,
        diagnostics: dict[str, float],
        state: Any = None,
    ) -> Solution:
        """Return the result of the run; its last word on convergence is the gap given here."""
        if gap is not None:
            self.measure = gap
        # What a run this short does not know yet is left out.
        diagnostics = {name: value for name, value in diagnostics.items() if math.isfinite(value)}
        return Solution(
            loadings=loadings,
            objective=objective,
            gap=gap,
            history=self.history,
            gap_history=self.gap_history,
            n_iter=len(self.history),
            converged=self.converged,
            reason=self.reason,
            diagnostics=diagnostics,
            state=state,
        )


def continued(first: Solution[State], second: Solution[State], tol: float) -> Solution[State]:
    """Return the result of two kernels that proved gaps of the same problem, one after the other.

    Each bound holds for both, so the gap is that of the better objective and the better bound.

    Parameters
    ----------
    first, second : Solution
        In the order in which they were run.
    tol : float
        Relative gap that counts as converged.
    """
    assert first.gap is not None
    assert second.gap is not None
    best = min(first, second, key=lambda one: one.objective)
    bound = max(one.objective * (1 - (one.gap or 0.0)) for one in (first, second))
    gap = max(0.0, best.objective - bound) / best.objective if best.objective > 0 else 0.0
    gaps = [min(first.gap, later) for later in second.gap_history[:-1]]
    converged = gap <= tol
    reason = second.reason
    if converged and not second.converged:
        reason = f"duality gap {gap:.1e} reached the tolerance {tol:.1e}"
    return replace(
        best,
        gap=gap,
        history=first.history + [min(first.history[-1], later) for later in second.history],
        gap_history=[*first.gap_history, *gaps, gap],
        n_iter=first.n_iter + second.n_iter,
        converged=converged,
        reason=reason,
    )


def proven(
    solve: Callable[[float], Solution[State]], tol: float, rounding: Rounding
) -> Solution[State]:
    """Solve to a gap of ``tol``, rounding included.

    A computed gap is the difference of two computed numbers. What their rounding may amount to is
    added to it, so that it is never 0, and left room for below the tolerance.

    Parameters
    ----------
    solve : callable
        Runs the kernel to the tolerance that it is given.
    tol : float
        Relative gap that counts as converged.
    rounding : Rounding
        What the rounding may amount to.

    Returns
    -------
    Solution
        With gaps that include the rounding; ``diagnostics["optimality"]`` is the gap, too.
    """
    room = 2 * rounding.relative(rounding.size / rounding.leverage)
    solution = solve(tol - room if room < tol / 2 else tol / 2)
    if solution.gap is None:
        return solution
    extra = rounding.relative(solution.objective)
    gap = solution.gap + extra
    within = gap <= tol
    reason = solution.reason
    if solution.converged and not within:
        reason = (
            f"rounding alone may be {extra:.1e} of the objective: the gap is proved to {gap:.1e}"
        )
    return replace(
        solution,
        gap=gap,
        gap_history=[min(known + extra, 1.0) for known in solution.gap_history[:-1]] + [gap],
        converged=solution.converged and within,
        reason=reason,
        diagnostics={**solution.diagnostics, "optimality": gap, "optimality_bound": tol},
    )


@dataclass(frozen=True)
class Rounding:
    """An estimate of the rounding error of an objective and of its lower bound.

    Sums of N terms that are rounded independently of each other are off by about √N ε of the size
    of their terms. Those of an objective are as large as the objective of the empty model, from
    which the fit is subtracted. A dual point is made feasible by a factor whose relative error is ε
    times the data over the penalty.

    Attributes
    ----------
    terms : int
        N.
    size : float
        Objective of the empty model.
    leverage : float
        Largest penalty that matters (or the size of the data) over the penalty; at least 1.
    data : float
        Relative error of the data, where they are sums themselves.
    """

    terms: int
    size: float
    leverage: float = 1.0
    data: float = 0.0

    def relative(self, objective: float) -> float:
        """Return the error as a share of the objective."""
        ratio = self.size / objective if objective > 0 else 1.0
        unit = EPSILON * self.terms**0.5 + self.data
        return float(unit * (max(ratio, 1.0) + max(self.leverage, 1.0)))


def closed_form(loadings: Array, objective: float, state: Other) -> Solution[Other]:
    """Return the result of a kernel that does not iterate."""
    return Solution(
        loadings=loadings,
        objective=objective,
        gap=None,
        history=[objective],
        gap_history=[],
        n_iter=1,
        converged=True,
        reason="closed form",
        state=state,
    )

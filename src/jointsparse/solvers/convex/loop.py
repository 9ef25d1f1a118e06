r"""The loop of the splitting solvers: over-relaxed, accelerated, certified.

A problem is split into blocks. Block b has a proximal step and a step size ρ_b; the blocks have to
agree with a common variable. With one target T_b for each block, an iteration is

.. math:: Z_b = \operatorname{prox}_b(T_b),\qquad Y_b = T_b - Z_b,\qquad
          T_b \leftarrow T_b + a\,(A_b - Z_b),

where A_b is what block b should be, computed from all Z - Y (Douglas–Rachford splitting, the same
as ADMM). What the blocks are is the problem's business; the loop relaxes, balances the step sizes,
accelerates (:mod:`~jointsparse.solvers.convex.acceleration`) and asks for a certificate when one is
due.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from jointsparse.arrays import Array
from jointsparse.linalg import inner_product
from jointsparse.solvers.convex.acceleration import Anderson, Arrays
from jointsparse.solvers.convex.certificate import relative_gap
from jointsparse.solvers.solution import Trace

# Measured over λ, η in {1e-4 … 0.3} tr S on four datasets and at λ = η = 10 on three, with the
# multipliers started from a first guess: any relaxation from 1 to 1.4 needs 4 iterations in the
# median for a gap of 1e-4.
RELAXATION = 1.4
ADAPT_EVERY = 5
ADAPT_UNTIL = 1000  # ordinary problems are over by then; that steps stay at last is for the proof
IMBALANCE = 3.0  # ratio of residuals beyond which a step size is doubled or halved
FALL_EXPECTED = math.log(5.0)  # of the logarithm of the gap, per iteration, before it is known
LONGEST_PAUSE = 3  # iterations between two certificates
THOROUGH_WITHIN = 10  # tolerances: from there on a better certificate is worth its price
WORTHWHILE = 0.7  # share of the gap to which some iterations have to bring it
# Times the tolerance: nearer than that, patience lasts LONGER times as long. A table of 30 × 56
# numbers whose gap stayed at three tolerances from iteration 40 to 340 was solved at 352, in half a
# second; to begin anew by reweighting took 40 s.
NEARLY, LONGER = 4.0, 4
SMALL_PROBLEM = 2 * 64**2  # entries
ACCELERATION_MEMORY = 5
ACCELERATION_BYTES = 2**30


@dataclass(frozen=True)
class Copies:
    """One iterate: for each block what it should be (A), what it is (Z), its scaled dual (Y)."""

    agreed: Arrays
    values: Arrays
    duals: Arrays
    steps: tuple[float, ...]


class Candidate(Protocol):
    """A feasible point; the loop only compares them."""

    @property
    def objective(self) -> float:
        """Objective, in the units of the problem."""
        ...


class SplitProblem(Protocol):
    """What the loop asks of a problem."""

    groups: tuple[tuple[int, ...], ...]
    """Blocks that share a step size."""

    def start(self) -> tuple[Arrays, tuple[float, ...]]:
        """Return first targets and step sizes, one for each group."""
        ...

    def split(
        self, targets: Arrays, steps: tuple[float, ...], rescale: tuple[float, ...]
    ) -> Copies:
        """Make one iterate; step sizes change by ``rescale`` while the multipliers ρY stay."""
        ...

    def candidate(self, copies: Copies) -> Any:
        """Return a feasible point made from the iterate."""
        ...

    def lower_bound(self, copies: Copies, *, thorough: bool) -> float:
        """Return a proven lower bound on the optimum; a thorough one may cost an iteration."""
        ...


@dataclass(frozen=True)
class SplitResult:
    """Best feasible point, best bound, and the last iterate."""

    best: Any
    lower_bound: float
    copies: Copies
    residuals: list[tuple[float, float]]


def run_splitting(
    problem: SplitProblem,
    best: Any,
    trace: Trace,
    *,
    scale: float,
    start: tuple[Arrays, tuple[float, ...]] | None = None,
    acceleration_bytes: int = ACCELERATION_BYTES,
    delay: int = 0,
    patience: int | None = None,
) -> SplitResult:
    """Iterate until the certified relative gap reaches the tolerance of ``trace``.

    Parameters
    ----------
    problem : SplitProblem
        Blocks, feasible points and bounds.
    best : Candidate
        A feasible point known beforehand.
    trace : Trace
        History and stopping rule.
    scale : float
        Factor from the units of the problem to those of the data, for the history.
    start : tuple or None
        Targets and step sizes to start from; the problem's own without.
    acceleration_bytes : int
        Memory that the accelerator may take.
    delay : int
        Iterations to wait longer than usual before the first certificate.
    patience : int or None
        Iterations in which the gap has to fall to ``WORTHWHILE`` of what it was, ``LONGER`` times
        as many where it is within ``NEARLY`` times the tolerance; None: any number.
    """
    cold = start is None
    targets, steps = problem.start() if start is None else start
    del start  # the arrays may be large, and are not needed after the first step
    accelerator = Anderson(_memory(targets, acceleration_bytes))
    # What is handed on is held by nobody but who works on it: of large arrays, each one counts.
    handed = [targets]
    lower_bound = -math.inf
    # About one iteration for each digit is needed; earlier certificates hardly ever pass. Where
    # they cost next to nothing they are made all the same: the history is the better for it.
    small = _entries(targets) <= SMALL_PROBLEM
    next_check = max(2, round(-math.log10(trace.tol)) - 1 + delay) if cold and not small else 1
    last_check: tuple[int, float] | None = None
    unchanged = (1.0,) * len(steps)
    rescale, previous = unchanged, None
    milestone = (0, math.inf)  # an iteration, and the gap that was reached then
    del targets
    for iteration in range(1, trace.max_iter + 1):
        copies = problem.split(handed.pop(), steps, rescale)
        if copies.steps != steps:
            steps = copies.steps
            accelerator.reset()
        if iteration in (next_check, trace.max_iter):
            best = min(best, problem.candidate(copies), key=lambda point: point.objective)
            lower_bound = max(lower_bound, problem.lower_bound(copies, thorough=False))
            gap = relative_gap(best.objective, lower_bound)
            if trace.tol < gap < THOROUGH_WITHIN * trace.tol or iteration == trace.max_iter:
                lower_bound = max(lower_bound, problem.lower_bound(copies, thorough=True))
                gap = relative_gap(best.objective, lower_bound)
            done = trace.record(iteration, best.objective * scale, gap=gap, measure=gap)
            if gap <= WORTHWHILE * milestone[1]:
                milestone = (iteration, gap)
            idle = iteration - milestone[0]
            done = done or iteration == trace.max_iter
            stuck = patience is not None and idle >= max(1, patience * _longer(gap, trace.tol))
            if done or stuck:
                apart = residuals(problem, copies, previous)
                return SplitResult(best, lower_bound, copies, apart)
            pause = 1 if small else _pause(last_check, iteration, gap, trace.tol)
            next_check = iteration + pause
            last_check = (iteration, gap)
        rescale = unchanged
        if iteration % ADAPT_EVERY == 0 and iteration <= ADAPT_UNTIL:
            rescale = tuple(_rescaling(*pair) for pair in residuals(problem, copies, previous))
        handed += _fixed_point(copies)
        previous = copies.agreed
        del copies
        handed.append(accelerator.step(handed.pop(0), handed.pop(0)))
    raise ValueError("at least one iteration has to be allowed")


def _longer(gap: float, tol: float) -> int:
    """Return how many times as long to wait: longer near the end, as others would begin anew."""
    return LONGER if gap <= NEARLY * tol else 1


def residuals(
    problem: SplitProblem, copies: Copies, previous: Arrays | None
) -> list[tuple[float, float]]:
    """For each group of blocks: how far they are from agreeing, and how far they moved.

    Relative to the size of the blocks and to the size of their duals.
    """
    pairs = []
    for group in problem.groups:
        agreed = [copies.agreed[b] for b in group]
        values = [copies.values[b] for b in group]
        apart = _norm([a - z for a, z in zip(agreed, values, strict=True)])
        moved = math.inf
        if previous is not None:
            moved = _norm([a - previous[b] for a, b in zip(agreed, group, strict=True)])
        size = max(_norm(agreed), _norm(values), 1e-300)
        pairs.append((apart / size, moved / max(_norm([copies.duals[b] for b in group]), 1e-300)))
    return pairs


def _norm(arrays: list[Array]) -> float:
    return math.sqrt(sum(inner_product(a, a) for a in arrays))


def _fixed_point(copies: Copies) -> tuple[Arrays, Arrays]:
    """Return T and the relaxed step from it."""
    targets = tuple(z + y for z, y in zip(copies.values, copies.duals, strict=True))
    step = tuple(a - z for a, z in zip(copies.agreed, copies.values, strict=True))
    for part in step:
        part *= RELAXATION  # in place
    return targets, step


def _memory(targets: Arrays, budget: int) -> int:
    """Return how many steps the accelerator may remember within its share of memory."""
    return min(ACCELERATION_MEMORY, budget // (2 * 8 * _entries(targets)))


def _entries(targets: Arrays) -> int:
    return sum(math.prod(target.shape) for target in targets)


def _rescaling(apart: float, moved: float) -> float:
    """Return the factor that moves a step size towards equal residuals."""
    if apart > IMBALANCE * moved:
        return 2.0
    return 0.5 if moved > IMBALANCE * apart else 1.0


def _pause(last_check: tuple[int, float] | None, iteration: int, gap: float, tol: float) -> int:
    """Return the iterations until the next certificate, from how fast the gap has fallen so far.

    A certificate costs about half an iteration. A little less than the expected time is
    waited, because acceleration makes the gap fall faster and faster.
    """
    rate = FALL_EXPECTED
    if last_check is not None and 0 < gap < last_check[1]:
        rate = math.log(last_check[1] / gap) / (iteration - last_check[0])
    expected = math.log(gap / tol) / max(rate, 1e-3)
    return max(1, min(LONGEST_PAUSE, round(0.7 * expected)))

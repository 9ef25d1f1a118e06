r"""Exact solution of the convex model for many more features than samples.

The p × p unknown is never formed, and the data are reached through a few products only
(:mod:`~jointsparse.operators.samples`):

1. features that are zero in every optimum are taken out for good
   (:mod:`~jointsparse.solvers.convex.screening`); of a million features that is often all but a few
   thousand;
2. the model on the others is solved in a basis of the few directions that η lets matter
   (:mod:`~jointsparse.solvers.convex.low_rank`), with a bound that holds for all directions;
3. where that basis would be too large, or stalls, or η = 0, a basis that holds all of range(Xᵀ)
   takes over (:mod:`~jointsparse.solvers.wide.rounds`).

How many directions matter is known from the n × n Gram matrix before anything with p rows is made.
Where they would not fit into memory, :class:`TooManyDirectionsError` says which η does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import free_bytes, to_host
from jointsparse.io.budget import allowed_memory, size_in_words
from jointsparse.io.limits import BYTES_OF_FEATURE
from jointsparse.linalg import array_namespace, eigh, root_of_scatter
from jointsparse.operators.dense import operator_of
from jointsparse.operators.samples import Samples
from jointsparse.solvers.convex.low_rank import LARGEST_ALWAYS, LowRankState, solve_low_rank
from jointsparse.solvers.convex.low_rank_basis import Basis
from jointsparse.solvers.convex.model import EMPTYING
from jointsparse.solvers.convex.screening import static_screen
from jointsparse.solvers.solution import Solution, Trace, continued
from jointsparse.solvers.wide.certificate import SampleDual
from jointsparse.solvers.wide.penalties import leading_eigenvalues
from jointsparse.solvers.wide.rounds import solve_in_full_range
from jointsparse.solvers.wide.scatter_access import (
    FLOOR,
    LARGEST_GRAM,
    NOISE_FLOOR,
    DataScatter,
    floor_of,
)

# Columns of the small basis, of the features: the fall-back costs even more. On two thirds of a
# sample of mnist (267 × 570, 130 directions above the noise) it took two seconds instead of 0.3.
LARGEST_SHARE = 2 / 3
# Columns of the small basis for each sample, where the fall-back is at hand, which begins with two:
# all of range(Xᵀ), and the columns of an optimum of full rank. Without this limit the basis had
# 2 005 columns after five rounds on orlraws10p (100 × 10 304) at η = 5e-8 and λ = 5e-3 of tr S, and
# grew on. At η of 1e-3 and 1e-2 of tr S, colon, glioma and allaml are solved in up to 3.9, and take
# up to three times as long with 2 or 3; at smaller η 2, 3 and 4 differ little.
LARGEST_OF_SAMPLES = 4
SHARE_OF_MEMORY = 3 / 4  # of what may be taken, for arrays with one row for each feature
MOST_ROUNDS = 8  # in the full range, where a gap above the tolerance will do
ARRAYS_IN_DOUBLE, ARRAYS_STORED = 6, 10  # p × m arrays at the same time: bounds, iterates


class TooManyDirectionsError(ValueError):
    """The basis would not fit into memory.

    Attributes
    ----------
    count : int
        Number of directions that matter at this η.
    gigabytes : float
        Memory to allow, so that their basis fits.
    eta : float
        A penalty, in the units of the data, with which it fits.
    """

    def __init__(self, count: int, gigabytes: float, eta: float) -> None:
        super().__init__(
            f"{count} directions matter at this eta, and a basis of them needs about "
            f"{size_in_words(1e9 * gigabytes)}; eta={eta:.6g} (in the units of XᵀX) or more needs "
            "few enough"
        )
        self.count, self.gigabytes, self.eta = count, gigabytes, eta


@dataclass(frozen=True)
class WideState:
    """Where a run ended, for a similar problem on the same features.

    Attributes
    ----------
    factor : array of shape (n_features, rank)
        U.
    screened : array of shape (n_features,)
        Features that were proved zero.
    lam, eta : float
        Penalties in the units of the data.
    source, scatter, leading : object, DataScatter, tuple
        The data, those of the features that were left, and their leading directions; of use again
        for the very same data and features.
    """

    factor: Array
    screened: Array
    lam: float
    eta: float
    source: Any
    scatter: DataScatter
    leading: tuple[Basis, float] | None


def solve_wide(
    data: Array | Samples,
    lam: float,
    eta: float,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    start: WideState | None = None,
    keep_state: bool = False,
    accept: float = 0.0,
) -> Solution[WideState | None]:
    """Solve the convex model to a certified relative gap without any p × p matrix.

    Parameters
    ----------
    data : array of shape (n_samples, n_features) or Samples
        X, centred; float64, or float32 to halve the memory.
    lam, eta : float
        Penalties in the units of XᵀX, at least 0.
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Limit on the iterations of the splitting loop, over all rounds.
    start : WideState or None
        ``state`` of a similar problem, for instance of the last point on a path of penalties.
    keep_state : bool
        Whether to return the state for a later start, and dual points.
    accept : float
        A gap above ``tol`` that will do, too, where going on would take many more rounds.

    Returns
    -------
    Solution
        ``loadings`` is U with Ω = UUᵀ and exactly zero rows for the features left out; ``dual`` is
        a list of :class:`~jointsparse.solvers.wide.certificate.SampleDual`.
    """
    lam, eta = float(lam), float(eta)  # a NumPy float64 would turn float32 arrays into float64
    wide = operator_of(data)
    if wide.shape[0] > wide.shape[1]:
        wide = operator_of(root_of_scatter(wide.dense()))
    xp = array_namespace(wide.empty)
    total = float(xp.sum(wide.squared_lengths()))
    most = 2 * EMPTYING * total  # see capped_penalty
    lam, eta = min(lam, most), min(eta, most)
    if lam == 0:
        return _without_sparsity(wide, eta)
    screened = _screened(wide, lam, eta, start)
    alive = ~screened
    if not bool(xp.any(alive)):
        return _emptied(wide, total, screened)
    same = start is not None and start.source is data and start.eta == eta
    if same and bool(xp.all(start.screened == screened)):  # type: ignore[union-attr]
        assert start is not None
        scatter, leading = start.scatter, start.leading
    else:
        scatter, leading = DataScatter(wide.columns(alive), total), None
    check_memory(scatter.data, eta)
    begin = None
    if start is not None:
        begin = LowRankState(scatter, eta, leading, start.factor[alive, :])
    solution, leading = _solved(
        scatter, lam, eta, total, begin, accept=accept, tol=tol, max_iter=max_iter
    )
    kept, dual = None, None
    if keep_state:
        everywhere = _on_all(solution.loadings, alive)
        kept = WideState(everywhere, screened, lam, eta, data, scatter, leading)
        dual = _duals(solution, scatter.data, screened=bool(xp.any(screened)))
    return replace(
        solution,
        loadings=_on_all(solution.loadings, alive) if kept is None else kept.factor,
        diagnostics={**solution.diagnostics, "screened": float(xp.sum(screened))},
        proved_zero=screened,
        state=kept,
        dual=dual,
    )


def _emptied(wide: Samples, total: float, screened: Array) -> Solution:
    """Return the empty model, which every feature is proved to belong to."""
    xp = array_namespace(wide.empty)
    reason = "the penalty empties the model: every feature is proved to be zero"
    nothing = xp.zeros(wide.shape[0], dtype=xp.float64, device=wide.empty.device)
    empty = _closed_form(wide.empty, total, reason, screened)
    return replace(empty, dual=[SampleDual(1.0, nothing, nothing)])


def _solved(
    scatter: DataScatter,
    lam: float,
    eta: float,
    total: float,
    begin: LowRankState | None,
    *,
    accept: float,
    tol: float,
    max_iter: int,
) -> tuple[Solution, tuple[Basis, float] | None]:
    """Solve in a few leading directions, and in all of them where these are not enough.

    Also returns the leading directions, where they were found.
    """
    limits: dict[str, Any] = {"tol": tol, "max_iter": max_iter}
    solution, leading, room = None, None, _room(scatter.data)
    most = _most_columns(scatter.data)
    falls_back = room is None and most is None
    limits["most_columns"] = most
    if falls_back:
        limits["most_columns"] = max(LARGEST_OF_SAMPLES * scatter.data.shape[0], LARGEST_ALWAYS)
    if eta > 0:
        solution = solve_low_rank(
            scatter,
            lam,
            eta,
            start=begin,
            most_leading=room,
            largest_share=LARGEST_SHARE,
            **limits,
        )
        if scatter.noise and not _enough(solution, accept) and solution.n_iter < max_iter:
            solution = _without_noise_floor(scatter, lam, eta, solution, room, **limits)
        leading = None if solution.state is None else solution.state.leading
        if _enough(solution, accept) or solution.n_iter >= max_iter:
            return solution, leading
    del limits["most_columns"]
    if falls_back:
        solution = solve_in_full_range(
            scatter.data.dense(),
            lam,
            eta,
            total,
            first=solution,
            factor=None if begin is None else begin.factor,
            max_rounds=MOST_ROUNDS if accept > 0 else None,
            **limits,
        )
    elif solution is None or solution.n_iter == 0:
        raise _beyond_room(scatter.data, room or max(1, (most or 0) // 2))
    return solution, leading


def _without_noise_floor(
    scatter: DataScatter,
    lam: float,
    eta: float,
    first: Solution,
    room: int | None,
    *,
    tol: float,
    max_iter: int,
    most_columns: int | None,
) -> Solution:
    """Go on with all directions that may matter, where those above the noise were not enough."""
    if scatter.data.shape[0] > LARGEST_GRAM:
        return first
    values = array_namespace(scatter.empty).linalg.eigvalsh(scatter.data.gram() / scatter.total)
    if floor_of(values, eta / scatter.total) == FLOOR:
        return first
    try:
        check_memory(scatter.data, eta, noise=False)
    except TooManyDirectionsError:
        return first  # with a gap that holds, though above the tolerance
    scatter.noise = False
    second = solve_low_rank(
        scatter,
        lam,
        eta,
        start=LowRankState(scatter, eta, None, first.loadings),
        most_leading=room,
        largest_share=LARGEST_SHARE,
        tol=tol,
        max_iter=max_iter - first.n_iter,
        most_columns=most_columns,
    )
    if second.n_iter == 0:
        return first
    return replace(continued(first, second, tol), dual=second.dual, state=second.state)


def _enough(solution: Solution, accept: float) -> bool:
    gap = math.inf if solution.gap is None else solution.gap
    return solution.converged or gap <= accept


def _duals(solution: Solution, data: Samples, *, screened: bool) -> list[SampleDual]:
    """Return the dual points of whichever solver came last, as the samples see them."""
    if isinstance(solution.dual, list):
        return solution.dual
    if solution.dual is None:
        return []
    basis, rotated, limit = solution.dual
    return [SampleDual.of(data.times(basis), rotated, limit, screened=screened)]


def check_memory(data: Samples, eta: float, *, noise: bool = True) -> None:
    """Raise :class:`TooManyDirectionsError` where the bases would not fit into memory."""
    n, p = data.shape
    xp = array_namespace(data.empty)
    entry = _entry_bytes(data)
    most = bytes_to_use(data) // (entry * p)
    if 2 * n <= most or n > LARGEST_GRAM:
        return
    values = to_host(xp.linalg.eigvalsh(data.gram()))
    count, both = _directions(values, eta, noise=noise)
    if both > most:
        fits = _smallest_eta(values, most, noise=noise)
        raise TooManyDirectionsError(count, _to_allow(data, both) / 1e9, fits)


def _directions(values: FloatArray, eta: float, *, noise: bool) -> tuple[int, int]:
    """Return how many directions a basis keeps at this η, and that with those of a solution."""
    floor = floor_of(values, eta) if noise else FLOOR
    count, matter = (int(np.sum(2 * values > share * eta)) for share in (floor, 1.0))
    return count, count + matter


def _smallest_eta(values: FloatArray, most: int, *, noise: bool) -> float:
    """Return the smallest η found at which no more directions are needed than there is room for."""
    # Counts change where a share of η passes one of these; at the largest, nothing is kept.
    passed = np.unique(2 * values[values > 0, None] / np.array([FLOOR, NOISE_FLOOR, 1.0]))
    passed = passed * (1 + 1e-6)
    low, high = -1, passed.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if _directions(values, float(passed[middle]), noise=noise)[1] <= most:
            high = middle
        else:
            low = middle
    return float(passed[high])


def _most_columns(data: Samples) -> int | None:
    """Return how many columns a basis may have; None where there is room for all that it can.

    Of more samples than a Gram matrix is made of, :func:`_room` limits where it begins.
    """
    n, p = data.shape
    if n > LARGEST_GRAM:
        return None
    most = bytes_to_use(data) // (_entry_bytes(data) * p)
    return None if 2 * n <= most else int(most)


def _room(data: Samples) -> int | None:
    """Return how many directions there is room for; None where a basis of all of them will do.

    Of an array, and of few enough samples for a Gram matrix (which :func:`check_memory` looks at),
    all will do. Of others, dense data and a basis of their range are no way out.
    """
    n, p = data.shape
    if n <= LARGEST_GRAM or data.is_array:
        return None
    most = bytes_to_use(data) // (_entry_bytes(data) * p)
    return None if 2 * n <= most else max(1, most // 2)


def _beyond_room(data: Samples, room: int) -> TooManyDirectionsError:
    level = float(leading_eigenvalues(data, room)[-1])
    needed = _to_allow(data, 2 * data.shape[0])
    return TooManyDirectionsError(room, needed / 1e9, 2 * level / FLOOR * (1 + 1e-3))


def bytes_to_use(data: Samples) -> int:
    """Return what the arrays with one row for each feature may take, where the samples are."""
    wanted = 2 * data.shape[0] * data.shape[1] * _entry_bytes(data) / SHARE_OF_MEMORY
    allowed = free_bytes(data.empty) or allowed_memory(wanted, _held_bytes(data))
    return int(SHARE_OF_MEMORY * allowed)


def _to_allow(data: Samples, columns: int) -> float:
    """Return a memory in which there is room for a basis of so many columns."""
    n, p = data.shape
    needed = _entry_bytes(data) * p * columns / SHARE_OF_MEMORY
    if not data.is_elsewhere:
        return needed + _held_bytes(data)
    # Blocks take half of what is allowed; samples that fit into a quarter are taken into memory.
    size = n * p * data.dtype.itemsize
    held = 3 * size if 2 * size <= needed else 0
    return BYTES_OF_FEATURE * p + max(2 * needed, needed + held)


def _held_bytes(data: Samples) -> int:
    """Return what the samples, and what is told of their features, take beside a solver."""
    return data.held_bytes + BYTES_OF_FEATURE * data.shape[1]


def _entry_bytes(data: Samples) -> int:
    """Return the bytes that all arrays with one row for each feature take, for each entry."""
    single = data.empty.dtype == array_namespace(data.empty).float32
    return 8 * ARRAYS_IN_DOUBLE + (4 if single else 8) * ARRAYS_STORED


def _screened(data: Samples, lam: float, eta: float, start: WideState | None) -> Array:
    """Return the features that are proved zero."""
    xp = array_namespace(data.empty)
    if data.shape[0] > LARGEST_GRAM:
        return xp.zeros(data.shape[1], dtype=xp.bool, device=data.empty.device)
    likely = start.screened if start is not None and start.lam >= lam else None
    return static_screen(data, lam, eta, candidates=likely)


def _on_all(rows: Array, alive: Array) -> Array:
    """Add zero rows for the features that were left out."""
    xp = array_namespace(rows)
    if bool(xp.all(alive)):
        return rows
    result = xp.zeros((alive.shape[0], rows.shape[1]), dtype=rows.dtype, device=rows.device)
    result[alive, :] = rows
    return result


def _without_sparsity(data: Samples, eta: float) -> Solution:
    """Return the optimum for λ = 0: Ω = Σᵢ (1 - η/(2sᵢ))₊ vᵢvᵢᵀ over the eigenpairs of S."""
    xp = array_namespace(data.empty)
    s, vectors = eigh(data.gram())
    varies = s > 1e-13 * s[-1]
    keep = (2 * s > eta) & varies
    left = float(xp.sum(s[varies & ~keep]))
    s, vectors = xp.flip(s[keep]), xp.flip(vectors[:, keep], axis=1)
    omega = 1 - eta / (2 * s)
    factor = data.transposed_times(vectors * (xp.sqrt(omega) / xp.sqrt(s)))
    # s(1 - ω)² + ηω term by term: nothing cancels, and without penalties the objective is 0.
    value = left + eta * float(xp.sum(eta / (4 * s) + omega))
    reason = "closed form: there is no sparsity penalty"
    return _closed_form(xp.astype(factor, data.empty.dtype, copy=False), value, reason, None)


def _closed_form(factor: Array, value: float, reason: str, screened: Array | None) -> Solution:
    trace = Trace(0.0, 1, "duality gap")
    trace.record(1, value, gap=0.0, measure=0.0)
    count = 0 if screened is None else int(array_namespace(screened).sum(screened))
    diagnostics = {"rank": factor.shape[1], "screened": count, "rounds": 0, "basis size": 0}
    numbers = {name: float(number) for name, number in diagnostics.items()}
    solution = trace.solution(factor, value, 0.0, numbers)
    return replace(solution, converged=True, reason=reason, proved_zero=screened)

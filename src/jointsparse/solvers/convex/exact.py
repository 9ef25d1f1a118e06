"""The squared-loss model from its scatter matrix: screen, choose a solver, put things back.

A low-rank optimum is found in a small basis (:mod:`~jointsparse.solvers.convex.low_rank`), any
other, or one that this basis turns out not to hold, by splitting with p × p matrices
(:mod:`~jointsparse.solvers.convex.splitting`).

Features that are zero in every optimum (:mod:`~jointsparse.solvers.convex.screening`) leave before
the solver starts; the model on the others has the same optimum, and an objective that is smaller by
the variance of those that left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from jointsparse.arrays import Array
from jointsparse.linalg import Spectrum, array_namespace
from jointsparse.solvers.convex.certificate import relative_gap
from jointsparse.solvers.convex.low_rank import LowRankState, solve_low_rank
from jointsparse.solvers.convex.screening import static_screen_scatter
from jointsparse.solvers.convex.splitting import SplittingState, solve_splitting
from jointsparse.solvers.solution import Solution

LOW_RANK_SHARE = 1 / 8  # eigenvectors that matter, as a share of all, for the small basis to pay
SMALLEST_FOR_LOW_RANK = 150  # below, a p × p eigendecomposition costs no more than the overhead


@dataclass(frozen=True)
class ExactState:
    """State of the solver on the features that were left, and which they were."""

    features: Array
    splitting: SplittingState


def solve_scatter(
    scatter: Array,
    lam: float,
    eta: float,
    *,
    spectrum: Callable[[], Spectrum],
    tol: float = 1e-4,
    max_iter: int = 1000,
    start: ExactState | LowRankState | None = None,
    keep_state: bool = False,
) -> Solution[ExactState | LowRankState | None]:
    """Solve the squared-loss model to a certified relative gap, with p × p matrices.

    Parameters
    ----------
    scatter : array of shape (n_features, n_features)
        S.
    lam, eta : float
        Penalties in the units of S; at least 0, not both 0.
    spectrum : callable
        Returns the eigendecomposition of S; called only where no feature is screened.
    tol, max_iter : float, int
        Relative duality gap to reach, and iteration limit.
    start : ExactState, LowRankState or None
        State of an earlier solution to start from.
    keep_state : bool
        Whether to return the state for a later warm start.

    Returns
    -------
    Solution
        As from :func:`~jointsparse.solvers.convex.splitting.solve_splitting`; ``proved_zero`` tells
        which features were screened.
    """
    xp = array_namespace(scatter)
    screened = static_screen_scatter(scatter, lam, eta)
    features = xp.nonzero(~screened)[0]
    total = float(xp.linalg.trace(scatter))
    if features.shape[0] == 0:
        return _empty(scatter, total, screened)
    if scatter.shape[0] >= SMALLEST_FOR_LOW_RANK and eta > 0:
        # All features stay: what the basis needs depends on S and eta only, so that it serves a
        # whole path.
        small = solve_low_rank(
            scatter,
            lam,
            eta,
            tol=tol,
            max_iter=max_iter,
            start=start if isinstance(start, LowRankState) else None,
            most_leading=int(LOW_RANK_SHARE * scatter.shape[0]),
        )
        if small.converged:
            kept = small.state if keep_state else None
            return replace(small, proved_zero=screened, state=kept, dual=None)
        del small  # its basis, and a dual point
    everything = features.shape[0] == scatter.shape[0]
    rest = scatter if everything else scatter[features, :][:, features]
    solution = solve_splitting(
        spectrum() if everything else Spectrum.of(rest),
        lam,
        eta,
        tol=tol,
        max_iter=max_iter,
        start=_carry(start, features, scatter.shape[0]) if isinstance(start, ExactState) else None,
        keep_state=keep_state,
    )
    state = None if solution.state is None else ExactState(features, solution.state)
    # The dual point knows the features that were left only.
    found = replace(solution.with_state(state), dual=None)
    if everything:
        return replace(found, proved_zero=screened)
    return _put_back(found, features, screened, total - float(xp.linalg.trace(rest)), state)


def _empty(scatter: Array, total: float, screened: Array) -> Solution:
    return Solution(
        loadings=scatter[:, :0],
        objective=total,
        gap=0.0,
        history=[total],
        gap_history=[0.0],
        n_iter=1,
        converged=True,
        reason="the penalties empty the model: every feature is proved to be zero",
        diagnostics={"rank": 0.0, "screened": float(screened.shape[0])},
        proved_zero=screened,
    )


def _put_back(
    solution: Solution, features: Array, screened: Array, constant: float, state: ExactState | None
) -> Solution:
    """Add zero rows for the screened features and their variance to every objective."""
    xp = array_namespace(solution.loadings)
    given = solution.loadings
    shape = (screened.shape[0], given.shape[1])
    loadings = xp.zeros(shape, dtype=given.dtype, device=given.device)
    loadings[features, :] = given

    def relative(objective: float, gap: float) -> float:
        return relative_gap(objective + constant, objective * (1 - gap) + constant)

    assert solution.gap is not None
    return replace(
        solution,
        loadings=loadings,
        objective=solution.objective + constant,
        gap=relative(solution.objective, solution.gap),
        history=[objective + constant for objective in solution.history],
        gap_history=[
            relative(*pair) for pair in zip(solution.history, solution.gap_history, strict=True)
        ],
        diagnostics={**solution.diagnostics, "screened": float(xp.sum(screened))},
        proved_zero=screened,
        state=state,
    )


def _carry(start: ExactState, features: Array, n_features: int) -> SplittingState | None:
    """Move a state to other features: new ones start at zero."""
    xp = array_namespace(features)
    if int(xp.max(start.features)) >= n_features:
        return None  # the state is that of another problem
    place = xp.full(n_features, -1, device=features.device)
    place[start.features] = xp.arange(start.features.shape[0], device=features.device)
    source = place[features]
    known = source >= 0

    def moved(matrix: Array) -> Array:
        shape = (features.shape[0],) * 2
        result = xp.zeros(shape, dtype=matrix.dtype, device=matrix.device)
        inside = xp.nonzero(known)[0]
        result[inside[:, None], inside[None, :]] = matrix[source[known], :][:, source[known]]
        return result

    old = start.splitting
    return SplittingState(
        cone=moved(old.cone),
        columns=moved(old.columns),
        cone_multiplier=moved(old.cone_multiplier),
        columns_multiplier=moved(old.columns_multiplier),
        rho=old.rho,
        lam=old.lam,
    )

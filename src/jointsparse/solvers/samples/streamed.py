r"""Weighted models from sums over samples: one pass over the data for each, wherever they are.

The model with weights w is one of a scatter matrix, :math:`\tfrac12\sum_iw_i(x_i-m)(x_i-m)^\top`.
A pass (:mod:`~jointsparse.solvers.samples.weighted_pass`) with the solution of the last one gives
the new norms r, the certificate, and the sums with weights 1/r. Weights that are mixed from those
of a few passes have sums that are mixed alike, so no pass is needed for them: the last sums are
kept.
"""

from __future__ import annotations

from dataclasses import replace

from jointsparse.arrays import Array
from jointsparse.linalg import Spectrum, array_namespace, positive_part, symmetric_part
from jointsparse.solvers.convex.certificate import MatrixDual
from jointsparse.solvers.convex.low_rank import LowRankState, solve_low_rank
from jointsparse.solvers.convex.model import factor_scores
from jointsparse.solvers.convex.reweighted import (
    MEMORY,
    SMOOTHING,
    Step,
    mixed,
    rounded_limit,
    rounding_of_sums,
    sample_bound,
)
from jointsparse.solvers.convex.screening import static_screen_scatter
from jointsparse.solvers.convex.splitting import SplittingState, solve_splitting
from jointsparse.solvers.samples.weighted_pass import LinearFit, Passes, WeightedSums
from jointsparse.solvers.solution import Solution, closed_form

# p × p matrices of a fit beside those of a model that is split: sums of earlier weights, moments.
HELD = 52
LOW_RANK_SHARE = 1 / 4  # of the directions may matter
SMALLEST_FOR_LOW_RANK = 150
ACCEPTED = 100.0  # times the tolerance: still better than to begin again with p × p matrices
# Iterations with p × p matrices for one set of weights. The next set goes on where they end, with
# better weights: where columns differ by many orders of magnitude, ending each model (up to 1000
# iterations) took five times as many in all. On ordinary tables hardly any takes so many.
LONGEST = 100


class NoSmallBasisError(Exception):
    """More directions matter than a small basis should have."""


class StreamedModel:
    """CSPCA-PSD or AW-SPCA-PSD on samples that are only ever passed over.

    Parameters
    ----------
    samples : Passes
        Source of the samples, about a centre near their mean.
    lam, eta : float
        Penalties in the units of the data; lam positive, eta at least 0.
    free_mean : bool
        Whether the mean is free.
    scale : float
        Typical distance of a sample from that centre.
    small_only : bool
        Whether to give up, by a :class:`NoSmallBasisError`, where no small basis serves, in place
        of going on with p × p matrices.
    """

    def __init__(
        self,
        samples: Passes,
        lam: float,
        eta: float,
        *,
        free_mean: bool,
        scale: float,
        small_only: bool = False,
    ) -> None:
        self.samples, self.lam, self.eta, self.free_mean = samples, lam, eta, free_mean
        self.small_only = small_only
        self.state: LowRankState | SplittingState | None = None
        self.smoothing = SMOOTHING * scale
        first = samples.weighted_pass(LinearFit(smoothing=self.smoothing))
        self.sums, self.norms = [first.without_norms()], first.norms
        nothing, offset = first.first[:, None][:, :0], 0 * first.first if free_mean else None
        self.empty = Step(self._loss(first.norms), 0.0, first.norms, nothing, offset, iterations=0)
        self.low_rank = first.first.shape[0] >= SMALLEST_FOR_LOW_RANK and eta > 0

    def solve(self, mixture: list[float], weights: Array, tol: float, max_iter: int) -> Step:
        """Solve with mixed sums, then pass over the samples with the solution."""
        xp = array_namespace(weights)
        sums = self.sums[-len(mixture) :]
        mean, scatter = self._moments(mixture, sums)
        solution = self._weighted_solution(scatter / 2, tol, max_iter)
        factor, dual = solution.loadings, solution.dual
        pair = (dual.basis, dual.rotated)
        fit = LinearFit(factor, factor, mean=mean, smoothing=self.smoothing, second=pair)
        new = self.samples.weighted_pass(fit)
        self.sums = [*sums, new.without_norms()][-MEMORY:]
        whole = float(xp.linalg.trace(scatter))
        value = whole - float(xp.sum((dual.basis.T @ scatter @ dual.basis) * dual.rotated))
        # Where the samples are reproduced, weights are huge, and little is left of the whole.
        value -= rounding_of_sums(weights.shape[0], scatter.shape[0]) * whole
        shape = (weights.shape[0], scatter.shape[0])
        limit = rounded_limit(dual.limit, whole, self.lam + self.eta, shape)
        bound = sample_bound(limit, value, float(xp.max(weights * new.second_norms)))
        objective = self._loss(new.norms) + self.eta * float(xp.sum(factor**2))
        objective += self.lam * float(xp.sum(factor_scores(factor)))
        offset = None if mean is None else mean - factor @ (factor.T @ mean)
        return Step(objective, bound, new.norms, factor, offset, iterations=solution.n_iter)

    def _loss(self, norms: Array) -> float:
        """Return the sum of the norms as they were before they were smoothed."""
        xp = array_namespace(norms)
        return float(xp.sum(xp.sqrt(positive_part(norms**2 - self.smoothing**2))))

    def _moments(
        self, mixture: list[float], sums: list[WeightedSums]
    ) -> tuple[Array | None, Array]:
        """Return the mean, where it is free, and the scatter matrix about it."""
        scatter = mixed(mixture, [part.scatter for part in sums])
        if not self.free_mean:
            return None, scatter
        first = mixed(mixture, [part.first for part in sums])
        weight = mixed(mixture, [part.weight for part in sums])
        return first / weight, scatter - first[:, None] * (first / weight)[None, :]

    def _start(self, scatter: Array) -> LowRankState | None:
        """Return the last state for another scatter matrix, whose directions are not known yet."""
        if not isinstance(self.state, LowRankState):
            return None
        return replace(self.state, scatter=scatter, leading=None)

    def _weighted_solution(self, scatter: Array, tol: float, max_iter: int) -> Solution:
        """Solve the squared-loss model; in a small basis as long as one serves."""
        scatter = symmetric_part(scatter)
        xp = array_namespace(scatter)
        if bool(xp.all(static_screen_scatter(scatter, self.lam, self.eta))):
            nothing = scatter[:, :0]
            dual = MatrixDual(nothing, nothing[:0, :], 1.0)
            return replace(closed_form(nothing, float(xp.linalg.trace(scatter)), None), dual=dual)
        if self.low_rank:
            small = solve_low_rank(
                scatter,
                self.lam,
                self.eta,
                tol=tol,
                max_iter=max_iter,
                start=self._start(scatter),
                most_leading=int(LOW_RANK_SHARE * scatter.shape[0]),
            )
            if small.state is not None:
                self.state = small.state
            if small.dual is not None and _gap(small) <= ACCEPTED * tol:
                return small
            self.low_rank = False
        if self.small_only:
            raise NoSmallBasisError
        solution = solve_splitting(
            Spectrum.of(scatter),
            self.lam,
            self.eta,
            tol=tol,
            max_iter=min(max_iter, LONGEST),
            start=self.state if isinstance(self.state, SplittingState) else None,
            keep_state=True,
            held=HELD,
        )
        self.state = solution.state
        return replace(solution, state=None)


def _gap(solution: Solution) -> float:
    assert solution.gap is not None
    return solution.gap

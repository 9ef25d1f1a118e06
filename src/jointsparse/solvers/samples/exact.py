"""Which solver for the losses that sum over samples, on the cone, for which shape.

Measured at η = 10 % and λ = 20 % of what empties the model, to a gap of 1e-4:

* η > 0: reweighting (:mod:`~jointsparse.solvers.convex.reweighted`) takes 1/7 to 1/19 of the time
  of splitting with p × p matrices (:mod:`~jointsparse.solvers.samples.cone`) on four datasets of
  256 to 617 features, and for more features than samples never forms such a matrix.
* η > 0, and more than a fourth of all directions matter: the samples are reweighted while p × p
  matrices are split (:mod:`~jointsparse.solvers.samples.weighted_split`). That takes 2/3 to 1/11 of
  the time of weighted models that are each split to their end, on seven problems of four tables
  with 200 to 500 features.
* η = 0: the optimum has nearly full rank, and the cone takes care of itself. Samples and features
  weighted at once (:mod:`~jointsparse.solvers.samples.both_weights`) take 1/5 to 1/15 of the time
  of splitting on 165 × 1 024, 1 560 × 617 and 9 298 × 256, and of the samples reweighted alone on
  the last one and on 62 × 600 and 62 × 1 000 (1/2 to 1/13). They take p × p matrices: for very many
  features to a sample, the samples are reweighted alone.

Where features differ by many orders of magnitude, or one sample outweighs all others, splitting can
stand still: no common step size suits residuals of 1e-6 and of 1. Weights are as different as the
residuals are, and reweighting takes over, from its own start, as splitting does where both weights
are lost (38 × 49, columns of 1e-12 to 1e12:
1000 iterations of splitting end at a gap of 8e-4; with reweighting after 100 without progress it is
6e-5).

With more features than samples it knows residuals by differences of squares, which leave 1e-8 of a
sample (:mod:`~jointsparse.solvers.samples.wide`). Ω = I costs (λ + η)p and leaves no residual:
where that is next to nothing, so are residuals at the optimum, and p × p matrices take over that
lose none (33 × 38, λp = 1e-8 of the distances: 0.1 s, where 30 weighted models took 14 s and proved
nothing).

A table of some thousand entries is split wherever it is: products with a file of 15 × 33 took 19 s
for what takes 0.04 s in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jointsparse.arrays import Array
from jointsparse.io.budget import allowed_memory
from jointsparse.linalg import Spectrum, array_namespace, double, sum_of_squares
from jointsparse.operators.dense import operator_of
from jointsparse.operators.samples import Samples
from jointsparse.solvers.convex.model import Reconstruction
from jointsparse.solvers.convex.reweighted import solve_reweighted
from jointsparse.solvers.samples.both_weights import solve_both_weights
from jointsparse.solvers.samples.cone import solve_samples, solve_weighted_cone
from jointsparse.solvers.samples.streamed import NoSmallBasisError, StreamedModel
from jointsparse.solvers.samples.weighted_pass import RowPasses
from jointsparse.solvers.samples.wide import WideModel
from jointsparse.solvers.solution import Solution, continued

SMALL = 2**15  # entries of the data, below which splitting takes no time
# For η = 0: features, and features to a sample, beyond which not to form p × p matrices
MANY_FEATURES, SOME_TO_A_SAMPLE = 1500, 4
MANY_SAMPLES = 20  # to a feature: splitting, which keeps a dozen copies of them, comes last
# p × p matrices, which lose no digits of residuals, cost little: 60 × 400 are split in a quarter of
# the time of reweighting, 10 × 200 in as much; of 10 × 2 000 splitting had not ended in a minute.
FEW_FEATURES = 500
MATRICES = 74  # of p × p entries that splitting holds: measured, with all that a fit takes
# Iterations of splitting in which the gap has to fall by a third: of 36 ordinary problems (six
# tables, three penalties, both methods) all converged, and none stood still for more than 51.
PATIENCE = 100
# The same for both weights: ordinary problems need 6 to 20 iterations in all for a gap of 1e-4, and
# up to 35 for 1e-7.
PATIENCE_OF_BOTH = 30
RESIDUAL_ROUNDING = 1e-8  # of the distances: what differences of squares leave of residuals
FEW_ELSEWHERE = 128  # features of a small table that is read whole: matrices of 128 kB

Kernel = Callable[[int], Solution[Reconstruction] | None]


def reweighting_pays(n_samples: int, n_features: int, eta: float) -> bool:
    """Whether to reweight the samples alone, rather than to split or to weight features, too."""
    if eta > 0:
        return n_samples * n_features > SMALL or n_features > FEW_FEATURES
    return n_features > max(MANY_FEATURES, SOME_TO_A_SAMPLE * n_samples)


def solve_samples_on_cone(
    data: Array | Samples,
    lam: float,
    eta: float,
    *,
    spectrum: Callable[[], Spectrum] | None,
    free_mean: bool = False,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> Solution[Reconstruction]:
    """Solve CSPCA-PSD or AW-SPCA-PSD to a certified relative gap.

    Parameters
    ----------
    data : array of shape (n_samples, n_features) or Samples
        X, centred.
    lam, eta : float
        Penalties in the units of the data; lam positive, eta at least 0.
    spectrum : callable or None
        Returns the eigendecomposition of XᵀX; called only where p × p matrices are used. None where
        the data are known by products alone: of small ones it is computed, others have none.
    free_mean : bool
        Whether v is free.
    tol, max_iter : float, int
        Relative duality gap to reach, and iteration limit.

    Returns
    -------
    Solution
        As from :func:`~jointsparse.solvers.samples.cone.solve_samples`.
    """
    n, p = data.shape
    options: dict[str, Any] = {"free_mean": free_mean, "tol": tol}
    patient = {**options, "patience": PATIENCE_OF_BOTH}
    spectrum = None if eta > 0 and p > n and _too_large(p) else spectrum
    if spectrum is None and n * p <= SMALL and p <= FEW_ELSEWHERE:
        rows = data = double(operator_of(data).dense())

        def spectrum() -> Spectrum:
            return Spectrum.of(rows.T @ rows)

    def split(iterations: int) -> Solution[Reconstruction]:
        assert spectrum is not None
        samples = double(operator_of(data).dense())
        return solve_samples(
            samples, spectrum(), lam, eta, max_iter=iterations, patience=PATIENCE, **options
        )

    def weight_both(iterations: int) -> Solution[Reconstruction]:
        samples = double(operator_of(data).dense())
        return solve_both_weights(samples, lam, max_iter=iterations, **patient)

    def weight_and_split(iterations: int) -> Solution[Reconstruction]:
        samples = double(operator_of(data).dense())
        return solve_weighted_cone(samples, lam, eta, max_iter=iterations, **patient)

    def reweight(iterations: int) -> Solution[Reconstruction]:
        by_squares = p > n
        if by_squares and kernels[0] is not reweight and p <= FEW_FEATURES:
            squares = operator_of(data).row_squares()
            distances = float(array_namespace(squares).sum(squares**0.5))
            by_squares = tol * (lam + eta) * p > RESIDUAL_ROUNDING * distances
        model = WideModel if by_squares else _streamed
        weighted = model(data, lam, eta, free_mean=free_mean)
        return solve_reweighted(weighted, tol=tol, max_iter=iterations)

    def reweight_in_small_basis(iterations: int) -> Solution[Reconstruction] | None:
        weighted = _streamed(data, lam, eta, free_mean=free_mean, small_only=True)
        return _unless_none_serves(weighted, tol, iterations)

    kernels: list[Kernel] = [reweight]
    if spectrum is not None and not reweighting_pays(n, p, eta):
        data = double(operator_of(data).dense())
        kernels = [split, reweight]
    elif spectrum is not None and eta > 0 and p <= n < MANY_SAMPLES * p:
        kernels = [reweight_in_small_basis, weight_and_split, reweight]
    elif spectrum is not None and n >= MANY_SAMPLES * p:
        kernels = [reweight, split]
    if eta == 0 and len(kernels) == 2:
        kernels = [weight_both, *(kernels if n < MANY_SAMPLES * p else [reweight, split])]
    return _in_turn(kernels, max_iter, tol)


def _too_large(n_features: int) -> bool:
    """Whether the matrices of splitting are more than may be taken."""
    needed = 8 * MATRICES * n_features**2
    return needed > allowed_memory(needed)


def _in_turn(kernels: list[Kernel], max_iter: int, tol: float) -> Solution[Reconstruction]:
    """Run kernels until one of them, or all together, prove the gap; some do not suit."""
    solution: Solution[Reconstruction] | None = None
    for kernel in kernels:
        left = max_iter - (0 if solution is None else solution.n_iter)
        if solution is not None and (solution.converged or left == 0):
            break
        other = kernel(left)
        if other is not None:
            solution = other if solution is None else continued(solution, other, tol)
    assert solution is not None
    return solution


def _unless_none_serves(
    model: StreamedModel, tol: float, max_iter: int
) -> Solution[Reconstruction] | None:
    try:
        return solve_reweighted(model, tol=tol, max_iter=max_iter)
    except NoSmallBasisError:
        return None


def _streamed(
    data: Array | Samples, lam: float, eta: float, *, free_mean: bool, small_only: bool = False
) -> StreamedModel:
    n = data.shape[0]
    rows = operator_of(data).dense()
    scale = math.sqrt(sum_of_squares(rows) / n)
    return StreamedModel(
        RowPasses(rows), lam, eta, free_mean=free_mean, scale=scale, small_only=small_only
    )

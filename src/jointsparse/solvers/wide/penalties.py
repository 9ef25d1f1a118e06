r"""Penalties that empty the convex model, for many more features than samples.

The same as in :mod:`~jointsparse.solvers.convex.model`,

.. math:: \eta_{\max} = 2 s_1,\qquad \lambda_{\max}(\eta) = \max_j\|[(2S-\eta I)_+]_j\| ,

without eigenvectors of S that have one entry for each feature: those of the n × n Gram matrix are
enough, and where that is too large the few that reach η are found from products.
"""

from __future__ import annotations

import math

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace, positive_part
from jointsparse.operators.samples import Samples
from jointsparse.solvers.convex.screening import excess_form, quadratic_forms
from jointsparse.solvers.wide.scatter_access import LARGEST_GRAM, DataScatter, Krylov

SETTLED = 1e-6  # relative change of eigenvalues from a Krylov space that is no longer enlarged


def leading_eigenvalues(data: Samples, count: int) -> Array:
    """Return the ``count`` largest eigenvalues of S, largest first (all there are, if fewer)."""
    xp = array_namespace(data.empty)
    n = data.shape[0]
    if n <= LARGEST_GRAM:
        gram = data.gram()
        unit = float(xp.linalg.trace(gram)) or 1.0  # LAPACK rounds otherwise far from 1
        return positive_part(xp.flip(xp.linalg.eigvalsh(gram / unit))[:count]) * unit
    scatter = DataScatter(data, float(xp.sum(data.squared_lengths())))
    space, before = Krylov(scatter), None
    while True:
        values = xp.flip(space.resolved(0.0, count).values)[:count]
        settled = before is not None and float(xp.max(xp.abs(values - before)))
        if before is not None and settled <= SETTLED * float(values[0]):
            return values * scatter.total
        if space.dimension >= n:
            return values * scatter.total
        before = values
        space.extend()


def largest_lam_wide(data: Samples, eta: float) -> float:
    """Return a lam that surely empties the model at this eta."""
    xp = array_namespace(data.empty)
    if data.shape[0] <= LARGEST_GRAM:
        gram = data.gram()
        unit = float(xp.linalg.trace(gram))  # squares of its entries must not overflow
        largest = float(xp.max(quadratic_forms(data, excess_form(gram / unit, eta / unit))))
        return math.sqrt(largest) * math.sqrt(unit)
    total = float(xp.sum(data.squared_lengths()))
    found = DataScatter(data, total).leading(max(eta / total, SETTLED), data.shape[0])
    assert found is not None  # there are not more eigenvectors than samples
    basis, _ = found
    excess = positive_part(2 * basis.values * total - eta)
    return math.sqrt(float(xp.max(xp.sum((basis.vectors * excess) ** 2, axis=1))))

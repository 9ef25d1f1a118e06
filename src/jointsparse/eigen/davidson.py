r"""All positive eigenpairs of a symmetric operator that is never formed.

Projecting M onto the cone of positive semidefinite matrices needs the eigenpairs

.. math:: M u_i = \theta_i u_i,\qquad \theta_i > 0,

and nothing else. Where M is a matrix of low rank minus a diagonal there are few of them, and block
Davidson finds them from products MV alone: Rayleigh-Ritz on a growing orthonormal basis V, which
each step extends by the preconditioned residuals of the pairs that have not converged,

.. math:: t_i = \frac{M u_i - \theta_i u_i}{\theta_i - \delta},

where δ ≤ 0 is the diagonal that M has besides the matrix of low rank. A few further pairs, the
guards, show where the positive ones end.

Ritz values bound the eigenvalues from below only, so a guard below zero does not prove that no
positive eigenvalue was missed. A caller that can count the eigenvalues above a number (by the law
of inertia, say) passes that count, and then the result is proven complete.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jointsparse.arrays import Array
from jointsparse.eigen.ritz import RitzBasis
from jointsparse.linalg import array_namespace, symmetric_part
from jointsparse.numerics.projections import positive_eigenpairs

GUARDS = 4
DENSE_UP_TO = 600  # size up to which one dense eigendecomposition is about as fast
FLOOR = 1e-3  # smallest θ in the preconditioner, as a share of the largest one
GUARD_TOL = 1e-4  # relative residual at which the sign of a guard is believed without a count


@dataclass(frozen=True)
class PositivePairs:
    """Positive eigenpairs.

    Attributes
    ----------
    values : array of shape (count,)
        Eigenvalues above zero, in descending order.
    vectors : array of shape (n, count)
        Orthonormal eigenvectors.
    basis : array of shape (n, count + guards)
        Where to start on a similar operator: the eigenvectors, then the guards.
    """

    values: Array
    vectors: Array
    basis: Array


def davidson(
    apply: Callable[[Array], Array],
    diagonal: Array,
    start: Array,
    *,
    count_above: Callable[[float], int] | None = None,
    tol: float = 1e-10,
    max_steps: int = 200,
    dense_up_to: int = DENSE_UP_TO,
) -> PositivePairs:
    """Find all positive eigenpairs of a symmetric operator.

    Parameters
    ----------
    apply : callable
        Maps an array of shape (n, k) to the operator times this array.
    diagonal : array of shape (n,)
        Diagonal part δ of the operator, at most 0. Only speed depends on it.
    start : array of shape (n, k)
        Guess of the space that the eigenvectors span; k may be 0.
    count_above : callable or None
        Returns how many eigenvalues exceed a given number; None where nobody knows.
    tol : float
        Residual norm to reach, relative to the largest eigenvalue. Eigenvalues between 0 and this
        may be left out.
    max_steps : int
        Extensions of the basis after which the operator is formed and decomposed after all.
    dense_up_to : int
        Size up to which that is done at once.

    Returns
    -------
    PositivePairs
        Without any pair where no eigenvalue is positive.
    """
    n = diagonal.shape[0]
    if n <= dense_up_to:
        return _dense(apply, diagonal)
    search = _Search(apply, diagonal, tol)
    if start.shape[1] > 0:
        search.extend(start[:, : n // 4])
    if start.shape[1] == 0 or count_above is None:
        search.extend_at_random(search.n_guards)
    for _ in range(max_steps):
        search.rayleigh_ritz()
        if 2 * search.capacity > n:
            break  # so many positive eigenvalues that nothing is saved
        # With a count, guards need no work of their own: it says when one of them matters.
        unfinished = search.unfinished(guard_tol=GUARD_TOL if count_above is None else math.inf)
        if bool(search.xp.any(unfinished)):
            search.extend(search.corrections(unfinished))
        # Twice the resolution: an eigenvalue that lies just there may be found or not.
        elif count_above is None or count_above(2 * search.resolution) <= search.n_positive:
            return search.result()
        else:
            search.n_guards *= 2
            search.extend_at_random(search.n_guards)
            search.rayleigh_ritz()
            unfinished = search.unfinished(guard_tol=tol)
            if bool(search.xp.any(unfinished)):
                search.extend(search.corrections(unfinished))
    return _dense(apply, diagonal)


def _dense(apply: Callable[[Array], Array], diagonal: Array) -> PositivePairs:
    xp = array_namespace(diagonal)
    identity = xp.eye(diagonal.shape[0], dtype=diagonal.dtype, device=diagonal.device)
    values, vectors = positive_eigenpairs(symmetric_part(apply(identity)))
    vectors = xp.flip(vectors, axis=1)
    return PositivePairs(xp.flip(values), vectors, vectors)


class _Search:
    """Ritz pairs: the positive ones, then guards."""

    def __init__(self, apply: Callable[[Array], Array], diagonal: Array, tol: float) -> None:
        self.xp = xp = array_namespace(diagonal)
        # Rounding errors in the products limit the residuals that can be reached.
        self.tol = max(tol, 200 * float(xp.finfo(diagonal.dtype).eps))
        self.diagonal = xp.clip(diagonal, None, 0.0)
        self.random = np.random.default_rng(0)
        self.ritz = RitzBasis(apply, diagonal, largest=True)
        self.n_positive, self.n_guards, self.scale = 0, GUARDS, 0.0

    @property
    def capacity(self) -> int:
        """Size at which the basis shrinks to the Ritz vectors kept."""
        return 3 * (self.n_positive + self.n_guards) + 20

    @property
    def resolution(self) -> float:
        """Residual to reach, and the smallest eigenvalue that counts as positive."""
        return self.tol * self.scale

    def extend(self, block: Array) -> None:
        """Add directions; random ones for those that depend on others.

        Of an eigenvalue that is there many times they see more copies than a block has vectors.
        """
        wanted = self.ritz.used + block.shape[1]
        self.ritz.extend(block)
        if self.ritz.used < wanted:
            self.extend_at_random(wanted - self.ritz.used)

    def extend_at_random(self, count: int) -> None:
        """Add directions that no eigenvector is orthogonal to."""
        block = self.random.standard_normal((count, self.diagonal.shape[0])).T
        self.ritz.extend(
            self.xp.asarray(block, dtype=self.diagonal.dtype, device=self.diagonal.device)
        )

    def rayleigh_ritz(self) -> None:
        """Update the Ritz pairs, their residuals and, where the basis is full, the basis."""
        xp, values = self.xp, self.ritz.solve()
        self.scale = float(values[0]) if float(values[0]) > 0 else float(xp.max(xp.abs(values)))
        self.n_positive = int(xp.sum(values > self.resolution))
        self.pairs = self.ritz.pairs(self.n_positive + self.n_guards)
        if self.ritz.used > self.capacity:
            self.ritz.shrink()

    def unfinished(self, *, guard_tol: float) -> Array:
        """Return which pairs have larger residuals than ``tol`` or, for guards, ``guard_tol``."""
        xp = self.xp
        relative = xp.linalg.vector_norm(self.pairs.residuals, axis=0)
        is_guard = xp.arange(relative.shape[0], device=self.diagonal.device) >= self.n_positive
        relative = relative / self.scale if self.scale > 0 else relative
        return (relative > self.tol) & (~is_guard | (relative > guard_tol))

    def corrections(self, which: Array) -> Array:
        """Return the preconditioned residuals of some pairs."""
        theta = self.xp.clip(self.pairs.values[which], FLOOR * self.scale, None)
        return self.pairs.residuals[:, which] / (theta - self.diagonal[:, None])

    def result(self) -> PositivePairs:
        n = self.n_positive
        return PositivePairs(self.pairs.values[:n], self.pairs.vectors[:, :n], self.pairs.vectors)

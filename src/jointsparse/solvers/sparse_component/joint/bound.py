r"""An upper bound on what k features can reach with several components in common.

.. math:: \max_{H,V}\ \operatorname{tr}(V^\top SV) = \max_{|H|=k}\ \sum_{i\le r}\lambda_i(S_{HH})
          \quad\text{with } V^\top V = I_r,\ V_j = 0\text{ for } j\notin H

**Certificate.** For every positive semidefinite Λ,

.. math:: \operatorname{tr}(V^\top SV) \le \Lambda_r(S-\Lambda)
          + \text{(sum of the k largest diagonal entries of Λ)},

with :math:`\Lambda_r` the sum of the r largest eigenvalues. *Proof.* :math:`P = VV^\top` is a
projection whose rows and columns outside H are zero, so :math:`P\preceq\operatorname{diag}(1_H)`
and :math:`0\le\langle\Lambda,\operatorname{diag}(1_H)-P\rangle`. Hence
:math:`\langle S,P\rangle\le\langle S-\Lambda,P\rangle+\sum_{j\in H}\Lambda_{jj}`; the first term is
at most :math:`\Lambda_r` (Ky Fan), the second at most the sum of the k largest. ∎

With a feature forced in or out only the second term changes, so that what may leave is known at
once. (The certificate for one component also holds here, with :math:`\Lambda_r` for the largest
eigenvalue, but it lets every component have features of its own: on pitprops with five features for
two components it is 35 % above the optimum, and this one 3 %.)

The dual of minimising it is

.. math:: \max\ \langle S,P\rangle\quad\text{with } 0\preceq P\preceq\operatorname{diag}z,\
          \operatorname{tr}P = r,\ 0\le z\le 1,\ \textstyle\sum z = k ,

solved by ADMM with copies of P, of diag z - P, and of z; every iterate is a proof.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.linalg import eigh
from jointsparse.solvers.sparse_component.bound_admm import (
    BALANCE_EVERY,
    BALANCE_UNTIL,
    RELAXATION,
    balance,
)
from jointsparse.solvers.sparse_component.certificate import (
    UNDERFLOW,
    UNIT,
    BoolArray,
    upper_eigenvalue,
)


def upper_sum(matrix: FloatArray, r: int) -> float:
    """Return a proved upper bound on the sum of the r largest eigenvalues.

    What the first eigenvectors carry above the r-th eigenvalue is taken off and counted by its
    trace; the rest is below a number that a Cholesky factorisation proves.
    """
    if not np.isfinite(matrix).all():
        return np.inf
    values, vectors = eigh(matrix)
    first = max(values.size - r, 0)
    above, axes = values[first:] - values[first], vectors[:, first:]
    taken = float(above @ np.einsum("ij,ij->j", axes, axes))
    low_rank = (axes * above) @ axes.T
    rest = matrix - (low_rank + low_rank.T) / 2
    # Rounding of the two lines above, as a norm: p times the largest entry bounds that of a matrix.
    size = len(matrix) * float(np.max(np.abs(matrix)) + np.max(np.abs(rest)))
    rounding = 4 * UNIT * ((r + 4) * taken + size) + UNDERFLOW
    return taken * (1 + 4 * (r + len(matrix)) * UNIT) + r * (upper_eigenvalue(rest) + rounding)


@dataclass(frozen=True)
class JointCertificate:
    """A bound, in its two parts.

    Attributes
    ----------
    spectral : float
        The sum of eigenvalues, with all that rounding may hide.
    prices : ndarray of shape (p,)
        Diagonal of Λ.
    k : int
        Number of features in a support.
    included : ndarray of bool, shape (p,)
        Features that must be in the support.
    """

    spectral: float
    prices: FloatArray
    k: int
    included: BoolArray

    @property
    def _room(self) -> int:
        return self.k - int(np.count_nonzero(self.included))

    def _up(self, total: FloatArray) -> FloatArray:
        """Return sums of prices on top of the first part, rounded upwards."""
        return self.spectral + total + 4 * (self.k + 4) * UNIT * (total + abs(self.spectral))

    @property
    def value(self) -> float:
        """The bound."""
        free = np.sort(self.prices[~self.included])[::-1]
        total = self.prices[self.included].sum() + free[: self._room].sum()
        return float(self._up(np.asarray(total)))

    def with_each(self) -> FloatArray:
        """Return the bounds with each feature in the support."""
        forced, free = self.prices[self.included].sum(), np.sort(self.prices[~self.included])[::-1]
        others = free[: max(self._room - 1, 0)].sum()
        last = free[self._room - 1] if 0 < self._room <= free.size else 0.0
        total = np.where(self.prices >= last, forced + others + last, forced + others + self.prices)
        return np.where(self.included, self.value, self._up(total))

    def without_each(self) -> FloatArray:
        """Return the bounds without each feature; infinite for those that must be in."""
        forced, free = self.prices[self.included].sum(), np.sort(self.prices[~self.included])[::-1]
        total = free[: self._room].sum()
        last = free[self._room - 1] if 0 < self._room <= free.size else np.inf
        following = free[self._room] if self._room < free.size else 0.0
        change = np.where(self.prices >= last, following - self.prices, 0.0)
        return np.where(self.included, np.inf, self._up(forced + np.maximum(total + change, 0.0)))


@dataclass(frozen=True)
class JointState:
    """Where to start: the points before their projection, and the step size."""

    psd: FloatArray
    below: FloatArray
    chances: FloatArray
    rho: float

    @property
    def n_numbers(self) -> int:
        """How many numbers it keeps."""
        return 2 * self.psd.size

    def of(self, features: IntArray) -> JointState:
        """Return the same for some of the features."""
        index = np.ix_(features, features)
        return JointState(self.psd[index], self.below[index], self.chances[features], self.rho)


class JointRelaxation:
    """The relaxation of one problem, step by step.

    Parameters
    ----------
    S : ndarray of shape (p, p)
        Symmetric to the digit, with its largest entry near 1.
    k, r : int
        Number of features in a support, less than p, and of components, at most k.
    included : ndarray of bool, shape (p,)
        Features that must be in the support.
    start : JointState or None
        Where a problem with more features, or with fewer included, has ended.
    """

    def __init__(
        self, S: FloatArray, k: int, r: int, included: BoolArray, start: JointState | None = None
    ) -> None:
        self.S, self.k, self.r, self.included = S, k, r, included
        self.steps = 0
        self._diagonal = slice(None, None, len(S) + 1)
        self._project(start or self._principal())

    def _principal(self) -> JointState:
        p = len(self.S)
        V = eigh(self.S)[1][:, -self.r :]
        P, z = V @ V.T, np.full(p, self.k / p)
        size = float(np.max(np.abs(self.S))) or 1.0
        return JointState(P, np.diag(z) - P, z, size * p**0.5)

    def _project(self, state: JointState) -> None:
        """Set the copies to the projections of their points, and the multipliers to the rest."""
        self.rho = state.rho
        values, vectors = eigh(state.psd)
        self.psd = (vectors * np.maximum(values, 0.0)) @ vectors.T
        self.psd_rest = state.psd - self.psd
        values, vectors = eigh(state.below)
        self.below_rest = -((vectors * np.maximum(-values, 0.0)) @ vectors.T)
        self.below = state.below - self.below_rest
        self.z = np.clip(state.chances, 0.0, 1.0)
        self.z[self.included] = 1.0
        self.z_rest = state.chances - self.z

    def advance(self, steps: int, deadline: float | None = None) -> None:
        """Make some steps, or as many as the time allows; one at least."""
        over, under = RELAXATION, 1 - RELAXATION
        for step in range(steps):
            if step and deadline is not None and time.perf_counter() >= deadline:
                return
            P, z = self._linear_step()
            gap = -P
            gap.flat[self._diagonal] += z
            before = self.psd, self.below
            self._project(
                JointState(
                    over * P + under * self.psd + self.psd_rest,
                    over * gap + under * self.below + self.below_rest,
                    over * z + under * self.z + self.z_rest,
                    self.rho,
                )
            )
            self.steps += 1
            if self.steps % BALANCE_EVERY == 0 and self.steps < BALANCE_UNTIL:
                primal = _length(P - self.psd) + _length(gap - self.below)
                dual = _length(self.psd - before[0]) + _length(self.below - before[1])
                self._balance(primal / max(dual, 1e-300))

    def _linear_step(self) -> tuple[FloatArray, FloatArray]:
        """Minimise the augmented Lagrangian over P and z with tr P = r and Σz = k."""
        p = len(self.S)
        towards, gap = self.psd - self.psd_rest, self.below - self.below_rest
        P = towards - gap + self.S / self.rho
        # On the diagonal: 2P - z = a + μ and 2z - P = b + ν, with the sums of both known.
        a = np.diagonal(P).copy()
        b = np.diagonal(gap) + self.z - self.z_rest
        a += (2 * self.r - self.k - a.sum()) / p
        b = b + (2 * self.k - self.r - b.sum()) / p
        P /= 2
        P.flat[self._diagonal] = (2 * a + b) / 3
        return P, (a + 2 * b) / 3

    def _balance(self, ratio: float) -> None:
        factor = balance(ratio)
        self.rho *= factor
        self.psd_rest, self.below_rest = self.psd_rest / factor, self.below_rest / factor
        self.z_rest = self.z_rest / factor

    def state(self) -> JointState:
        """Return where to go on from."""
        return JointState(
            self.psd + self.psd_rest, self.below + self.below_rest, self.z + self.z_rest, self.rho
        )

    def certificate(self) -> JointCertificate:
        """Return what the multipliers prove now."""
        multiplier = -self.rho * self.below_rest
        return joint_certificate(self.S, multiplier, self.k, self.r, self.included)


def joint_certificate(
    S: FloatArray, multiplier: FloatArray, k: int, r: int, included: BoolArray
) -> JointCertificate:
    """Return the certificate of any symmetric Λ; if it is not positive semidefinite, of what is.

    Parameters
    ----------
    S : ndarray of shape (p, p)
        Symmetric to the digit, with its largest entry near 1.
    multiplier : ndarray of shape (p, p)
        Λ; by how much its least eigenvalue is below 0 is charged to the bound.
    k, r : int
        Number of features in a support and of components.
    included : ndarray of bool, shape (p,)
        Features that must be in the support.
    """
    multiplier = (multiplier + multiplier.T) / 2
    # ⟨Λ + εI, diag(1_H) - P⟩ >= 0, and the trace of the second is k - r.
    negative = max(upper_eigenvalue(-multiplier), 0.0)
    matrix = S - multiplier
    rounding = 4 * UNIT * len(S) * float(np.max(np.abs(matrix)))
    spectral = upper_sum(matrix, r) + (k - r) * negative + r * rounding
    spectral += 8 * UNIT * abs(spectral)
    prices = np.maximum(np.diagonal(multiplier), 0.0)
    return JointCertificate(float(spectral), prices, k, included)


def _length(array: FloatArray) -> float:
    return float(np.linalg.norm(array))

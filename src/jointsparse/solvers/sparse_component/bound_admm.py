r"""The best certificate, by a splitting method of which every iterate is a proof.

The dual of minimising the bound of ``certificate.py`` over U and B is the relaxation

.. math:: \max\ \langle S, Y\rangle\quad\text{with } Y\succeq 0,\ \operatorname{tr}Y = 1,\quad
          Y_{ij}^2\le A_{ij}A_{ji},\quad 0\le A_{ij}\le Y_{ii},\quad
          \textstyle\sum_{j\ne i}A_{ij} = (k-1)Y_{ii},

where :math:`Y = vv^\top` and :math:`A_{ij} = v_i^2` where j is in the support, else 0. For features
that must be in the support :math:`A_{ij} = Y_{ii}`; for v ≥ 0 also :math:`Y_{ij}\ge 0`.

ADMM with three copies: of Y in the positive semidefinite cone, of every
:math:`(A_{ij}, Y_{ij}, A_{ji})` in the cone of 2 × 2 matrices, of :math:`Y_{ii}-A_{ij}` at least 0.
The step of (Y, A) has a closed form row by row, the projections too but for one eigendecomposition.
The multipliers of the second copy are U and B.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh as some_eigenpairs

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.linalg import eigh
from jointsparse.solvers.sparse_component.certificate import BoolArray, Certificate, certificate

RELAXATION = 1.6  # over-relaxation of the copies
BALANCE_EVERY = 20  # steps between two looks at the step size
BALANCE_UNTIL = 600  # then it stays, so that the method converges
BALANCE_BEYOND, BALANCE_BY = 3.0, 1.5  # ratio of the residuals, and what is then done about it
FEW = 0.3  # share of positive eigenvalues below which they are computed alone
SMALL = 60  # rows below which all eigenpairs cost no more than some


@dataclass(frozen=True)
class State:
    """Where to start: the points before their projection, and the step size.

    Attributes
    ----------
    psd, pairs, links, slacks : ndarray of shape (p, p)
        Points of Y, A, Y off the diagonal, and Y_ii - A_ij.
    rho : float
        Step size.
    """

    psd: FloatArray
    pairs: FloatArray
    links: FloatArray
    slacks: FloatArray
    rho: float

    @property
    def n_numbers(self) -> int:
        """How many numbers it keeps."""
        return 4 * self.psd.size

    def of(self, features: IntArray) -> State:
        """Return the same for some of the features."""
        index = np.ix_(features, features)
        return State(
            self.psd[index], self.pairs[index], self.links[index], self.slacks[index], self.rho
        )


class Relaxation:
    """The relaxation of one problem, step by step.

    Parameters
    ----------
    S : ndarray of shape (p, p)
        Symmetric to the digit, with its largest entry near 1.
    k : int
        Number of features in a support, at least 2 and less than p.
    included : ndarray of bool, shape (p,)
        Features that must be in the support.
    nonnegative : bool
        Whether only v ≥ 0 are meant.
    start : State or None
        Where a problem with more features, or with fewer included, has ended.
    """

    def __init__(
        self,
        S: FloatArray,
        k: int,
        included: BoolArray,
        *,
        nonnegative: bool = False,
        start: State | None = None,
    ) -> None:
        self.S, self.k, self.included, self.nonnegative = S, k, included, nonnegative
        self.steps = 0
        self._diagonal = slice(None, None, len(S) + 1)
        self._state = start or self._principal()
        self.rho = self._state.rho
        self._n_positive = len(S)
        self._project()

    def _principal(self) -> State:
        """Start from the first principal component, all features equally likely beside it."""
        p = len(self.S)
        v = eigh(self.S)[1][:, -1]
        Y = np.outer(v, v)
        A = np.repeat((v * v)[:, None], p, axis=1) * ((self.k - 1) / (p - 1))
        slacks = np.maximum((v * v)[:, None] - A, 0.0)
        size = float(np.max(np.abs(self.S))) or 1.0  # S = 0 has nothing to find
        return State(Y, A, Y.copy(), slacks, size * p**0.5)

    def _project(self) -> None:
        """Set the copies to the projections of their points, and the multipliers to the rest."""
        state = self._state
        self.psd = self._onto_cone(state.psd)
        self.psd_rest = state.psd - self.psd
        self._project_pairs(state.pairs, state.links)
        self.slacks = np.maximum(state.slacks, 0.0)
        self.slacks[:, self.included] = 0.0
        self.slacks.flat[self._diagonal] = 0.0
        self.slacks_rest = state.slacks - self.slacks
        self.slacks_rest.flat[self._diagonal] = 0.0

    def _onto_cone(self, point: FloatArray) -> FloatArray:
        """Return the nearest positive semidefinite matrix."""
        p = len(point)
        if p > SMALL and self._n_positive < FEW * p:
            try:
                values, vectors = some_eigenpairs(
                    point, subset_by_value=(0.0, np.inf), check_finite=False, driver="evr"
                )
            except np.linalg.LinAlgError:  # many equal eigenvalues
                values, vectors = eigh(point)
        else:
            values, vectors = eigh(point)
        first = int(np.searchsorted(values, 0.0))
        self._n_positive = values.size - first
        vectors = vectors[:, first:]
        return np.asarray((vectors * values[first:]) @ vectors.T)

    def _project_pairs(self, pairs: FloatArray, links: FloatArray) -> None:
        """Project every 2 × 2 matrix [[a, y], [y, b]], a and b mirrored entries of ``pairs``."""
        other = pairs.T
        middle, half = (pairs + other) / 2, (pairs - other) / 2
        radius = np.hypot(half, links)
        upper, lower = np.maximum(middle + radius, 0.0), np.maximum(middle - radius, 0.0)
        turn = (upper - lower) / (2 * np.maximum(radius, 1e-300))
        self.pairs = (upper + lower) / 2 + turn * half
        self.links = turn * links
        if self.nonnegative:  # y >= 0 cuts the cone: on its edge a and b are on their own
            cut = links < 0
            self.pairs[cut] = np.maximum(pairs[cut], 0.0)
            self.links[cut] = 0.0
        for array in (self.pairs, self.links):
            array.flat[self._diagonal] = 0.0
        self.pairs_rest, self.links_rest = pairs - self.pairs, links - self.links
        for array in (self.pairs_rest, self.links_rest):
            array.flat[self._diagonal] = 0.0

    def advance(self, steps: int, deadline: float | None = None) -> None:
        """Make some steps, or as many as the time allows; one at least."""
        for step in range(steps):
            if step and deadline is not None and time.perf_counter() >= deadline:
                return
            Y, A = self._linear_step()
            y = np.diagonal(Y)[:, None]
            old_psd, old_pairs = self.psd, self.pairs
            over, under = RELAXATION, 1 - RELAXATION
            self._state = State(
                over * Y + under * self.psd + self.psd_rest,
                over * A + under * self.pairs + self.pairs_rest,
                over * Y + under * self.links + self.links_rest,
                over * (y - A) + under * self.slacks + self.slacks_rest,
                self.rho,
            )
            self._project()
            self.steps += 1
            self.y, self.A = np.diagonal(Y), A
            if self.steps % BALANCE_EVERY == 0 and self.steps < BALANCE_UNTIL:
                primal = _squares(Y - self.psd) + _squares(A - self.pairs)
                dual = _squares(self.psd - old_psd) + _squares(self.pairs - old_pairs)
                self._balance(primal, dual)

    def _linear_step(self) -> tuple[FloatArray, FloatArray]:
        """Minimise the augmented Lagrangian over Y and A that fulfil the equations."""
        p, k = len(self.S), self.k
        Y = (self.psd - self.psd_rest + self.links - self.links_rest + self.S / self.rho) / 2
        diagonal = np.diagonal(self.psd) - np.diagonal(self.psd_rest)
        diagonal = diagonal + np.diagonal(self.S) / self.rho
        slacks = self.slacks - self.slacks_rest
        A = self.pairs - self.pairs_rest - slacks  # twice A, but for y and the multiplier
        # With y: 2A = A + y + ν, Σ_j A = (k-1)y, and y(1 + q - (k-1)) + (k-1)ν = known + μ.
        others = p - 1
        slope, offset = 2 * (k - 1) / others - 1, -A.sum(axis=1) / others
        known = diagonal + slacks.sum(axis=1) - (k - 1) * offset
        y = known / (1 + others - (k - 1) + (k - 1) * slope)
        y += (1 - y.sum()) / p
        A += ((1 + slope) * y + offset)[:, None]
        A /= 2
        A.flat[self._diagonal] = 0.0
        Y.flat[self._diagonal] = y
        return Y, A

    def _balance(self, primal: float, dual: float) -> None:
        """Move the step size where one residual is much larger than the other."""
        factor = balance(float(np.sqrt(primal / max(dual, 1e-300))))
        self.rho *= factor
        for rest in (self.psd_rest, self.pairs_rest, self.links_rest, self.slacks_rest):
            rest /= factor

    def state(self) -> State:
        """Return where to go on from."""
        return State(
            self.psd + self.psd_rest,
            self.pairs + self.pairs_rest,
            self.links + self.links_rest,
            self.slacks + self.slacks_rest,
            self.rho,
        )

    def certificate(self) -> Certificate:
        """Return what the multipliers prove now."""
        U, B = self.rho * self.links_rest, -self.rho * self.pairs_rest
        return certificate(self.S, U, B, self.k, self.included, nonnegative=self.nonnegative)

    def chances(self) -> FloatArray:
        """Return how much of each feature is in the support, as far as is known: z."""
        return np.asarray(self.A.sum(axis=0) + self.y)


def balance(ratio: float) -> float:
    """Return the factor of the step size, given by how much one residual is the larger."""
    if ratio > BALANCE_BEYOND:
        return BALANCE_BY
    return 1 / BALANCE_BY if ratio < 1 / BALANCE_BEYOND else 1.0


def _squares(array: FloatArray) -> float:
    return float(np.vdot(array, array))

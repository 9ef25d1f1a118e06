r"""The joint relaxation: projections and sets together, and proofs from any multipliers.

For independent columns let d_1 … d_c be the dual basis at unit length, d_j ⟂ x_i for i ≠ j. With z
the indicator of a set H, P its projection, C₁ = X̂ᵀX̂ and C₂ = D̂ᵀD̂,

.. math:: G_1 = \begin{pmatrix} P & \hat X Z\\ \cdot & C_1\circ zz^\top\end{pmatrix},\qquad
          G_2 = \begin{pmatrix} I-P & \hat D(I-Z)\\ \cdot & C_2\circ(1-z)(1-z)^\top\end{pmatrix}

are Gram matrices, of [P, X̂Z] and of [I - P, D̂(I - Z)] (PX̂Z = X̂Z, and P d_j = 0 for j ∉ H), hence
positive semidefinite, as zzᵀ is. For *any* Λ₁, Λ₂, Λ₃ ⪰ 0 and Θ ≥ 0 the sum of ⟨Λ_i, G_i⟩, of
zᵀΛ₃z and of Σ_{i≠j} Θ_ij (1-z_i)(1-z_j) is therefore at least 0 and may be added to f(H). With
M = Λ₁²²∘C₁ + Λ₃ and N = Λ₂²²∘C₂ + Θ

.. math:: f(H) \le \Lambda_k(T + \Lambda_1^{11} - \Lambda_2^{11}) +
          \operatorname{tr}\Lambda_2^{11} + 2\sum_j d_j^\top\Lambda_2^{12}e_j + \sum_{ij} N_{ij} +
          \max_z\Bigl[\sum_j q_jz_j + \sum_{i\ne j} Q_{ij}z_iz_j\Bigr],

Q = offdiag(M + N), q_j = 2x_jᵀΛ₁¹²e_j - 2d_jᵀΛ₂¹²e_j + M_jj - N_jj - 2Σ_{i≠j}N_ij.
The last term is at most the sum of the k largest s_j = q_j + (k - 1 largest of Q_j·); an
antisymmetric matrix may be added to Q first. Nothing has to have converged: every point is a proof.

What is charged: negative eigenvalues of Λ_i times the trace of G_i, of Λ₃ times k; the error of the
dual basis; rounding. Eigenvalues count only where they are positive, since P may have a smaller
rank than k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.subset.bounds import top_sum
from jointsparse.solvers.subset.problem import EPS, SubsetProblem, inverse_traces
from jointsparse.solvers.subset.rules import Rules


@dataclass(frozen=True)
class Frame:
    """A problem with independent columns as the joint relaxation sees it.

    Attributes
    ----------
    columns, duals : ndarray of shape (c, c)
        X̂ and D̂.
    inner, dual_inner : ndarray of shape (c, c)
        C₁ and C₂.
    target : ndarray of shape (c, c)
        T on the span of the columns.
    base : float
        What is added to every bound: f of the included features, and rounding.
    size : int
        Number k of features still to choose.
    exactly : bool
        Whether there are exactly k of them; at most k otherwise.
    slant : float
        Largest length of P d_j for j not in H; 0 in exact arithmetic.
    features : ndarray of shape (c,)
        Which features the columns are.
    """

    columns: FloatArray
    duals: FloatArray
    inner: FloatArray
    dual_inner: FloatArray
    target: FloatArray
    base: float
    size: int
    exactly: bool
    slant: float
    features: IntArray


def frame_of(
    problem: SubsetProblem,
    size: int,
    rules: Rules,
    *,
    without: NDArray[np.bool_] | None = None,
) -> Frame | None:
    """Return the frame of a problem; None where its columns are dependent, or nearly so.

    Parameters
    ----------
    problem : SubsetProblem
        Features and target.
    size : int
        Number of features.
    rules : Rules
        Constraints.
    without : ndarray of bool of shape (n_features,) or None
        Features that are left out besides.
    """
    allowed = rules.allowed & problem.live
    if without is not None:
        allowed &= ~without
    allowed[list(rules.include)] = False
    features = np.flatnonzero(allowed)
    missing = min(size - len(rules.include), features.size)
    everyone = np.concatenate([np.array(rules.include, dtype=np.int64), features])
    depth = len(rules.include)
    traces = inverse_traces(problem, everyone)
    if missing < 1 or features.size < 2 or traces is None:
        return None
    basis, triangle = np.linalg.qr(problem.columns[:, everyone])
    within = basis.T @ problem.target @ basis
    columns = triangle[depth:, depth:] / np.linalg.norm(triangle[depth:, depth:], axis=0)
    duals = solve_triangular(columns, np.eye(features.size)).T
    duals = duals / np.linalg.norm(duals, axis=0)
    off = columns.T @ duals
    np.fill_diagonal(off, 0.0)
    error = np.linalg.norm(off, axis=0).max() + features.size * EPS
    slant = float(error / np.linalg.svd(columns, compute_uv=False)[-1])
    charge = float(problem.charge(float(np.sort(traces)[-size:].sum()), size))
    return Frame(
        columns=columns,
        duals=duals,
        inner=columns.T @ columns,
        dual_inner=duals.T @ duals,
        target=within[depth:, depth:],
        base=float(np.trace(within[:depth, :depth])) + charge,
        size=missing,
        exactly=not rules.coupled,
        slant=slant,
        features=features,
    )


@dataclass(frozen=True)
class Multipliers:
    """What a proof is made of; any numbers will do."""

    first: FloatArray  # Λ₁, 2c × 2c
    second: FloatArray  # Λ₂
    outside: FloatArray  # Θ, c × c; negative entries and the diagonal are ignored
    turn: FloatArray  # added to Q; only its antisymmetric part
    inside: FloatArray  # Λ₃, c × c


@dataclass(frozen=True)
class Certificate:
    """A proof: f(H) ≤ constant + Σ_{j∈H} scores_j for every set H.

    Attributes
    ----------
    constant : float
        Constant.
    scores : ndarray of shape (c,)
        Scores of the features.
    size : int
        Number of features of H.
    exactly : bool
        Whether H has exactly that many; at most that many otherwise.
    """

    constant: float
    scores: FloatArray
    size: int
    exactly: bool

    @property
    def bound(self) -> float:
        """What no set exceeds."""
        return self.constant + float(self._best(np.sort(self.scores), self.size))

    def _best(self, ascending: FloatArray, size: int) -> FloatArray:
        if not self.exactly:
            return top_sum(ascending, size)
        return np.asarray(ascending[..., ascending.shape[-1] - size :].sum(axis=-1))

    @property
    def bounds_with(self) -> FloatArray:
        """What no set that contains each feature exceeds."""
        return self.constant + self.scores + self._best(self._others(), self.size - 1)

    @property
    def bounds_without(self) -> FloatArray:
        """What no set without each feature exceeds; minus infinity where there is none."""
        if self.exactly and self.size == self.scores.size:
            return np.full(self.scores.size, -np.inf)
        return self.constant + self._best(self._others(), self.size)

    def _others(self) -> FloatArray:
        """Return the scores of all other features, ascending, one row for each feature."""
        order = np.argsort(self.scores, kind="stable")
        rows = np.tile(self.scores[order], (order.size, 1))
        keep = np.ones(rows.shape, dtype=bool)
        keep[order, np.arange(order.size)] = False
        return rows[keep].reshape(order.size, order.size - 1)


def certify(frame: Frame, multipliers: Multipliers) -> Certificate:
    """Return the proof that some multipliers give."""
    split = count = len(frame.target)
    one = (multipliers.first + multipliers.first.T) / 2
    two = (multipliers.second + multipliers.second.T) / 2
    three = (multipliers.inside + multipliers.inside.T) / 2
    off = ~np.eye(count, dtype=bool)
    theta = np.where(off, np.maximum(multipliers.outside, 0.0), 0.0)
    theta = (theta + theta.T) / 2
    shifted = frame.target + one[:split, :split] - two[:split, :split]
    values = np.asarray(np.linalg.eigvalsh(shifted), np.float64)
    through = np.einsum("ij,ij->j", frame.columns, one[:split, split:])
    across = np.einsum("ij,ij->j", frame.duals, two[:split, split:])
    plain = one[split:, split:] * frame.inner + three
    outer = two[split:, split:] * frame.dual_inner + theta
    diagonal = np.diagonal(outer)
    sums = outer.sum(axis=1)
    constant = float(top_sum(values, frame.size)) + float(np.trace(two[:split, :split]))
    constant += 2 * float(across.sum()) + float(sums.sum())
    linear = 2 * (through - across) + np.diagonal(plain) - diagonal - 2 * (sums - diagonal)
    turn = (multipliers.turn - multipliers.turn.T) / 2
    pairs = plain + outer + turn
    scores = linear + _largest(pairs, frame.size - 1, frame.exactly)
    charge = _below_zero(one) * 2 * frame.size
    charge += _below_zero(two) * (split + count - frame.size)
    charge += _below_zero(three) * frame.size
    charge += 2 * frame.slant * float(np.linalg.norm(two[:split, split:], axis=0).sum())
    parts = (frame.target, one, two, three, theta, pairs)
    charge += 4 * (split + count) * EPS * float(sum(np.abs(part).sum() for part in parts))
    return Certificate(frame.base + constant + charge, scores, frame.size, frame.exactly)


def _largest(pairs: FloatArray, count: int, exactly: bool) -> FloatArray:
    """Return the sum of the largest entries of each row beside the diagonal."""
    size = len(pairs)
    others = pairs[~np.eye(size, dtype=bool)].reshape(size, size - 1)
    if not exactly:
        others = np.maximum(others, 0.0)
    return np.asarray(np.sort(others, axis=1)[:, size - 1 - count :].sum(axis=1))


def _below_zero(matrix: FloatArray) -> float:
    """Return a bound on how far the eigenvalues of a symmetric matrix are below 0."""
    values = np.linalg.eigvalsh(matrix)
    return max(0.0, -float(values[0])) + 4 * len(matrix) * EPS * float(np.max(np.abs(values)))

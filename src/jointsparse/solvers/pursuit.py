r"""Principal component pursuit: a matrix as low rank plus sparse, with a proof of optimality.

.. math:: \min_{L,E}\ \|L\|_* + \lambda\|E\|_1\quad\text{such that}\quad L + E = X

by the alternating direction method on the augmented Lagrangian, over-relaxed:

.. math::
    L &\leftarrow \text{singular values of } X - E + U \text{ lowered by } 1/\mu ,\\
    E &\leftarrow \text{soft threshold of } X - \hat L + U \text{ at } \lambda/\mu ,\qquad
        \hat L = \omega L + (1-\omega)(X - E_{\text{old}}),\\
    U &\leftarrow U + X - \hat L - E .

The step μ is balanced between the two residuals for a while and then stays. (The usual *inexact*
variant raises it geometrically; that always ends soon, but elsewhere: up to 0.5 % above the optimum
on the data of ``benchmarks/components.py``.)

**Certificate.** The dual problem is :math:`\max\langle X,Z\rangle` over :math:`\|Z\|_2\le1`,
:math:`\|Z\|_\infty\le\lambda`. Z = μU meets the second constraint by construction; divided by
:math:`\max(1,\|Z\|_2)`, with the norm from a dense eigendecomposition, it meets both. The primal
point is (X - E, E), which is feasible and has the exact zeros of the threshold; what is left of
L + E = X at the end is in L.

**Partial decompositions.** Only singular values above 1/μ are needed, and their number settles
early. Once it is small against the smaller side, a basis of that many directions and some more is
carried along, and improved by one subspace iteration each time, without an eigendecomposition. It
cannot spoil the certificate, only delay it.
"""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.projections import singular_pairs_above
from jointsparse.solvers.solution import Solution, Trace

CHECK_EVERY = 10  # iterations between two certificates, each as dear as one iteration or two
RELAXATION = 1.6
BALANCE = 1.5  # factor on the step where the residuals are out of proportion
BALANCE_UNTIL = 2000  # iterations; afterwards the step stays, as the proof of convergence needs
PARTIAL_SHARE = 0.2  # of the smaller side: with more directions the dense way is faster
PARTIAL_FROM = 150  # smaller sides than this are always decomposed densely


def solve_pursuit(
    X: FloatArray, penalty: float, *, tol: float, max_iter: int
) -> Solution[tuple[FloatArray, FloatArray]]:
    """Split a matrix into low rank plus sparse.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The matrix; not zero.
    penalty : float
        λ > 0.
    tol : float
        Certified relative gap at which to stop.
    max_iter : int
        Limit on the number of iterations.

    Returns
    -------
    Solution
        ``loadings`` is the orthonormal basis R (n_features × rank) of the rows of L, largest
        singular value first. ``state`` is (E, A) with A Rᵀ = L up to the tolerance. ``objective``
        and ``gap`` belong to the pair (X - E, E).

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.pursuit import solve_pursuit
    >>> X = np.outer(np.arange(1.0, 9.0), np.ones(8))
    >>> X[2, 3] += 50
    >>> solution = solve_pursuit(X, 1 / np.sqrt(8), tol=1e-8, max_iter=1000)
    >>> errors, _ = solution.state
    >>> np.argwhere(errors).tolist(), round(errors[2, 3], 4), solution.loadings.shape
    ([[2, 3]], np.float64(50.0), (8, 1))
    """
    wide = X.shape[0] < X.shape[1]
    unit = float(np.max(np.abs(X)))
    data = np.ascontiguousarray((X.T if wide else X) / unit)
    size = float(np.linalg.norm(data))
    step = data.size / (4 * float(np.sum(np.abs(data))))
    shrink = _Shrink(data.shape[1])
    # Before the first certificate the pair (0, X) is known.
    nothing = penalty * float(np.sum(np.abs(data))) * unit
    run = Trace(tol, max_iter, "certified relative gap", known=nothing)
    E, U, M, L = (np.zeros_like(data) for _ in range(4))
    G = data.copy()  # X - E
    for iteration in range(1, max_iter + 1):
        check = iteration % CHECK_EVERY == 0 or iteration == max_iter
        # In place: for large data, fresh memory costs more than the arithmetic.
        np.add(G, U, out=M)
        A, R = shrink(M, 1 / step)
        np.matmul(RELAXATION * A, R.T, out=L)
        np.multiply(G, RELAXATION - 1, out=M)
        M += data
        M += U
        M -= L
        before = E.copy() if check else E
        np.clip(M, -penalty / step, penalty / step, out=U)
        np.subtract(M, U, out=E)  # the soft threshold, exactly 0 where nothing was clipped
        np.subtract(data, E, out=G)
        if not check:
            continue
        missed = data - A @ R.T
        dual = _dual_value(data, step * U, penalty)
        # (L, X - L) is feasible too, and the norm of L is known: the dearer norm of X - E is
        # computed only where this one says that it is time.
        primal = float(np.sum(np.linalg.norm(A, axis=0))) + penalty * float(np.sum(np.abs(missed)))
        if primal - dual <= 2 * tol * primal or iteration == max_iter:
            primal = _nuclear_norm(G) + penalty * float(np.sum(np.abs(E)))
        gap = max(0.0, primal - dual) / primal
        if run.record(iteration, primal * unit, gap=gap, measure=gap):
            break
        if iteration <= BALANCE_UNTIL:
            unmet = float(np.linalg.norm(missed - E)) / size
            moved = float(np.linalg.norm(E - before)) / max(float(np.linalg.norm(U)), 1e-300)
            # Found by trial on planted, noisy and real data: between these both fall together.
            if unmet > moved / 5:
                factor = BALANCE
            elif unmet < moved / 20:
                factor = 1 / BALANCE
            else:
                continue
            step *= factor
            U /= factor
    order = np.argsort(-np.linalg.norm(A, axis=0), kind="stable")
    A, R = A[:, order], R[:, order]
    if wide:
        A, R, E = _transposed(A, R, E)
    rank = A.shape[1]
    return run.solution(R, run.history[-1], gap, {"rank": float(rank)}, (E * unit, A * unit))


class _Shrink:
    """Lower singular values by a threshold; returns A, R with A Rᵀ the result and RᵀR = I."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.basis: FloatArray | None = None

    def __call__(self, M: FloatArray, threshold: float) -> tuple[FloatArray, FloatArray]:
        found = None if self.basis is None else self._partial(M, threshold, self.basis)
        if found is None:
            found = self._dense(M, threshold)
        values, vectors, image = found
        return image * (1 - threshold / values), vectors

    def _dense(self, M: FloatArray, threshold: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        values, vectors = singular_pairs_above(M, 0.0)
        count = int(np.count_nonzero(values > threshold))
        size = count + max(5, count // 5)  # some more, which see further directions come
        small = self.columns >= PARTIAL_FROM and size <= PARTIAL_SHARE * self.columns
        self.basis = np.ascontiguousarray(vectors[:, -size:]) if small else None
        kept = vectors[:, vectors.shape[1] - count :]
        return values[values.size - count :], kept, M @ kept

    def _partial(
        self, M: FloatArray, threshold: float, basis: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        basis, _ = np.linalg.qr(M.T @ (M @ basis))
        image = M @ basis
        squares, turn = np.linalg.eigh(image.T @ image)
        basis = basis @ turn
        count = int(np.count_nonzero(squares > threshold**2))
        if count + 2 > squares.size:
            return None  # there may be more of them than the basis can hold
        self.basis = basis
        first = squares.size - count
        return np.sqrt(squares[first:]), basis[:, first:], image @ turn[:, first:]


def _transposed(
    A: FloatArray, R: FloatArray, E: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the factors of the transpose; the columns of A are orthogonal."""
    norms = np.linalg.norm(A, axis=0)
    return R * norms, A / norms, np.ascontiguousarray(E.T)


def _dual_value(X: FloatArray, Z: FloatArray, penalty: float) -> float:
    largest = float(np.linalg.eigvalsh(Z.T @ Z)[-1])
    outside = max(1.0, float(np.sqrt(max(largest, 0.0))), float(np.max(np.abs(Z))) / penalty)
    return float(np.einsum("ij,ij->", X, Z)) / outside


def _nuclear_norm(matrix: FloatArray) -> float:
    return float(np.sum(np.linalg.svd(matrix, compute_uv=False)))

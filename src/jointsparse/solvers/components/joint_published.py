r"""Joint sparse PCA as its source prints it: reweighting in place of both norms.

.. math:: \min_{Q,P}\ \sum_j\|(X - XQP^\top)_{\cdot j}\|_2 + \lambda\sum_i\|q_i\|_2 ,\qquad
          P^\top D_1P = I

From :math:`D_1 = D_2 = I` and P the principal components, each iteration makes

.. math:: Q = (\lambda D_2 + S)^{-1}S D_1^{1/2}\bar P ,\quad
          \bar P = \operatorname{polar}(D_1^{1/2}SQ) ,\quad P = D_1^{-1/2}\bar P ,

and new weights :math:`1/(2\|\cdot\|)` of the columns of the residual (:math:`D_1`) and of the rows
of Q (:math:`D_2`). The constraint moves with :math:`D_1`, so the objective may rise, and rows of Q
come near zero but never to it. The exact form is in :mod:`jointsparse.solvers.components.joint`.

Everything here is in the units of the data, as in the source: the start is not free of scale.
"""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.numerics.projections import polar
from jointsparse.solvers.components.joint import SMOOTHING, feature_residuals
from jointsparse.solvers.products.gram import Gram
from jointsparse.solvers.solution import Solution, Trace


def solve_joint_published(
    gram: Gram, n_components: int, penalty: float, *, tol: float, max_iter: int
) -> Solution[FloatArray]:
    """Iterate as printed.

    Parameters
    ----------
    gram : Gram
        Scatter matrix; ``gram.trace`` tells its units.
    n_components : int
        Number of columns of Q.
    penalty : float
        λ in units of the data.
    tol : float
        Relative change of Q at which to stop; 0 makes exactly ``max_iter`` iterations.
    max_iter : int
        Limit on the number of iterations.

    Returns
    -------
    Solution
        ``loadings`` is Q, ``state`` is P.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.products.gram import Gram
    >>> from jointsparse.solvers.components.joint_published import solve_joint_published
    >>> gram = Gram(np.diag([9.0, 4.0, 1.0]))
    >>> solution = solve_joint_published(gram, 1, 1.0, tol=0.0, max_iter=10)
    >>> np.abs(solution.loadings).round(3)
    array([[2.782],
           [0.   ],
           [0.   ]])
    """
    unit = gram.trace
    squares = np.asarray(gram.diagonal)
    smoothing = SMOOTHING / np.sqrt(squares.size)
    bar = gram.leading(n_components)[1]
    Q = np.zeros_like(bar)
    roots = np.ones((squares.size, 1))  # of D₁
    lengths = np.ones(squares.size)  # 1/D₂
    trace = Trace(tol, max_iter, "relative change of the loadings")
    for iteration in range(1, max_iter + 1):
        before = Q
        Q = gram.reweighted_fit(roots * bar, lengths, penalty / unit)
        SQ = gram.apply(Q)
        bar = np.asarray(polar(roots * SQ))
        P = bar / roots
        norms = feature_residuals(squares, Q, P, SQ, smoothing) * np.sqrt(unit)
        rows = np.linalg.norm(Q, axis=1)
        roots, lengths = np.sqrt(0.5 / norms)[:, None], 2 * rows
        objective = float(np.sum(norms)) + penalty * float(np.sum(rows))
        size = float(np.linalg.norm(Q))
        change = float(np.linalg.norm(Q - before)) / size if size > 0 else 0.0
        if trace.record(iteration, objective, measure=change):
            break
    return trace.solution(Q, trace.history[-1], None, {}, P)

r"""Two more features at a time: what pairs of candidates of a node add, and bounds from that.

If both l and m are in H, and I is what is in already, P_H is the projection on I, l and m and one
of rank k - |I| - 2, orthogonal to it, so that

.. math:: f(H) \le \beta_{lm} = f(I \cup \{l, m\}) +
          \min\bigl(\Lambda_{k-|I|-2}(T_l), \Lambda_{k-|I|-2}(T_m)\bigr)

with T_l what is left of the target after I and l. Of M = k - |I| features that are still to come,
each is in M - 1 pairs, and β is at least f(H) for all of them: a set with l explains no more than
the (M - 1)-th largest β_l·. That looks one feature further than interlacing does, without an
eigenvalue more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.subset.nodes import Nodes

CLEAR = 1e-4  # what a pair must leave of each other: of those that leave less nothing is said


def gains_of_pairs(inner: FloatArray, images: FloatArray, gains: FloatArray) -> FloatArray:
    """Return what pairs of unit residuals explain, given inner products and single gains.

    Where the two are nearly the same, it is anything.
    """
    squares = inner**2
    left = np.maximum(1 - squares, np.finfo(np.float64).tiny)
    second = (gains[:, None, :] - 2 * inner * images + squares * gains[:, :, None]) / left
    return np.asarray(gains[:, :, None] + second)


def bounds_by_pairs(
    nodes: Nodes,
    good: NDArray[np.bool_],
    bounds: FloatArray,
    tails: FloatArray,
    wanted: NDArray[np.bool_],
    missing: int,
) -> FloatArray:
    """Lower the bounds of all sets of each node that contain a candidate.

    Parameters
    ----------
    nodes : Nodes
        Some nodes.
    good : ndarray of bool of shape (b, c)
        Which candidates add something.
    bounds : ndarray of shape (b, c)
        Bounds of all sets that contain each of them.
    tails : ndarray of shape (b, c)
        Λ of ``missing - 2`` eigenvalues of what each leaves of the target.
    wanted : ndarray of bool of shape (b, c)
        Candidates whose bounds are to be lowered, some of the good ones: not below the largest
        bound of the others.
    missing : int
        Number of features still to come.

    Returns
    -------
    ndarray of shape (b, c)
        The bounds, lower where that was possible.
    """
    width = int(wanted.sum(axis=1).max(initial=0))
    places = np.argsort(~wanted, axis=1, kind="stable")[:, :width]
    real = np.take_along_axis(wanted, places, 1)
    gains, left, loads, rest, traces = (
        np.take_along_axis(part, places, 1)
        for part in (nodes.gains, nodes.left, nodes.loads, tails, nodes.inverse_traces)
    )
    inner, images = nodes.pairs(places)
    among = gains_of_pairs(inner, images, gains)
    among += np.minimum(rest[:, :, None], rest[:, None, :])
    shares = (1 - inner**2) * np.minimum(left[:, :, None], left[:, None, :])
    clear = shares >= CLEAR
    # tr C⁻¹ grows by (1 + |coefficients|²) / residual for each of the two; see the search.
    least = np.min(shares, axis=(1, 2), where=clear, initial=1.0)
    heaviest = np.max(loads, axis=1, where=real, initial=1.0)
    most = np.max(traces, axis=1, where=real, initial=0.0) + (1 + 4 * heaviest) / least
    charges = nodes.table.problem.charge(most, nodes.depth + 2) + nodes.span_charge
    among += (nodes.value + charges)[:, None, None]
    among[~clear] = np.inf
    among[~(real[:, :, None] & real[:, None, :])] = -np.inf
    among[:, np.arange(width), np.arange(width)] = -np.inf
    others = np.max(bounds, axis=1, where=good & ~wanted, initial=-np.inf)
    lower = np.maximum(_largest(among, np.minimum(missing, good.sum(axis=1)) - 1), others[:, None])
    found = bounds.copy()
    kept = np.where(real, lower, np.inf)
    np.put_along_axis(found, places, np.minimum(np.take_along_axis(bounds, places, 1), kept), 1)
    return found


def _largest(among: FloatArray, ranks: IntArray) -> FloatArray:
    """Return the largest of each row, or that of another rank: one rank for each matrix.

    Minus infinity where there are not so many; infinity where the rank is 0 and nothing is known.
    """
    width = among.shape[2]
    found = np.full(among.shape[:2], -np.inf)
    for rank in np.unique(ranks[(ranks >= 1) & (ranks <= width)]):
        rows, place = ranks == rank, width - int(rank)
        found[rows] = np.partition(among[rows], place, axis=2)[:, :, place]
    found[ranks < 1] = np.inf
    return found

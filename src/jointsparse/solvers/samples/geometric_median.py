r"""The geometric median :math:`\arg\min_b \sum_i \|x_i - b\|`: outliers hardly move it."""

from __future__ import annotations

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace, positive_part
from jointsparse.operators.samples import Samples

# Tolerance where only the sum of the distances is wanted: any centre gives a valid one, and that of
# a centre so near the median is larger by the square of this.
NEAR_THE_MEDIAN = 1e-6
NEWTON_FEATURES = 64  # up to so many Newton's equations cost less than the steps they save
RIDGE = 1e-10  # of the curvature: points on one line have none along it


def row_norms(points: Array) -> Array:
    """Euclidean norm of every row."""
    xp = array_namespace(points)
    return xp.linalg.vector_norm(points, axis=1)


def typical_length(norms: Array) -> float:
    """Return the median of lengths; their mean where most of them are nothing, or nearly so."""
    xp = array_namespace(norms)
    median, mean = float(xp.sort(norms)[norms.shape[0] // 2]), float(xp.mean(norms))
    return median if median > 1e-6 * mean else mean


def geometric_median(
    points: Array, start: Array | None = None, *, tol: float = 1e-10, max_iter: int = 200
) -> Array:
    """Return the geometric median of the rows by Weiszfeld's iteration, with Newton's steps.

    Weiszfeld's point T = Σ w_i x_i / Σ w_i, w_i = 1/‖x_i - b‖, is never farther from the points
    than b, but comes nearer by a constant factor only. Newton's point, from the curvature
    Σ w_i I - Σ w_i³ (x_i - b)(x_i - b)ᵀ, is taken where it is nearer than b: half the time on
    tables of 20 × 7. Where it is not (points on one line, a point at the median) it is not asked
    for again.

    Parameters
    ----------
    points : array of shape (n_samples, n_features)
        Points, one per row.
    start : array of shape (n_features,) or None
        Where to start; the mean without.
    tol : float
        Movement at which to stop, relative to the mean distance.
    max_iter : int
        Iteration limit.
    """
    xp = array_namespace(points)
    centre = xp.mean(points, axis=0) if start is None else start
    away = points - centre
    distances = row_norms(away)
    newton = points.shape[1] <= NEWTON_FEATURES
    for _ in range(max_iter):
        mean_distance = float(xp.mean(distances))
        if mean_distance == 0:
            return centre
        # A point at the centre would get an infinite weight: the floor lets the iteration pass.
        floor = 1e-9 * mean_distance
        weights = 1 / xp.where(distances > floor, distances, floor)
        step = (weights @ away) / xp.sum(weights)
        found = None
        if newton:
            found = _moved(points, centre + _newton_step(away, weights, step))
            newton = float(xp.mean(found[2])) <= mean_distance
        if found is None or not newton:
            found = _moved(points, centre + step)
        moved = float(xp.linalg.vector_norm(found[0] - centre))
        centre, away, distances = found
        if moved <= tol * mean_distance:
            break
    return centre


def _moved(points: Array, centre: Array) -> tuple[Array, Array, Array]:
    """Return a centre, the points seen from it, and their distances."""
    away = points - centre
    return centre, away, row_norms(away)


def _newton_step(away: Array, weights: Array, step: Array) -> Array:
    """Return Newton's step, given Weiszfeld's."""
    xp = array_namespace(away)
    directions = away * weights[:, None]
    whole = xp.sum(weights)
    identity = xp.eye(away.shape[1], dtype=away.dtype, device=away.device)
    pulled = (directions * (weights / whole)[:, None]).T @ directions
    return xp.linalg.solve((1 + RIDGE) * identity - pulled, step[:, None])[:, 0]


def median_by_products(data: Samples, *, tol: float = 1e-10, max_iter: int = 200) -> Array:
    """Return the geometric median of centred samples that are known through their products.

    The median is a mean with weights, m = Xᵀs, so that ‖x_i - m‖² = ‖x_i‖² - 2(Xm)_i + ‖m‖² is all
    that an iteration needs.

    Parameters
    ----------
    data : Samples
        X, centred: the first m is 0, as in :func:`geometric_median`.
    tol, max_iter : float, int
        As there.
    """
    xp = array_namespace(data.empty)
    squares = data.row_squares()
    centre = xp.zeros(data.shape[1], dtype=xp.float64, device=data.empty.device)
    distances = xp.sqrt(squares)
    for _ in range(max_iter):
        mean_distance = float(xp.mean(distances))
        if mean_distance == 0:
            return centre
        weights = 1 / xp.clip(distances, 1e-9 * mean_distance, None)
        new = data.transposed_times((weights / xp.sum(weights))[:, None])[:, 0]
        moved = float(xp.linalg.vector_norm(new - centre))
        centre = new
        if moved <= tol * mean_distance:
            break
        left = squares - 2 * data.times(centre[:, None])[:, 0] + float(centre @ centre)
        distances = xp.sqrt(positive_part(left))
    return centre

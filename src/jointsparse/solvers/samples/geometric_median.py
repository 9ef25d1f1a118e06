r"""The geometric median :math:`\arg\min_b \sum_i \|x_i - b\|`: outliers hardly move it."""

from __future__ import annotations

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace, positive_part
from jointsparse.operators.samples import Samples

# Tolerance where only the sum of the distances is wanted: any centre gives a valid one, and that of
# a centre so near the median is larger by the square of this.
NEAR_THE_MEDIAN = 1e-6


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
    """Return the geometric median of the rows by Weiszfeld's iteration.

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
    for _ in range(max_iter):
        distances = row_norms(points - centre)
        mean_distance = float(xp.mean(distances))
        if mean_distance == 0:
            return centre
        weights = _inverses(distances, mean_distance)
        new = (weights @ points) / xp.sum(weights)
        moved = float(xp.linalg.vector_norm(new - centre))
        centre = new
        if moved <= tol * mean_distance:
            break
    return centre


def _inverses(distances: Array, mean_distance: float) -> Array:
    """Return 1 / distances; the floor lets the iteration pass a point at the centre."""
    floor = 1e-9 * mean_distance
    # "clip" of the array libraries' common names takes longer than all else in a small step.
    return 1 / array_namespace(distances).where(distances > floor, distances, floor)


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
        weights = _inverses(distances, mean_distance)
        new = data.transposed_times((weights / xp.sum(weights))[:, None])[:, 0]
        moved = float(xp.linalg.vector_norm(new - centre))
        centre = new
        if moved <= tol * mean_distance:
            break
        left = squares - 2 * data.times(centre[:, None])[:, 0] + float(centre @ centre)
        distances = xp.sqrt(positive_part(left))
    return centre

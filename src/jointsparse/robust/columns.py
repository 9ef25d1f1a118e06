r"""Location and scale of columns that gross values hardly move, for any kind of column.

The location :math:`m_j` is the median. The unit of a column is

.. math:: u_j = \max\Bigl(\frac{\operatorname{med}\{|x_{ij}-m_j| > 0\}}{\Phi^{-1}(3/4)},
          \ \frac{q_{3/4}(|x_{ij}-m_j|)}{\Phi^{-1}(7/8)}\Bigr) ,

the standard deviation in Gaussian columns. Where all values differ the first is the median
absolute deviation, but for the median itself. Where most of them are the same (word counts, pixels
at the edge) that would be 0, and the values that do differ tell the unit: such a column is not left
out. The second is for columns that have most values near one number but not on it: whatever lies
beyond, a quarter of the values is no outlier. So up to a quarter of gross values in a column does
no harm, or half of those that differ from the median where these are few.

The median gives way by a third of the unit when a fifth of the values lies on one side. So where
values differ, the location is one step of an M-estimator from there,
:math:`m_j + u_j\sum_i\psi(z_{ij})/\sum_i\psi(z_{ij})z_{ij}^{-1}`, in which gross values have no
part: what is left of them later stands in the middle of the others, or it would be a pattern of
its own.

The deviation :math:`s_j = u_j\operatorname{sd}(\psi((x_{ij}-m_j)/u_j))`, with the wrapping function
ψ, is what makes columns comparable: a standard deviation in which gross values have no part.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import to_host
from jointsparse.linalg import array_namespace, double
from jointsparse.robust.wrapping import BEND, wrapped

MIDDLE, UPPER = 0.6744897501960817, 1.1503493803760083  # Φ⁻¹(3/4) and Φ⁻¹(7/8)
AT_ONCE = 2**22  # entries of some columns that are sorted together
HUGE = 1e100  # standardised values beyond are cut: their squares must not overflow


class ColumnScales(NamedTuple):
    """What is usual in every column.

    Attributes
    ----------
    location : ndarray of shape (n_features,)
        Median, one step improved; the median itself where half of the values are the same.
    unit : ndarray of shape (n_features,)
        Scale of the values that differ from it; 1 where none does.
    deviation : ndarray of shape (n_features,)
        Standard deviation of the column without gross values; 0 for a constant one.
    """

    location: FloatArray
    unit: FloatArray
    deviation: FloatArray


def column_scales(values: Any) -> ColumnScales:
    """Return location and scales of the columns of samples.

    Parameters
    ----------
    values : array or sparse matrix of shape (n_samples, n_features)
        Samples; a sparse matrix is never made dense as a whole.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.robust.columns import column_scales
    >>> words = np.zeros((100, 1))
    >>> words[:6, 0] = [1, 1, 1, 2, 2, 900]
    >>> found = column_scales(words)
    >>> float(found.unit[0].round(2)), bool(found.deviation[0] > 0)
    (2.22, True)
    """
    n, p = values.shape
    step = max(1, AT_ONCE // n)
    values = values.tocsc() if sp.issparse(values) else values
    parts = [_scales(_dense(values, start, start + step)) for start in range(0, p, step)]
    return ColumnScales(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def standardised(values: Array, location: Array, unit: Array) -> Array:
    """Return (x - m) / u, never infinite."""
    xp = array_namespace(values)
    with np.errstate(over="ignore"):
        return xp.clip((double(values) - location) / unit, -HUGE, HUGE)


def typical(values: Array) -> tuple[float, float]:
    """Return location and unit of numbers, by the same rule."""
    found = column_scales(values[:, None])
    return float(found.location[0]), float(found.unit[0])


def _dense(values: Any, start: int, stop: int) -> Array:
    part = values[:, start:stop]
    return double(part.toarray() if sp.issparse(part) else part)


def _scales(part: Array) -> tuple[FloatArray, FloatArray, FloatArray]:
    xp = array_namespace(part)
    n = part.shape[0]
    ordered = xp.sort(part, axis=0)
    location = ordered[(n - 1) // 2, :] / 2 + ordered[n // 2, :] / 2
    with np.errstate(over="ignore"):
        distances = xp.sort(xp.abs(part - location), axis=0)
    # What rounding alone makes of equal values is no difference.
    rounding = 8 * float(xp.finfo(part.dtype).eps) * xp.abs(location)
    ties = to_host(xp.sum(xp.astype(distances <= rounding, xp.int64), axis=0))
    distances = to_host(distances)
    columns, differ = np.arange(ties.size), n - ties
    lower = np.minimum(ties + (differ - 1) // 2, n - 1)
    upper = np.minimum(ties + differ // 2, n - 1)
    middle = distances[lower, columns] / 2 + distances[upper, columns] / 2
    quarter = distances[max(int(np.ceil(0.75 * n)) - 1, 0)]
    with np.errstate(over="ignore"):
        unit = np.where(differ > 0, np.maximum(middle / MIDDLE, quarter / UPPER), 1.0)
    unit = np.where((unit > 0) & np.isfinite(unit), unit, 1.0)
    here = _like(unit, part)
    standard = standardised(part, location, here)
    bent = wrapped(standard)
    # ψ(z)/z, which is 1 in the middle.
    weights = xp.where(xp.abs(standard) < BEND, 1.0, bent / xp.where(standard == 0, 1.0, standard))
    step = here * xp.sum(bent, axis=0) / xp.clip(xp.sum(weights, axis=0), 1.0, None)
    location = location + xp.where(_like(2 * ties < n, part), step, xp.zeros_like(step))
    bent = wrapped(standardised(part, location, here))
    deviation = unit * to_host(xp.std(bent, axis=0))
    return to_host(location), unit, np.where(differ > 0, deviation, 0.0)


def _like(host: Any, model: Array) -> Array:
    return array_namespace(model).asarray(host, device=model.device)

r"""Columns of different units made comparable, and the warning where they were not.

With ``scale="standard"`` a feature is divided by its standard deviation, with ``"robust"`` by the
distance of its quartiles; where that is 0 it stays as it is. The command line scales in the same
way. Means do not matter to any method, and ``transform`` gives the columns as they came.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import FloatArray
from jointsparse.device import to_host
from jointsparse.moments import Moments
from jointsparse.running.notices import warn_caller
from jointsparse.sources import Source
from jointsparse.sources.refusals import not_finite
from jointsparse.sources.sums import NotFiniteError
from jointsparse.sources.views.columnwise import standardised

SCALES = (None, "standard", "robust")
# Standard deviation of the largest column, in those of the middle one, from which a table is
# remarked on. Columns in one unit (pixels, logarithms of counts, spectra) stay far below.
UNEQUAL = 1000.0
MOST = 0.99  # of all variance, in which the few largest columns leave nothing to see of the others
FEW = 0.1  # of the columns


def check_scale_of_columns(scale: Any) -> None:
    """Refuse a word that ``scale`` does not know."""
    if scale not in SCALES:
        raise ValueError(f"scale={scale!r} is not one of None, 'standard', 'robust'")


def scaled_source(source: Source, scale: str | None) -> Source:
    """Return samples that are not at hand with columns to scale; they are read twice for it."""
    check_scale_of_columns(scale)
    if scale is None:
        return source
    if scale == "robust":
        raise ValueError(
            f"scale='robust' needs all samples at once, for quartiles, and {source.name} is read "
            "in blocks; use scale='standard'"
        )
    try:
        return standardised(source).source
    except NotFiniteError as error:
        raise not_finite(source, error) from error


def scaled_moments(moments: Moments, scale: str | None) -> Moments:
    """Return moments with features to scale; as they are where they were scaled so before.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import Moments
    >>> from jointsparse.methods.reading.scaling import scaled_moments
    >>> X = np.random.default_rng(0).standard_normal((100, 2)) * [1, 1000]
    >>> scaled_moments(Moments.from_data(X), "standard").variances.round(6).tolist()
    [100.0, 100.0]
    """
    check_scale_of_columns(scale)
    if scale is None or moments.scale == scale:
        return moments
    scaled = moments.standardised() if scale == "standard" else moments.scaled(_robust(moments))
    scaled.scale, scaled.labels = scale, moments.labels
    return scaled


def _robust(moments: Moments) -> FloatArray:
    data = moments.data
    if data is None or moments.elsewhere:
        raise ValueError(
            "scale='robust' needs the samples themselves, for quartiles; use scale='standard'"
        )
    if sp.issparse(data):
        raise ValueError("scale='robust' needs dense samples; use scale='standard'")
    low, high = np.percentile(to_host(data), [25.0, 75.0], axis=0)
    distance = np.asarray(high - low, dtype=np.float64)
    return 1 / np.where(distance > 0, distance, 1.0)


def remark_on_scale(estimator: Any, moments: Moments) -> None:
    """Warn where a few columns are so large that what is explained is theirs alone."""
    if moments.scale is not None or getattr(estimator, "rule", "") == "variance":
        return
    varying = np.sort(moments.variances[moments.variances > 0])
    if varying.size < 3:
        return
    half = varying.size // 2
    largest, middle = float(varying[-1]), float(varying[half] + varying[-half - 1]) / 2
    if largest < UNEQUAL**2 * middle:
        return
    few = max(1, int(FEW * varying.size))
    share = float(varying[-few:].sum() / varying.sum())
    if share < MOST:
        return
    name = _name_of(moments, int(np.argmax(moments.variances)))
    warn_caller(
        f"{type(estimator).__name__}: the columns differ in scale: {name} varies "
        f"{np.sqrt(largest / middle):.0f} times as much as the middle one, and {few} of "
        f"{varying.size} make up {100 * share:.1f} % of the variance, so that what is explained is "
        "theirs. If their units differ, use scale='standard'"
    )


def _name_of(moments: Moments, column: int) -> str:
    names = moments.feature_names
    return f"column {column}" if names is None else repr(str(names[column]))

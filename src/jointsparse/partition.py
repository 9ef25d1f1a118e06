"""Some rows of a table, made of samples as all of them were; and parts that share no sample.

Rows that weights made are mixtures, and those of a batch are around its mean. Of some rows the
samples are taken as they were, and weighted and centred anew: so a part knows nothing of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import is_device_array, like, to_host
from jointsparse.moments import Moments
from jointsparse.sources.in_memory import ArraySource
from jointsparse.sources.origin import Origin, numbered
from jointsparse.sources.weighting import centred_again, plain_rows

SMALL_BATCH = 1 / 9  # of all rows: up to this share, a batch lies in one part


def some_rows(moments: Moments, rows: IntArray) -> Moments:
    """Return the moments of some rows of a table in memory.

    Parameters
    ----------
    moments : Moments
        With their samples.
    rows : ndarray of int
        Which ones.
    """
    data, origin = moments.data, moments.origin
    if origin is None or origin.is_even:
        values = data[like(rows, data)] if is_device_array(data) else data[rows]
        part = Moments.from_data(values, copy=False)
        own = None if origin is None else origin.of(rows)
    else:
        own = origin.of(rows)
        plain = _as_given(_plain(moments, origin)[rows] + moments.mean, data)
        samples = plain if is_device_array(data) else ArraySource(plain)
        part = Moments.from_data(centred_again(samples, own), copy=False)
        part.mixed = True
    part.feature_names = moments.feature_names
    return part.made_of(own)


def apart(moments: Moments, parts: Sequence[IntArray]) -> Moments:
    """Return a table whose rows know nothing of those in other parts; it may be the table itself.

    Parameters
    ----------
    moments : Moments
        The table, in memory or not.
    parts : sequence of ndarray of int
        Rows of each part.
    """
    origin = moments.origin
    if origin is None or moments.elsewhere:
        return moments
    part_of = np.full(moments.n_samples, len(parts))
    for number, rows in enumerate(parts):
        part_of[rows] = number
    groups = numbered(origin.batch * (len(parts) + 1) + part_of)
    if not origin.mixed and (origin.n_batches == 1 or groups.max() + 1 == origin.n_batches):
        return moments
    table = replace(origin, batch=groups).centred(_plain(moments, origin)) + moments.mean
    return Moments.from_data(_as_given(table, moments.data), copy=False)


def units_first(rows: IntArray, origin: Origin) -> tuple[IntArray, IntArray]:
    """Return rows with those together that belong together, and where each such unit ends.

    All rows of a sample do, and of a batch that is not large.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.partition import units_first
    >>> from jointsparse.sources.origin import Origin
    >>> origin = Origin.of_rows(30, batch=np.arange(30) // 3)
    >>> rows, ends = units_first(np.array([4, 0, 3, 1, 5, 2] + list(range(6, 30))), origin)
    >>> rows[:6].tolist(), ends[:2].tolist()
    ([4, 3, 5, 0, 1, 2], [3, 6])
    """
    batch = origin.batch[rows]
    small = np.bincount(batch) <= SMALL_BATCH * rows.size
    unit = np.where(small[batch], batch, origin.n_batches + origin.sample[rows])
    _, first, inverse, sizes = np.unique(
        unit, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)  # in the order in which units come
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    return rows[np.argsort(place[inverse], kind="stable")], np.cumsum(sizes[order])


def _plain(moments: Moments, origin: Origin) -> FloatArray:
    return plain_rows(to_host(moments.data).astype(np.float64) - moments.mean, origin)


def _as_given(rows: FloatArray, data: Any) -> Any:
    if is_device_array(data):
        return like(rows, data)
    return rows.astype(np.float32) if data.dtype == np.float32 else rows

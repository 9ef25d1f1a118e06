"""From what ``fit`` is given (samples, weights, batches, holes) to the moments that it works on."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointsparse.device import is_device_array, to_host
from jointsparse.methods.reading.from_source import moments_to_fit
from jointsparse.methods.reading.scaling import scaled_source
from jointsparse.moments import Moments
from jointsparse.preparation import prepared
from jointsparse.sources.weighting import are_counts, checked_weights, weighted_rows


def prepared_moments(
    estimator: Any, samples: Any, *, sample_weight: Any, batch: Any, missing: str
) -> Moments:
    """Return the moments of samples with weights, batches or missing values.

    Parameters
    ----------
    estimator : estimator
        Says whether it needs the samples themselves.
    samples : tensor or Source
        Samples, checked but for missing values.
    sample_weight, batch, missing
        As in :meth:`Moments.from_data`.
    """
    if estimator._needs().samples:
        _refuse(estimator, sample_weight, missing)
    table = prepared(samples, sample_weight=sample_weight, batch=batch, missing=missing)
    names = getattr(samples, "feature_names", None)
    at_hand = table.estimate is not None or is_device_array(table.samples)
    if at_hand or table.samples.array is not None:
        return Moments.of_prepared(table, names)
    scale = getattr(estimator, "scale", None)
    moments = moments_to_fit(scaled_source(table.samples, scale), estimator)
    moments.missing, moments.batches, moments.scale = table.missing, table.batches, scale
    moments.mixed = table.mixed or table.batches is not None
    moments.feature_names = names
    return moments.made_of(table.origin)


def _refuse(estimator: Any, sample_weight: Any, missing: str) -> None:
    """Refuse what would leave a method without the samples that it looks at."""
    name = type(getattr(estimator, "estimator", estimator)).__name__
    if missing in ("pairwise", "em"):
        raise ValueError(
            f"{name} looks at the samples themselves, and missing={missing!r} estimates their "
            "scatter matrix only; use missing='mean', or a method for which that matrix is enough, "
            "such as SPCAPSD"
        )
    if sample_weight is not None and not are_counts(checked_weights(sample_weight, None)):
        raise ValueError(
            f"{name} looks at the samples themselves, so its weights are whole numbers: how often "
            "each sample is there; other weights are for methods that work from the scatter "
            "matrix, such as SPCAPSD"
        )


def note_preparation(estimator: Any, moments: Moments) -> None:
    """Keep what was missing and what lay between batches; nothing of an earlier fit stays."""
    for name, found in (("missing_values_", moments.missing), ("batches_", moments.batches)):
        estimator.__dict__.pop(name, None)
        if found is not None:
            setattr(estimator, name, found)


def rows_for(y: Any, sample_weight: Any) -> Any:
    """Return outcomes or classes of the samples in the order of the weighted table."""
    if y is None or sample_weight is None:
        return y
    values = y if hasattr(y, "iloc") else np.asarray(to_host(y) if is_device_array(y) else y)
    rows = weighted_rows(sample_weight, len(values))
    return values.iloc[rows] if hasattr(values, "iloc") else values[rows]


def preparation_rounding(moments: Moments) -> float:
    """Return the share of the total variance that the preparation of samples may have cost.

    Weights that are no counts, and batches, make rows that are deviations with the mean put back.
    What that rounds is ε of the mean: nothing to speak of, unless the deviations, of samples next
    to one that weighs 1e8 times as much, are far smaller.
    """
    if not moments.mixed or moments.total_variance == 0:
        return 0.0
    cross = np.abs(moments.mean) @ np.sqrt(moments.n_samples * moments.variances)
    return float(2 * np.finfo(np.float64).eps * cross / moments.total_variance)

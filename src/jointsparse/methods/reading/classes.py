"""Classes of the samples, as the methods that want them get them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length, column_or_1d

from jointsparse.device import is_device_array, to_host
from jointsparse.moments import Moments
from jointsparse.sources.door import missing_entries


def class_labels(moments: Moments, y: Any, graph: str) -> NDArray[Any] | None:
    """Return the classes, where the graph wants them ("auto", "lda") and they are there."""
    if y is None or graph not in ("auto", "lda"):
        return None
    y = to_host(y) if is_device_array(y) else y
    labels = column_or_1d(y)
    check_consistent_length(moments.data, labels)
    problem = "y has missing values" if np.any(missing_entries(y)) else _not_classes(labels)
    if problem and graph == "lda":
        raise ValueError(f"graph='lda' needs classes, but {problem}; without them use 'lpp'")
    return None if problem else labels


def _not_classes(labels: NDArray[Any]) -> str | None:
    """Say why labels are no classes; None where they are."""
    if labels.dtype.kind == "f":
        if not np.all(np.isfinite(labels)):
            return "y has values that are not finite"
        if np.any(labels != np.round(labels)):
            return "y is continuous"
    if np.all(labels == labels[0]):
        return "y has one class only"
    return None

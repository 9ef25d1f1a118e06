"""Datasets and their moments, read once in each process."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from numpy.typing import NDArray

from jointsparse.datasets import load_dataset
from jointsparse.moments import Moments


@lru_cache(maxsize=2)
def dataset(name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return samples and labels."""
    return load_dataset(name)


@lru_cache(maxsize=2)
def moments(name: str) -> Moments:
    """Return the moments of a dataset; scatter matrix and spectrum are computed once."""
    return Moments.from_data(dataset(name)[0], copy=False)

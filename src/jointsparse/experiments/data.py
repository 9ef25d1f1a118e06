"""Datasets and their moments, read once in each process; where to compute with large ones."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from numpy.typing import NDArray

from jointsparse.arrays import Array
from jointsparse.datasets import load_dataset
from jointsparse.moments import Moments

# Rows and columns of samples from which a device is worth it: eigenproblems of that size take 30
# times as long on one core, those of half of it three times, and smaller ones less than there.
LEAST_ON_DEVICE = 500
_device: list[str] = []  # of this process, as it was told


def compute_on(device: str | None) -> None:
    """Have this process compute with large samples on a device of PyTorch; None: on the host."""
    if _device != [device]:
        _device[:] = [] if device is None else [device]
        large_moments.cache_clear()


def placed(samples: NDArray[Any], least: int = LEAST_ON_DEVICE) -> Array:
    """Return samples on the device, if there is one and they are large; else themselves."""
    if not _device or min(samples.shape) < least:
        return samples
    import torch

    return torch.asarray(samples, dtype=torch.float64, device=_device[0])


@lru_cache(maxsize=2)
def dataset(name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return samples and labels."""
    return load_dataset(name)


@lru_cache(maxsize=2)
def moments(name: str) -> Moments:
    """Return the moments of a dataset; scatter matrix and spectrum are computed once."""
    return Moments.from_data(dataset(name)[0], copy=False)


@lru_cache(maxsize=2)
def large_moments(name: str) -> Moments:
    """Return the moments of a dataset where :func:`placed` has it."""
    return Moments.from_data(placed(dataset(name)[0]), copy=False)

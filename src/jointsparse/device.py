"""Arrays that live on a device: what they are, the way to the host and back, and their checks.

A PyTorch tensor or a CuPy array stays where it is: moments and the kernels of the convex family are
computed on its device. What a method keeps after a fit is NumPy. No library is imported here that
the caller has not imported already.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_cupy_array,
    is_numpy_array,
    is_torch_array,
    to_device,
)
from numpy.typing import NDArray

from jointsparse.arrays import Array

# Types of arrays and numbers that are known to be of no device.
ON_HOST = frozenset({np.ndarray, np.float64, np.float32, np.bool_, np.int64, float, int, bool})


def is_device_array(array: Any) -> bool:
    """Whether something is a PyTorch tensor or a CuPy array, on whatever device."""
    if type(array) in ON_HOST:  # at once: small fits ask hundreds of times in a few milliseconds
        return False
    return bool(is_torch_array(array) or is_cupy_array(array))


def on_accelerator(array: Any) -> bool:
    """Whether an array is kept by something else than the processor that runs Python."""
    if type(array) is np.ndarray:
        return False
    if is_torch_array(array):
        return bool(array.device.type != "cpu")
    return bool(is_cupy_array(array))


def to_host(array: Array) -> NDArray[Any]:
    """Return the array as a NumPy one; itself where it is."""
    if type(array) is np.ndarray:
        return array
    return np.asarray(to_device(array, "cpu") if is_device_array(array) else array)


def like(array: Any, model: Array) -> Array:
    """Return a NumPy array (or numbers) in the namespace and on the device of another array."""
    host = np.asarray(array)
    if type(model) is np.ndarray or is_numpy_array(model):
        return host
    if min(host.strides, default=0) < 0:
        host = host.copy()  # PyTorch does not walk backwards
    return array_namespace(model).asarray(host, device=device(model))


def numbers(*values: Any) -> list[float]:
    """Return some numbers that were computed in one place, from a device in one transfer.

    Each question to a device waits for all that it has to do: several at once cost as much as one.
    """
    if ON_HOST.issuperset(map(type, values)):
        return list(map(float, values))
    there = [value for value in values if is_device_array(value)]
    if not there:
        return list(map(float, values))
    xp = array_namespace(there[0])
    same = [v if v.dtype == xp.float64 else xp.astype(v, xp.float64) for v in values]
    return [float(value) for value in to_host(xp.stack(same))]


def free_bytes(array: Any) -> int:
    """Return how much memory is free on the accelerator of an array; 0 where nobody says."""
    if is_torch_array(array) and array.device.type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(array.device)[0])
    if is_cupy_array(array):
        return int(array.device.mem_info[0])
    return 0


@contextmanager
def errors_raised(array: Array) -> Iterator[None]:
    """Have linear algebra on this kind of array raise its errors, as NumPy and PyTorch do.

    CuPy does not look, by default, whether a factorisation succeeded.
    """
    if not is_cupy_array(array):
        yield
        return
    import cupyx

    with cupyx.errstate(linalg="raise"):
        yield


def checked_samples(
    X: Array, *, n_features: int | None = None, min_samples: int = 1, missing: bool = False
) -> Array:
    """Return samples on a device, cut off from gradients, or say what is wrong with them.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        PyTorch tensor or CuPy array.
    n_features : int or None
        Number of columns expected.
    min_samples : int
        Number of rows needed.
    missing : bool
        Whether values may be missing (NaN).
    """
    if is_torch_array(X):
        X = X.detach() if X.requires_grad else X  # the same object where possible
        if "strided" not in str(X.layout):
            raise ValueError(
                "X is a sparse tensor, which is not supported: pass X.to_dense(), or a sparse "
                "matrix of SciPy"
            )
    if X.ndim != 2:
        raise ValueError(
            f"X must have two dimensions, samples × features; its shape is {_shape(X)}"
        )
    if X.shape[0] < min_samples or X.shape[1] < 1:
        # scikit-learn's words, which its own checks look for
        what, need = ("sample", min_samples) if X.shape[0] < min_samples else ("feature", 1)
        raise ValueError(
            f"Found array with {X.shape[what == 'feature']} {what}(s) (shape={_shape(X)}) while a "
            f"minimum of {need} is required"
        )
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(f"X has {X.shape[1]} features, but {n_features} were seen in fit")
    _check_numbers(X, missing=missing)
    return X


def kept_type(dtype: Any) -> np.dtype[Any]:
    """Return float32 for samples of that type, on whatever device; float64 for all others."""
    if isinstance(dtype, np.dtype):
        return np.dtype(np.float32 if dtype.type is np.float32 else np.float64)
    single = str(getattr(dtype, "name", dtype)).rpartition(".")[2] == "float32"
    return np.dtype(np.float32 if single else np.float64)


def _check_numbers(X: Array, *, missing: bool) -> None:
    xp = array_namespace(X)
    if not xp.isdtype(X.dtype, ("real floating", "integral", "bool")):
        raise ValueError(f"X must hold real numbers, not {X.dtype}")
    if is_torch_array(X) and X.device.type == "mps":
        raise ValueError(
            "the device mps has no float64, in which spectra and certificates are computed: move "
            "the samples to the processor with X.cpu()"
        )
    if not xp.isdtype(X.dtype, "real floating"):
        return
    # One pass without a temporary array; only where it fails is the place looked for.
    if np.isfinite(float(xp.sum(X, dtype=xp.float64))):
        return
    bad = xp.nonzero(xp.isinf(X) if missing else ~xp.isfinite(X))
    if bad[0].shape[0]:
        raise ValueError(
            f"X contains NaN or infinity, {bad[0].shape[0]} times, the first in row "
            f"{int(bad[0][0])}, column {int(bad[1][0])} (counted from 0); replace them, or leave "
            "these rows out"
        )


def _shape(X: Array) -> tuple[int, ...]:
    return tuple(int(length) for length in X.shape)

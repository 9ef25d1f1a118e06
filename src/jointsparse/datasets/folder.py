"""Benchmark datasets by name: from a folder of NPZ files, or the small ones that are bundled."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VARIABLE = "JOINTSPARSE_DATA"
BUNDLED = ("breast-cancer", "breast-cancer-31", "digits")


def load_dataset(name: str, path: str | Path | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Load a labelled dataset by name, on the scale that the papers use.

    Parameters
    ----------
    name : str
        Name of a file ``NAME.npz`` with arrays X (n_samples × n_features) and y (n_samples), or one
        of the bundled sets: "breast-cancer" (30 columns), "breast-cancer-31" (with the diagnosis
        as last column, as source 000 has it) and "digits".
    path : str, Path or None, default=None
        The folder. None takes the one that the environment variable JOINTSPARSE_DATA names.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Samples as float64. Pixels (files of type uint8) are divided by 255, which is what
        "normalised to [0, 1]" means in source 004: its total variances come out.
    y : ndarray of shape (n_samples,)
        Labels.

    Examples
    --------
    >>> from jointsparse.datasets import load_dataset
    >>> X, y = load_dataset("digits")
    >>> X.shape, float(X.max())
    ((1797, 64), 1.0)
    """
    folder = _folder(path)
    file = None if folder is None else folder / f"{name}.npz"
    if file is not None and file.is_file():
        return _read(file)
    if name in BUNDLED and path is None:
        return _bundled(name)
    raise FileNotFoundError(_what_there_is(name, folder))


def available_datasets(path: str | Path | None = None) -> list[str]:
    """Return the names that :func:`load_dataset` knows, sorted.

    Parameters
    ----------
    path : str, Path or None, default=None
        The folder; None takes the one that JOINTSPARSE_DATA names, and the bundled sets.

    Examples
    --------
    >>> from jointsparse.datasets import available_datasets
    >>> "breast-cancer" in available_datasets()
    True
    """
    folder = _folder(path)
    files = [] if folder is None else [file.stem for file in folder.glob("*.npz")]
    return sorted({*files, *(BUNDLED if path is None else ())})


def _folder(path: str | Path | None) -> Path | None:
    given = os.environ.get(VARIABLE) if path is None else path
    return Path(given) if given else None


def _read(file: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    with np.load(file, allow_pickle=False) as arrays:
        missing = [key for key in ("X", "y") if key not in arrays]
        if missing:
            raise ValueError(f"{file} has no array named {' or '.join(missing)}")
        X, y = arrays["X"], arrays["y"]
    if X.ndim != 2 or y.shape != (X.shape[0],):
        raise ValueError(f"{file}: X of shape {X.shape} and y of shape {y.shape} do not fit")
    return (X / 255.0 if X.dtype == np.uint8 else X.astype(np.float64)), y


def _bundled(name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    from sklearn.datasets import load_breast_cancer, load_digits

    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X / 16.0, y
    X, y = load_breast_cancer(return_X_y=True)
    return (np.column_stack([X, y]) if name.endswith("31") else X), y


def _what_there_is(name: str, folder: Path | None) -> str:
    if folder is None:
        return (
            f"no dataset {name!r}: bundled are {', '.join(BUNDLED)}; for others name a folder of "
            f"NPZ files, by path= or the environment variable {VARIABLE}"
        )
    found = ", ".join(available_datasets(folder)) or "no NPZ file at all"
    return f"no dataset {name!r}: {folder} holds {found}"

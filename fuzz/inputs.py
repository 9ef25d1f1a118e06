"""Tables that nobody would write down: extreme scales, repeated and constant columns, odd types."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

DTYPES = ("float64", "float64", "float64", "float32", "int64", "int16", "uint8", "bool")
LARGEST = 60  # samples, and features


def table(rng: np.random.Generator) -> tuple[Any, str]:
    """Return a table and a few words that describe it."""
    n, p = (int(size) for size in rng.integers(1, LARGEST + 1, size=2))
    rank = int(rng.integers(1, min(n, p) + 1))
    noise = rng.choice([0.0, 1e-12, 0.1, 1.0])
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    X += noise * rng.standard_normal((n, p))
    words = [f"{n} x {p}", f"rank {rank}"]
    for name, change in CHANGES.items():
        if rng.random() < 0.2:
            X = change(X, rng)
            words.append(name)
    dtype = str(rng.choice(DTYPES))
    X = _as_type(X, dtype)
    words.append(dtype)
    if rng.random() < 0.15:
        kind = rng.choice(["csr", "csc"])
        X = sparse.csr_array(X) if kind == "csr" else sparse.csc_array(X)
        words.append(str(kind))
    elif rng.random() < 0.2:
        X = np.asfortranarray(X)
        X.setflags(write=False)
        words.append("read-only Fortran order")
    return X, ", ".join(words)


def _scaled(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X * 10.0 ** rng.uniform(-150, 150)


def _mixed(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X * 10.0 ** rng.uniform(-12, 12, X.shape[1])


def _offset(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X + 1e8 * rng.standard_normal(X.shape[1])


def _constant(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    X = X.copy()
    X[:, rng.random(X.shape[1]) < 0.5] = rng.choice([0.0, 1.0, 0.1, -1e6])
    return X


def _repeated_columns(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X[:, rng.integers(0, X.shape[1], X.shape[1])]


def _repeated_rows(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X[rng.integers(0, X.shape[0], X.shape[0])]


def _outlier(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    X = X.copy()
    X[rng.integers(X.shape[0])] *= 10.0 ** rng.uniform(2, 8)
    return X


def _zeros(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(X.shape) < rng.choice([0.5, 0.9, 1.0]), 0.0, X)


def _subnormal(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X * 1e-310


def _not_finite(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if rng.random() < 0.8:  # most tables are finite
        return X
    X = X.copy()
    X[rng.integers(X.shape[0]), rng.integers(X.shape[1])] = rng.choice([np.nan, np.inf, -np.inf])
    return X


CHANGES = {
    "one outlier": _outlier,
    "offset": _offset,
    "mixed magnitudes": _mixed,
    "repeated columns": _repeated_columns,
    "repeated rows": _repeated_rows,
    "zeros": _zeros,
    "constant columns": _constant,
    "scaled": _scaled,
    "subnormal": _subnormal,
    "perhaps not finite": _not_finite,
}


def _as_type(X: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bool":
        return X > 0
    if np.dtype(dtype).kind in "iu":
        X = np.nan_to_num(X, nan=0.0, posinf=0.0, neginf=0.0)
        size = np.max(np.abs(X), initial=0.0)
        X = np.round(X / (size or 1.0) * 120)
        X = np.abs(X) if dtype == "uint8" else X
    with np.errstate(over="ignore", under="ignore"):
        return X.astype(dtype)

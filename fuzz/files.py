"""Damage a good file at random and read it: a table, or one sentence, and nothing else."""

from __future__ import annotations

import gzip
import resource
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from scipy import sparse

from jointsparse.io import Table, TableError, read_table, write_table

SUFFIXES = (
    ".csv",
    ".tsv",
    ".txt",
    ".csv.gz",
    ".parquet",
    ".arrow",
    ".npy",
    ".npy.gz",
    ".npz",
    ".mtx",
    ".mtx.gz",
)
MEMORY = 6 * 2**30  # bytes that a reader may ask for before the system refuses


def prepare() -> None:
    """Make the good files, which imports the readers, and limit the memory."""
    for suffix in SUFFIXES:
        _good(suffix)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def case(number: int) -> str:
    """Run one case and return what happened: "read", "refused" or a fault in words."""
    rng = np.random.default_rng(number)
    suffix = SUFFIXES[int(rng.integers(len(SUFFIXES)))]
    damaged = _damaged(_good(suffix), suffix, rng)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / f"table{suffix}"
        path.write_bytes(damaged)
        try:
            table = read_table(path, drop_text=bool(rng.integers(2)))
        except TableError as error:
            return "refused" if "\n" not in str(error) else f"{suffix}: several lines: {error!r}"
        except BaseException as error:
            return f"{suffix}: {type(error).__name__}: {error}"
    return _fault(table, suffix) or "read"


def _fault(table: Table, suffix: str) -> str | None:
    values = table.values if isinstance(table.values, np.ndarray) else table.values.data
    if values.dtype.kind not in "biuf" or not np.all(np.isfinite(values)):
        return f"{suffix}: read values that are not finite numbers"
    if table.values.ndim != 2 or len(table.names) != table.values.shape[1]:
        return f"{suffix}: {len(table.names)} names for an array of shape {table.values.shape}"
    return None


@cache
def _good(suffix: str) -> bytes:
    """Return the bytes of a good file."""
    rng = np.random.default_rng(0)
    values = np.round(rng.standard_normal((12, 5)), 3)
    names = ["a", "b b", 'c"c', "d,d", "é"]
    if suffix.startswith(".mtx"):
        values = sparse.csr_array(np.where(np.abs(values) > 1, values, 0))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"good{suffix}"
        write_table(path, Table(values, names))
        read_table(path)
        return path.read_bytes()


def _damaged(good: bytes, suffix: str, rng: np.random.Generator) -> bytes:
    packed = suffix.endswith(".gz")
    inside = packed and rng.random() < 0.7  # behind the compression, where the readers are
    data = bytearray(gzip.decompress(good) if inside else good)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(len(data) + 1))
        kind = rng.integers(6)
        if kind == 0:
            data[at:] = b""
        elif kind == 1 and at < len(data):
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            data[at:at] = rng.integers(0, 256, int(rng.integers(1, 9))).astype(np.uint8).tobytes()
        elif kind == 3:
            end = at + int(rng.integers(1, 30))
            data[at:at] = data[at:end]
        elif kind == 4:
            del data[at : at + int(rng.integers(1, 30))]
        else:
            word = (
                b"999999999999",
                b"-1",
                b"nan",
                b"inf",
                b"\xff\xff\xff\x7f",
                b'"',
                b"\n",
                b"1e999",
            )
            data[at : at + 4] = word[int(rng.integers(len(word)))]
    return gzip.compress(bytes(data), mtime=0) if inside else bytes(data)

"""Damaged and absurd files are read: what comes of it is a table, or one sentence."""

from __future__ import annotations

import gzip
import resource
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from scipy import sparse

from fuzz.absurd import absurd
from fuzz.damage import damage
from jointsparse.io import Table, TableError, read_table, write_table
from jointsparse.sources import open_source

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
    content = absurd(suffix, rng) if rng.random() < 0.3 else _damaged(_good(suffix), suffix, rng)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / f"table{suffix}"
        path.write_bytes(content)
        try:
            found = _streamed(path, rng) if rng.random() < 0.3 else _read(path, rng)
        except TableError as error:
            return _refused(str(error), path)
        except BaseException as error:
            return f"{suffix}: {type(error).__name__}: {error}"
    return f"{suffix}: {found}" if found else "read"


def _read(path: Path, rng: np.random.Generator) -> str | None:
    """Read a table as a whole; return what is wrong with it."""
    table = read_table(path, drop_text=bool(rng.integers(2)))
    values = table.values if isinstance(table.values, np.ndarray) else table.values.data
    if values.dtype.kind not in "biuf" or not np.all(np.isfinite(values)):
        return "read values that are not finite numbers"
    if table.values.ndim != 2 or len(table.names) != table.values.shape[1]:
        return f"{len(table.names)} names for an array of shape {table.values.shape}"
    return None


def _streamed(path: Path, rng: np.random.Generator) -> str | None:
    """Read a table in blocks; return what is wrong with them."""
    source = open_source(path, memory="100MB", drop_text=bool(rng.integers(2)))
    for block in source.blocks():
        if block.dtype.kind not in "biuf" or block.shape[1:] != (source.n_features,):
            return f"a block of shape {block.shape} and type {block.dtype}"
    return None


def _refused(sentence: str, path: Path) -> str:
    if "\n" in sentence or len(sentence) > 2000:
        return f"{path.suffix}: not a sentence: {sentence[:2000]!r}"
    return "refused" if path.name in sentence else f"no name of the file in {sentence!r}"


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
    data = damage(gzip.decompress(good) if inside else good, rng)
    return gzip.compress(data, mtime=0) if inside else data

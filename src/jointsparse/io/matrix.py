"""Bare arrays: NumPy and Matrix Market files."""

from __future__ import annotations

import io
import math
import os
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from jointsparse.io.errors import listed, reading, table_error
from jointsparse.io.formats import open_input
from jointsparse.io.limits import NAME_BYTES, check_memory, read_bounded
from jointsparse.io.npy import read_array, read_array_header
from jointsparse.io.table import Table, check_shape, distinct, find_label
from jointsparse.sparse import canonical

_ENTRY_BYTES = 48  # row, column and value of a sparse entry, as they are read and once sorted


def read_matrix(path: Path, kind: str, label: str | None, memory: int) -> Table:
    """Read a format of bare arrays; a label may also be one of their made-up column names."""
    labels, label_name, names = None, None, None
    with reading(path), open_input(path) as stream:
        if kind == "npz":
            values, labels, label_name, names = _read_npz(path, stream, label, memory)
        elif kind == "npy":
            packed = path.suffix.lower() == ".gz"
            held = None if packed else os.fstat(stream.fileno()).st_size
            values = read_array(path, stream, held, memory)
        else:
            values = _read_market(path, stream, memory)
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        kind = f"an array of shape {values.shape} and type {values.dtype}"
        raise table_error(path, f"holds {kind}; a two-dimensional array of real numbers is needed.")
    rows, width = values.shape
    check_shape(path, rows, width)
    dtype = values.dtype.newbyteorder("=")
    if dtype.kind in "bf" and dtype != np.float32:
        dtype = np.dtype(np.uint8 if dtype.kind == "b" else np.float64)
    with reading(path):
        values = values.astype(dtype, copy=False)
    if names is None:
        check_memory(path, f"names of {width} columns", NAME_BYTES * width, memory)
        names = [f"x{j:0{len(str(width))}d}" for j in range(1, width + 1)]
    names, notes = distinct(names)
    if label is not None and label_name != label:
        at, label_name = find_label(path, label, names), label
        aside, values = values[:, [at]], values[:, np.arange(width) != at]
        labels = (aside if isinstance(aside, np.ndarray) else aside.toarray()).ravel()
        del names[at]
    if labels is not None and labels.shape != (rows,):
        raise table_error(path, f"has labels {label_name} of shape {labels.shape} for {rows} rows.")
    check_shape(path, *values.shape)
    return Table(values, names, labels, label_name, notes)


def _read_market(path: Path, stream: IO[bytes], memory: int) -> Any:
    import scipy.io
    from scipy import sparse

    # A zero byte, or no line end after the last value, can crash the parser.
    text = read_bounded(path, stream, memory // 2) + b"\n"
    if b"\0" in text:
        raise table_error(path, "is damaged: there is a zero byte in its text.")
    rows, columns, entries, layout, _, symmetry = scipy.io.mminfo(io.BytesIO(text))
    # With an empty or a lopsided one the parser would divide by zero, or write beyond its memory.
    check_shape(path, rows, columns)
    if symmetry != "general" and rows != columns:
        raise table_error(
            path,
            f"is damaged: its header calls a matrix of shape {(rows, columns)} {symmetry}.",
        )
    # The parser takes the memory for all entries before it has seen the first one.
    if layout == "coordinate":
        least, per_entry = 4 * entries, _ENTRY_BYTES * (1 if symmetry == "general" else 2)
        needed = per_entry * entries + 8 * rows + NAME_BYTES * columns
    else:
        least = 2 * entries if symmetry == "general" else rows * (rows - 1)
        needed = 16 * rows * columns
    if least > len(text):
        raise table_error(
            path,
            f"is damaged or truncated: its header promises {entries} entries of a matrix of shape "
            f"{(rows, columns)}, and {len(text)} bytes cannot hold them.",
        )
    check_memory(path, f"its {rows} rows and {columns} columns", needed, memory)
    values = scipy.io.mmread(io.BytesIO(text))
    return canonical(sparse.csr_array(values)) if sparse.issparse(values) else values


def _read_npz(
    path: Path, stream: IO[bytes], label: str | None, memory: int
) -> tuple[Any, Any, str | None, Any]:
    """Return the matrix, the labels, their array's name and the column names."""
    with zipfile.ZipFile(stream) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}

        def read(name: str, left: int) -> Any:
            info = _checked(path, members[name])
            with archive.open(info) as member:
                return read_array(path, member, info.file_size, left, name)

        found = list(members)
        flat = (
            ["X"] if "X" in found else [n for n in found if _ndim(path, archive, members[n]) == 2]
        )
        if len(flat) != 1:
            raise table_error(
                path, f"needs an array X or exactly one 2-D array; it has {listed(found)}."
            )
        values = read(flat[0], memory)
        left = memory - values.nbytes
        label_name = label if label in found else "y" if "y" in found else None
        labels = None if label_name is None else read(label_name, left)
        if "feature_names" not in found:
            return values, labels, label_name, None
        names = read("feature_names", left)
        if values.ndim == 2 and names.shape != values.shape[1:]:
            count = math.prod(names.shape)
            raise table_error(
                path, f"has {count} feature_names for {values.shape[1]} columns of X."
            )
        return values, labels, label_name, names.astype(str).tolist()


def _checked(path: Path, info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """Refuse what NumPy does not write and what could unpack to any size."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise table_error(path, f"is packed in a way that NumPy does not use ({info.filename}).")
    return info


def _ndim(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """Return how many dimensions an array has, from its header alone."""
    with archive.open(_checked(path, info)) as member:
        try:
            return len(read_array_header(path, member).shape)
        except ValueError:
            return 0  # not an array

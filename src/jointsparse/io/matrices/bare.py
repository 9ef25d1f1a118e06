"""Bare arrays: NumPy and Matrix Market files."""

from __future__ import annotations

import io
import math
import os
import zipfile
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from jointsparse.io.columns.layout import Layout
from jointsparse.io.errors import listed, reading, shown, table_error
from jointsparse.io.formats import open_input
from jointsparse.io.limits import NAME_BYTES, check_memory, read_bounded
from jointsparse.io.matrices.npy import read_array, read_array_header
from jointsparse.io.table import Table, check_shape, distinct
from jointsparse.numerics.sparse import canonical

_ENTRY_BYTES = 48  # row, column and value of a sparse entry, as they are read and once sorted


def read_matrix(path: Path, kind: str, layout: Layout, memory: int) -> Table:
    """Read a format of bare arrays, with the arrays of labels and names of an .npz file."""
    found = Arrays(None)
    with reading(path), open_input(path) as stream:
        if kind == "npz":
            found = read_npz(path, stream, layout, memory)
        elif kind == "npy":
            packed = path.suffix.lower() == ".gz"
            held = None if packed else os.fstat(stream.fileno()).st_size
            found = Arrays(read_array(path, stream, held, memory))
        else:
            found = Arrays(read_market(path, stream, memory))
    values = as_numbers(path, found.values)
    rows, width = values.shape
    names = made_up_names(path, width, memory) if found.names is None else found.names
    names, notes = distinct(names)
    for name, column in found.aside.items():
        if column.shape != (rows,):
            raise table_error(path, f"has labels {name} of shape {column.shape} for {rows} rows.")
    ids = {name: column for name, column in found.aside.items() if name in layout.ids}
    labels = {name: column for name, column in found.aside.items() if name not in ids}
    first = layout.label if layout.label in labels else next(iter(labels), None)
    chosen = None if first is None else labels.pop(first)
    return Table(values, names, chosen, first, notes, ids, labels)


def as_numbers(path: Path, values: Any) -> Any:
    """Return a matrix in a type that the methods take; refuse what is none."""
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        kind = f"an array of shape {values.shape} and type {values.dtype}"
        raise table_error(path, f"holds {kind}; a two-dimensional array of real numbers is needed.")
    check_shape(path, *values.shape)
    dtype = values.dtype.newbyteorder("=")
    if dtype.kind in "bf" and dtype != np.float32:
        dtype = np.dtype(np.uint8 if dtype.kind == "b" else np.float64)
    with reading(path):
        return values.astype(dtype, copy=False)


def made_up_names(path: Path, width: int, memory: int) -> list[str]:
    """Return names for columns that have none: x1, x2, …."""
    check_memory(path, f"names of {width} columns", NAME_BYTES * width, memory)
    return [f"x{j:0{len(str(width))}d}" for j in range(1, width + 1)]


def read_market(path: Path, stream: IO[bytes], memory: int) -> Any:
    """Return the matrix of a Matrix Market file: an array, or a CSR array."""
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
    values = scipy.io.mmread(io.BytesIO(text), spmatrix=False)
    return canonical(sparse.csr_array(values)) if sparse.issparse(values) else values


class Arrays(NamedTuple):
    """What a file of arrays holds.

    Attributes
    ----------
    values : ndarray or sparse matrix
        The matrix.
    names : list of str or None
        Names of its columns.
    aside : dict of str to ndarray
        Arrays with an entry for each row: labels and names of the samples.
    """

    values: Any
    names: list[str] | None = None
    aside: dict[str, Any] = {}  # noqa: RUF012 - never changed


def read_npz(path: Path, stream: IO[bytes], layout: Layout, memory: int) -> Arrays:
    """Return the matrix of an archive, with labels and names."""
    with zipfile.ZipFile(stream) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        left = memory

        def read(name: str) -> Any:
            nonlocal left
            info = _checked(path, members[name])
            with archive.open(info) as member:
                values = read_array(path, member, info.file_size, left, name)
            left -= values.nbytes
            return values

        found = list(members)
        if {"format", "shape", "data"} <= set(found):
            return Arrays(_scipy_matrix(path, found, read))
        values = read(_matrix_in(path, archive, members, layout.dataset))
        wanted = [name for name in layout.carried if name in found]
        if not layout.labels and "y" in found and layout.dataset != "y":
            wanted.append("y")
        aside = {name: read(name) for name in wanted}
        if "feature_names" not in found:
            return Arrays(values, None, aside)
        names = read("feature_names")
        if values.ndim == 2 and names.shape != values.shape[1:]:
            count = math.prod(names.shape)
            raise table_error(
                path, f"has {count} feature_names for {values.shape[1]} columns of X."
            )
        return Arrays(values, names.astype(str).tolist(), aside)


def _matrix_in(
    path: Path, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], wanted: str | None
) -> str:
    """Return which array of an archive is the table."""
    if wanted is not None:
        if wanted in members:
            return wanted
        raise table_error(path, f"has no array {shown(wanted)}; it has {listed(list(members))}.")
    flat = ["X"]
    if "X" not in members:
        flat = [name for name, info in members.items() if _ndim(path, archive, info) == 2]
    if len(flat) == 1:
        return flat[0]
    having = f"needs an array X or exactly one 2-D array; it has {listed(list(members))}."
    if not flat:
        raise table_error(path, having)
    raise table_error(
        path,
        f"{having} Say which one with ",
        f"dataset={flat[0]!r}.",
        f"--dataset {shown(flat[0])}.",
    )


def _scipy_matrix(path: Path, found: list[str], read: Any) -> Any:
    """Return a matrix that ``scipy.sparse.save_npz`` wrote."""
    from scipy import sparse

    kind = read("format").item()
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    shape = tuple(int(count) for count in read("shape"))
    if kind in ("csr", "csc") and {"indices", "indptr"} <= set(found):
        make = sparse.csr_array if kind == "csr" else sparse.csc_array
        matrix = make((read("data"), read("indices"), read("indptr")), shape=shape)
    elif kind == "coo" and {"row", "col"} <= set(found):
        matrix = sparse.coo_array((read("data"), (read("row"), read("col"))), shape=shape)
    else:
        raise table_error(
            path, f"holds a sparse matrix in the form {shown(kind)}; save it as CSR: X.tocsr()."
        )
    return sparse.csr_array(canonical(matrix))  # which looks at the indices first


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

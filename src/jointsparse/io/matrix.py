"""Bare arrays: NumPy and Matrix Market files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from jointsparse.io.errors import listed, reading, table_error
from jointsparse.io.formats import open_input
from jointsparse.io.table import Table, check_shape, distinct, find_label


def read_matrix(path: Path, kind: str, label: str | None) -> Table:
    """Read a format of bare arrays; a label may also be one of their made-up column names."""
    labels, label_name, names = None, None, None
    with reading(path), open_input(path) as stream:
        if kind == "npz":
            values, labels, label_name, names = _read_npz(path, stream, label)
        elif kind == "npy":
            values = np.lib.format.read_array(stream, allow_pickle=False)
        else:
            import scipy.io
            from scipy import sparse

            # A zero byte, or no line end after the last value, can crash the parser.
            text = stream.read()
            if b"\0" in text:
                raise table_error(path, "is damaged: there is a zero byte in its text.")
            values = scipy.io.mmread(io.BytesIO(text + b"\n"))
            values = sparse.csr_array(values) if sparse.issparse(values) else values
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        held = f"an array of shape {values.shape} and type {values.dtype}"
        raise table_error(path, f"holds {held}; a two-dimensional array of real numbers is needed.")
    rows, width = values.shape
    dtype = values.dtype.newbyteorder("=")
    if dtype.kind in "bf" and dtype != np.float32:
        dtype = np.dtype(np.uint8 if dtype.kind == "b" else np.float64)
    values = values.astype(dtype, copy=False)
    if names is None:
        names = [f"x{j:0{len(str(width))}d}" for j in range(1, width + 1)]
    if len(names) != width:
        raise table_error(path, f"has {len(names)} feature_names for {width} columns of X.")
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


def _read_npz(path: Path, stream: BinaryIO, label: str | None) -> tuple[Any, Any, str | None, Any]:
    """Return the matrix, the labels, their array's name and the column names."""
    archive = np.lib.npyio.NpzFile(stream, allow_pickle=False)
    found = archive.files
    flat = ["X"] if "X" in found else [name for name in found if np.ndim(archive[name]) == 2]
    if len(flat) != 1:
        raise table_error(
            path, f"needs an array X or exactly one 2-D array; it has {listed(found)}."
        )
    label_name = label if label in found else "y" if "y" in found else None
    labels = None if label_name is None else np.asarray(archive[label_name])
    names = archive["feature_names"].astype(str).tolist() if "feature_names" in found else None
    return np.asarray(archive[flat[0]]), labels, label_name, names

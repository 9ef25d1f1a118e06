"""Folders of 10x Genomics: a Matrix Market file with its features and barcodes beside it."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from jointsparse.io.columns.layout import Layout
from jointsparse.io.errors import reading, table_error
from jointsparse.io.formats import open_input
from jointsparse.io.limits import read_bounded
from jointsparse.io.matrices.annotated import BARCODES
from jointsparse.io.matrices.bare import read_market
from jointsparse.io.table import Table, distinct
from jointsparse.io.versions import Versions

_MATRIX = ("matrix.mtx", "matrix.mtx.gz")
_FEATURES = ("features.tsv", "features.tsv.gz", "genes.tsv", "genes.tsv.gz")
_CELLS = ("barcodes.tsv", "barcodes.tsv.gz")
_NAME = 1  # column of the features that has their names; the one before has their accessions


def is_market_folder(path: Path) -> bool:
    """Whether a path is a folder with a matrix, its features and its barcodes."""
    return path.is_dir() and all(_there(path, names) for names in (_MATRIX, _FEATURES, _CELLS))


def read_market_folder(path: Path, layout: Layout, memory: int) -> Table:
    """Read a folder; the matrix in it has the features in rows, and is turned.

    ``transpose`` takes it as it is.
    """
    files = [path / str(_there(path, names)) for names in (_MATRIX, _FEATURES, _CELLS)]
    versions = Versions(files)
    with reading(files[0]), open_input(files[0]) as stream:
        values = read_market(files[0], stream, memory)
    features = _column(files[1], _NAME, memory)
    cells = _column(files[2], 0, memory)
    versions.check()
    values = values if layout.transpose else values.T.tocsr()
    if layout.transpose:
        features, cells = cells, features
    if values.shape != (len(cells), len(features)):
        raise table_error(
            path,
            f"does not fit together: a matrix of shape {values.shape[::-1]}, {len(features)} "
            f"features and {len(cells)} barcodes.",
        )
    names, notes = distinct(features)
    return Table(values, names, notes=notes, ids={BARCODES: np.array(cells, dtype=str)})


def _there(path: Path, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if (path / name).is_file()), None)


def _column(path: Path, wanted: int, memory: int) -> list[str]:
    """Return a column of a small table without a header; the last where there are fewer."""
    with reading(path), open_input(path) as stream:
        text = io.StringIO(read_bounded(path, stream, memory).decode())
        rows = [row for row in csv.reader(text, delimiter="\t", quoting=csv.QUOTE_NONE) if row]
    return [row[min(wanted, len(row) - 1)] for row in rows]

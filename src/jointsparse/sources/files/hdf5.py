"""Matrices in HDF5 files, all of whose numbers are in the file itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jointsparse.io.columns.layout import Layout
from jointsparse.io.matrices.annotated import AnnotatedFile, DenseRows
from jointsparse.io.versions import Versions
from jointsparse.sources.base import Source
from jointsparse.sources.files.annotated import AnnotatedSource
from jointsparse.sources.files.stored import ChunkedSource

SUFFIXES = (".h5", ".hdf5", ".he5")


def open_hdf5(path: Path, layout: Layout) -> Source:
    """Open a matrix in an HDF5 file.

    Links to other files are not followed, and matrices made of parts of other files are refused:
    those could be any files, pipes and devices among them, and change unnoticed.

    Parameters
    ----------
    path : Path
        The file.
    layout : Layout
        Which matrix, and what goes along with the samples.
    """
    opened = AnnotatedFile(path, layout)
    if opened.names is None and isinstance(opened.matrix, DenseRows):
        return ChunkedSource(opened.matrix.dataset, str(path), opened.versions)
    return AnnotatedSource(opened, layout)


def source_of_dataset(dataset: Any) -> ChunkedSource:
    """Return the source of a dataset that was opened elsewhere.

    Where it was opened for reading only, its file must not change.
    """
    path = Path(dataset.file.filename)
    if dataset.file.mode == "r" and path.is_file():
        return ChunkedSource(dataset, watched=Versions([path]))
    return ChunkedSource(dataset)

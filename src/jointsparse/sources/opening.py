"""Anything that holds samples becomes a source."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jointsparse.io.budget import parse_size
from jointsparse.io.columns.layout import Layout, Names
from jointsparse.io.errors import StrPath, listed, table_error
from jointsparse.io.formats import kind_of
from jointsparse.io.matrices.annotated import choose
from jointsparse.io.versions import Versions, check_plain
from jointsparse.sources.base import Source
from jointsparse.sources.dask.blocks import is_frame
from jointsparse.sources.dask.source import DaskSource, is_dask
from jointsparse.sources.door import as_samples, cure, is_annotated, is_labelled, labels_of
from jointsparse.sources.files import hdf5, zarr_folder
from jointsparse.sources.files.annotated import AnnotatedSource
from jointsparse.sources.files.arrow import ArrowSource
from jointsparse.sources.files.npy import NpyFile
from jointsparse.sources.files.stored import ChunkedSource
from jointsparse.sources.files.transposed import TransposedSource
from jointsparse.sources.frames import column_names
from jointsparse.sources.in_memory import ArraySource
from jointsparse.sources.lazy import LazySource, is_lazy

# Packages whose arrays are read chunk by chunk, and what makes sources of them.
_STORED = {"zarr": zarr_folder.source_of_array, "h5py": hdf5.source_of_dataset}


def open_source(
    path: StrPath,
    *,
    columns: Sequence[str] | None = None,
    label: Names = None,
    ids: Names = None,
    find_ids: bool = True,
    drop: Names = None,
    only: Names = None,
    drop_text: bool = False,
    transpose: bool = False,
    decimal: str | None = None,
    encoding: str | None = None,
    dataset: str | None = None,
    memory: int | str | None = None,
) -> Source:
    """Open samples that need not fit in memory.

    Parameters
    ----------
    path : path-like
        A Parquet, Arrow, CSV or TSV file (text also .gz), a folder of such files, an .npy file, a
        Zarr array (a folder .zarr), an HDF5 file or an AnnData file (.h5ad).
    columns : sequence of str, optional
        Columns to read, of a table; all that are there by default.
    label, ids : str or sequence of str, optional
        Columns that are no features and go along with the samples.
    find_ids : bool, default=True
        Also take columns as IDs that seem to be, by their first rows, as in ``read_table``.
    drop, only : str or sequence of str, optional
        Names, or patterns with ``*`` and ``?``, of columns that are no part of the table, and of
        the only ones that are.
    drop_text : bool, default=False
        Leave columns of numbers with text in some cells out instead of refusing them.
    transpose : bool, default=False
        Whether the features are in the rows; for arrays alone (.npy, Zarr, HDF5), which are then
        read in blocks of columns.
    decimal, encoding : str, optional
        What stands before decimals in text, and how its characters are written; the text tells.
    dataset : str, optional
        Name of the array within an HDF5 file or a Zarr group, or of the layer of an AnnData file;
        needed where there are several.
    memory : int or str, optional
        How much a computation may take, in bytes or as "1GB"; half of what is free by default.

    Returns
    -------
    Source
        Estimators take it in place of an array.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> from jointsparse import GreedySelector, open_source
    >>> X = np.random.default_rng(0).standard_normal((1000, 5)) * [1, 2, 3, 4, 5]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(pathlib.Path(folder) / "big.npy", X)
    ...     samples = open_source(pathlib.Path(folder) / "big.npy", memory="100MB")
    ...     GreedySelector(n_features_to_select=2).fit(samples).get_support().tolist()
    [False, False, False, True, True]
    """
    layout = Layout.of(
        label=label,
        ids=ids,
        find_ids=find_ids,
        drop=drop,
        only=only,
        drop_text=drop_text,
        transpose=transpose,
        decimal=decimal,
        encoding=encoding,
        dataset=dataset,
    )
    return open_with(Path(path), layout, columns=columns, memory=memory)


def open_with(
    path: Path,
    layout: Layout,
    *,
    columns: Sequence[str] | None = None,
    memory: int | str | None = None,
) -> Source:
    """Open samples with a layout in place of single parameters."""
    check_plain(path)
    if not path.exists():
        raise table_error(path, "does not exist.")
    allowed = None if memory is None else parse_size(memory)
    source = _open_array(path, layout)
    if source is None:
        files, kind = _files(path)
        if layout.transpose:
            raise table_error(
                path,
                "cannot be transposed in blocks, since it is stored row by row; allow more memory, "
                "or save it as .npy, HDF5 or Zarr.",
            )
        source = ArrowSource(files, kind, str(path), columns=columns, layout=layout, memory=allowed)
    elif isinstance(source, AnnotatedSource) and source.feature_names is not None:
        source = source.chosen(columns)
    elif columns is not None or layout.carried or layout.drop or layout.only:
        raise table_error(path, "has no column names, so no column can be named.")
    if layout.transpose:
        source = TransposedSource(source)
    source.memory = allowed
    return source


def as_source(X: Any, advice: Callable[[], str] = cure) -> Source:
    """Return samples of any kind as a source.

    Parameters
    ----------
    X : array-like, frame, sparse matrix, memmap, Dask collection, path, stored array or Source
        Arrays are checked, not copied; paths are opened; a source is returned as it is.
    advice : callable
        Says what to do about missing values of arrays.
    """
    if isinstance(X, Source):
        return X
    if isinstance(X, str | os.PathLike):
        return open_source(X)
    if _is_stored(X):
        return _STORED[_package(X)](X)
    if is_lazy(X):
        return LazySource(X)
    if _is_backed(X):
        return open_source(X.filename)
    if is_labelled(X) and is_dask(X.data):
        return DaskSource(X.data, labels_of(X))
    if is_dask(X):
        source = DaskSource(X, column_names(X) if is_frame(X) else None)
        if source.n_features == 0:
            raise ValueError("the Dask collection has no columns; at least one is needed")
        return source
    return ArraySource(*as_samples(X, advice=advice))


def is_streamed(X: Any) -> bool:
    """Whether samples come from a source (or what becomes one), not from an array."""
    if isinstance(X, Source | str | os.PathLike) or _is_stored(X) or is_dask(X) or is_lazy(X):
        return True
    return _is_backed(X) or (is_labelled(X) and is_dask(X.data))


def _is_backed(X: Any) -> bool:
    """Whether something is an AnnData object whose matrix is in a file, and all of that."""
    # Not whether it is true: things of Dask that are not computed have every attribute.
    return is_annotated(X) and getattr(X, "isbacked", False) is True and not X.is_view


def _is_stored(X: Any) -> bool:
    return _package(X) in _STORED


def _package(X: Any) -> str:
    return type(X).__module__.partition(".")[0]


def _files(path: Path) -> tuple[list[Path], str]:
    """Return the files of a table, in the order of their names, and their kind."""
    if path.is_dir():
        inside = sorted(path.rglob("*"))
        # Marks and indexes that writers leave beside the data begin so.
        files = [file for file in inside if not file.is_dir() and file.name[0] not in "._"]
        for file in files:
            if not file.is_file():  # left out, the table would lack a part without a word
                raise table_error(file, "is a device, a pipe or a broken link, not a file.")
        if not files:
            raise table_error(path, "is a folder without a file in it.")
    else:
        files = [path]
    kinds = {kind_of(file): file.name for file in files}
    if len(kinds) > 1:
        raise table_error(path, f"holds files of several kinds: {listed(list(kinds.values()))}.")
    kind = next(iter(kinds))
    if kind in ("npz", "mtx", "npy", "sheet", "h5ad", "hdf5"):
        what = "a folder of arrays" if path.is_dir() else "a format that is read as a whole"
        raise table_error(path, f"is {what}; only tables and .npy files are read in blocks.")
    return files, kind


def _open_array(path: Path, layout: Layout) -> Source | None:
    """Open a bare or annotated array; None where the path is a table."""
    if path.suffix.lower() in (".h5ad", *hdf5.SUFFIXES):
        return hdf5.open_hdf5(path, layout)
    if zarr_folder.is_zarr(path):
        return zarr_folder.open_zarr(path, partial(choose, path, layout.dataset))
    if path.suffix.lower() != ".npy":
        return None
    versions = Versions([path])
    return ChunkedSource(NpyFile(path), str(path), versions)

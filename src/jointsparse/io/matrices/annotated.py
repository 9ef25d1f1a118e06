"""Annotated matrices in HDF5 files: AnnData (.h5ad), 10x Genomics (.h5) and plain datasets.

Nothing but what is asked for is read: names, then rows. Only what is in the file itself is
followed: links to other files are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from jointsparse.io.columns.layout import Layout
from jointsparse.io.errors import listed, reading, shown, table_error
from jointsparse.io.limits import NAME_BYTES, check_memory, check_possible
from jointsparse.io.matrices.bare import as_numbers
from jointsparse.io.table import Table, distinct
from jointsparse.io.versions import Versions

BARCODES, CELLS = "barcode", "cell"  # what the names of the samples are called
_SCANNED = 1 << 22  # entries of a matrix stored by columns that are looked at at a time
ENTRY_BYTES = 36  # of a stored entry as it is read, as float64, and in order
# Bytes of unpacked chunks that HDF5 keeps of every dataset. Rows are read in order, so that only
# the last chunk of a block is needed again; HDF5 2.0 would keep eight times as much.
CACHE_BYTES = 1 << 20
_BEGINNINGS = 1 << 16  # rows whose beginnings are looked at at a time


class Stored(Protocol):
    """A matrix in a file: rows are read when they are asked for."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @property
    def entries(self) -> int | None:
        """How many entries are stored; None of a dense matrix."""

    @property
    def chunk_bytes(self) -> int:
        """Bytes that are unpacked at a time, whatever is asked for."""

    @property
    def held_bytes(self) -> int:
        """Bytes that stay in memory: unpacked chunks, and where columns begin."""

    def rows(self, start: int, stop: int) -> Any:
        """Return some consecutive rows."""


class DenseRows:
    """A dense dataset."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.shape, self.dtype = dataset.shape, dataset.dtype

    @property
    def entries(self) -> int | None:
        """None: all are stored."""
        return None

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk."""
        return _chunk_bytes(self.dataset)

    @property
    def held_bytes(self) -> int:
        """Bytes of unpacked chunks."""
        return _cached_bytes(self.dataset)

    def rows(self, start: int, stop: int) -> Any:
        """Return some consecutive rows."""
        return self.dataset[start:stop]


class _Sparse:
    """A sparse matrix in a file, stored row by row or column by column.

    Parameters
    ----------
    data, indices : datasets
        Values of the entries, and their columns or rows.
    indptr : dataset
        Where each row, or column, begins.
    shape : tuple of int
        Number of rows and of columns.
    """

    _along = 0  # the axis that it is stored along

    def __init__(self, data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> None:
        self._data, self._indices, self._indptr = data, indices, self._at_hand(indptr)
        self.shape, self.dtype = shape, data.dtype
        _check_parts(data, indices, self._indptr, shape[self._along])
        self._stored = int(self._indptr[-1])

    def _at_hand(self, indptr: Any) -> Any:
        """Return where rows or columns begin, as it is looked at many times."""
        return indptr[()]

    @property
    def entries(self) -> int | None:
        """How many entries are stored."""
        return self._stored

    @property
    def chunk_bytes(self) -> int:
        """Bytes of chunks of values and of indices."""
        return _chunk_bytes(self._data) + _chunk_bytes(self._indices)

    @property
    def held_bytes(self) -> int:
        """Bytes of unpacked chunks, and of where rows or columns begin."""
        begin = self._indptr
        held = int(begin.nbytes) if isinstance(begin, np.ndarray) else _cached_bytes(begin)
        return held + _cached_bytes(self._data) + _cached_bytes(self._indices)


class SparseRows(_Sparse):
    """A sparse matrix that is stored row by row.

    Where its rows begin is read some rows at a time: there may be many millions.
    """

    def _at_hand(self, indptr: Any) -> Any:
        # A chunk that is not kept would be unpacked again for every block.
        return indptr if _chunk_bytes(indptr) <= CACHE_BYTES else indptr[()]

    def rows(self, start: int, stop: int) -> Any:
        """Return some consecutive rows as a CSR matrix."""
        from scipy import sparse

        from jointsparse.numerics.sparse import canonical

        bounds = self._indptr[start : stop + 1]
        part = slice(int(bounds[0]), int(bounds[-1]))
        found = (self._data[part], self._indices[part], bounds - bounds[0])
        return canonical(sparse.csr_array(found, shape=(len(bounds) - 1, self.shape[1])))

    def ends(self, most: int) -> list[int]:
        """Return where blocks of rows end that hold about as many entries each."""
        marks = np.arange(most, self._stored, most)
        ends = {self.shape[0]}
        for first, begin in _beginnings(self._indptr):
            here = slice(*np.searchsorted(marks, (int(begin[0]), int(begin[-1]))))
            found = first + np.searchsorted(begin, marks[here], side="right") - 1
            ends.update(map(int, found[found > 0]))
        return sorted(ends)


class SparseColumns(_Sparse):
    """A sparse matrix that is stored column by column: rows take a look at every entry."""

    _along = 1

    def rows(self, start: int, stop: int) -> Any:
        """Return some consecutive rows as a CSR matrix."""
        from scipy import sparse

        from jointsparse.numerics.sparse import canonical

        stop = min(stop, self.shape[0])
        rows, columns, values = [], [], []
        for first in range(0, int(self._indptr[-1]), _SCANNED):
            part = slice(first, min(first + _SCANNED, int(self._indptr[-1])))
            found = self._indices[part]
            here = (found >= start) & (found < stop)
            places = first + np.flatnonzero(here)
            rows.append(found[here] - start)
            columns.append(np.searchsorted(self._indptr, places, side="right") - 1)
            values.append(self._data[part][here])
        shape = (stop - start, self.shape[1])
        if not rows:
            return sparse.csr_array(shape, dtype=self.dtype)
        joined = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
        return canonical(sparse.coo_array(joined, shape=shape))


class AnnotatedFile:
    """A matrix in an HDF5 file, with names of its features and what is known about its samples.

    Parameters
    ----------
    path : Path
        The file.
    layout : Layout
        Which layer or dataset; which columns go along with the samples.
    """

    def __init__(self, path: Path, layout: Layout) -> None:
        try:
            import h5py
        except ImportError:
            raise table_error(path, "needs h5py: pip install 'jointsparse[hdf5]'.") from None
        self.path = path
        self.versions = Versions([path])
        self.names: list[str] | None = None
        self.id_names: tuple[str, ...] = ()
        self._ids: dict[str, Any] = {}  # what is stored: names of samples are read when asked for
        self.notes: list[str] = []
        self._about: Any = None  # the group of what is known about the samples
        with reading(path):
            self._file = h5py.File(path, "r", rdcc_nbytes=CACHE_BYTES)
            if "obs" in self._file and "var" in self._file:
                self._open_anndata(layout.dataset)
            elif _is_tenx(self._file):
                self._open_tenx(self._file["matrix"])
            else:
                self._open_plain(layout.dataset)
            self._check(layout)

    def _open_anndata(self, layer: str | None) -> None:
        file, var = self._file, "var"
        layers = [name for name in file.get("layers", {}) if name != ""]
        known = [*(["X"] if "X" in file else []), *layers, *(["raw"] if "raw" in file else [])]
        wanted = layer or "X"
        if wanted not in known:
            raise table_error(
                self.path,
                f"has no layer {shown(wanted)}; it has {listed(known)}: name one ",
                "as dataset.",
                "with --dataset.",
            )
        if wanted == "raw":
            stored, var = self._inside(file, "raw/X"), "raw/var"
        else:
            stored = self._inside(file, "X" if wanted == "X" else f"layers/{wanted}")
        self.matrix = self._matrix(stored)
        self.names = [str(name) for name in self._index(self._inside(file, var))]
        self._about = self._inside(file, "obs")
        self._ids = {CELLS: self._about}
        self.id_names = (CELLS,)
        if known[1:] and layer is None:
            self.notes.append(f"read X; the file also has {listed(known[1:])}")

    def _open_tenx(self, group: Any) -> None:
        """Open a matrix of 10x Genomics: features by cells, one cell after another."""
        features, cells = (int(count) for count in self._inside(group, "shape")[()])
        data, indices = self._inside(group, "data"), self._inside(group, "indices")
        indptr = self._inside(group, "indptr")
        self.matrix = SparseRows(data, indices, indptr, (cells, features))
        self.names = _texts(self._inside(self._inside(group, "features"), "name")).tolist()
        self._ids = {BARCODES: self._inside(group, "barcodes")}
        self.id_names = (BARCODES,)

    def _open_plain(self, wanted: str | None) -> None:
        found: list[str] = []

        def note(name: str, item: Any) -> None:
            if len(getattr(item, "shape", None) or ()) == 2:
                found.append(name)

        self._file.visititems(note)
        chosen = choose(self.path, wanted, found)
        self.matrix = self._matrix(self._file[chosen])

    def _matrix(self, stored: Any) -> Stored:
        if hasattr(stored, "shape"):
            self._refuse_elsewhere(stored)
            if len(stored.shape) != 2 or stored.dtype.kind not in "biuf":
                kind = f"an array of shape {stored.shape} and type {stored.dtype}"
                raise table_error(self.path, f"holds {kind}; a matrix of real numbers is needed.")
            return DenseRows(stored)
        kind = stored.attrs.get("encoding-type", stored.attrs.get("h5sparse_format", ""))
        shape = stored.attrs.get("shape", stored.attrs.get("h5sparse_shape"))
        kind = kind.decode() if isinstance(kind, bytes) else str(kind)
        if kind[:3] not in ("csr", "csc") or shape is None:
            raise table_error(self.path, f"holds X in the form {shown(kind)}, not a matrix.")
        parts = self._inside(stored, "data"), self._inside(stored, "indices")
        indptr = self._inside(stored, "indptr")
        rows, columns = (int(count) for count in shape)
        make = SparseRows if kind.startswith("csr") else SparseColumns
        return make(*parts, indptr, (rows, columns))

    def _inside(self, group: Any, name: str) -> Any:
        """Return what is in a group of this file; refuse links to other files."""
        for part in name.split("/"):
            link = group.get(part, getlink=True)
            if link is None:
                raise table_error(self.path, f"is damaged: {shown(name)} is not in it.")
            if type(link).__name__ != "HardLink":
                raise table_error(
                    self.path, f"keeps {shown(name)} elsewhere; only what is in the file is read."
                )
            group = group[part]
        self._refuse_elsewhere(group)
        return group

    def _refuse_elsewhere(self, stored: Any) -> None:
        if getattr(stored, "is_virtual", False) or getattr(stored, "external", None):
            raise table_error(
                self.path,
                f"keeps the numbers of {shown(stored.name)} in other files; copy them into one "
                "file first, for example with h5repack.",
            )

    def _index(self, frame: Any) -> np.ndarray:
        """Return the names of the rows of a stored data frame."""
        if hasattr(frame, "dtype"):  # as versions of AnnData before 0.7 wrote it
            return frame.fields(frame.dtype.names[0])[()].astype(str)
        return self._column(frame, self._index_name(frame))

    def _index_name(self, frame: Any) -> str:
        name = frame.attrs.get("_index", "_index")
        return name.decode() if isinstance(name, bytes) else str(name)

    def _count(self, stored: Any) -> int:
        """Return how many names there are, of which none is read."""
        if hasattr(stored, "keys"):
            stored = self._inside(stored, self._index_name(stored))
            if hasattr(stored, "keys"):  # categories, or text with holes
                stored = self._inside(stored, "codes" if "codes" in stored else "values")
        return int(stored.shape[0]) if len(stored.shape) == 1 else -1

    def _column(self, frame: Any, name: str) -> np.ndarray:
        """Return a column of a stored data frame; what is missing in text is the empty string."""
        stored = self._inside(frame, name)
        if hasattr(stored, "shape"):
            return stored[()] if stored.dtype.kind in "biuf" else _texts(stored)
        if "categories" in stored:
            codes = self._inside(stored, "codes")[()]
            values = self._column(stored, "categories").astype(str)
            return np.where(codes < 0, "", values[np.maximum(codes, 0)])
        values, mask = self._column(stored, "values"), self._inside(stored, "mask")[()]
        if values.dtype.kind in "biuf":
            return np.where(mask, np.nan, values) if mask.any() else values
        return np.where(mask, "", values)

    def knows(self, name: str) -> bool:
        """Whether a column is known about the samples."""
        if name in self._ids:
            return True
        return self._about is not None and hasattr(self._about, "keys") and name in self._about

    def about(self, name: str) -> np.ndarray | None:
        """Return a column of what is known about the samples; None where there is none."""
        if name in self._ids:
            stored = self._ids[name]
            with reading(self.path):
                return self._index(stored) if stored is self._about else _texts(stored)
        if not self.knows(name):
            return None
        with reading(self.path):
            return self._column(self._about, name)

    def _check(self, layout: Layout) -> None:
        rows, columns = self.matrix.shape
        check_possible(self.path, self.matrix.shape, 1)
        if self.names is not None and len(self.names) != columns:
            raise table_error(
                self.path, f"is damaged: it has {len(self.names)} names for {columns} columns."
            )
        for name, stored in self._ids.items():
            if (count := self._count(stored)) != rows:
                raise table_error(
                    self.path, f"is damaged: it has {max(count, 0)} {name}s for {rows} rows."
                )
        for name in layout.carried:
            known = [] if self._about is None else list(self._about)
            if not self.knows(name) and name not in (self.names or ()):
                from jointsparse.io.columns.roles import find_column

                parameter = "ids" if name in layout.ids else "label"
                option = "--id" if name in layout.ids else "--label"
                find_column(self.path, name, [*known, *self.id_names], parameter, option)


def choose(path: Path, wanted: str | None, found: list[str]) -> str:
    """Return which of several matrices of a file to take."""
    if wanted is None and len(found) == 1:
        return found[0]
    if wanted in found:
        return str(wanted)
    said = "" if wanted is None else f" none of them is {wanted};"
    sentence = f"holds the matrices {listed(found)};{said} name one "
    raise table_error(path, sentence, "as dataset.", "with --dataset.")


def read_annotated(path: Path, layout: Layout, memory: int) -> Table:
    """Read all of a matrix in an HDF5 file, with names and what goes along with the samples."""
    opened = AnnotatedFile(path, layout)
    rows, columns = opened.matrix.shape
    entries = opened.matrix.entries
    needed = 16 * rows * columns if entries is None else ENTRY_BYTES * entries
    check_memory(path, f"its {rows} rows and {columns} columns", needed, memory)
    check_memory(path, f"names of {columns} columns", NAME_BYTES * columns, memory)
    with reading(path):
        values = as_numbers(path, opened.matrix.rows(0, rows))
    names = opened.names
    if names is None:
        names = [f"x{j:0{len(str(columns))}d}" for j in range(1, columns + 1)]
    names, notes = distinct(names)
    aside = {name: found for name in layout.carried if (found := opened.about(name)) is not None}
    names_of_samples = dict.fromkeys((*opened.id_names, *(n for n in layout.ids if n in aside)))
    ids = {name: found for name in names_of_samples if (found := opened.about(name)) is not None}
    labels = {name: aside[name] for name in layout.labels if name in aside}
    first = layout.label if layout.label in labels else None
    chosen = labels.pop(first) if first is not None else None
    return Table(values, names, chosen, first, [*opened.notes, *notes], ids, labels)


def _chunk_bytes(dataset: Any) -> int:
    """Return the bytes of a chunk as it is unpacked; 0 where nothing is cut into chunks."""
    if dataset.chunks is None:
        return 0
    bounds = zip(dataset.chunks, dataset.shape, strict=True)
    return int(np.prod([min(pair) for pair in bounds])) * int(dataset.dtype.itemsize)


def _cached_bytes(dataset: Any) -> int:
    """Return the bytes of chunks of a dataset that HDF5 keeps, those it has room for."""
    return CACHE_BYTES if 0 < _chunk_bytes(dataset) <= CACHE_BYTES else 0


def _beginnings(indptr: Any) -> Iterator[tuple[int, np.ndarray]]:
    """Yield where rows begin, some at a time; the last of them is the first of the next."""
    for first in range(0, indptr.shape[0] - 1, _BEGINNINGS):
        yield first, np.asarray(indptr[first : first + _BEGINNINGS + 1])


def _is_tenx(file: Any) -> bool:
    group = file.get("matrix")
    return hasattr(group, "keys") and {"barcodes", "features", "indptr", "shape"} <= set(group)


def _check_parts(data: Any, indices: Any, indptr: Any, length: int) -> None:
    """Refuse a sparse matrix whose parts do not belong together."""
    if (
        indptr.shape != (length + 1,)
        or indptr.dtype.kind not in "iu"
        or int(indptr[0]) != 0
        or any(np.any(begin[1:] < begin[:-1]) for _, begin in _beginnings(indptr))
        or data.shape != indices.shape
        or int(indptr[-1]) != data.shape[0]
        or data.dtype.kind not in "biuf"
        or indices.dtype.kind not in "iu"
    ):
        raise ValueError("the parts of its sparse matrix do not fit together")


def _texts(stored: Any) -> np.ndarray:
    """Return stored text."""
    values = stored.asstr()[()] if stored.dtype.kind == "O" else stored[()]
    return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values.astype(str)

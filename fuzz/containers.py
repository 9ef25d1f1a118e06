"""Everything that can hold a table: the same numbers in memory, in files, on a cluster.

Whatever holds the numbers, a fit must be that of the dense array of them in double precision, its
*twin*. ``fuzz.twins`` compares the two; this is the list of what is compared.
"""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import scipy.io
from scipy import sparse

from jointsparse.sources import Source, open_source

NAME = "column {}"


@dataclass(frozen=True)
class Container:
    """One way to hold a table.

    Attributes
    ----------
    name : str
        What tests and faults call it.
    make : callable
        ``make(X, folder)`` returns what holds the numbers of a dense array; files are written to
        the folder, which is empty.
    package : str or None
        What has to be installed, besides what the library itself needs.
    single : bool
        Whether it holds the numbers in single precision.
    write : callable or None
        ``write(X, folder)`` returns the path of the file, for the command line; None where it is
        not a file.
    in_python : bool
        Whether an estimator takes it; there are files that only the command line reads.
    scarce : bool
        Whether it allows too little memory for the table, so that a method that looks at all
        samples at once refuses it.
    """

    name: str
    make: Callable[[np.ndarray, Path], Any]
    package: str | None = None
    single: bool = False
    write: Callable[[np.ndarray, Path], Path] | None = None
    in_python: bool = True
    scarce: bool = False

    @property
    def installed(self) -> bool:
        """Whether it can be made here."""
        return self.package is None or find_spec(self.package) is not None

    def values(self, X: np.ndarray) -> np.ndarray:
        """Return the dense array, in double precision, of the numbers that it holds."""
        X = X.astype(np.float32) if self.single else X
        return np.ascontiguousarray(X, dtype=np.float64)


def least_memory(X: np.ndarray) -> int:
    """Return a budget that is too small for a table at once, and large enough for a part of it.

    Of a table with more samples than features the sums just fit, and some rows at a time; of a wide
    one, some columns.
    """
    n_samples, n_features = X.shape
    if n_samples < n_features:
        return 12 * n_samples * n_features
    return 12 * 8 * n_features**2 + 640 * n_features


def rows_beyond(X: np.ndarray) -> int:
    """Return how many rows of a table are more than ``least_memory`` of it holds."""
    return max(X.shape[0], least_memory(X) // (8 * X.shape[1]) + 1)


def close(held: Any) -> None:
    """Close the file of an array that is open."""
    if type(held).__module__.startswith("h5py"):
        held.file.close()


def contents(reduced: Any) -> np.ndarray:
    """Return what ``transform`` gives of any container as an array."""
    if isinstance(reduced, Source):
        reduced = reduced.read()
    if hasattr(reduced, "compute"):
        reduced = reduced.compute()
    if sparse.issparse(reduced):
        reduced = reduced.toarray()
    array = np.asarray(reduced)
    return array.astype(np.float64) if array.dtype == object else array


def same_content(before: Any, after: Any) -> bool:
    """Whether an array or a sparse matrix is what it was, entry by stored entry."""
    if not sparse.issparse(before):
        one, other = np.asarray(before), np.asarray(after)
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        # A NaN is not equal to itself: neither as a number nor, copied, among Python objects.
        return bool(np.all((one == other) | ((one != one) & (other != other))))
    if before.format in ("csr", "csc", "bsr"):
        parts = ("data", "indices", "indptr")
        pairs = [(getattr(before, part), getattr(after, part)) for part in parts]
        return all(same_content(one, other) for one, other in pairs)
    one, other = before.tocoo(), after.tocoo()
    return one.nnz == other.nnz and same_content(one.toarray(), other.toarray())


# --- arrays ---------------------------------------------------------------------------------------


def _read_only(X: np.ndarray, folder: Path) -> Any:
    X = X.copy()
    X.setflags(write=False)
    return X


def _every_second(X: np.ndarray, folder: Path) -> Any:
    """Numbers with others between them, which must not be looked at."""
    n, p = X.shape
    around = np.empty((2 * n, 3 * p), X.dtype)
    around.fill(1 if X.dtype == bool else 99)
    around[::2, 1::3] = X
    return around[::2, 1::3]


def _backwards(X: np.ndarray, folder: Path) -> Any:
    return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]


def _masked(X: np.ndarray, folder: Path) -> Any:
    """No entry is masked, but each could be."""
    return np.ma.MaskedArray(X, mask=np.zeros(X.shape, bool))


def _memmap(X: np.ndarray, folder: Path) -> Any:
    stored = np.memmap(folder / "x.bin", dtype=X.dtype, mode="w+", shape=X.shape)
    stored[:] = X
    stored.flush()
    return np.memmap(folder / "x.bin", dtype=X.dtype, mode="r", shape=X.shape)


def _tensor(dtype: str | None) -> Callable[[np.ndarray, Path], Any]:
    def make(X: np.ndarray, folder: Path) -> Any:
        import torch

        return torch.from_numpy(np.ascontiguousarray(X if dtype is None else X.astype(dtype)))

    return make


def _transposed_tensor(X: np.ndarray, folder: Path) -> Any:
    return _tensor(None)(np.ascontiguousarray(X.T), folder).T


# --- data frames ----------------------------------------------------------------------------------


def names_of(X: np.ndarray) -> list[str]:
    """Return the names that the columns have where a container has names."""
    return [NAME.format(j) for j in range(X.shape[1])]


def arrow_table(X: np.ndarray) -> pa.Table:
    """Return the table of Apache Arrow, with names."""
    return pa.table({name: X[:, j] for j, name in enumerate(names_of(X))})


def _pandas(X: np.ndarray, folder: Path) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=names_of(X))


def _odd_index(X: np.ndarray, folder: Path) -> Any:
    """Labels of rows that repeat and are in no order."""
    frame = _pandas(X, folder)
    frame.index = (np.arange(len(frame)) * 7) % 5
    return frame


def _nullable(X: np.ndarray, folder: Path) -> Any:
    """The types of pandas that know missing values, which are "Float64" for "float64"."""
    name = X.dtype.name
    title = "boolean" if name == "bool" else name.replace("u", "U").replace("int", "Int")
    return _pandas(X, folder).astype(title.replace("float", "Float"))


def _arrow_typed(X: np.ndarray, folder: Path) -> Any:
    import pandas as pd

    return _pandas(X, folder).astype(pd.ArrowDtype(pa.from_numpy_dtype(X.dtype)))


def _sparse_columns(X: np.ndarray, folder: Path) -> Any:
    import pandas as pd

    return _pandas(X, folder).astype(pd.SparseDtype(X.dtype, X.dtype.type(0)))


def _polars(X: np.ndarray, folder: Path) -> Any:
    import polars as pl

    return pl.DataFrame({name: X[:, j] for j, name in enumerate(names_of(X))})


# --- sparse matrices ------------------------------------------------------------------------------


def _sparse(kind: str, *, matrix: bool = False) -> Callable[[np.ndarray, Path], Any]:
    suffix = "matrix" if matrix else "array"
    make = getattr(sparse, f"{kind}_{suffix}")
    return lambda X, folder: make(X)


def _diagonals(kind: type) -> Callable[[np.ndarray, Path], Any]:
    def make(X: np.ndarray, folder: Path) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sparse.SparseEfficiencyWarning)
            return kind(X)

    return make


def _parts(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the entries that are not 0, every second of them in two parts that add up to it.

    One of the parts is 0, so that their sum is exact whatever the type.
    """
    rows, columns = np.nonzero(X)
    values = X[rows, columns]
    rows, columns = np.append(rows, rows[::2]), np.append(columns, columns[::2])
    return rows, columns, np.append(values, np.zeros_like(values[::2]))


def _halved(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the same with parts that are both of some size where the sum is exact."""
    rows, columns, values = _parts(X)
    first = np.arange(values.size - np.count_nonzero(values == 0)) if values.size else values
    if values.dtype.kind == "f":
        doubled = first[::2].astype(np.intp)
        half = values[doubled] * 0.5
        exact = half + half == values[doubled]
        values[doubled] = np.where(exact, half, values[doubled])
        values[first.size :] = np.where(exact, half, 0)
    return rows, columns, values


def _repeated(kind: str) -> Callable[[np.ndarray, Path], Any]:
    """Entries that occur twice and in no order: their sum counts."""

    def make(X: np.ndarray, folder: Path) -> Any:
        rows, columns, values = _halved(X)
        major, minor = (rows, columns) if kind == "csr" else (columns, rows)
        order = np.random.default_rng(0).permutation(major.size)
        order = order[np.argsort(major[order], kind="stable")]
        starts = np.searchsorted(major[order], np.arange(X.shape[kind != "csr"] + 1))
        make = sparse.csr_array if kind == "csr" else sparse.csc_array
        return make((values[order], minor[order], starts), shape=X.shape)

    return make


def _repeated_coo(X: np.ndarray, folder: Path) -> Any:
    rows, columns, values = _halved(X)
    return sparse.coo_array((values, (rows, columns)), shape=X.shape)


def _unsorted(kind: str) -> Callable[[np.ndarray, Path], Any]:
    def make(X: np.ndarray, folder: Path) -> Any:
        matrix = _sparse(kind)(X, folder)
        for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
            matrix.indices[start:stop] = matrix.indices[start:stop][::-1].copy()
            matrix.data[start:stop] = matrix.data[start:stop][::-1].copy()
        matrix.has_sorted_indices = False
        return matrix

    return make


def _all_stored(kind: str) -> Callable[[np.ndarray, Path], Any]:
    """Zeros are stored as everything else is."""

    def make(X: np.ndarray, folder: Path) -> Any:
        matrix = _sparse(kind)(np.ones(X.shape, X.dtype), folder)
        matrix.data[:] = X.ravel(order="C" if kind == "csr" else "F")
        return matrix

    return make


def _long_indices(kind: str) -> Callable[[np.ndarray, Path], Any]:
    def make(X: np.ndarray, folder: Path) -> Any:
        matrix = _sparse(kind)(X, folder)
        matrix.indices = matrix.indices.astype(np.int64)
        matrix.indptr = matrix.indptr.astype(np.int64)
        return matrix

    return make


# --- files ----------------------------------------------------------------------------------------


def _npy(X: np.ndarray, folder: Path) -> Path:
    np.save(folder / "x.npy", X)
    return folder / "x.npy"


def _fortran_npy(X: np.ndarray, folder: Path) -> Path:
    return _npy(np.asfortranarray(X), folder)


def _big_endian_npy(X: np.ndarray, folder: Path) -> Path:
    return _npy(X.astype(X.dtype.newbyteorder(">")), folder)


def _npz(X: np.ndarray, folder: Path) -> Path:
    np.savez(folder / "x.npz", X=X)
    return folder / "x.npz"


def _market(X: np.ndarray, folder: Path) -> Path:
    numbers = X.astype(np.float64) if X.dtype.kind in "fb" else X  # it knows no logical values
    scipy.io.mmwrite(folder / "x.mtx", sparse.coo_array(numbers), precision=17, symmetry="general")
    return folder / "x.mtx"


def _exact(X: np.ndarray) -> np.ndarray:
    """Return numbers that are written with all their digits, as those of double precision are."""
    return X.astype(np.float64) if X.dtype == np.float32 else X


def _csv(X: np.ndarray, folder: Path) -> Path:
    pyarrow.csv.write_csv(arrow_table(_exact(X)), folder / "x.csv")
    return folder / "x.csv"


def _tsv(X: np.ndarray, folder: Path) -> Path:
    options = pyarrow.csv.WriteOptions(delimiter="\t")
    pyarrow.csv.write_csv(arrow_table(_exact(X)), folder / "x.tsv", options)
    return folder / "x.tsv"


def _csv_folder(X: np.ndarray, folder: Path) -> Path:
    return _folder_of(pyarrow.csv.write_csv, "csv", 2)(_exact(X), folder)


def _packed_csv(X: np.ndarray, folder: Path) -> Path:
    path = _csv(X, folder)
    packed = folder / "x.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()
    return packed


def _folder_of(write: Callable[[pa.Table, Path], None], suffix: str, parts: int) -> Any:
    def make(X: np.ndarray, folder: Path) -> Path:
        place = folder / suffix
        place.mkdir()
        for number, rows in enumerate(np.array_split(np.arange(len(X)), min(parts, len(X)))):
            write(arrow_table(X[rows]), place / f"{number}.{suffix}")
        (place / "_SUCCESS").touch()  # as Spark leaves
        return place

    return make


def _write_parquet(table: pa.Table, path: Path) -> None:
    pa.parquet.write_table(table, path, row_group_size=7)  # which does not agree with the blocks


def _write_arrow(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=11)


def _parquet(X: np.ndarray, folder: Path) -> Path:
    _write_parquet(arrow_table(X), folder / "x.parquet")
    return folder / "x.parquet"


def _arrow(X: np.ndarray, folder: Path) -> Path:
    _write_arrow(arrow_table(X), folder / "x.arrow")
    return folder / "x.arrow"


def _hdf5(X: np.ndarray, folder: Path) -> Path:
    import h5py

    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("samples", data=X, chunks=(min(9, len(X)), X.shape[1]))
    return folder / "x.h5"


def _zarr(X: np.ndarray, folder: Path) -> Path:
    import zarr

    chunks = tuple(min(10, size) for size in X.shape)
    stored = zarr.create_array(folder / "x.zarr", shape=X.shape, dtype=X.dtype, chunks=chunks)
    stored[:] = X
    return folder / "x.zarr"


def _open_zarr(X: np.ndarray, folder: Path) -> Any:
    import zarr

    return zarr.open_array(_zarr(X, folder), mode="r")


def _open_hdf5(X: np.ndarray, folder: Path) -> Any:
    import h5py

    return h5py.File(_hdf5(X, folder), "r")["samples"]


def _in_blocks(make: Callable[[np.ndarray, Path], Path]) -> Callable[[np.ndarray, Path], Any]:
    return lambda X, folder: open_source(make(X, folder), memory=least_memory(X))


# --- Dask -----------------------------------------------------------------------------------------


def _dask(X: np.ndarray, folder: Path) -> Any:
    """Chunks in both directions, all of a size but the last."""
    import dask.array as da

    return da.from_array(X, chunks=(min(13, len(X)), min(3, X.shape[1])))


def _dask_unequal(X: np.ndarray, folder: Path) -> Any:
    import dask.array as da

    first = max(1, len(X) // 7)
    lengths = [first, *(size for size in (1, len(X) - first - 1) if size > 0)]
    if sum(lengths) != len(X):
        lengths = [len(X)]
    return da.from_array(X, chunks=(tuple(lengths), X.shape[1]))


def _dask_unknown(X: np.ndarray, folder: Path) -> Any:
    """Blocks that stay as they are, since Dask does not know how long they are."""
    array = _dask(X, folder)
    return array[(array[:, 0] == array[:, 0]) | True]


def _dask_sparse(X: np.ndarray, folder: Path) -> Any:
    import dask.array as da

    whole = da.from_array(X, chunks=(min(13, len(X)), X.shape[1]))
    return whole.map_blocks(sparse.csr_matrix, dtype=X.dtype, meta=sparse.csr_matrix((0, 0)))


def _dask_frame(X: np.ndarray, folder: Path) -> Any:
    import dask.dataframe as dd

    return dd.from_pandas(_pandas(X, folder), npartitions=min(3, len(X)))


# --- all of them ----------------------------------------------------------------------------------


def _file(name: str, make: Callable[[np.ndarray, Path], Path], **more: Any) -> Container:
    return Container(name, make, write=make, **more)


def _stored(name: str, make: Callable[[np.ndarray, Path], Path], **more: Any) -> list[Container]:
    """Return a file as it is, and read a few rows at a time."""
    return [
        _file(name, make, **more),
        Container(f"{name} in blocks", _in_blocks(make), write=make, scarce=True, **more),
    ]


_FORMATS = ("csr", "csc", "coo", "bsr", "lil", "dok")
_ALL = [
    Container("as it is", lambda X, folder: X),
    Container("Fortran order", lambda X, folder: np.asfortranarray(X)),
    Container("single precision", lambda X, folder: X.astype(np.float32), single=True),
    Container("read-only", _read_only),
    Container("every second", _every_second),
    Container("backwards", _backwards),
    Container("big-endian", lambda X, folder: X.astype(X.dtype.newbyteorder(">"))),
    Container("masked", _masked),
    Container("objects", lambda X, folder: X.astype(object)),
    Container("lists", lambda X, folder: X.tolist()),
    Container("memmap", _memmap),
    Container("tensor", _tensor(None), package="torch"),
    Container("tensor of single precision", _tensor("float32"), package="torch", single=True),
    Container("transposed tensor", _transposed_tensor, package="torch"),
    Container("pandas", _pandas, package="pandas"),
    Container("pandas, odd index", _odd_index, package="pandas"),
    Container("pandas, nullable", _nullable, package="pandas"),
    Container("pandas, Arrow types", _arrow_typed, package="pandas"),
    Container("pandas, sparse columns", _sparse_columns, package="pandas"),
    Container("polars", _polars, package="polars"),
    *(Container(f"{kind} array", _sparse(kind)) for kind in _FORMATS),
    *(Container(f"{kind} matrix", _sparse(kind, matrix=True)) for kind in _FORMATS),
    Container("dia array", _diagonals(sparse.dia_array)),
    Container("dia matrix", _diagonals(sparse.dia_matrix)),
    *(Container(f"{kind}, repeated entries", _repeated(kind)) for kind in ("csr", "csc")),
    Container("coo, repeated entries", _repeated_coo),
    *(Container(f"{kind}, unsorted", _unsorted(kind)) for kind in ("csr", "csc")),
    *(Container(f"{kind}, zeros stored", _all_stored(kind)) for kind in ("csr", "csc")),
    *(Container(f"{kind}, long indices", _long_indices(kind)) for kind in ("csr", "csc")),
    *_stored("npy", _npy),
    _file("npy, Fortran order", _fortran_npy),
    _file("npy, big-endian", _big_endian_npy),
    *_stored("Parquet", _parquet),
    *_stored("Parquet folder", _folder_of(_write_parquet, "parquet", 3)),
    *_stored("CSV", _csv),
    _file("TSV", _tsv),
    _file("CSV.gz", _packed_csv),
    _file("CSV folder", _csv_folder),
    *_stored("Arrow", _arrow),
    *_stored("HDF5", _hdf5, package="h5py"),
    *_stored("Zarr", _zarr, package="zarr"),
    _file("npz", _npz, in_python=False),
    _file("Matrix Market", _market, in_python=False),
    Container("open HDF5", _open_hdf5, package="h5py"),
    Container("open Zarr", _open_zarr, package="zarr"),
    Container("Dask", _dask, package="dask"),
    Container("Dask, unequal chunks", _dask_unequal, package="dask"),
    Container("Dask, unknown chunks", _dask_unknown, package="dask"),
    Container("Dask, sparse chunks", _dask_sparse, package="dask"),
    Container("Dask frame", _dask_frame, package="dask"),
]
CONTAINERS = {container.name: container for container in _ALL}

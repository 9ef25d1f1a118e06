"""The ways in which the same samples can be handed to a method; others add theirs to the table."""

import importlib.util

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from jointsparse import open_source

NAMES = "column {}"


def table_of(X):
    return pa.table({NAMES.format(j): X[:, j] for j in range(X.shape[1])})


def memmap(X, folder):
    stored = np.memmap(folder / "x.bin", dtype=X.dtype, mode="w+", shape=X.shape)
    stored[:] = X
    return stored


def parquet_folder(X, folder):
    """Three files, row groups of 7: neither agrees with the blocks."""
    place = folder / "parquet"
    place.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(X)), 3)):
        pq.write_table(table_of(X[rows]), place / f"{number}.parquet", row_group_size=7)
    (place / "_SUCCESS").touch()
    return place


def parquet_in_small_blocks(X, folder):
    """No more than a few rows at a time."""
    source = open_source(parquet_folder(X, folder))
    source.block_entries = lambda: 5 * X.shape[1]
    return source


def csv_folder(X, folder):
    place = folder / "csv"
    place.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(X)), 2)):
        pyarrow.csv.write_csv(table_of(X[rows]), place / f"{number}.csv")
    return place


def arrow_file(X, folder):
    path = folder / "x.arrow"
    with pa.ipc.new_file(path, table_of(X).schema) as writer:
        writer.write_table(table_of(X), max_chunksize=11)
    return path


def npy_file(X, folder):
    np.save(folder / "x.npy", X)
    return folder / "x.npy"


def zarr_array(X, folder):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(
        folder / "x.zarr", shape=X.shape, dtype=X.dtype, chunks=(10, min(3, X.shape[1]))
    )
    stored[:] = X
    return folder / "x.zarr"


def hdf5_file(X, folder):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("samples", data=X, chunks=(9, X.shape[1]))
    return folder / "x.h5"


def dask_array(X, folder):
    """Chunks in both directions."""
    da = pytest.importorskip("dask.array")
    return da.from_array(X, chunks=(13, min(3, X.shape[1])))


def dask_of_unknown_lengths(X, folder):
    """Blocks that stay as they are, since Dask does not know how long they are."""
    array = dask_array(X, folder)
    return array[array[:, 0] > -np.inf]


def dask_frame(X, folder):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[NAMES.format(j) for j in range(X.shape[1])])
    return dd.from_pandas(frame, npartitions=3)


# name: what makes it out of an array and an empty folder
WAYS_IN = {
    "Fortran": lambda X, folder: np.asfortranarray(X),
    "memmap": memmap,
    "CSR": lambda X, folder: sp.csr_array(X),
    "CSC": lambda X, folder: sp.csc_array(X),
    "Parquet folder": parquet_folder,
    "Parquet in small blocks": parquet_in_small_blocks,
    "CSV folder": csv_folder,
    "Arrow file": arrow_file,
    "npy file": npy_file,
    "Zarr": zarr_array,
    "HDF5": hdf5_file,
    "Dask array": dask_array,
    "Dask of unknown lengths": dask_of_unknown_lengths,
    "Dask DataFrame": dask_frame,
}
# package that a way in needs
OPTIONAL = {"Zarr": "zarr", "HDF5": "h5py"} | {name: "dask" for name in WAYS_IN if "Dask" in name}


def ways_in(*names):
    """Parametrise a test over the ways in; skip those whose package is not installed."""
    return pytest.mark.parametrize(
        "way_in",
        [
            pytest.param(
                WAYS_IN[name],
                id=name,
                marks=pytest.mark.skipif(
                    name in OPTIONAL and importlib.util.find_spec(OPTIONAL[name]) is None,
                    reason=f"{OPTIONAL.get(name)} is not installed",
                ),
            )
            for name in names or WAYS_IN
        ],
    )

"""Matrices in HDF5 files, all of whose numbers are in the file itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jointsparse.io.errors import reading, shown, table_error
from jointsparse.io.versions import Versions
from jointsparse.sources.stored import ChunkedSource

SUFFIXES = (".h5", ".hdf5", ".he5")


def open_hdf5(path: Path, choose: Any) -> ChunkedSource:
    """Open a matrix in an HDF5 file.

    Links to other files are not followed, and matrices made of parts of other files are refused:
    those could be any files, pipes and devices among them, and change unnoticed.

    Parameters
    ----------
    path : Path
        The file.
    choose : callable
        ``choose(names)`` says which matrix to take.
    """
    try:
        import h5py
    except ImportError:
        raise table_error(path, "needs h5py: pip install 'jointsparse[hdf5]'.") from None
    found: list[str] = []
    versions = Versions([path])

    def note(name: str, item: Any) -> None:
        if len(getattr(item, "shape", None) or ()) == 2:
            found.append(name)

    with reading(path):
        file = h5py.File(path, "r")
        file.visititems(note)
        stored = file[choose(found)]
        if stored.is_virtual or stored.external:
            raise table_error(
                path,
                f"keeps the numbers of {shown(stored.name)} in other files; copy them into one "
                "file first, for example with h5repack.",
            )
        return ChunkedSource(stored, str(path), versions)


def source_of_dataset(dataset: Any) -> ChunkedSource:
    """Return the source of a dataset that was opened elsewhere.

    Where it was opened for reading only, its file must not change.
    """
    path = Path(dataset.file.filename)
    if dataset.file.mode == "r" and path.is_file():
        return ChunkedSource(dataset, watched=Versions([path]))
    return ChunkedSource(dataset)

"""Zarr arrays in folders: only plain files inside of the folder are read, and none that changes."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import IO, Any

from jointsparse.io.budget import available_memory
from jointsparse.io.errors import reading, table_error
from jointsparse.io.limits import check_memory
from jointsparse.io.versions import Folder
from jointsparse.sources.files.stored import ALSO_RAISED, ChunkedSource

SMALL = 1 << 22  # bytes of a file that are read without asking how much memory there is


def is_zarr(path: Path) -> bool:
    """Whether a path is a Zarr array or group, of the old format or the new one."""
    marks = ("zarr.json", ".zarray", ".zgroup")
    return path.suffix.lower() == ".zarr" or any((path / mark).exists() for mark in marks)


def open_zarr(path: Path, choose: Any) -> ChunkedSource:
    """Open the array in a folder.

    Parameters
    ----------
    path : Path
        The folder: an array, or a group of arrays.
    choose : callable
        ``choose(names)`` says which matrix of a group to take.
    """
    try:
        import zarr
    except ImportError:
        raise table_error(path, "needs zarr: pip install 'jointsparse[zarr]'.") from None
    if not path.is_dir():
        raise table_error(path, "is no folder, as a Zarr array is; packed ones are not read.")
    folder = Folder(path)
    with reading(path, *ALSO_RAISED):
        opened = zarr.open(_store_class()(folder), mode="r")
        if not isinstance(opened, zarr.Array):
            found = [name for name, item in opened.arrays() if len(item.shape) == 2]
            opened = opened[choose(found)]
        return ChunkedSource(opened, str(path), folder)


def source_of_array(array: Any) -> ChunkedSource:
    """Return the source of a Zarr array that was opened elsewhere.

    One in a local folder is opened again, so that it is read as all the others are.
    """
    import zarr

    root = getattr(array.store, "root", None)
    if not isinstance(array.store, zarr.storage.LocalStore) or root is None:
        return ChunkedSource(array)
    folder = Folder(Path(root))
    with reading(folder.root, *ALSO_RAISED):
        stored = zarr.open_array(_store_class()(folder), path=array.path, mode="r")
    return ChunkedSource(stored, watched=folder)


@cache
def _store_class() -> type[Any]:
    """Return the kind of store that reads from a `Folder`; made where Zarr is installed."""
    import asyncio

    from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import LocalStore

    def span(size: int, wanted: Any) -> tuple[int, int]:
        """Return the first byte that is asked for, and the first behind them."""
        if isinstance(wanted, RangeByteRequest):
            return wanted.start, min(wanted.end, size)
        if isinstance(wanted, OffsetByteRequest):
            return wanted.offset, size
        return (max(0, size - wanted.suffix) if isinstance(wanted, SuffixByteRequest) else 0), size

    class FolderStore(LocalStore):
        """A local store whose files go through `Folder.open`."""

        def __init__(self, folder: Folder) -> None:
            super().__init__(folder.root, read_only=True)
            self._folder = folder

        def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
            prototype = prototype or default_buffer_prototype()
            with self._folder.open(key) as stream:
                if stream is None:
                    return None
                path = self._folder.root / key
                content = _read(path, stream, *span(os.fstat(stream.fileno()).st_size, byte_range))
            return prototype.buffer.from_bytes(content)

        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            return await asyncio.to_thread(
                self.get_sync, key, prototype=prototype, byte_range=byte_range
            )

        async def get_partial_values(self, prototype: Any, key_ranges: Any) -> list[Any]:
            wanted = (self.get(key, prototype, byte_range) for key, byte_range in key_ranges)
            return list(await asyncio.gather(*wanted))

    return FolderStore


def _read(path: Path, stream: IO[bytes], first: int, stop: int) -> bytes:
    if stop - first > SMALL:
        check_memory(path, "its bytes", stop - first, available_memory())
    stream.seek(first)
    return stream.read(max(stop - first, 0))

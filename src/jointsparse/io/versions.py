"""Whether files are still those that were opened: half of one table and half of another is none.

Two versions of a file are told apart by its size, its number in the file system, and two times: of
the last change of its content, and of the last change of anything about it, which no program sets
back. They are as fine as the clock of the file system: a hundredth of a second on local disks.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from jointsparse.io.errors import TableError, reading, table_error

_SETTLING = 0.02  # seconds: longer than a tick of the clock by which files are stamped
# A pipe is not waited for, and a link not followed; Windows has neither, but text files.
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_FLAGS |= getattr(os, "O_BINARY", 0)


class Versions:
    """Which versions of some files were opened.

    Parameters
    ----------
    files : sequence of Path
        Files that are going to be read, perhaps several times.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._found = {file: _version(file) for file in files}

    def check(self, file: Path | None = None) -> None:
        """Refuse a file that was written to, replaced or removed since then.

        Parameters
        ----------
        file : Path or None
            Which one; None is all of them.
        """
        for known in self._found if file is None else [file]:
            if _version(known) != self._found[known]:
                raise _changed(known)


class Folder:
    """A folder of many files that are opened by name, such as the chunks of a Zarr array.

    There may be millions of them, so none is looked at before it is read: a file is refused where
    it, or a folder on the way to it, was written to after this was made. That costs a few
    questions to the system for each file that is read, and no memory. Only plain files inside of
    the folder are opened: no links, pipes or devices.

    Parameters
    ----------
    root : Path
        The folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._version = Versions([self.root])
        # Clocks of file servers may be ahead of this machine's.
        self._opened = max(time.time_ns(), _last_change(self.root.stat()))
        time.sleep(_SETTLING)  # what is written from now on is stamped later

    def check(self) -> None:
        """Refuse a folder that was replaced, or in which files came or went."""
        self._version.check()

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes] | None]:
        """Open a file for reading; None where there is none of this name.

        Parameters
        ----------
        name : str
            Path below the folder, with slashes.
        """
        file = self.root / name
        if ".." in file.parts or not file.is_relative_to(self.root):
            raise table_error(file, "is outside of its folder; only files inside are read.")
        try:
            handle = os.open(file, _FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            self._check(file)  # it may have been there
            yield None
            return
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, or a socket
                raise _special(file) from error
            raise
        with os.fdopen(handle, "rb") as stream:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise _special(file)
            self._check(file)
            yield stream
            self._check(file)

    def _check(self, file: Path) -> None:
        """Refuse a file that is another one than when the folder was opened."""
        self.check()
        for path in (file, *file.parents):
            if path == self.root:
                break
            try:
                found = path.lstat()
            except (FileNotFoundError, NotADirectoryError):
                continue  # the folder around it says whether it was there
            if stat.S_ISLNK(found.st_mode):
                raise _special(path)
            if _last_change(found) > self._opened:
                raise _changed(path)


def check_plain(path: Path) -> None:
    """Refuse what is neither a file nor a folder: reading a pipe or a device may never end."""
    with reading(path):
        if path.is_symlink() and not path.exists():
            raise table_error(path, "is a link that leads nowhere.")
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise table_error(path, "is a device or a pipe; only files are read.")


def _version(file: Path) -> tuple[int, ...]:
    with reading(file):
        found = file.stat()
        return (
            found.st_dev,
            found.st_ino,
            found.st_size,
            found.st_mtime_ns,
            found.st_ctime_ns,
        )


def _last_change(found: os.stat_result) -> int:
    # Windows calls the time at which a file was made by this name.
    return max(found.st_mtime_ns, found.st_ctime_ns) if os.name == "nt" else found.st_ctime_ns


def _changed(path: Path) -> TableError:
    return table_error(path, "changed while it was read; run again when nothing writes to it.")


def _special(path: Path) -> TableError:
    return table_error(
        path, "is a link, a device or a pipe; only files inside its folder are read."
    )

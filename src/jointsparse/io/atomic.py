"""Files that appear whole or not at all, whatever ends the program that writes them."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jointsparse.io.errors import StrPath, table_error

try:
    import fcntl
except ImportError:  # Windows: what a killed program leaves there stays
    fcntl = None  # type: ignore[assignment]

PREFIX = ".jointsparse-"
SECONDS_TO_LOCK = 60.0  # younger temporary files may belong to a writer that has just begun


@contextmanager
def atomic_path(path: StrPath) -> Iterator[Path]:
    """Yield an empty temporary file beside `path` that takes its place on success.

    The temporary path has the same suffixes and is deleted on any failure; a `path` that is a
    symbolic link is followed. What is written is on the disk before it takes the place of what was
    there. A program killed by force leaves its temporary file, which the next one that writes into
    the folder deletes. A missing directory or a failure to write is a `TableError`.
    """
    target = Path(path).resolve()
    check_target(target)
    _delete_abandoned(target.parent)
    suffix = "".join(target.suffixes[-2:])[-40:]
    temporary = target.parent / f"{PREFIX}{secrets.token_hex(8)}{suffix}"
    try:
        temporary.touch(exist_ok=False)
        if target.exists():
            shutil.copymode(target, temporary)
        with _locked(temporary):
            yield temporary
            _to_disk(temporary)
            temporary.replace(target)
        with suppress(OSError):  # the file is whole in any case
            _to_disk(target.parent)
    except OSError as error:
        # NumPy says only how many entries it could not write.
        reason = error.strerror or f"is the disk full? {error}"
        raise table_error(path, f"cannot be written: {reason}.") from error
    finally:
        with suppress(OSError):  # in a read-only folder there is nothing, and not even that is told
            temporary.unlink()


def check_target(target: Path) -> None:
    """Refuse, before any work, a path at which no file can be written."""
    if "\0" in str(target):
        raise table_error(repr(str(target)), "cannot be written: its name holds a zero byte.")
    try:
        reason = _obstacle(target)
    except OSError as error:  # such as a name that is too long
        reason = error.strerror or str(error)
    if reason:
        raise table_error(target, f"cannot be written: {reason}.")


def _obstacle(target: Path) -> str:
    """Return why no file can be written there; nothing where one can."""
    if not target.parent.is_dir():
        return f"there is no directory {target.parent}"
    if target.is_dir():
        return "it is a directory"
    if target.exists() and not os.access(target, os.W_OK):
        return "it is read-only"
    if target.exists() and not target.is_file():
        return "it is a device or a pipe, not a file"
    return ""


@contextmanager
def _locked(temporary: Path) -> Iterator[None]:
    """Hold a lock that the system takes back when the program ends, however it ends."""
    if fcntl is None:
        yield
        return
    with temporary.open("rb") as stream:
        with suppress(OSError):  # some network file systems know no locks
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _delete_abandoned(folder: Path) -> None:
    """Delete the temporary files of programs that were killed."""
    if fcntl is None:
        return
    for left in folder.glob(f"{PREFIX}*"):
        with suppress(OSError):  # somebody else's, in use, or gone by now
            found = left.lstat()
            if stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > SECONDS_TO_LOCK:
                with left.open("rb") as stream:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    left.unlink()


def _to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

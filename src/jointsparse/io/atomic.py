"""Files that appear whole or not at all, whatever ends the program that writes them."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from jointsparse.io.errors import StrPath, table_error

try:
    import fcntl
except ImportError:  # Windows: what a killed program leaves there stays
    fcntl = None  # type: ignore[assignment]

PREFIX = ".jointsparse-"
_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")  # signals that ask a program to end


@dataclass(frozen=True)
class _Written:
    """A file that is written and waits for its name.

    Attributes
    ----------
    path : str or path-like
        What its writer calls it.
    temporary, target : Path
        Where it is, and where it goes.
    """

    path: StrPath
    temporary: Path
    target: Path


@dataclass
class _Set:
    """Files that get their names together.

    Attributes
    ----------
    files : list of _Written
        Those that are complete.
    held : ExitStack
        Deletes what has no name yet, and gives the locks back.
    """

    files: list[_Written]
    held: ExitStack


_open_set: ContextVar[_Set | None] = ContextVar("_open_set", default=None)


@contextmanager
def atomic_path(path: StrPath) -> Iterator[Path]:
    """Yield an empty temporary file beside `path` that takes its place on success.

    The temporary path has the same suffixes and is deleted on any failure; a `path` that is a
    symbolic link is followed. What is written is on the disk before it takes the place of what was
    there; within `atomic_set`, it does so when the set is complete. A program killed by force
    leaves its temporary file, which the next one that writes into the folder deletes. A missing
    directory or a failure to write is a `TableError`.
    """
    check_target(Path(path))
    target = Path(os.path.realpath(path))
    check_target(target)
    _delete_abandoned(target.parent)
    with ExitStack() as held:
        with _failures_told(path):
            temporary = held.enter_context(_temporary(target))
            if target.exists():
                shutil.copymode(target, temporary)
            yield temporary
            _to_disk(temporary)
        file = _Written(path, temporary, target)
        waiting = _open_set.get()
        if waiting is None:
            _name([file], [])
        else:
            waiting.files.append(file)
            waiting.held.push(held.pop_all())


@contextmanager
def atomic_set(named: list[Path] | None = None) -> Iterator[None]:
    """Let all files that `atomic_path` writes within appear together, at the end, or not at all.

    Each of them is complete and on the disk before the first gets its name; signals that ask the
    program to end wait until the last has. Only a program killed by force between two names, or a
    name that is refused then, leaves a part of the set. A set within a set is part of it.

    Parameters
    ----------
    named : list of Path or None
        Gets the files as they appear.
    """
    if _open_set.get() is not None:
        yield
        return
    with ExitStack() as held:
        waiting = _Set([], held)
        token = _open_set.set(waiting)
        try:
            yield
        finally:
            _open_set.reset(token)
        _name(waiting.files, [] if named is None else named)


def _name(files: list[_Written], named: list[Path]) -> None:
    """Give complete files their names, and note which have them."""
    with _signals_wait():
        for file in files:
            with _failures_told(file.path):
                file.temporary.replace(file.target)
            named.append(Path(file.path))
    for folder in {file.target.parent for file in files}:
        with suppress(OSError):  # the files are whole in any case
            _to_disk(folder)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Let signals that ask for an end wait: they come when this is over."""
    came: list[int] = []
    usual = {}
    if threading.current_thread() is threading.main_thread():  # others cannot, and get none
        for number in (getattr(signal, name, None) for name in _ENDING):
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                usual[number] = signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


@contextmanager
def _failures_told(path: StrPath) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # NumPy says only how many entries it could not write.
        reason = error.strerror or f"is the disk full? {error}"
        raise table_error(path, f"cannot be written: {reason}.") from error


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
    if os.path.islink(os.path.realpath(target)):  # noqa: PTH114 - pathlib fails, or not, by version
        return "it is a link that leads back to itself"
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
def _temporary(target: Path) -> Iterator[Path]:
    """Yield a new file beside another, deleted in the end if it is still there.

    It is held by a lock that the system takes back when the program ends, however it ends: a
    temporary file that nobody holds was abandoned.
    """
    temporary, stream = _made(target)
    try:
        yield temporary
    finally:
        with suppress(OSError):  # in a read-only folder there is nothing, and not even that is told
            temporary.unlink()
        if stream is not None:
            stream.close()


def _made(target: Path) -> tuple[Path, IO[bytes] | None]:
    """Return a new empty file beside another, and what holds its lock."""
    suffix = "".join(target.suffixes[-2:])[-40:]
    while True:
        temporary = target.parent / f"{PREFIX}{secrets.token_hex(8)}{suffix}"
        temporary.touch(exist_ok=False)
        if fcntl is None:
            return temporary, None
        try:
            stream = temporary.open("rb")
        except FileNotFoundError:
            continue
        if _locked(stream):
            return temporary, stream
        # Another program came before the lock, and took the file for an abandoned one.
        stream.close()


def _locked(stream: IO[bytes]) -> bool:
    """Lock a file; False where another program deletes it."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems know no locks: there nobody deletes
        return True
    return os.fstat(stream.fileno()).st_nlink > 0


def _delete_abandoned(folder: Path) -> None:
    """Delete the temporary files of programs that were killed."""
    if fcntl is None:
        return
    for left in folder.glob(f"{PREFIX}*"):
        with suppress(OSError):  # somebody else's, in use, or gone by now
            if stat.S_ISREG(left.lstat().st_mode):
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

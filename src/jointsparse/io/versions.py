"""Whether files are still those that were opened: half of one table and half of another is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jointsparse.io.errors import reading, table_error


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
                raise table_error(
                    known, "changed while it was read; run again when nothing writes to it."
                )


def _version(file: Path) -> tuple[int, int, int]:
    with reading(file):
        found = file.stat()
        return found.st_size, found.st_mtime_ns, found.st_ino

"""Workbooks of Excel: what reading a sheet takes is found out before its cells are read.

The reader, python-calamine, takes memory for all of the rectangle between the outermost cells, and
where there is not so much the process ends. So the parts of the file are gone through first, piece
by piece. The reader then gets a copy of just these parts: no table of contents, and no size in it,
can say something else to the reader than it did here.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from jointsparse.io.errors import shown, table_error
from jointsparse.io.formats import not_bounded
from jointsparse.io.plain_text.extent import CURE, check_extent, check_part
from jointsparse.io.plain_text.raw_cells import RawCells, RawStrings
from jointsparse.io.plain_text.tags import (
    PIECE,
    Cells,
    Part,
    Relations,
    Sheets,
    Strings,
    go_through,
)

MOST_BYTES = 1 << 30  # of an unpacked workbook; the programs that write them stop long before
_MOST_PARTS = 1 << 14  # in a file; Excel writes a few for each sheet and picture
_IN_MEMORY = 1 << 24  # bytes of the copy
_ENTRY = b"PK\x01\x02"  # how each entry of a table of contents begins
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_OTHER_KINDS = ("xl/workbook.bin", "content.xml")


class Workbook:
    """The sheets of an .xlsx or .xlsm file, none of them read yet.

    Parameters
    ----------
    path : Path
        The file.
    archive : ZipFile
        The file, opened.
    memory : int
        How many bytes reading a sheet may take.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile, memory: int) -> None:
        self._path, self._archive, self._memory = path, archive, memory
        infos = archive.infolist()
        if sum(info.file_size for info in infos) > MOST_BYTES:  # no more than it says is unpacked
            raise table_error(
                path, "unpacks to more than 1 GB; save the sheet as .csv or .parquet."
            )
        # Some programs write backslashes, or small letters.
        self._parts = {info.filename.replace("\\", "/").lower(): info for info in infos}
        document = self._listed("_rels/.rels", Relations()).document
        self._folder = "".join(document.lstrip("/").rpartition("/")[:2])
        if f"{self._folder}workbook.xml".lower() not in self._parts:
            if any(name in self._parts for name in _OTHER_KINDS):
                raise not_bounded(path, "a workbook of another kind than its suffix says")
            raise ValueError("there is no workbook in it")
        relations = self._listed(f"{self._folder}_rels/workbook.xml.rels", Relations())
        ids = self._listed(f"{self._folder}workbook.xml", Sheets()).ids
        self._listed(f"{self._folder}styles.xml", Part())
        self._targets = {name: relations.targets.get(one, "") for name, one in ids.items()}
        self._texts = f"{self._folder}sharedStrings.xml"
        self._raw_strings = self._looked_at(self._texts, RawStrings())
        check_part(path, "the texts of its cells", self._raw_strings.needed(), memory)
        self._raw_cells: dict[str, RawCells] = {}

    @property
    def names(self) -> list[str]:
        """Names of the sheets."""
        return list(self._targets)

    def has_anything(self, sheet: str) -> bool:
        """Whether a sheet seems to have a cell with something in it."""
        return self._raw(sheet).anything

    def check(self, sheet: str) -> None:
        """Refuse a sheet that takes more memory than it may."""
        if self._raw(sheet).needed(self._raw_strings) <= self._memory:
            return
        cells = Cells(self._strings)

        def check() -> None:
            needed = cells.needed() + self._raw_strings.needed()
            check_extent(self._path, sheet, cells.extent, needed, self._memory)

        self._go_through(self._part_of(sheet), cells, check)
        check()

    @contextmanager
    def only(self, sheet: str) -> Iterator[IO[bytes]]:
        """Yield a workbook in which there is this sheet alone."""
        wanted = [self._texts, self._part_of(sheet), "_rels/.rels"]
        wanted += [
            f"{self._folder}{name}"
            for name in ("_rels/workbook.xml.rels", "workbook.xml", "styles.xml")
        ]
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as copy:
                for name in dict.fromkeys(wanted):
                    if (source := self._open(name)) is not None:
                        with source, copy.open(name, "w") as target:
                            shutil.copyfileobj(source, target, PIECE)
            file.seek(0)
            yield file

    @cached_property
    def _strings(self) -> Strings:
        """How long each text is that cells refer to; gone through where the sum of all matters."""
        strings = Strings()
        self._go_through(self._texts, strings, lambda: None)
        strings.finish()
        return strings

    def _part_of(self, sheet: str) -> str:
        target = self._targets[sheet]
        inside = target[1:] if target.startswith("/") else f"{self._folder}{target}"
        # Some programs write paths from the root without a slash before them.
        return target if inside.lower() not in self._parts else inside

    def _raw(self, sheet: str) -> RawCells:
        part = self._part_of(sheet)
        if part not in self._raw_cells:
            self._raw_cells[part] = self._looked_at(part, RawCells())
        return self._raw_cells[part]

    def _looked_at(self, name: str, raw: Any) -> Any:
        """Return what the bytes of a part allow; nothing where it is missing."""
        if (stream := self._open(name)) is not None:
            with stream:
                while piece := stream.read(PIECE):
                    raw.take(piece)
            raw.finish()
        return raw

    def _listed(self, name: str, part: Any) -> Any:
        """Return one of the lists that the reader keeps; an empty one where it is missing."""

        def check() -> None:
            check_part(self._path, f"the lists in {shown(name)}", part.needed(), self._memory)

        self._go_through(name, part, check)
        return part

    def _go_through(self, name: str, part: Part, check: Any) -> None:
        if (stream := self._open(name)) is not None:
            with stream:
                go_through(stream, part, check)

    def _open(self, name: str) -> IO[bytes] | None:
        info = self._parts.get(name.lower())
        if info is None:
            return None
        if info.compress_type not in _PACKED:
            raise ValueError(f"{shown(name)} is packed in another way than Excel does")
        return self._archive.open(info)


def check_entries(path: Path, memory: int) -> None:
    """Refuse a packed file whose table of contents alone would fill the memory."""
    check_part(path, "the packed file", 3 * path.stat().st_size, memory)
    found, rest = 0, b""
    with path.open("rb") as stream:
        while piece := stream.read(PIECE):
            found += (rest + piece).count(_ENTRY)
            rest = piece[1 - len(_ENTRY) :]
    if found > _MOST_PARTS:
        raise table_error(path, f"holds more than {_MOST_PARTS} parts; {CURE}")

"""The XML of a workbook, tag by tag, in little memory: what no program writes is refused."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from string import ascii_letters, digits
from typing import IO, Any
from xml.parsers import expat

from jointsparse.io.errors import shown
from jointsparse.io.plain_text.extent import TEXT_BYTES, Extent
from jointsparse.io.plain_text.raw_cells import column_number

PIECE = 1 << 18
_MOST_SHEETS = 1 << 12
_ENTRY_BYTES = 200  # of an element in the lists of sheets, parts and formats that the reader keeps
_LONGEST = 1 << 20  # bytes of a tag or a comment
_MOST_NAMES = 1 << 13  # of elements and attributes; the standard has fewer
_DEEPEST = 1 << 8
_MOST_TEXTS = 1 << 10  # pieces of text that are kept until they are counted
_NUMERAL = 32  # bytes of a text that may be a number


class Part:
    """What is counted while a part of a workbook is gone through."""

    def __init__(self) -> None:
        self.started = self.bytes = 0
        self.texts: list[str] = []  # since they were counted the last time

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Count an element."""
        self.started += 1

    def count_texts(self) -> None:
        """Forget the texts, which are among the bytes."""
        self.texts.clear()

    def needed(self) -> int:
        """Return what the reader takes for the part."""
        return _ENTRY_BYTES * self.started + TEXT_BYTES * self.bytes


class Relations(Part):
    """Which part is meant by which relationship."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: dict[str, str] = {}
        self.document = "xl/workbook.xml"

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Note a relationship."""
        super().start(name, attributes)
        if _local(name) == "Relationship":
            target = attributes.get("Target", "")
            self.targets[attributes.get("Id", "")] = target
            if attributes.get("Type", "").endswith("/relationships/officeDocument"):
                self.document = target


class Sheets(Part):
    """Which sheet is meant by which relationship."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Note a sheet; of two with the same name the reader takes the first."""
        super().start(name, attributes)
        if _local(name) == "sheet":
            ids = [text for key, text in attributes.items() if _local(key) == "id"]
            self.ids.setdefault(attributes.get("name", ""), ids[-1] if ids else "")
            if len(self.ids) > _MOST_SHEETS:
                raise ValueError(f"it has more than {_MOST_SHEETS} sheets")


class Strings(Part):
    """How long the texts are that cells refer to by their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self._lengths = array("L")
        self._length = -1  # of the text that has begun
        self._any = True
        self._certain = True  # whether a number means the same text to every version of the reader
        self._longest = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Begin a text."""
        super().start(name, attributes)
        local = _local(name)
        if local == "si":
            self.finish()
            self._length, self._any = 0, False
        elif local in ("t", "r"):
            self._any = True

    def count_texts(self) -> None:
        """Add them to the text that has begun."""
        self._length += sum(map(_size, self.texts)) if self._length >= 0 else 0
        self.texts.clear()

    def finish(self) -> None:
        """End the text that has begun."""
        self.count_texts()
        if self._length >= 0:
            self._lengths.append(self._length)
            self._longest = max(self._longest, self._length)
            self._certain = self._certain and self._any

    def length(self, number: str) -> int:
        """Return how long the text of a cell is, or how long it may be."""
        if self._certain and number.isdecimal() and int(number) < len(self._lengths):
            return self._lengths[int(number)]
        return self._longest


class Cells(Part):
    """How far the cells of a sheet reach, and what is in them."""

    def __init__(self, strings: Strings) -> None:
        super().__init__()
        self._strings = strings
        self._row, self._column = -1, 0  # where the next cell is that does not say so
        self._at = (0, 0)
        self._type: str | None = None
        self._kind: str | None = None  # of the value that has begun
        self._columns: dict[str, int] = {}
        self._text = 0
        self.extent = Extent()

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Note where a cell is, and whether it has a value."""
        self.started += 1
        local = name if ":" not in name else _local(name)
        if local == "c":
            self.count_texts()
            place = attributes.get("r")
            self._at = (max(self._row, 0), self._column) if place is None else self._place(place)
            self._column = self._at[1] + 1
            self._type, self._kind = attributes.get("t"), None
        elif local in ("v", "is"):
            self.count_texts()
            self._kind = self._type or "n"
            self.extent.add(*self._at)
        elif local == "row":
            row = attributes.get("r")
            self._row = self._row + 1 if row is None else _number(row.lstrip(ascii_letters)) - 1
            self._column = 0

    def _place(self, place: str) -> tuple[int, int]:
        letters = place.rstrip(digits)
        column = self._columns.get(letters)
        if column is None:
            if not 0 < len(letters) < 4 or letters.strip(ascii_letters):
                raise ValueError(f"a cell says that it is in {shown(place)}")
            column = self._columns[letters] = column_number(letters.upper()) - 1
        return _number(place[len(letters) :]) - 1, column

    def count_texts(self) -> None:
        """Add those of the last value; those of a long text come more than once."""
        if self._kind is None or not self.texts:
            self.texts.clear()
            return
        if self._kind == "s":
            size = self._strings.length("".join(self.texts).strip())
            self._kind = "str"
        else:
            size = sum(map(_size, self.texts))
        self.texts.clear()
        self._text += size if size > _NUMERAL else 0

    def needed(self) -> int:
        """Return what reading the sheet takes."""
        return self.extent.needed() + TEXT_BYTES * self._text


def _local(name: str) -> str:
    return name[name.find(":") + 1 :]


def _size(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)


def _number(text: str) -> int:
    if not (text.isdecimal() and len(text) < 8 and int(text)):
        raise ValueError(f"a row says that its number is {shown(text)}")
    return int(text)


def go_through(stream: IO[bytes], part: Part, check: Callable[[], None]) -> None:
    """Tell a part of each tag and text; check after each piece what that may take."""

    def refuse(*_: Any) -> None:
        raise ValueError("a part of it defines words of its own, or is meant for other programs")

    ended: list[str] = []
    n_ended = 0
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = part.start
    parser.EndElementHandler = ended.append
    parser.CharacterDataHandler = part.texts.append
    # Readers differ in where these end, and no program writes them.
    parser.StartDoctypeDeclHandler = parser.ProcessingInstructionHandler = refuse
    while piece := stream.read(PIECE):
        part.bytes += len(piece)
        parser.Parse(piece)
        n_ended += len(ended)
        ended.clear()
        unfinished = part.bytes - parser.CurrentByteIndex
        deep = part.started - n_ended
        if unfinished > _LONGEST or deep > _DEEPEST or len(parser.intern) > _MOST_NAMES:
            raise ValueError("it has tags that no program writes")
        if len(part.texts) > _MOST_TEXTS or sum(map(len, part.texts)) > PIECE:
            part.count_texts()
        check()
    parser.Parse(b"", True)
    part.count_texts()

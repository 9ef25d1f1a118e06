"""Workbooks that promise more cells than there is memory for, and those that only look so."""

import json
import struct
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pytest
from typer.testing import CliRunner

from jointsparse.cli.main import app
from jointsparse.io import TableError, read_table

pytest.importorskip("python_calamine", reason="pip install 'jointsparse[excel]'")

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
TABLE = (
    '<row r="1"><c r="A1" t="inlineStr"><is><t>a</t></is></c>'
    '<c r="B1" t="inlineStr"><is><t>b</t></is></c></row>'
    '<row r="2"><c r="A2"><v>1.5</v></c><c r="B2"><v>-2</v></c></row>'
    '<row r="3"><c r="A3"><v>3</v></c><c r="B3"><v>4e-3</v></c></row>'
)
VALUES = [[1.5, -2], [3, 0.004]]
STRAY = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
ONE_SHARED = '<row r="1"><c r="A1" t="s"><v>0</v></c></row>'


def relations(targets, kind):
    lines = (
        f'<Relationship Id="i{i}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for i, target in enumerate(targets)
    )
    return f'<Relationships xmlns="{PACKAGE}">{"".join(lines)}</Relationships>'


def workbook(path, *sheets, strings=None, head="", names=None, folder="xl/", absolute=False):
    """Write sheets, each of them text or pieces of text."""
    names = names or [f"s{i}" for i in range(len(sheets))]
    root = f"/{folder}" if absolute else ""
    listed = (
        f'<sheet name="{name}" sheetId="{i + 1}" r:id="i{i}"/>' for i, name in enumerate(names)
    )
    lines = "".join(listed)
    parts = {
        "_rels/.rels": relations([f"{folder}workbook.xml"], "officeDocument"),
        f"{folder}_rels/workbook.xml.rels": relations(
            [f"{root}worksheets/sheet{i}.xml" for i in range(len(names))], "worksheet"
        ),
        f"{folder}workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}">'
        f"<sheets>{lines}</sheets></workbook>",
    }
    if strings is not None:
        parts[f"{folder}sharedStrings.xml"] = [f'<sst xmlns="{MAIN}"{head}>', *strings, "</sst>"]
    for i, sheet in enumerate(sheets):
        pieces = [sheet] if isinstance(sheet, str) else sheet
        start = f'<worksheet xmlns="{MAIN}" xmlns:x="{MAIN}"><dimension ref="A1:B3"/><sheetData>'
        parts[f"{folder}worksheets/sheet{i}.xml"] = [start, *pieces, "</sheetData></worksheet>"]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, pieces in parts.items():
            with archive.open(name, "w") as part:
                for piece in [pieces] if isinstance(pieces, str) else pieces:
                    part.write(piece.encode())
    return path


def beside(path, name, text):
    """Add a part of the same name to a workbook; readers take the last."""
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(name, text)


def shortened(path, part, mark):
    """Let the table of contents say that a part ends before a mark, which it does not."""
    with zipfile.ZipFile(path) as archive:
        whole = archive.read(part)
    size = whole.index(mark.encode())
    data = bytearray(path.read_bytes())
    at = data.rindex(part.encode()) - 46  # of its entry in the table of contents
    assert data[at : at + 4] == b"PK\x01\x02"
    struct.pack_into("<I", data, at + 16, zlib.crc32(whole[:size]))
    struct.pack_into("<I", data, at + 24, size)
    path.write_bytes(data)


# --- the format before 2007 ---------------------------------------------------------------------


def record(kind, *fields):
    content = b"".join(fields)
    return struct.pack("<HH", kind, len(content)) + content


def number(row, column, value):
    return record(0x0203, struct.pack("<HHHd", row, column, 0, value))


def old_text(row, column, which):
    return record(0x00FD, struct.pack("<HHHI", row, column, 0, which))


NUMBERS = b"".join(
    [old_text(0, 0, 0), old_text(0, 1, 1)]
    + [number(i, j, 10 * i + j) for i in (1, 2) for j in (0, 1)]
)


def old_workbook(path, *sheets, texts=(b"a", b"b"), promised=None, link=None, first_table=None):
    """Write an .xls file; ``link`` changes which sector follows which."""
    starts = record(0x0809, struct.pack("<HHHHII", 0x600, 5, 0, 0, 0, 6))
    count = len(texts) if promised is None else promised
    lines = [struct.pack("<HB", len(text), 0) + text for text in texts]
    shared = record(0x00FC, struct.pack("<II", count, count), *lines)
    at = len(starts) + len(sheets) * (4 + 10) + len(shared) + 4
    bodies = [starts + sheet + record(0x000A) for sheet in sheets]
    for i in range(len(sheets)):
        place = at + sum(map(len, bodies[:i]))
        starts += record(0x0085, struct.pack("<IBBBB", place, 0, 0, 2, 0), b"s%d" % i)
    stream = (starts + shared + record(0x000A) + b"".join(bodies)).ljust(4096, b"\0")
    sectors = -(-len(stream) // 512)
    tables = -(-(sectors + 1) // 127)
    ends, free = 0xFFFFFFFE, 0xFFFFFFFF
    after = [0xFFFFFFFD] * tables + [ends]
    after += [*range(tables + 2, tables + 1 + sectors), ends]
    after += [free] * (128 * tables - len(after))
    after = after if link is None else link(after, tables)

    def entry(name, kind, child, start, length):
        packed = name.encode("utf-16-le").ljust(64, b"\0")
        about = struct.pack("<HBBIII", 2 * len(name) + 2, kind, 1, free, free, child)
        return packed + about + bytes(36) + struct.pack("<IQ", start, length)

    folder = entry("Root Entry", 5, 1, ends, 0) + entry(
        "Workbook", 2, free, tables + 1, len(stream)
    )
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    head += struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(10)
    said = tables if first_table is None else first_table
    head += struct.pack("<IIIIIIII", said, tables, 0, 4096, ends, 0, ends, 0)
    where = [*range(tables), *[free] * (109 - tables)]
    data = head + struct.pack("<109I", *where) + struct.pack(f"<{128 * tables}I", *after)
    path.write_bytes(data + folder.ljust(512, b"\0") + stream.ljust(512 * sectors, b"\0"))
    return path


# --- refused ------------------------------------------------------------------------------------


def pieces_of(text, times, at_once=100_000):
    return (text * min(at_once, times - done) for done in range(0, times, at_once))


def around(before, pieces, after):
    yield before
    yield from pieces
    yield after


def cell(place, rest=""):
    return f"<row><c {place} {rest}><v>1</v></c></row>"


XLSX = {
    "corner": TABLE + STRAY,
    "wide and long": TABLE + cell('r="ZZ100000"'),
    "prefix": TABLE + STRAY.replace("<", "<x:").replace("<x:/", "</x:"),
    "quotes": TABLE + cell("r='XFD1048576'"),
    "spaces": TABLE + cell("\n r\t= 'XFD1048576'"),
    "small letters": TABLE + cell('r="xfd1048576"'),
    "a tag that seems to end": TABLE + cell('s="&gt;>" r="XFD1048576"'),
    "two places": TABLE + cell('r="A4" x:r="A4" r="XFD1048576"'),
    "no such column": TABLE + cell('r="AAAA1048576"'),
    "no such row": TABLE + cell('r="A99999999"'),
    "no places": TABLE + f'<row r="9">{"<c/>" * 16_383}<c><v>1</v></c></row>{cell("", "")}'
    '<row r="1048576"><c><v>1</v></c></row>',
    "instructions": TABLE + f"<?x >{STRAY}?>",
    "comment": TABLE + f"<!-- -- {STRAY} -->",
}
CELLS = {"wide and long": "ZZ100000", "no places": "A1048576 and XFD9"}


def far_apart(folder):
    """Yield workbooks, the memory that may be used, and what their refusal has to say."""
    for name, sheet in XLSX.items():
        path = workbook(folder / f"{name}.xlsx", sheet)
        damaged = name in ("two places", "no such column", "no such row", "instructions", "comment")
        yield path, "300MB", "is damaged" if damaged else f"to {CELLS.get(name, 'XFD1048576')}, and"
    path = workbook(folder / "macros.xlsm", TABLE + STRAY)
    yield path, "300MB", "XFD1048576"
    path = workbook(folder / "twice.xlsx", TABLE)
    beside(
        path,
        "xl/worksheets/sheet0.xml",
        f"<worksheet><sheetData>{STRAY}{TABLE}</sheetData></worksheet>",
    )
    yield path, "300MB", "XFD1048576"
    path = workbook(folder / "shortened.xlsx", TABLE + STRAY)
    shortened(path, "xl/worksheets/sheet0.xml", STRAY)
    yield path, "300MB", "is damaged"
    path = workbook(folder / "words.xlsx", TABLE)
    declared = '<!DOCTYPE a [<!ENTITY b "bbbbbbbb">]><workbook><sheets/></workbook>'
    beside(path, "xl/workbook.xml", declared)
    yield path, "300MB", "defines words of its own"
    path = folder / "promised.xlsx"
    workbook(path, ONE_SHARED, strings=["<si><t>x</t></si>"], head=' uniqueCount="99999999999999"')
    yield path, "300MB", "the texts of its cells may take"


def bombs(folder):
    """Yield files of less than a megabyte that unpack to much more."""
    many = 8_000_000
    path = folder / "texts.xlsx"
    workbook(path, ONE_SHARED, strings=pieces_of("<si><t/></si>", many))
    yield path, "300MB", "the texts of its cells may take"
    path = folder / "one text.xlsx"
    workbook(
        path, ONE_SHARED, strings=around("<si><t>", pieces_of("x", 2 * 10**8, 10**6), "</t></si>")
    )
    yield path, "300MB", "the texts of its cells may take"
    rows = (f'<row r="{i}"><c r="A{i}" t="s"><v>0</v></c></row>' for i in range(1, 9000))
    path = workbook(folder / "repeated.xlsx", rows, strings=[f"<si><t>{'z' * 32_000}</t></si>"])
    yield path, "300MB", "1 column take"
    text = around(
        TABLE + '<row><c r="A4" t="str"><v>', pieces_of("x", 10**8, 10**6), "</v></c></row>"
    )
    yield workbook(folder / "cell.xlsx", text), "300MB", "to A4 and B"
    tag = around(TABLE + '<row y="', pieces_of("x", 10**8, 10**6), '"></row>')
    yield workbook(folder / "tag.xlsx", tag), "300MB", "tags that no program writes"
    deep = around(TABLE, pieces_of("<a>", many, 10**6), "")
    yield workbook(folder / "deep.xlsx", deep), "50MB", "tags that no program writes"
    named = around(TABLE, (f"<n{i}/>" for i in range(10**6)), "")
    yield workbook(folder / "names.xlsx", named), "20MB", "tags that no program writes"
    same = pieces_of('<c r="A1"><v>1</v></c>', 10**6)
    yield workbook(folder / "same.xlsx", same), "50MB", "to A1, and 1 row × 1 column"
    sheets = [f"n{i}" for i in range(50_000)]
    yield workbook(folder / "sheets.xlsx", TABLE, names=sheets), "300MB", "more than 4096 sheets"
    path = folder / "parts.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(50_000):
            archive.writestr(f"{i}", b"")
    yield path, "300MB", "more than 16384 parts"


def far_apart_before_2007(folder):
    """Yield the same as ``far_apart`` in the older format."""
    path = old_workbook(folder / "corner.xls", NUMBERS + number(65_535, 255, 1))
    yield path, "300MB", "IV65536"
    path = old_workbook(folder / "behind the corner.xls", NUMBERS + number(65_535, 65_535, 1))
    yield path, "2GB", "65536 columns"
    path = old_workbook(folder / "each fits.xls", *[NUMBERS + number(9_999, 99, 1)] * 9)
    yield path, "300MB", "number"
    size = record(0x0200, struct.pack("<IIHHH", 0, 4 * 10**9, 0, 60_000, 0))
    yield old_workbook(folder / "size.xls", size + NUMBERS), "300MB", "is damaged"
    path = old_workbook(folder / "promised.xls", NUMBERS, promised=2**31 - 1)
    yield path, "300MB", "the texts of its cells may take"
    cells = b"".join(old_text(i, 0, 0) for i in range(3_000))
    path = old_workbook(folder / "repeated.xls", cells, texts=[b"z" * 8_000] * 6)
    yield path, "100MB", "1 column take"
    path = old_workbook(
        folder / "circle.xls", NUMBERS, link=lambda after, n: [*after[:n], n, *after[n + 1 :]]
    )
    yield path, "300MB", "in a circle"
    path = old_workbook(folder / "tables.xls", NUMBERS, first_table=2**32 - 1)
    yield path, "300MB", "more sectors than there are"


MEASURE = """
import json, sys
import numpy, pyarrow.csv, python_calamine
from jointsparse.io import TableError, read_table
numpy.asarray(pyarrow.csv.read_csv(pyarrow.py_buffer(b"a,b\\n1,2\\n"))["a"])
def most():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
def now():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
for line in sys.stdin:
    path, memory = json.loads(line)
    open("/proc/self/clear_refs", "w").write("5")  # the most from now on
    before = now()
    try:
        said = read_table(path, memory=memory).values.shape
    except TableError as error:
        said = str(error)
    print(json.dumps([path, said, most() - before]), flush=True)
"""


def read_elsewhere(cases):
    """Return what another process says of files and memories, and how much it took."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the most memory that a process took is read from /proc")
    lines = "".join(json.dumps([str(path), memory]) + "\n" for path, memory in cases)
    command = [sys.executable, "-c", MEASURE]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=300)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (done.returncode, found[-1:], done.stderr[-2000:])
    return found


@pytest.mark.parametrize(
    "kinds", [far_apart, far_apart_before_2007, pytest.param(bombs, marks=pytest.mark.slow)]
)
def test_what_does_not_fit_is_refused_in_little_memory(tmp_path, kinds):
    cases = list(kinds(tmp_path))
    found = read_elsewhere([(path, memory) for path, memory, _ in cases])
    assert len(found) == len(cases)
    for (path, _, words), (_, said, taken) in zip(cases, found, strict=True):
        assert isinstance(said, str), (path.name, said)
        assert words in said, (path.name, said)
        assert said.startswith(str(path)), said
        assert taken < 100_000_000, (path.name, taken)


def test_a_stray_cell_is_named_with_the_cure(tmp_path):
    path = workbook(tmp_path / "a.xlsx", TABLE + STRAY, names=["rounds"])
    with pytest.raises(TableError) as told:
        read_table(path, memory="1GB")
    assert str(told.value) == (
        f"{path} does not fit in memory: the sheet rounds reaches at least to XFD1048576, and "
        "1048576 rows × 16384 columns take 722 GB where 1 GB may be used; delete what does not "
        "belong to the table, or save the table as .csv."
    )
    result = CliRunner().invoke(app, ["select", str(path)])
    assert result.exit_code == 2
    assert "XFD1048576" in result.stderr
    assert "save the table as .csv" in " ".join(result.stderr.split())


@pytest.mark.parametrize("suffix", [".xlsb", ".ods", ".ODS"])
def test_formats_that_do_not_tell_how_far_they_reach(tmp_path, suffix):
    path = workbook(tmp_path / f"a{suffix}", TABLE)
    with pytest.raises(TableError, match=r"not known before it is read; save it as .xlsx\.$"):
        read_table(path)
    # Under a suffix of another kind, either.
    inside = tmp_path / "b.xlsx"
    with zipfile.ZipFile(inside, "w") as archive:
        archive.writestr("content.xml" if suffix != ".xlsb" else "xl/workbook.bin", "<a/>")
    with pytest.raises(TableError, match=r"save it as .xlsx\.$"):
        read_table(inside)


# --- read as before -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace('"', "'"),
        lambda text: text.replace("<", "<x:").replace("<x:/", "</x:"),
        lambda text: text.replace('r="', 's="'),  # cells that do not say where they are
        lambda text: text.replace("<c ", "<c\n\t"),
        lambda text: text + '<row r="1048576"><c r="XFD1048576" s="1"/></row>',  # only coloured
        lambda text: text.replace("</row>", "</row> <!-- a < b -->\n"),
    ],
)
@pytest.mark.parametrize("size", [0, 100_000])
def test_cells_are_where_they_were(tmp_path, change, size):
    # So many bytes could be texts that do not fit; only the tags tell that they are none.
    path = workbook(tmp_path / "a.xlsx", f"<!-- {size * 'x'} -->{change(TABLE)}")
    table = read_table(path, memory="100kB")
    assert table.names == ["a", "b"]
    np.testing.assert_array_equal(table.values, VALUES)


@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("folder", ["xl/", "book/", ""])
def test_sheets_are_where_the_relationships_say(tmp_path, folder, absolute):
    path = workbook(tmp_path / "a.xlsx", TABLE, folder=folder, absolute=absolute)
    np.testing.assert_array_equal(read_table(path).values, VALUES)


def test_only_the_sheet_that_is_read_has_to_fit(tmp_path):
    path = workbook(tmp_path / "a.xlsx", "", TABLE, STRAY + TABLE, names=["none", "one", "far"])
    table = read_table(path, memory="100MB")
    np.testing.assert_array_equal(table.values, VALUES)
    assert "read the sheet one; the file also has far" in table.notes
    with pytest.raises(TableError, match="the sheet far reaches at least to XFD1048576"):
        read_table(path, memory="100MB", dataset="far")


def test_texts_count_as_often_as_cells_refer_to_them(tmp_path):
    rows = "".join(
        f'<row r="{i}"><c r="A{i}" t="s"><v>{i % 3}</v></c><c r="B{i}"><v>{i}</v></c></row>'
        for i in range(1, 400)
    )
    strings = ["<si><t>x</t></si>", "<si><r><t>y</t></r><r><t>z</t></r></si>"]
    path = tmp_path / "a.xlsx"
    workbook(path, rows, strings=[*strings, f"<si><t>{'n' * 300}</t></si>"])
    # 133 times 300 bytes, and no more, although each of 399 cells could be as long.
    assert read_table(path, memory="400kB").values.shape == (398, 1)
    workbook(path, rows, strings=[*strings, f"<si><t>{'n' * 3000}</t></si>"])
    with pytest.raises(TableError, match="reaches at least to"):
        read_table(path, memory="400kB")


def test_the_format_before_2007(tmp_path):
    path = old_workbook(tmp_path / "a.xls", NUMBERS, b"")
    table = read_table(path, memory="10MB")
    assert table.names == ["a", "b"]
    np.testing.assert_array_equal(table.values, [[10, 11], [20, 21]])
    np.testing.assert_array_equal(read_table(path, dataset="s0").values, table.values)


@pytest.mark.slow
def test_what_is_let_through_takes_no_more_than_it_may(tmp_path):
    rng = np.random.default_rng(0)

    def rows(n, p, value):
        names = "".join(f'<c r="{column(j)}1" t="str"><v>x{j}</v></c>' for j in range(p))
        yield f'<row r="1">{names}</row>'
        for i in range(2, n + 2):
            cells = (f'<c r="{column(j)}{i}"{value()}</v></c>' for j in range(p))
            yield f'<row r="{i}">{"".join(cells)}</row>'

    def column(j):
        return "ABCDEFGHIJKLMNOPQRST"[j]

    kinds = {
        "numbers": lambda: f"><v>{rng.random()}",
        "texts": lambda: f' t="str"><v>{rng.random()}{"é" * 200}',
        "shared": lambda: f' t="s"><v>{rng.integers(50)}',
    }
    strings = [f"<si><t>{i}{'s' * 500}</t></si>" for i in range(50)]
    cases = []
    for kind, value in kinds.items():
        path = tmp_path / f"{kind}.xlsx"
        workbook(path, rows(3_000, 20, value), strings=strings)
        cases += [(path, f"{30 * 1.5**k:.0f}MB") for k in range(5)]
    for n, p in ((40_000, 50), (400, 5_000)):
        far = f'{TABLE}<row r="{n}"><c r="{"AX" if p == 50 else "GJH"}{n}"><v>1</v></c></row>'
        path = workbook(tmp_path / f"{n}.xlsx", far)
        cases += [(path, f"{50 * 1.5**k:.0f}MB") for k in range(3)]
    refused = 0
    for (path, memory), (_, said, taken) in zip(cases, read_elsewhere(cases), strict=True):
        fits = "fit in memory" not in str(said)
        refused += not fits
        assert not fits or taken < 1.1 * float(memory.removesuffix("MB")) * 1e6, (
            path,
            memory,
            taken,
        )
    assert 5 < refused < len(cases) - 5

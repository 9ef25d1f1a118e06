"""Files that promise what cannot be are refused in one sentence, in bounded time and memory."""

import gzip
import io
import os
import struct
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from programs import python
from pyarrow import ipc, parquet

from jointsparse import SPCAPSD
from jointsparse.io import Table, TableError, read_table, write_table
from jointsparse.sources import open_source
from jointsparse.sources.in_memory import ArraySource

SECONDS = 10.0


def refused(path, *words, **options):
    started = time.process_time()  # the tests beside this one take their share of the clock
    with pytest.raises(TableError) as caught:
        read_table(path, **options)
    assert time.process_time() - started < SECONDS
    sentence = str(caught.value)
    assert str(path) in sentence
    assert "\n" not in sentence
    assert len(sentence) < 1000
    for word in words:
        assert word in sentence


def npy(shape, kind="<f8", data=b"\0" * 64, version=1, length=None):
    header = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    length = len(header) if length is None else length
    counted = struct.pack("<H" if version == 1 else "<I", length)
    return b"\x93NUMPY" + bytes([version, 0]) + counted + header + data


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (npy((10**12, 3)), ["damaged or truncated", "24 TB", "64 bytes follow"]),
        (npy((10**30, 10**30)), ["damaged or truncated"]),
        (npy((-5, 3)), ["damaged", "(-5, 3)"]),
        (npy((0, 10**12)), ["no rows"]),
        (npy((2, 2), "|O"), ["Python objects, which are never loaded"]),
        (npy((2, 2), "<U1000000000"), ["damaged"]),
        (npy((2, 2), "nonsense"), ["damaged"]),
        (npy((2, 2), version=2, length=2**32 - 1), ["header says to be 4294967295 bytes long"]),
        (npy((2, 2), version=9), ["version 9.0"]),
        (npy("(" * 5000), ["damaged"]),
    ],
)
@pytest.mark.parametrize("suffix", [".npy", ".npy.gz", ".npz"])
def test_absurd_arrays(tmp_path, content, words, suffix):
    path = tmp_path / f"a{suffix}"
    if suffix == ".npz":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("X.npy", content)
    else:
        path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    # What is packed says only by its end how long it is; then the memory is the limit.
    refused(path, *(words if suffix == ".npy" else []))


def test_an_array_in_blocks_is_checked_too(tmp_path):
    path = tmp_path / "a.npy"
    for shape, words in [((10**12, 3), "truncated"), ((-1, 2), "damaged"), ((3, 0), "no numbers")]:
        path.write_bytes(npy(shape))
        with pytest.raises(TableError, match=words):
            open_source(path)
    path.write_bytes(npy((2, 2), "|O"))
    with pytest.raises(TableError, match="never loaded"):
        open_source(path)


@pytest.mark.parametrize("order", ["C", "F"])
def test_blocks_of_an_array_are_its_rows(tmp_path, order):
    values = np.asarray(np.random.default_rng(0).normal(size=(50, 7)), order=order)
    np.save(tmp_path / "a.npy", values)
    blocks = list(open_source(tmp_path / "a.npy").blocks(entries=70))
    assert [len(block) for block in blocks] == [10] * 5
    np.testing.assert_array_equal(np.concatenate(blocks), values)


def bomb(path, megabytes):
    """Write an archive of a matrix of zeros, a thousandth of its size."""
    rows = megabytes * 2**20 // 80
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (rows, 10)}
    )
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("X.npy", "w") as member,
    ):
        member.write(header.getvalue())
        for start in range(0, rows, 2**14):
            member.write(bytes(80 * min(2**14, rows - start)))


def test_a_bomb_is_refused_by_what_it_would_take(tmp_path):
    bomb(tmp_path / "a.npz", 40)
    assert (tmp_path / "a.npz").stat().st_size < 10**6
    refused(tmp_path / "a.npz", "does not fit in memory", "10 MB may be used", memory="10MB")
    assert read_table(tmp_path / "a.npz", memory="1GB").shape == (2**19, 10)


def test_a_member_that_lies_about_its_size(tmp_path):
    """The directory of the archive says 100 bytes; the header of the array says 40 MB."""
    bomb(tmp_path / "a.npz", 40)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    at = content.rindex(b"PK\x01\x02") + 24
    content[at : at + 4] = struct.pack("<I", 100)
    (tmp_path / "a.npz").write_bytes(content)
    refused(tmp_path / "a.npz", "damaged")


def test_other_packing_than_numpys(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("X.npy", npy((2, 2)))
    refused(tmp_path / "a.npz", "packed in a way that NumPy does not use")


MEASURED = """
import sys
import numpy, pyarrow.csv, pyarrow.parquet, scipy.io, pandas
sys.path.append({root!r})
from benchmarks.worker import peak
from jointsparse.io import TableError, read_table
before = peak()
try:
    read_table(sys.argv[1] if len(sys.argv) > 1 else {path!r}, memory={memory!r})
except TableError as error:
    assert "memory" in str(error), error
else:
    raise SystemExit("it was read")
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".npz", ".csv.gz", ".mtx.gz", ".npy.gz", ".parquet", ".arrow"])
def test_the_memory_of_a_bomb_is_not_taken(tmp_path, suffix):
    """A gigabyte behind a few megabytes, with 200 MB allowed: measured in a process of its own."""
    path = tmp_path / f"a{suffix}"
    if suffix == ".npz":
        bomb(path, 1024)
    elif suffix in (".parquet", ".arrow"):
        table = pa.table({f"x{j}": np.zeros(2**20) for j in range(128)})
        if suffix == ".parquet":
            parquet.write_table(table, path)
        else:
            with ipc.new_file(
                path, table.schema, options=ipc.IpcWriteOptions(compression="zstd")
            ) as f:
                f.write_table(table, max_chunksize=2**16)
    else:
        first = {
            ".csv.gz": b"a,b\n",
            ".mtx.gz": b"%%MatrixMarket matrix array real general\n2 2\n",
            ".npy.gz": npy((2**27, 1), data=b""),
        }[suffix]
        with gzip.open(path, "wb", compresslevel=1) as stream:
            stream.write(first)
            for _ in range(1024):
                stream.write((b"\0" * 4 if "npy" in suffix else b"1,1\n") * 2**18)
    assert path.stat().st_size < 10**7
    root = str(Path(__file__).parents[2])
    code = MEASURED.format(root=root, path=str(path), memory="200MB")
    taken = python(code, folder=tmp_path)
    assert float(taken) * 1024 < 400 * 10**6


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("coordinate real general\n1000000000 1000000000 1000000000000\n", ["cannot hold them"]),
        ("coordinate real general\n3 3 99999999999999999999\n", ["damaged"]),
        ("coordinate real general\n-3 3 1\n1 1 1\n", ["damaged"]),
        ("coordinate pattern symmetric\n3 3 1000000\n1 1\n", ["cannot hold them"]),
        ("array real general\n1000000 1000000\n1\n", ["cannot hold them"]),
        ("array real symmetric\n1000000 1000000\n1\n", ["cannot hold them"]),
        ("array real symmetric\n2 3\n1\n2\n3\n4\n5\n6\n", ["damaged", "shape (2, 3) symmetric"]),
        ("array integer general\n0 9999\n", ["has no rows"]),
        ("array real general\n9999 0\n", ["has no numeric columns"]),
        ("coordinate real general\n2 1000000000000 1\n1 1 1\n", ["does not fit in memory"]),
        ("coordinate real general\n1000000000000 2 1\n1 1 1\n", ["does not fit in memory"]),
    ],
)
def test_absurd_matrix_market(tmp_path, header, words):
    path = tmp_path / "a.mtx"
    path.write_text(f"%%MatrixMarket matrix {header}")
    refused(path, *words)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"a" * 70_000_000, ["no readable line", "field larger than"]),
        (b"a," * 35_000_000, ["no end of its first two rows"]),
        (b"\n" * 10**6, ["more than 10000 empty lines"]),
        (b"a,b\n1," + b"2" * 20_000_000 + b"\n", ["no readable line", "field larger than"]),
        (b"a,b\n1,2\n3," + b"4" * 20_000_000 + b"\n", ["infinite"]),
        (b'a,b\n"' + b"2\n" * 10**6, ["no readable line", "field larger than"]),
    ],
)
def test_gigantic_lines(tmp_path, text, words, suffix):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(gzip.compress(text, 1) if suffix.endswith(".gz") else text)
    refused(path, *words)


def test_more_text_than_memory(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,1\n" * 10**6, 1))
    refused(path, "does not fit in memory", "20 MB may be used", memory="20MB")
    assert read_table(path, memory="40MB").shape == (10**6, 2)


def test_names_repeated_very_often(tmp_path):
    """Numbering them takes a time that grows with their number, not with its square."""
    path = tmp_path / "a.csv"
    path.write_text(",".join(["a"] * 20_000) + "\n" + ",".join(["1"] * 20_000) + "\n")
    started = time.process_time()
    table = read_table(path, least_rows=1)
    assert time.process_time() - started < SECONDS
    assert len(set(table.names)) == 20_000
    assert len(table.notes) == 21
    assert table.notes[-1] == "renamed 19979 more repeated columns in the same way"


def test_parquet_of_more_rows_than_memory(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": np.zeros(10**6), "b": np.zeros(10**6)}), path)
    assert path.stat().st_size < 20_000
    refused(path, "1000000 rows of 2 columns take 32 MB", memory="20MB")
    assert read_table(path, memory="40MB").shape == (10**6, 2)


def test_parquet_text_that_repeats_takes_no_memory(tmp_path):
    """A thousand rows of one text of a megabyte: a gigabyte, if it were unpacked."""
    path = tmp_path / "a.parquet"
    text = pa.DictionaryArray.from_arrays(np.zeros(1000, np.int8), ["x" * 10**6])
    table = pa.table({"a": np.arange(1000.0), "t": text})
    parquet.write_table(table, path)
    assert read_table(path, drop_text=True, memory="50MB").shape == (1000, 1)
    refused(path, "its labels take 8 GB", label="t", memory="50MB")


def test_text_of_an_arrow_file_that_repeats_is_not_written_out(tmp_path):
    rows = 600_000  # of 4000 characters each: more than Arrow's text can have
    codes = np.arange(rows, dtype=np.int32) % 2
    texts = pa.DictionaryArray.from_arrays(codes, ["text" * 1000, "other" * 800])
    table = pa.table({"a": texts, "b": np.zeros(rows), "c": np.ones(rows)})
    path = tmp_path / "x.arrow"
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    started = time.process_time()
    assert read_table(path).names == ["b", "c"]
    made = read_table(path, categories="onehot")
    assert time.process_time() - started < SECONDS
    assert len(made.names) == 4
    np.testing.assert_array_equal(made.values[:4, 2:], [[0, 1], [1, 0]] * 2)


def test_rows_without_a_byte(tmp_path):
    path = tmp_path / "a.arrow"
    table = pa.table({"a": pa.Array.from_buffers(pa.null(), 10**12, [None])})
    with ipc.new_file(path, table.schema, options=ipc.IpcWriteOptions(allow_64bit=True)) as writer:
        writer.write_table(table)
    refused(path, "1000000000000 rows of 1 column take 16 TB")
    with pytest.raises(TableError, match="no numeric columns"):
        open_source(path)


COLUMNS = {name: np.random.default_rng(0).normal(size=1000) for name in "abc"}


@pytest.mark.parametrize("rows", [999, 1001])
def test_parquet_that_says_to_have_other_rows(tmp_path, rows):
    """More rows than there are were once read as whatever was in memory."""
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table(COLUMNS), path, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    footer = len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]

    def written(number):  # a field of 64 bits, as Thrift packs it
        return bytes([0x16, (2 * number) & 0x7F | 0x80, 2 * number >> 7])

    at = content.index(written(1000), footer)
    content[at : at + 3] = written(rows)
    path.write_bytes(content)
    assert parquet.read_metadata(path).num_rows == rows
    for read in (
        lambda source: source.read(),
        lambda source: list(source.blocks(entries=300)),
        lambda source: source.read_columns(np.array([0, 2])),
        lambda source: SPCAPSD().fit(source),
    ):
        with pytest.raises(
            TableError, match=rf"damaged: it says to have {rows} rows, and has 1000"
        ):
            read(open_source(path))


@pytest.mark.parametrize("rows", [1100, 10**6, -1, 2**62])
@pytest.mark.parametrize("text", [False, True])
def test_an_arrow_file_whose_columns_are_shorter_than_it_says(tmp_path, rows, text):
    """Arrow would read what lies in memory behind them, or end the process."""
    path = tmp_path / "a.arrow"
    columns = COLUMNS | ({"t": [f"text {number}" for number in range(1000)]} if text else {})
    table = pa.table(columns)
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    content = path.read_bytes()
    path.write_bytes(content.replace(struct.pack("<q", 1000), struct.pack("<q", rows)))
    refused(path, drop_text=True)
    with pytest.raises(TableError):
        open_source(path, drop_text=True).read()


def test_text_of_an_arrow_file_that_begins_outside_of_it(tmp_path):
    path = tmp_path / "a.arrow"
    table = pa.table({"a": np.arange(1000.0), "t": ["x"] * 1000})
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    offsets = np.arange(1001, dtype=np.int32)
    wild = offsets.copy()
    wild[500] = 2**30
    content = path.read_bytes()
    assert content.count(offsets.tobytes()) == 1
    path.write_bytes(content.replace(offsets.tobytes(), wild.tobytes()))
    refused(path, "damaged", label="t")


def test_a_source_that_says_to_have_more_rows_than_it_has():
    source = ArraySource(np.eye(4)).map(lambda block: block, 4)
    for rows in (3, 5):
        source.n_samples = rows
        with pytest.raises(ValueError, match=f"says to have {rows} rows, and has 4"):
            source.read()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    refused(tmp_path / "a.csv", "device or a pipe")


def test_memory_that_is_no_amount(tmp_path):
    write_table(tmp_path / "a.csv", Table(np.eye(3), list("abc")))
    with pytest.raises(ValueError, match="not an amount of memory"):
        read_table(tmp_path / "a.csv", memory="much")


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_names_of_columns_that_are_no_text(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    write_table(path, Table(np.arange(12.0).reshape(4, 3), ["a", "éé", "c"]))
    content = path.read_bytes().replace("éé".encode(), b"\xe9\xe9\xe9\xe9")
    path.write_bytes(content)
    with pytest.raises(TableError, match="damaged"):
        open_source(path, memory="100MB")
    refused(path, "damaged")

"""Well-formed files that promise what cannot be: more than the memory, less than nothing."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyarrow import ipc, parquet

COUNTS = (-1, 0, 1, 2, 5, 2**16, 10**7, 2**31, 10**9, 2**32 + 1, 10**12, 2**63, 10**30)
TYPES = ("<f8", ">f4", "<f2", "|b1", "<i8", "|O", "O8", "<U9", "<U999999999", "|V8", "<M8[s]")
TYPES += ("<c16", "(2,2)f8", "<f16", "|S0", "nonsense")
MOST_BYTES = 20_000_000  # of text that a packed file unpacks to
MOST_COLUMNS = 20_000


def absurd(suffix: str, rng: np.random.Generator) -> bytes:
    """Return the bytes of an absurd file of a format."""
    plain = suffix.removesuffix(".gz")
    content = _MAKERS.get(plain, _text)(rng)
    return gzip.compress(content, 1, mtime=0) if suffix.endswith(".gz") else content


def _choice(rng: np.random.Generator, options: tuple) -> object:
    return options[int(rng.integers(len(options)))]


def _npy(rng: np.random.Generator) -> bytes:
    shape = tuple(_choice(rng, COUNTS) for _ in range(int(rng.integers(0, 4))))
    shape = shape if rng.random() < 0.8 else (3, 2)
    kind = _choice(rng, TYPES)
    text = f"{{'descr': {kind!r}, 'fortran_order': {rng.random() < 0.3}, 'shape': {shape}, }}"
    trick = rng.integers(8)
    if trick == 0:
        text = text.replace("}", "'" + "a" * int(rng.integers(10**6)) + "': 1}")
    elif trick == 1:
        text = "(" * int(rng.integers(1, 9000))
    elif trick == 2:
        text = "-" * int(rng.integers(1, 9000)) + "1"
    header = text.encode()
    version = int(_choice(rng, (1, 1, 2, 2, 3, 9)))
    digits = 2 if version == 1 else 4
    length = len(header) if rng.random() < 0.8 else int(rng.integers(2 ** (8 * digits)))
    counted = (length % 2 ** (8 * digits)).to_bytes(digits, "little")
    data = np.arange(int(rng.integers(0, 30)), dtype=np.float64).tobytes()
    return b"\x93NUMPY" + bytes([version, 0]) + counted + header + data


def _npz(rng: np.random.Generator) -> bytes:
    buffer = io.BytesIO()
    packing = int(_choice(rng, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)))
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        for name in ("X", "y", "feature_names", "../../X", "x" * 999, ""):
            if rng.random() < 0.5:
                content = _npy(rng)
                if rng.random() < 0.2:
                    rows = int(rng.integers(MOST_BYTES // 80))
                    array = io.BytesIO()
                    np.save(array, np.zeros((rows, 10)))
                    content = array.getvalue()
                archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def _market(rng: np.random.Generator) -> bytes:
    layout = _choice(rng, ("coordinate", "array", "other"))
    field = _choice(rng, ("real", "integer", "complex", "pattern", "other"))
    symmetry = _choice(rng, ("general", "symmetric", "skew-symmetric", "hermitian"))
    counts = " ".join(str(_choice(rng, COUNTS)) for _ in range(3 if layout == "coordinate" else 2))
    lines = [f"%%MatrixMarket matrix {layout} {field} {symmetry}"]
    lines += ["%" * int(rng.integers(10**5))] * int(rng.integers(3))
    lines += [counts, *(f"{i} {i} {i}" for i in range(1, int(rng.integers(1, 9))))]
    return "\n".join(lines).encode()


def _text(rng: np.random.Generator) -> bytes:
    size = int(10 ** rng.uniform(1, np.log10(MOST_BYTES)))
    unit = _choice(rng, ("a", "a,", ",", "\n", '"', '"\n', "1,", "a\n", "\t1", "é;", "\r", " \n"))
    head = str(_choice(rng, ("", "a,b\n", "a\tb\n1\t2\n", "\n\n", "\ufeff")))
    tail = str(_choice(rng, ("", "\n", "\n1,2\n3,4\n", '"\n1\n2\n')))
    # Every column takes Arrow some 50 µs, so as many columns as bytes would only test patience.
    most = size if "\n" in str(unit) or str(unit) in 'a"\r' else MOST_COLUMNS
    return (head + str(unit) * min(size // len(str(unit)), most) + tail).encode()


def _columns(rng: np.random.Generator) -> pa.Table:
    rows = int(_choice(rng, (0, 1, 5, 10**4, 10**6)))
    kinds: tuple[Callable[[], pa.Array], ...] = (
        lambda: pa.nulls(rows),
        lambda: pa.nulls(rows, pa.float64()),
        lambda: pa.array(np.zeros(rows)),
        lambda: pa.array(np.zeros(rows, np.float16)),
        lambda: pa.DictionaryArray.from_arrays(np.zeros(rows, np.int8), ["text" * 1000]),
        lambda: pa.DictionaryArray.from_arrays(np.zeros(rows, np.int8), [2.5]),
        lambda: pa.array(np.zeros(rows, np.int64)).cast(pa.timestamp("s")),
        lambda: pa.array(np.zeros(rows, np.int64)).cast(pa.decimal128(30, 3)),
        lambda: pa.array([{"a": [1]}] * min(rows, 99) + [None] * max(rows - 99, 0)),
    )
    made = [kinds[int(rng.integers(len(kinds)))]() for _ in range(int(rng.integers(1, 5)))]
    return pa.table(made, names=[str(_choice(rng, ("a", "b", "", "x" * 9999))) for _ in made])


def _parquet(rng: np.random.Generator) -> bytes:
    buffer = io.BytesIO()
    table = _columns(rng)
    halves = [pa.types.is_float16(column.type) for column in table.columns]
    for j in np.flatnonzero(halves):
        table = table.set_column(int(j), table.column_names[j], pa.nulls(len(table)))
    parquet.write_table(table, buffer, compression=str(_choice(rng, ("none", "zstd", "gzip"))))
    return buffer.getvalue()


def _arrow(rng: np.random.Generator) -> bytes:
    buffer = io.BytesIO()
    table = _columns(rng)
    if rng.random() < 0.3:  # takes no bytes at all, in memory or in the file
        rows = int(_choice(rng, (10**7, 10**9, 10**12)))
        table = pa.table({"a": pa.Array.from_buffers(pa.null(), rows, [None])})
    options = ipc.IpcWriteOptions(allow_64bit=True, compression=_choice(rng, (None, "zstd", "lz4")))
    with ipc.new_file(buffer, table.schema, options=options) as writer:
        writer.write_table(table)
    return buffer.getvalue()


_MAKERS = {
    ".npy": _npy,
    ".npz": _npz,
    ".mtx": _market,
    ".parquet": _parquet,
    ".arrow": _arrow,
}

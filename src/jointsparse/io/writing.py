"""Tables in files that appear whole or not at all."""

from __future__ import annotations

import codecs
import csv
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jointsparse.io.arrow import write_arrow
from jointsparse.io.atomic import atomic_path, check_target
from jointsparse.io.errors import StrPath
from jointsparse.io.formats import formula_safe, open_output, written_kind_of
from jointsparse.io.table import Table


def write_table(path: StrPath, table: Table) -> None:
    """Write a table whole or not at all, in the format of any suffix that `read_table` knows.

    IDs become the first columns and labels the last, under their names, or arrays of an .npz file,
    in which the first labels are called ``y``; .npy and .mtx hold the values only, without names,
    IDs or labels. A sparse table stays sparse in .mtx and
    becomes dense elsewhere. In delimited text, names and text labels that a spreadsheet would run
    as a formula get an apostrophe in front.
    """
    check_writable_format(path)
    kind, values, labels = written_kind_of(Path(path)), table.values, table.all_labels
    if kind != "mtx" and not isinstance(values, np.ndarray):
        values = values.toarray()
    labels = {name: _plain(column) for name, column in labels.items()}
    ids = {name: _plain(column) for name, column in table.ids.items()}
    with atomic_path(path) as temporary, open_output(temporary) as stream:
        if kind == "mtx":
            import scipy.io

            scipy.io.mmwrite(stream, values, symmetry="general")
        elif kind == "npy":
            np.save(stream, values, allow_pickle=False)
        elif kind == "npz":
            arrays: dict[str, Any] = {**ids, **labels}
            if table.labels is not None:
                arrays["y"] = arrays.pop(table.label_name or "label")
            arrays |= {"X": values, "feature_names": np.array(table.names, dtype=str)}
            np.savez_compressed(stream, **arrays)
        else:
            write_arrow(stream, kind, Table(values, table.names, ids=ids, more_labels=labels))


def _plain(column: np.ndarray) -> np.ndarray:
    return column if column.dtype.kind in "biuf" else column.astype(str)


def write_rows(path: StrPath, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a small delimited table, such as a ranking, whole or not at all.

    Suffixes .tsv and .txt take tabs, others commas; .gz compresses. Text cells (never numbers)
    that a spreadsheet would run as a formula get an apostrophe in front.
    """
    tabs = str(path).lower().removesuffix(".gz").endswith((".tsv", ".txt"))
    with atomic_path(path) as temporary, open_output(temporary) as stream:
        writer = csv.writer(codecs.getwriter("utf-8")(stream), delimiter="\t" if tabs else ",")
        for row in itertools.chain([header], rows):
            writer.writerow([formula_safe(c) if isinstance(c, str) else c for c in row])


def check_writable_format(path: StrPath) -> None:
    """Raise `TableError` early, before a long computation, if `write_table` would refuse `path`."""
    written_kind_of(Path(path))
    check_target(Path(path))

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
from jointsparse.io.formats import formula_safe, kind_of, open_output
from jointsparse.io.table import Table


def write_table(path: StrPath, table: Table) -> None:
    """Write a table whole or not at all, in the format of any suffix that `read_table` knows.

    Labels become the last column under their name, or the array ``y`` of an .npz file; .npy and
    .mtx hold the values only, without names or labels. A sparse table stays sparse in .mtx and
    becomes dense elsewhere. In delimited text, names and text labels that a spreadsheet would run
    as a formula get an apostrophe in front.
    """
    check_writable_format(path)
    kind, values, labels = kind_of(Path(path)), table.values, table.labels
    if kind != "mtx" and not isinstance(values, np.ndarray):
        values = values.toarray()
    if labels is not None and labels.dtype.kind not in "biuf":
        labels = labels.astype(str)
    with atomic_path(path) as temporary, open_output(temporary) as stream:
        if kind == "mtx":
            import scipy.io

            scipy.io.mmwrite(stream, values, symmetry="general")
        elif kind == "npy":
            np.save(stream, values, allow_pickle=False)
        elif kind == "npz":
            arrays: dict[str, Any] = {} if labels is None else {"y": labels}
            arrays |= {"X": values, "feature_names": np.array(table.names, dtype=str)}
            np.savez_compressed(stream, **arrays)
        else:
            write_arrow(stream, kind, Table(values, table.names, labels, table.label_name))


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
    kind_of(Path(path))
    check_target(Path(path))

"""Single cells in one AnnData file: ``python -m benchmarks.annotated [CELLS [GENES [MEMORY]]]``.

A file .h5ad of counts, about 3 % of them not zero (CSR, float32; 100 000 × 5 000 unless told
otherwise), is made in the system's temporary folder, a few thousand cells at a time, and deleted
afterwards: ten programs of genes, in different amounts in every cell. Each figure comes from a
process of its own:

* read: all blocks of the source, and nothing else;
* products: the sums over as many blocks that are in memory, for up to 10 000 genes (for more,
  their scatter matrix has no room);
* select: ``jointsparse select cells.h5ad --transform log1p --memory MEMORY``, all of it, and its
  peak memory.

The aim is select ≤ 1.5 × (read + products), and a peak below MEMORY. Times are seconds of the
processor, one thread. Results are kept in benchmarks/results/annotated.json; docs/large.md quotes
those of the largest table.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import keeping
from benchmarks.common import ONE_THREAD
from benchmarks.worker import peak

STORED = Path(__file__).parent / "results" / "annotated.json"
MOST_GENES = 10_000  # of which sums are measured by themselves
DENSITY = 0.03
AT_ONCE = 5000  # cells that are made at a time
PROGRAMS = 10


def make_cells(path, cells, genes, seed=0):
    """Write counts as anndata writes them."""
    import h5py
    from scipy import sparse

    rng = np.random.default_rng(seed)
    programs = rng.gamma(0.3, size=(PROGRAMS, genes))
    programs /= programs.sum(axis=1, keepdims=True)
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", (cells, genes)
        more = {"shape": (0,), "maxshape": (None,), "chunks": (1 << 18,)}
        data = group.create_dataset("data", dtype="f4", **more)
        indices = group.create_dataset("indices", dtype="i4", **more)
        ends = [np.zeros(1, np.int64)]
        for start in range(0, cells, AT_ONCE):
            rows = min(AT_ONCE, cells - start)
            rates = rng.dirichlet(np.full(PROGRAMS, 0.3), size=rows) @ programs
            # As many molecules as leave about this share of the counts above 0.
            counts = rng.poisson(rates * (1.6 * DENSITY * genes))
            matrix = sparse.csr_array(counts.astype(np.float32))
            for stored, part in ((data, matrix.data), (indices, matrix.indices)):
                stored.resize(stored.shape[0] + part.size, axis=0)
                stored[-part.size :] = part
            ends.append(ends[-1][-1] + matrix.indptr[1:].astype(np.int64))
        group.create_dataset("indptr", data=np.concatenate(ends))
        for frame, letter, count in (("obs", "c", cells), ("var", "g", genes)):
            inside = file.create_group(frame)
            inside.attrs["_index"] = "_index"
            names = np.array([f"{letter}{i}" for i in range(count)], dtype="S")
            inside.create_dataset("_index", data=names)


def read(path, memory):
    from jointsparse import open_source

    return sum(block.shape[0] for block in open_source(path, memory=memory).blocks())


def products(path, memory):
    """Return the time of the sums alone, without that of reading."""
    from jointsparse import open_source
    from jointsparse.sources.sums import fold_halves

    state, seconds, start = None, 0.0, 0
    for block in open_source(path, memory=memory).blocks():
        began = time.process_time()
        state = fold_halves(state, block, start)
        seconds += time.process_time() - began
        start += block.shape[0]
    return seconds


def select(path, memory):
    from typer.testing import CliRunner

    from jointsparse.cli.main import app

    arguments = ["select", str(path), "--features", "50", "--transform", "log1p"]
    result = CliRunner().invoke(app, [*arguments, "--memory", memory, "--json"])
    assert result.exit_code == 0, result.output
    return len(json.loads(result.stdout)["kept"])


def main(arguments):
    if arguments[:1] == ["--task"]:
        task, path, memory = arguments[1:]
        import jointsparse.cli.main  # noqa: F401 - imports are no part of the time
        from jointsparse import SPCAPSD, open_source  # noqa: F401

        began = time.process_time()
        found = {"read": read, "products": products, "select": select}[task](Path(path), memory)
        seconds = found if task == "products" else time.process_time() - began
        print(json.dumps({"seconds": seconds, "peak": peak()}))
        return
    sizes = [int(text) for text in arguments[:2]]
    cells, genes = [*sizes, *(100_000, 5_000)[len(sizes) :]]
    memory = arguments[2] if len(arguments) > 2 else "4GB"
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "cells.h5ad"
        make_cells(path, cells, genes)
        print(
            f"{cells} cells × {genes} genes, {path.stat().st_size / 1e6:.0f} MB, {memory} allowed"
        )
        stored = {"cells": cells, "genes": genes, "memory": memory, "file": path.stat().st_size}
        tasks = ("read", "products", "select") if genes <= MOST_GENES else ("read", "select")
        for task in tasks:
            program = [sys.executable, "-m", "benchmarks.annotated", "--task", task]
            done = subprocess.run(
                [*program, str(path), memory],
                check=True,
                capture_output=True,
                text=True,
                env=os.environ | ONE_THREAD,
            )
            found = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{task}: {found['seconds']:.1f} s, peak {found['peak'] / 1e3:.0f} MB", flush=True
            )
            stored[task] = {"seconds": found["seconds"], "peak": found["peak"] * 1024}
        keeping.add(STORED, f"{cells} x {genes}", stored)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Files that are changed so as to reach more of the readers: needs ``pip install atheris``.

``python -m fuzz.guided .csv -runs=100000`` reads tables of that format; ``.skops`` loads models;
further options are those of libFuzzer. Whatever is neither read nor refused in one sentence ends
the run, with the file that did it.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["jointsparse"]):
    from jointsparse.io import TableError, read_table
    from jointsparse.persistence import ModelError, load_model

from fuzz import files, models  # not instrumented: they bring the methods, which take long


def main() -> None:
    """Feed the reader of one format with files, beginning with good ones."""
    suffix, *options = sys.argv[1:] or [".csv"]
    known = (*files.SUFFIXES, ".skops")
    if suffix not in known:
        sys.exit(f"{suffix} is not one of {' '.join(known)}")
    read, refusal = (load_model, ModelError) if suffix == ".skops" else (read_table, TableError)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        seeds = Path(folder) / "seeds"
        seeds.mkdir()
        good = [models._good(j) for j in range(models.N_MODELS)]
        for number, content in enumerate(good if suffix == ".skops" else [files._good(suffix)]):
            (seeds / str(number)).write_bytes(content)

        def one(content: bytes) -> None:
            path.write_bytes(content)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    read(path)
                except refusal as error:
                    if "\n" in str(error):
                        raise RuntimeError(f"not a sentence: {error}") from error

        atheris.Setup([sys.argv[0], "-timeout=10", *options, str(seeds)], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()

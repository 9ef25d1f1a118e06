"""How many rows the batches of an Arrow file have, told without reading them."""

import numpy as np
import pyarrow as pa
import pytest

from jointsparse import open_source
from jointsparse.io import TableError
from jointsparse.io.ipc_footer import FooterError, rows_of_batches

TABLE = pa.table({"a": np.arange(1000.0), "b": [f"{i % 7}" for i in range(1000)]})


def written(path, lengths, **options):
    with pa.ipc.new_file(path, TABLE.schema, options=pa.ipc.IpcWriteOptions(**options)) as file:
        for length in lengths:
            part = TABLE.slice(0, length).combine_chunks().to_batches()
            file.write_batch(part[0] if part else pa.RecordBatch.from_pylist([], TABLE.schema))
    return path


@pytest.mark.parametrize("lengths", [[1000], [3, 0, 500, 1], [], [0]])
@pytest.mark.parametrize(
    "options", [{}, {"compression": "lz4"}, {"compression": "zstd"}, {"use_legacy_format": True}]
)
def test_the_rows_of_batches(tmp_path, lengths, options):
    path = written(tmp_path / "x.arrow", lengths, **options)
    assert rows_of_batches(path) == lengths
    with pa.ipc.open_file(path) as file:
        batches = [file.get_batch(i) for i in range(file.num_record_batches)]
    assert [batch.num_rows for batch in batches] == lengths


def test_what_is_damaged_is_refused(tmp_path):
    whole = written(tmp_path / "x.arrow", [20] * 10).read_bytes()
    path, rng = tmp_path / "y.arrow", np.random.default_rng(0)
    refused = 0
    for _ in range(500):
        changed = np.frombuffer(whole, np.uint8).copy()
        # The end of the file says where batches are, and is believed most.
        at = rng.integers(max(0, len(whole) - 800), len(whole), 4)
        changed[at] = rng.integers(0, 256, 4)
        path.write_bytes(changed.tobytes()[: rng.integers(1, 2 * len(whole))])
        try:
            assert all(rows >= 0 for rows in rows_of_batches(path))
        except FooterError:
            refused += 1
    assert refused > 100


def test_a_batch_of_negative_length(tmp_path):
    path = written(tmp_path / "x.arrow", [77])
    whole = path.read_bytes()
    for length in (-1, 2**62):
        number = (77).to_bytes(8, "little")
        assert number in whole
        path.write_bytes(whole.replace(number, length.to_bytes(8, "little", signed=True)))
        with pytest.raises(TableError):
            open_source(path, memory="20MB")

"""Reading the next block while the last one is worked on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def read_ahead(blocks: Iterator[Any]) -> Iterator[Any]:
    """Yield the same blocks; each is read, by another thread, while its forerunner is in use."""
    end = object()
    with ThreadPoolExecutor(max_workers=1) as reader:
        coming = reader.submit(next, blocks, end)
        while (block := coming.result()) is not end:
            coming = reader.submit(next, blocks, end)
            yield block

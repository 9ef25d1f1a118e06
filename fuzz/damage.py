"""Bytes that are cut, flipped, repeated or replaced at random."""

from __future__ import annotations

import numpy as np

_WORDS = (b"999999999999", b"-1", b"nan", b"inf", b"\xff\xff\xff\x7f", b'"', b"\n", b"1e999")


def damage(good: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes with one to five things wrong."""
    data = bytearray(good)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(len(data) + 1))
        kind = rng.integers(6)
        if kind == 0:
            data[at:] = b""
        elif kind == 1 and at < len(data):
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            data[at:at] = rng.integers(0, 256, int(rng.integers(1, 9))).astype(np.uint8).tobytes()
        elif kind == 3:
            end = at + int(rng.integers(1, 30))
            data[at:at] = data[at:end]
        elif kind == 4:
            del data[at : at + int(rng.integers(1, 30))]
        else:
            data[at : at + 4] = _WORDS[int(rng.integers(len(_WORDS)))]
    return bytes(data)

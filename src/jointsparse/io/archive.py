"""Archives unpacked within bounds: what they say of their members is not believed, but measured."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable

_LOCAL_HEADER = struct.Struct("<4s22xHH")  # before each member; the lengths of two fields end it


def unpacked(content: bytes, check: Callable[[int], None]) -> dict[str, bytes]:
    """Return the members of a zip archive; one that lies about a size is a ValueError.

    Python's own reader inflates a member as far as it goes before it looks at the size that the
    archive gives. Here nothing is inflated beyond that size, and nothing at all before it was
    checked.

    Parameters
    ----------
    content : bytes
        The archive.
    check : callable
        ``check(size)`` raises where that many bytes are too many.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: info for info in archive.infolist()}  # the last of a name counts
    check(sum(info.file_size for info in members.values()))
    return {name: _member(content, info) for name, info in members.items()}


def packed(members: dict[str, bytes]) -> bytes:
    """Return an archive of members as they are: reading it inflates nothing."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def _member(content: bytes, info: zipfile.ZipInfo) -> bytes:
    mark, name_length, extra_length = _LOCAL_HEADER.unpack_from(content, info.header_offset)
    if mark != b"PK\3\4" or info.flag_bits & 1:
        raise ValueError(f"the member {info.filename!r} is encrypted or not where it should be")
    start = info.header_offset + _LOCAL_HEADER.size + name_length + extra_length
    found = content[start : start + info.compress_size]
    if info.compress_type == zipfile.ZIP_DEFLATED:
        inflating = zlib.decompressobj(-zlib.MAX_WBITS)
        found = inflating.decompress(found, info.file_size + 1)
        whole = inflating.eof
    elif info.compress_type == zipfile.ZIP_STORED:
        whole = True
    else:
        raise ValueError(f"the member {info.filename!r} is packed in an unusual way")
    if not whole or len(found) != info.file_size or zlib.crc32(found) != info.CRC:
        raise ValueError(f"the member {info.filename!r} is not the {info.file_size} bytes it says")
    return found

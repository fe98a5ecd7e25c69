"""Compression undone, up to a bound: a few kilobytes may be gigabytes of zeros.

Kafka's limits are for records as they come, compressed. kafka-python makes all that is in them.
"""

import gzip
import io
import struct
from collections.abc import Iterator
from typing import Protocol

import lz4.frame
import zstandard

_GZIP, _SNAPPY, _LZ4, _ZSTD = range(1, 5)
"""As the headers of Kafka's batches number them."""

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
"""How Java's clients begin: blocks follow, each with its length before it."""


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class InflatedError(ValueError):
    """There is more in it than is taken."""


def refuse_bomb(codec: int, data: bytes, most: int) -> None:
    """Raise `InflatedError` if there are more bytes in some than `most`; other errors if they
    can't be read.
    """
    if codec == _GZIP:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as inflating:
            size = _read(inflating, most)
    elif codec == _LZ4:
        with lz4.frame.LZ4FrameFile(io.BytesIO(data)) as inflating:
            size = _read(inflating, most)
    elif codec == _ZSTD:
        stream = io.BytesIO(data)
        with zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True) as reader:
            size = _read(reader, most)
    elif codec == _SNAPPY:
        size = sum(_snappy_sizes(data))
    else:
        return
    if size > most:
        raise InflatedError(f"it has more than {most} bytes when it is not compressed")


def _read(inflating: _Readable, most: int) -> int:
    """How much there is, counted a little beyond the bound."""
    size = 0
    while size <= most and (part := inflating.read(65_536)):
        size += len(part)
    return size


def _snappy_sizes(data: bytes) -> Iterator[int]:
    """What each block says that it has; memory for that is taken before it is looked at."""
    if not data.startswith(_XERIAL):
        yield _varint(data)
        return
    place = _XERIAL_HEADER
    while place < len(data):
        (length,) = struct.unpack_from("!I", data, place)
        yield _varint(data[place + 4 : place + 9])
        place += 4 + length


def _varint(data: bytes) -> int:
    number = 0
    for place, byte in enumerate(data[:5]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    return number

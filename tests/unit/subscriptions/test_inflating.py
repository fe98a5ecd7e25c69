"""Compressed bytes that stand for more than the memory holds."""

import struct
import tracemalloc

import pytest
from kafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode

from subscriptions.inflating import InflatedError, refuse_bomb

GZIP, SNAPPY, LZ4, ZSTD = range(1, 5)
ENCODE = {
    GZIP: gzip_encode,
    SNAPPY: snappy_encode,
    LZ4: lz4_encode,
    ZSTD: zstd_encode,
}
ZEROS = bytes(10_000_000)


def plain_snappy(data: bytes) -> bytes:
    packed: bytes = snappy_encode(data, xerial_compatible=False)
    return packed


@pytest.mark.parametrize("codec", ENCODE)
def test_what_is_within_the_bound_passes(codec: int) -> None:
    refuse_bomb(codec, ENCODE[codec](ZEROS), len(ZEROS))
    refuse_bomb(codec, ENCODE[codec](b""), 0)
    refuse_bomb(SNAPPY, plain_snappy(ZEROS), len(ZEROS))
    refuse_bomb(0, ZEROS, 1)


@pytest.mark.parametrize("codec", ENCODE)
def test_what_is_beyond_it_is_refused_before_it_is_there(codec: int) -> None:
    packed = ENCODE[codec](ZEROS)
    for most in (1_000_000, len(ZEROS) - 1):
        tracemalloc.start()
        with pytest.raises(InflatedError):
            refuse_bomb(codec, packed, most)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4_000_000


def test_several_frames_count_together() -> None:
    for codec in (GZIP, LZ4, ZSTD):
        packed = ENCODE[codec](bytes(600_000))
        refuse_bomb(codec, packed + packed, 1_200_000)
        with pytest.raises(InflatedError):
            refuse_bomb(codec, packed + packed, 1_000_000)


def test_snappy_only_says_how_much_it_is() -> None:
    four_gigabytes = b"\xff\xff\xff\xff\x0f\x00"
    block = struct.pack("!I", len(four_gigabytes)) + four_gigabytes
    header = snappy_encode(b"")[:16]
    for packed in (four_gigabytes, header + block, header + block * 2, plain_snappy(ZEROS)):
        with pytest.raises(InflatedError):
            refuse_bomb(SNAPPY, packed, 1_000_000)

"""The records that a worker gets, as Python has them: only what is needed, column by column."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

from streaming_jobs.rows import Headers

_NO_HEADERS = Headers()


class Source(NamedTuple):
    """A record that was read."""

    place: bytes
    """`topic/partition/offset`."""
    key: bytes | None
    value: bytes | None
    headers: Headers
    """Without those that are ours to give."""


def sources(batch: pa.RecordBatch) -> Iterator[Source]:
    """The records of an Arrow batch."""
    # Not all columns: times take long to become objects of Python's.
    names = ("topic", "partition", "offset", "key", "value")
    columns = [batch.column(name).to_pylist() for name in names]
    for topic, partition, offset, key, value, headers in zip(
        *columns, _headers(batch.column("headers")), strict=True
    ):
        yield Source(f"{topic}/{partition}/{offset}".encode(), key, value, headers)


def _headers(column: pa.ListArray) -> Iterator[Headers]:
    """The headers of source records that their results have too.

    Not through `to_pylist`, which would make a dictionary of each.
    """
    offsets = column.offsets.to_pylist()
    names = column.values.field("key").to_pylist()
    values = column.values.field("value").to_pylist()
    layouts: dict[tuple[str, ...], tuple[int, ...] | None] = {}
    for start, end in pairwise(offsets):
        if start == end:
            yield _NO_HEADERS
            continue
        of_record = tuple(names[start:end])
        if of_record not in layouts:
            layouts[of_record] = _kept(of_record)
        kept = layouts[of_record]
        of_values = tuple(values[start:end])
        if kept is None:
            yield Headers(of_record, of_values)
        else:
            yield Headers(
                tuple([of_record[each] for each in kept]), tuple([of_values[each] for each in kept])
            )


def _kept(names: tuple[str, ...]) -> tuple[int, ...] | None:
    """Which headers results have too; None if all. Names with xb- are ours to give."""
    kept = [
        place
        for place, name in enumerate(names)
        if not name.lower().startswith("xb-") and name.lower() != "content-type"
    ]
    return None if len(kept) == len(names) else tuple(kept)

"""Rows for the Kafka sink, built column by column: Arrow has no quick way from dictionaries."""

from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa

SCHEMA = "topic string, key binary, value binary, headers array<struct<key:string,value:binary>>"
"""The columns as Spark names their types."""

MANY_ROWS = 500
MANY_BYTES = 1_000_000
"""So much is handed on together: Kafka gets it while more is made, and no more is held here."""

_MOST_KEPT, _LONGEST_KEPT = 50, 1_000
"""More names of headers, or with more characters, are not kept: publishers choose them."""

_LARGEST_LENGTH = 4
"""The bytes that a length takes in a record, of up to 128 MB: those of a name and of its value."""

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])


class Headers(NamedTuple):
    """Names and values of a record's headers, apart as Arrow has them."""

    names: tuple[str, ...] = ()
    values: tuple[bytes | None, ...] = ()

    def __add__(self, others: "Headers") -> "Headers":  # type: ignore[override]
        """These and others."""
        return Headers(self.names + others.names, self.values + others.values)

    def size(self) -> int:
        """How many bytes they take in a record, at most."""
        values = sum([len(value) for value in self.values if value is not None])
        return values + _bytes_of(self.names) + 2 * _LARGEST_LENGTH * len(self.names)


def _bytes_of(names: tuple[str, ...]) -> int:
    """How many bytes names have in UTF-8: they are the publishers', and may be any."""
    return sum([len(n) if n.isascii() else len(n.encode("utf-8", "replace")) for n in names])


class Rows:
    """Some rows, in the order in which they are added."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._topics: list[str] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._names: list[tuple[tuple[str, ...], int]] = []
        """The names of headers, and how many rows one after the other have them."""
        self._headers: list[bytes | None] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._topics)

    def has_room(self, rows: int, size: int) -> bool:
        """Whether so many rows more, of so many bytes in all, are not too much."""
        return len(self._topics) + rows <= MANY_ROWS and self._bytes + size <= MANY_BYTES

    @property
    def is_full(self) -> bool:
        """Whether it is time to hand them on."""
        return len(self._topics) >= MANY_ROWS or self._bytes >= MANY_BYTES

    def add(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, size: int
    ) -> None:
        """One more record to be written, of about so many bytes."""
        self._topics.append(topic)
        self._keys.append(key)
        self._values.append(value)
        self._names.append((headers.names, 1))
        self._headers += headers.values
        self._bytes += size

    def add_alike(
        self,
        topics: list[str],
        keys: list[bytes | None],
        values: list[bytes],
        *,
        names: tuple[str, ...],
        headers: list[list[bytes | None]],
        size: int,
    ) -> None:
        """Records with headers of the same names, whose values come name by name; of about so many
        bytes in all.
        """
        count, width = len(topics), len(names)
        self._topics += topics
        self._keys += keys
        self._values += values
        self._names.append((names, count))
        self._bytes += size
        interleaved: list[bytes | None] = [None] * (count * width)
        for place, column in enumerate(headers):
            interleaved[place::width] = column
        self._headers += interleaved

    def take(self) -> pa.RecordBatch:
        """The rows as one Arrow batch; none are left."""
        batch = self._to_arrow()
        self._clear()
        return batch

    def _to_arrow(self) -> pa.RecordBatch:
        offsets, names = self._header_names()
        headers = pa.ListArray.from_arrays(
            offsets,
            pa.StructArray.from_arrays(
                [names, pa.array(self._headers, pa.binary())], fields=list(_HEADER)
            ),
        )
        columns = [
            pa.array(self._topics, pa.string()),
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, pa.binary()),
            headers,
        ]
        return pa.RecordBatch.from_arrays(columns, names=["topic", "key", "value", "headers"])

    def _header_names(self) -> tuple[pa.Array, pa.Array]:
        """Where the headers of each row begin, and all their names."""
        layouts = {names for names, _ in self._names}
        rows = len(self._topics)
        if len(layouts) == 1 and rows <= MANY_ROWS:
            (names,) = layouts
            if len(names) <= _MOST_KEPT and sum(map(len, names)) <= _LONGEST_KEPT:
                offsets, repeated = _repeated(names)
                return offsets[: rows + 1], repeated[: rows * len(names)]
        widths = [len(names) for names, count in self._names for _ in range(count)]
        return (
            pa.array([0, *accumulate(widths)], pa.int32()),
            pa.array([name for names, count in self._names for name in names * count], pa.string()),
        )


@lru_cache(maxsize=16)
def _repeated(names: tuple[str, ...]) -> tuple[pa.Array, pa.Array]:
    """Where the headers of each row begin, and all their names, if every row has the same ones."""
    offsets = range(0, MANY_ROWS * len(names) + 1, len(names)) if names else [0] * (MANY_ROWS + 1)
    return pa.array(offsets, pa.int32()), pa.array(names * MANY_ROWS, pa.string())

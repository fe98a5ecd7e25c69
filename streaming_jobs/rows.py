"""Rows for the Kafka sink, built column by column: Arrow has no quick way from dictionaries."""

from typing import NamedTuple

import pyarrow as pa

SCHEMA = "topic string, key binary, value binary, headers array<struct<key:string,value:binary>>"
"""The columns as Spark names their types."""

_MANY_ROWS = 500
_MANY_BYTES = 1_000_000
"""So much is handed on together: Kafka gets it while more is made, and no more is held here."""

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])


class Headers(NamedTuple):
    """Names and values of a record's headers, apart as Arrow has them."""

    names: tuple[str, ...] = ()
    values: tuple[bytes | None, ...] = ()

    def __add__(self, others: "Headers") -> "Headers":  # type: ignore[override]
        """These and others."""
        return Headers(self.names + others.names, self.values + others.values)

    def size(self) -> int:
        """About how many bytes they take in a record."""
        values = sum([len(value) for value in self.values if value is not None])
        return values + sum(map(len, self.names)) + 4 * len(self.names)


class Rows:
    """Some rows, added one by one."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._topics: list[str] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._offsets = [0]
        self._header_names: list[str] = []
        self._header_values: list[bytes | None] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._topics)

    @property
    def is_full(self) -> bool:
        """Whether it is time to hand them on."""
        return len(self._topics) >= _MANY_ROWS or self._bytes >= _MANY_BYTES

    def add(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, size: int
    ) -> None:
        """One more record to be written, of about so many bytes."""
        self._topics.append(topic)
        self._keys.append(key)
        self._values.append(value)
        self._bytes += size
        self._header_names += headers.names
        self._header_values += headers.values
        self._offsets.append(len(self._header_names))

    def take(self) -> pa.RecordBatch:
        """The rows as one Arrow batch; none are left."""
        batch = self._to_arrow()
        self._clear()
        return batch

    def _to_arrow(self) -> pa.RecordBatch:
        headers = pa.ListArray.from_arrays(
            pa.array(self._offsets, pa.int32()),
            pa.StructArray.from_arrays(
                [
                    pa.array(self._header_names, pa.string()),
                    pa.array(self._header_values, pa.binary()),
                ],
                fields=list(_HEADER),
            ),
        )
        columns = [
            pa.array(self._topics, pa.string()),
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, pa.binary()),
            headers,
        ]
        return pa.RecordBatch.from_arrays(columns, names=["topic", "key", "value", "headers"])

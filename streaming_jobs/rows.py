"""Rows for the Kafka sink, built column by column: Arrow has no quick way from dictionaries."""

import pyarrow as pa

SCHEMA = "topic string, key binary, value binary, headers array<struct<key:string,value:binary>>"
"""The columns as Spark names their types."""

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

Headers = list[tuple[str, bytes | None]]


class Rows:
    """Some rows, added one by one."""

    def __init__(self) -> None:
        self._topics: list[str] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._offsets = [0]
        self._header_names: list[str] = []
        self._header_values: list[bytes | None] = []

    def __len__(self) -> int:
        return len(self._topics)

    def add(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """One more record to be written."""
        self._topics.append(topic)
        self._keys.append(key)
        self._values.append(value)
        for name, content in headers:
            self._header_names.append(name)
            self._header_values.append(content)
        self._offsets.append(len(self._header_names))

    def to_arrow(self) -> pa.RecordBatch:
        """The rows as one Arrow batch."""
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

"""Records that kafka-python can't read, with the rest of their topic, which it can.

Kafka takes what this client does not: compression that nothing here undoes, names of headers that
are no UTF-8. The client raises where it meets such a batch of records, and at the next `poll` loops
for ever. It does take what is a thousand times as large uncompressed, and all of the memory with
it. Whoever may write to a topic could keep all others from being read, so the batch is one record
without key or value instead: as malformed as any that can be read.
"""

import logging
from collections.abc import Iterator
from typing import Any

from subscriptions.inflating import refuse_bomb
from subscriptions.kafka_client import DefaultRecord, Fetcher

_LOGGER = logging.getLogger(__name__)

_MOST_BYTES = 64 * 1024 * 1024
"""A batch may have so many, uncompressed: some thousand subscriptions of the largest size."""

_WITH_CODEC = 2
"""The format of batches that are compressed as a whole, that of all Kafkas of this time."""


def pass_over_unreadable(consumer: Any) -> None:  # noqa: ANN401 - kafka-python has no types
    """Have a consumer go on after batches that it can't read."""
    consumer._fetcher.PartitionRecords = _PartitionRecords  # noqa: SLF001 - no public way


class _PartitionRecords(Fetcher.PartitionRecords):  # type: ignore[misc] # it has no types
    def _unpack_records(self, tp: Any, records: Any, *deserializers: Any) -> Any:  # noqa: ANN401
        return super()._unpack_records(tp, _Batches(records, tp.topic), *deserializers)


class _Batches:
    """The batches of an answer of Kafka's, as the client's parser wants them."""

    def __init__(self, records: Any, topic: str) -> None:  # noqa: ANN401
        self._records = records
        self._topic = topic

    def next_batch(self) -> "_Batch | None":
        batch = self._records.next_batch()
        return None if batch is None else _Batch(batch, self._topic)


class _Batch:
    """A batch, of which what can't be read is one record that is empty."""

    def __init__(self, batch: Any, topic: str) -> None:  # noqa: ANN401
        self._batch = batch
        self._topic = topic

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._batch, name)

    def __next__(self) -> Any:  # noqa: ANN401 - asked of a batch that only ends a transaction
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        batch = self._batch
        try:
            if batch.magic >= _WITH_CODEC:
                compressed = bytes(memoryview(batch._buffer)[batch._pos :])  # noqa: SLF001
                refuse_bomb(batch.compression_type, compressed, _MOST_BYTES)
            yield from batch
        # Each way to compress has its own. The checksum was right, so it was written like this.
        except Exception as error:
            place = f"up to {batch.last_offset} of {self._topic}"
            _LOGGER.warning("records %s can't be read: %s", place, error)
            time, kind = batch.max_timestamp, batch.timestamp_type
            yield DefaultRecord(0, batch.last_offset, time, kind, None, None, [])

"""Reading a topic as somebody who looks at it: all partitions, no consumer group, no trace."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

from subscriptions.errors import KafkaUnreachableError
from subscriptions.kafka_client import (
    ClientSettings,
    KafkaConsumer,
    TopicPartition,
    open_client,
    servers_of,
    translated_errors,
)
from subscriptions.topics import why_no_topic
from subscriptions.unreadable import pass_over_unreadable

_POLL_SECONDS = 0.25
_PATIENCE_SECONDS = 30.0
"""A read that gets no further for so long is given up."""

_CONSUMER = {
    "group_id": None,
    "enable_auto_commit": False,
    # What retention has deleted while somebody reads can't be shown, and the rest can.
    "auto_offset_reset": "earliest",
    "isolation_level": "read_committed",
}


class Received(NamedTuple):
    """One record of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]

    def header(self, name: str) -> str | None:
        """The text of a header, None if it is not there."""
        for own, value in self.headers:
            if own == name:
                return value.decode("utf-8", "replace")
        return None


class TopicReader:
    """A topic, from its start, its end, or anywhere else. Raises `TopicError` if it is missing,
    `KafkaAuthorisationError` if we may not know.
    """

    def __init__(self, client_settings: ClientSettings, topic: str) -> None:
        self.topic = topic
        self._settings = client_settings
        self._consumer: Any = open_client(KafkaConsumer, client_settings, **_CONSUMER)
        pass_over_unreadable(self._consumer)
        try:
            with translated_errors(client_settings, topic):
                numbers = self._consumer.partitions_for_topic(topic)
                self._partitions = [TopicPartition(topic, each) for each in sorted(numbers)]
                self._consumer.assign(self._partitions)
            if not self._partitions:
                raise why_no_topic(client_settings, topic)
        except BaseException:
            self._consumer.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._consumer.close()

    def starts(self) -> dict[int, int]:
        """The first offset that there is, for each partition."""
        with translated_errors(self._settings, self.topic):
            offsets = self._consumer.beginning_offsets(self._partitions)
        return {each.partition: int(offset) for each, offset in offsets.items()}

    def ends(self) -> dict[int, int]:
        """The offset that the next record will have or exceed, for each partition."""
        with translated_errors(self._settings, self.topic):
            offsets = self._consumer.end_offsets(self._partitions)
        return {each.partition: int(offset) for each, offset in offsets.items()}

    def at_time(self, milliseconds: int) -> dict[int, int]:
        """The first offset of a record that is not older, for each partition, or the end."""
        wanted = dict.fromkeys(self._partitions, milliseconds)
        with translated_errors(self._settings, self.topic):
            found = self._consumer.offsets_for_times(wanted)
        ends = self.ends()
        return {
            each.partition: ends[each.partition] if place is None else int(place.offset)
            for each, place in found.items()
        }

    def seek(self, offsets: Mapping[int, int]) -> None:
        """Go on from here in all partitions."""
        with translated_errors(self._settings, self.topic):
            for each in self._partitions:
                self._consumer.seek(each, offsets[each.partition])

    def poll(self, seconds: float) -> list[Received]:
        """Some of the records that follow; waits up to so long for one."""
        with translated_errors(self._settings, self.topic):
            polled = self._consumer.poll(timeout_ms=max(0, int(seconds * 1000)))
        return [_received(each) for records in polled.values() for each in records]

    def follow(self, idle: float | None = None) -> Iterator[Received]:
        """The records that follow, without an end or until none has come for `idle` seconds."""
        last = time.monotonic()
        while idle is None or (left := last + idle - time.monotonic()) > 0:
            if records := self.poll(_POLL_SECONDS if idle is None else min(left, _POLL_SECONDS)):
                yield from records
                last = time.monotonic()

    def until(self, ends: Mapping[int, int]) -> Iterator[Received]:
        """The records before `ends`. The last offsets may be those of no record, so the end of a
        partition is told by the consumer's position.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        before = self._positions()
        while any(before[partition] < end for partition, end in ends.items()):
            records = self.poll(_POLL_SECONDS)
            reached = self._positions()
            yield from (each for each in records if each.offset < ends[each.partition])
            if reached != before:
                before = reached
                deadline = time.monotonic() + _PATIENCE_SECONDS
            elif time.monotonic() > deadline:
                reason = f"nothing came of {self.topic} for {_PATIENCE_SECONDS:.0f} s"
                raise KafkaUnreachableError(servers_of(self._settings), reason)

    def _positions(self) -> dict[int, int]:
        with translated_errors(self._settings, self.topic):
            return {
                each.partition: int(self._consumer.position(each) or 0) for each in self._partitions
            }


def _received(record: Any) -> Received:  # noqa: ANN401 - kafka-python has no types
    return Received(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        [(name, value or b"") for name, value in record.headers],
    )

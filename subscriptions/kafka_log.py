"""The subscription topic and the status topic on Kafka.

Partitions are assigned, never subscribed to: every reader wants the whole topic, and a consumer
group would give it a part.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, Self

from subscriptions.errors import KafkaUnreachableError, RecordError, TopicError
from subscriptions.kafka_client import (
    ClientSettings,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
    open_client,
    servers_of,
    topic_missing,
    translated_errors,
)
from subscriptions.log import MOST_POLLED, LogRecord
from subscriptions.model import Status
from subscriptions.topics import TopicAdmin
from subscriptions.unreadable import pass_over_unreadable

_LOGGER = logging.getLogger(__name__)
_PATIENCE_SECONDS = 30.0
"""A read that gets no further for so long is given up."""

_CONSUMER = {
    "group_id": None,
    "enable_auto_commit": False,
    # An offset that is out of range means that the topic is another one: never skip in silence.
    "auto_offset_reset": "none",
    "isolation_level": "read_committed",
    "max_poll_records": 1000,
    "max_partition_fetch_bytes": 4 * 1024 * 1024,
}


class _OnePartition:
    """What both topics have in common: one partition, read from any offset to the end."""

    def __init__(
        self,
        client_settings: ClientSettings,
        topic: str,
        *,
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        self.topic = topic
        self._settings = client_settings
        self._patience = patience
        self._partition = TopicPartition(topic, 0)
        self._reader: Any = None
        self._writer: Any = None
        self._next: int | None = None
        """Where `poll` goes on, if it is used."""
        with TopicAdmin(client_settings) as admin:
            partitions = admin.partitions(topic)
        if partitions == 0:
            raise topic_missing(topic)
        if partitions != 1:
            raise TopicError(
                "topic-partitions", f"the topic {topic} has {partitions} partitions, not one"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of connections; more than once does no harm."""
        reader, writer = self._reader, self._writer
        self._reader = self._writer = None
        with translated_errors(self._settings, self.topic):
            if reader is not None:
                reader.close()
            if writer is not None:
                writer.close(timeout=self._patience)

    def end(self) -> int:
        """The offset that the next record will have or exceed."""
        with translated_errors(self._settings, self.topic):
            offsets = self._consumer().end_offsets([self._partition])
        return int(offsets[self._partition])

    def _open_consumer(self) -> Any:  # noqa: ANN401 - kafka-python has no types
        consumer = open_client(KafkaConsumer, self._settings, **_CONSUMER)
        pass_over_unreadable(consumer)
        consumer.assign([self._partition])
        return consumer

    def _consumer(self) -> Any:  # noqa: ANN401
        if self._reader is None:
            reader = self._open_consumer()
            if self._next is not None:
                self._seek(reader, self._next)
            self._reader = reader
        return self._reader

    def _drop_consumer(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _producer(self) -> Any:  # noqa: ANN401
        if self._writer is None:
            # In kafka-python, one record that Kafka refuses ends an idempotent producer for good.
            # One request at a time keeps the order all the same.
            self._writer = open_client(
                KafkaProducer,
                self._settings,
                acks="all",
                enable_idempotence=False,
                max_in_flight_requests_per_connection=1,
                linger_ms=1,
            )
        return self._writer

    def _seek(self, consumer: Any, start: int) -> None:  # noqa: ANN401
        first = consumer.beginning_offsets([self._partition])[self._partition]
        consumer.seek(self._partition, max(start, first))

    def _records(self, start: int, end: int) -> Iterator[LogRecord]:
        """The records of an interval. Its last offsets may be those of no record, so the end is
        told by the consumer's position.
        """
        with closing(self._open_consumer()) as consumer:
            with translated_errors(self._settings, self.topic):
                self._seek(consumer, start)
                position = consumer.position(self._partition)
            deadline = time.monotonic() + self._patience
            while position < end:
                with translated_errors(self._settings, self.topic):
                    polled = consumer.poll(timeout_ms=500).get(self._partition, [])
                    reached = consumer.position(self._partition)
                for each in polled:
                    if each.offset >= end:
                        return
                    yield LogRecord(each.offset, each.key, each.value, each.timestamp)
                if reached != position:
                    position = reached
                    deadline = time.monotonic() + self._patience
                elif time.monotonic() > deadline:
                    raise KafkaUnreachableError(
                        servers_of(self._settings),
                        f"nothing came of {self.topic} after offset {position} "
                        f"for {self._patience:.0f} s",
                    )


class KafkaSubscriptionLog(_OnePartition):
    """The subscription topic. It has to exist, with one partition."""

    def append(self, key: bytes, value: bytes | None) -> int:
        """Write a record and wait until Kafka has it; its offset."""
        return self.append_all([(key, value)])[0]

    def append_all(self, records: Iterable[tuple[bytes, bytes | None]]) -> list[int]:
        """Write many records, then wait for all; their offsets."""
        with translated_errors(self._settings, self.topic):
            producer = self._producer()
            sent = [
                producer.send(self.topic, key=key, value=value, partition=0)
                for key, value in records
            ]
            return [int(each.get(timeout=self._patience).offset) for each in sent]

    def read(self, start: int = 0, end: int | None = None) -> Iterator[LogRecord]:
        """The records of an interval, on a connection of its own: `poll` does not notice."""
        return self._records(start, self.end() if end is None else end)

    def follow(self, start: int) -> None:
        """Let `poll` go on from here."""
        with translated_errors(self._settings, self.topic):
            self._seek(self._consumer(), start)
        self._next = start

    def poll(self, timeout: float = 0.0) -> list[LogRecord]:
        """Some of the records that follow. After an error it goes on where it was."""
        with translated_errors(self._settings, self.topic):
            try:
                milliseconds = int(timeout * 1000)
                polled = self._consumer().poll(timeout_ms=milliseconds, max_records=MOST_POLLED)
            except Exception:
                # What it was at is half done, and some errors it would never come out of.
                self._drop_consumer()
                raise
        records = [
            LogRecord(each.offset, each.key, each.value, each.timestamp)
            for each in polled.get(self._partition, [])
        ]
        if records:
            self._next = records[-1].offset + 1
        return records


class KafkaStatusLog(_OnePartition):
    """The status topic. It has to exist, with one partition."""

    def __init__(
        self,
        client_settings: ClientSettings,
        topic: str,
        *,
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        super().__init__(client_settings, topic, patience=patience)
        self._sent: list[Any] = []

    def publish(self, key: bytes, status: Status) -> None:
        """Send a status; `flush` waits for it."""
        self._send(key, status.to_bytes())

    def forget(self, key: bytes) -> None:
        """Send a record without a value."""
        self._send(key, None)

    def _send(self, key: bytes, value: bytes | None) -> None:
        with translated_errors(self._settings, self.topic):
            future = self._producer().send(self.topic, key=key, value=value, partition=0)
        self._sent.append(future)

    def flush(self) -> None:
        """Wait until Kafka has all that was published; raises if it refused something."""
        sent, self._sent = self._sent, []
        with translated_errors(self._settings, self.topic):
            for each in sent:
                each.get(timeout=self._patience)

    def read_all(self) -> dict[bytes, Status]:
        """The last status of each key, read to the end as it is at the call."""
        statuses: dict[bytes, Status] = {}
        for record in self._records(0, self.end()):
            if record.key is None:
                continue
            statuses.pop(record.key, None)
            if record.value is None:
                continue
            try:
                statuses[record.key] = Status.parse(record.value)
            except RecordError:
                _LOGGER.warning("record %d of %s is no status", record.offset, self.topic)
        return statuses

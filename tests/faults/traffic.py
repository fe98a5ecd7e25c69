"""The other sides of the broker, as programs that know only its topics: publishers who keep a
ledger, subscribers who write records and wait for their status, and readers of what comes out.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from subscriptions.kafka_client import (
    ConfigResource,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
    errors,
    open_client,
)
from subscriptions.topics import TopicAdmin, TopicNames, message_settings
from tests.faults.expectations import Book, WrittenRecord
from tests.faults.ledger import Envelope, Place, SendState, Sent, Stored, hash_of

LEDGER_ID = "ledger-id"
"""The header by which a message is known wherever it comes to."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_PATIENCE_SECONDS = 180.0

Header = tuple[str, bytes]


class Record(NamedTuple):
    """A record as it was read."""

    place: Place
    key: bytes | None
    value: bytes | None
    headers: list[Header]

    def header(self, name: str) -> str:
        """A header of which there has to be exactly one."""
        (found,) = [value for own, value in self.headers if own == name]
        return found.decode()

    def has(self, name: str) -> bool:
        return any(own == name for own, _ in self.headers)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Poll until something holds; never a fixed sleep."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain: {what}"
        time.sleep(0.05)


@dataclass
class Message:
    """A message to be sent."""

    value: bytes | None
    refused_with: str | None = None
    """The code of its dead letter."""
    key: bytes | None = None
    headers: Sequence[Header] = ()


@dataclass
class Pending:
    """A send that is under way."""

    id: str
    message: Message
    future: Any
    seen_version: int


@dataclass
class Traffic:
    """Publisher and subscribers of one broker; a context that closes its connections."""

    bootstrap_servers: str
    prefix: str
    book: Book = field(default_factory=Book)
    sent: list[Sent] = field(default_factory=list)
    messages: dict[str, Message] = field(default_factory=dict)
    """By their ids in the ledger."""
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The last status of each key."""

    def __post_init__(self) -> None:
        self._stack = ExitStack()
        self._settings: dict[str, object] = {"bootstrap_servers": [self.bootstrap_servers]}
        self._pending: list[Pending] = []
        self._seen_version = -1
        self._status_consumer: Any = None
        self.admin: Any = self._open(KafkaAdminClient)
        self._producer: Any = self._open(
            KafkaProducer,
            acks="all",
            enable_idempotence=True,
            max_request_size=MAX_MESSAGE_BYTES,
            delivery_timeout_ms=120_000,
            linger_ms=1,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def _open(self, kind: Callable[..., Any], **own: object) -> Any:  # noqa: ANN401
        client = open_client(kind, self._settings, **own)
        self._stack.callback(client.close)
        return client

    @property
    def input(self) -> str:
        return f"{self.prefix}.messages"

    def make_topics(self, **subscription_configs: str) -> None:
        """The control topics, before a job makes them with the settings that it likes."""
        ours = message_settings(partitions=2)
        messages = replace(
            ours, configs={**ours.configs, "max.message.bytes": str(MAX_MESSAGE_BYTES)}
        )
        with TopicAdmin(self._settings, TopicNames(self.prefix)) as admin:
            topics = admin.control_topics(messages)
            if subscription_configs:
                configs = {
                    name.replace("_", "."): value for name, value in subscription_configs.items()
                }
                made = topics[admin.names.subscriptions]
                topics[admin.names.subscriptions] = replace(
                    made, configs={**made.configs, **configs}
                )
            admin.ensure(topics)

    def set_config(self, topic: str, name: str, value: str) -> None:
        self.admin.alter_configs([ConfigResource("TOPIC", topic, {name: value})])

    # Publishing

    def publish(self, messages: Iterable[Message], partitions: int = 2) -> None:
        """Send messages to the partitions in turn, without waiting."""
        for message in messages:
            number = len(self.messages)
            identity = f"m{number}"
            headers = [(LEDGER_ID, identity.encode()), *message.headers]
            future = self._producer.send(
                self.input,
                value=message.value,
                key=message.key,
                headers=headers,
                partition=number % partitions,
            )
            self.messages[identity] = message
            self._pending.append(Pending(identity, message, future, self._seen_version))

    def settle(self) -> None:
        """Wait until each send is ok, failed or unknown."""
        for each in self._pending:
            state, place = SendState.OK, None
            try:
                answer = each.future.get(timeout=_PATIENCE_SECONDS)
                place = Place(answer.topic, answer.partition, answer.offset)
            except (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError):
                state = SendState.FAIL
            except errors.KafkaError:
                state = SendState.UNKNOWN
            hashed = hash_of(each.message.value)
            self.sent.append(Sent(each.id, hashed, state, place, each.seen_version))
        self._pending.clear()

    # Subscribing

    def write_record(self, name: str | bytes | None, value: bytes | None, *, is_right: bool) -> int:
        """A record of the subscription topic; its version."""
        key = name.encode() if isinstance(name, str) else name
        topic = f"{self.prefix}.subscriptions"
        answer = self._producer.send(topic, key=key, value=value, partition=0).get(timeout=60)
        version = int(answer.offset)
        if isinstance(name, str):
            record = json.loads(value) if is_right and value is not None else None
            self.book.records.append(WrittenRecord(version, name, record, is_right))
        return version

    def subscribe(self, name: str, query: str, **fields: object) -> int:
        value = json.dumps({"query": query, **fields}).encode()
        return self.write_record(name, value, is_right=True)

    def unsubscribe(self, name: str) -> int:
        return self.write_record(name, None, is_right=True)

    def poll_statuses(self) -> None:
        if self._status_consumer is None:
            self._status_consumer = self._open(KafkaConsumer, group_id=None)
            partition = TopicPartition(f"{self.prefix}.subscription-status", 0)
            self._status_consumer.assign([partition])
            self._status_consumer.seek_to_beginning(partition)
        for records in self._status_consumer.poll(timeout_ms=50).values():
            for each in records:
                self.statuses[each.key.decode("utf-8", "replace")] = json.loads(each.value)

    def wait_for_status(self, name: str, version: int, seconds: float = 90.0) -> dict[str, Any]:
        """What the broker says about a record; what is sent after this must be judged under it."""

        def is_there() -> bool:
            self.poll_statuses()
            return int(self.statuses.get(name, {}).get("version", -1)) >= version

        wait_until(is_there, f"the status of {name} version {version}", seconds)
        self._seen_version = max(self._seen_version, version)
        return self.statuses[name]

    # Reading

    def topics(self) -> list[str]:
        return [each for each in self.admin.list_topics() if each.startswith(f"{self.prefix}.")]

    def ends(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        consumer = open_client(KafkaConsumer, self._settings, group_id=None)
        try:
            partitions = _partitions(consumer, topics)
            return dict(consumer.end_offsets(partitions)) if partitions else {}
        finally:
            consumer.close()

    def drain(self, topics: Sequence[str]) -> list[Record]:
        """All records up to the ends as they are now, in the order of each partition."""
        consumer = open_client(
            KafkaConsumer,
            self._settings,
            group_id=None,
            fetch_max_bytes=4 * MAX_MESSAGE_BYTES,
            max_partition_fetch_bytes=MAX_MESSAGE_BYTES,
        )
        try:
            partitions = _partitions(consumer, topics)
            if not partitions:
                return []
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            return _read_to(consumer, consumer.end_offsets(partitions))
        finally:
            consumer.close()

    def stored(self) -> dict[Place, Stored]:
        return {
            each.place: Stored(
                each.header(LEDGER_ID),
                hash_of(each.value),
                len(each.value or b""),
                Envelope(each.key, tuple(each.headers)),
            )
            for each in self.drain([self.input])
        }


def _partitions(consumer: Any, topics: Sequence[str]) -> list[TopicPartition]:  # noqa: ANN401
    return [
        TopicPartition(topic, number)
        for topic in topics
        for number in sorted(consumer.partitions_for_topic(topic) or ())
    ]


def _read_to(consumer: Any, ends: Mapping[TopicPartition, int]) -> list[Record]:  # noqa: ANN401
    found: list[Record] = []
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while any(consumer.position(each) < end for each, end in ends.items()):
        assert time.monotonic() < deadline, "the topics can't be read to their ends"
        for partition, records in consumer.poll(timeout_ms=200).items():
            for each in records:
                if each.offset < ends[partition]:
                    place = Place(each.topic, each.partition, each.offset)
                    found.append(Record(place, each.key, each.value, list(each.headers)))
    return sorted(found, key=lambda each: each.place)

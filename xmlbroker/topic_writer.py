"""Writing to topics, with an answer for each record: what Kafka has not acknowledged is not said to
be there.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from typing import Any, NamedTuple, Self

from kafka.admin import ConfigResource

from subscriptions.errors import KafkaError, KafkaUnreachableError
from subscriptions.kafka_client import (
    ClientSettings,
    KafkaAdminClient,
    KafkaProducer,
    errors,
    open_client,
    translated_errors,
)
from subscriptions.topics import why_no_topic

_MOST_WAITING = 1000
_MOST_WAITING_BYTES = 32 * 1024 * 1024
_DELIVERY_SECONDS = 30
_BATCH_OVERHEAD = 61 + 21
"""The head of a batch, and the lengths and deltas of a record."""
_LIMIT = "max.message.bytes"

_PRODUCER = {
    "acks": "all",
    "enable_idempotence": True,
    "linger_ms": 5,
    "request_timeout_ms": 15_000,
    "delivery_timeout_ms": _DELIVERY_SECONDS * 1000,
    "max_block_ms": 15_000,
    # How large a record may be is for the topic to say.
    "max_request_size": 64 * 1024 * 1024,
}


class Answer(NamedTuple):
    """What became of a record: where it is, or why it is not there."""

    name: str
    topic: str
    partition: int
    offset: int
    error: KafkaError | None = None


class _Waiting(NamedTuple):
    name: str
    topic: str
    size: int
    future: Any


class TopicWriter:
    """Sends records and reports each, in the order in which they were sent.

    The client keeps whatever it is given until Kafka takes it, so the writer waits where too much
    is on its way.
    """

    def __init__(self, client_settings: ClientSettings, report: Callable[[Answer], None]) -> None:
        self._settings = client_settings
        self._report = report
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._limits: dict[str, int | None] = {}
        self._producer: Any = open_client(KafkaProducer, client_settings, **_PRODUCER)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_error: object) -> None:
        if error_type is not None:
            # Nobody waits for what is on its way, and a client that is left with it complains with
            # a traceback at the end of the program.
            self._producer._sender.force_close()  # noqa: SLF001 - `close` waits for all, or raises
        with suppress(KafkaError), translated_errors(self._settings):
            self._producer.close(timeout=_DELIVERY_SECONDS if error_type is None else 5)

    @property
    def unanswered(self) -> int:
        """How many records are neither acknowledged nor refused: they may be there or not."""
        return len(self._waiting)

    def require(self, topic: str) -> None:
        """Raise `TopicError` if there is no such topic, for which a send would look for long; and
        learn how large its records may be.
        """
        with (
            closing(open_client(KafkaAdminClient, self._settings)) as admin,
            translated_errors(self._settings, topic),
        ):
            if not any(each["partitions"] for each in admin.describe_topics([topic])):
                raise why_no_topic(self._settings, topic)
            self._limits[topic] = _largest_record(admin, topic)

    def send(
        self,
        name: str,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes]] = (),
    ) -> None:
        """Send a record; `name` is what it is called in the report."""
        if key is None and value is None:
            error = KafkaError("no-value", "a record with neither key nor value can't be sent")
            self._report(Answer(name, topic, -1, -1, error))
            return
        headers = list(headers)
        size = _size(key, value, headers)
        most = self._limits.get(topic)
        if most is not None and size > most:
            # Not left to Kafka: the client takes one refusal for the end of an idempotent producer
            # and fails all that follows.
            detail = f"{size:,} bytes with key and headers, {topic} takes {most:,}"
            self._report(Answer(name, topic, -1, -1, KafkaError("too-large-for-topic", detail)))
            return
        try:
            with translated_errors(self._settings, topic):
                future = self._producer.send(topic, value=value, key=key, headers=headers)
        except KafkaUnreachableError:
            raise
        except KafkaError as error:
            self._report(Answer(name, topic, -1, -1, error))
            return
        self._waiting.append(_Waiting(name, topic, size, future))
        self._waiting_bytes += self._waiting[-1].size
        while self._waiting and (
            self._waiting[0].future.is_done
            or len(self._waiting) > _MOST_WAITING
            or self._waiting_bytes > _MOST_WAITING_BYTES
        ):
            self._settle_oldest()

    def finish(self) -> None:
        """Wait for the answers to all records."""
        while self._waiting:
            self._settle_oldest()

    def _settle_oldest(self) -> None:
        """Report the oldest record. If Kafka is gone, it and all after it stay unanswered."""
        oldest = self._waiting[0]
        try:
            with translated_errors(self._settings, oldest.topic):
                written = oldest.future.get(timeout=_DELIVERY_SECONDS + 5)
            answer = Answer(oldest.name, oldest.topic, int(written.partition), int(written.offset))
        except KafkaUnreachableError:
            raise
        except KafkaError as error:
            answer = Answer(oldest.name, oldest.topic, -1, -1, error)
        self._waiting.popleft()
        self._waiting_bytes -= oldest.size
        self._report(answer)


def _size(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]) -> int:
    """What a record takes as the only one of its batch, at most."""
    named = sum(10 + len(name.encode()) + len(text) for name, text in headers)
    return _BATCH_OVERHEAD + len(key or b"") + len(value or b"") + named


def _largest_record(admin: Any, topic: str) -> int | None:  # noqa: ANN401 - kafka-python
    """The topic's `max.message.bytes`; None if Kafka does not tell us."""
    wanted = ConfigResource("TOPIC", topic, {_LIMIT: None})
    try:
        answer = admin.describe_configs([wanted], config_filter="all")
        return int(answer["topic"][topic][_LIMIT]["value"])
    except (errors.KafkaError, LookupError, TypeError, ValueError):
        return None

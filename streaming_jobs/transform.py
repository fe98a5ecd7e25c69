"""Source records in, output records out: what a Python worker does with its part of a batch."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import Accumulator

from broker.delivery import Delivery
from broker.errors import BrokerError, MessageError
from broker.message_factory import OutputFormat
from streaming_jobs.kill_points import KillPoint, reach
from streaming_jobs.rows import Headers, Rows
from streaming_jobs.snapshot import Snapshot
from streaming_jobs.statistics import Counts
from streaming_jobs.tally import Tally
from streaming_jobs.worker import EngineLimits, EngineState, Recipient, engine_at
from subscriptions.topic_names import TopicNames

_GROUPS = OutputFormat.GROUPS.value

_NO_HEADERS = Headers()

_OWN_HEADERS = ("xb-id", "xb-subscription", "xb-version", "xb-source", "content-type")
"""What every result has, before the headers of its source."""

_RECORD_OVERHEAD = 200
"""What Kafka adds to a record beside its key, value and headers."""

_OWN_SIZE = _RECORD_OVERHEAD + Headers(_OWN_HEADERS, (b"-" * 32, b"application/json")).size()
"""What a result takes at least: with an id and the longest type."""


class Source(NamedTuple):
    """A record that was read."""

    place: bytes
    """`topic/partition/offset`."""
    key: bytes | None
    value: bytes | None
    headers: Headers
    """Without those that are ours to give."""
    result_names: tuple[str, ...]
    """The names of the headers of its results."""
    result_size: int
    """What each of its results takes in its topic, without key, payload and recipient."""

    @classmethod
    def of(cls, place: bytes, key: bytes | None, value: bytes | None, headers: Headers) -> "Source":
        """A record, and what all its results have alike."""
        size = _OWN_SIZE + len(place) + headers.size()
        return cls(place, key, value, headers, _OWN_HEADERS + headers.names, size)


@dataclass(frozen=True)
class Transform:
    """Runs in the workers, once for each partition of a batch."""

    snapshot: Snapshot
    limits: EngineLimits
    names: TopicNames
    max_record_bytes: int
    largest_records: Mapping[str, int]
    """Topics that are known to take less, and how much the dead letters take."""
    suspended: frozenset[str]
    """Subscribers that have no topic to write to."""
    counts: "Accumulator[Counts]"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The output records for some source records, in their order."""
        counts: Counts = {}
        state = engine_at(self.snapshot, self.limits, counts)
        rows = Rows()
        for batch in batches:
            tally = Tally(state, counts)
            for source in sources(batch):
                for _ in self.add_rows(source, state, rows, tally):
                    if rows.is_full:
                        yield from hand_on(rows, tally)
            if len(rows):
                yield from hand_on(rows, tally)
            self.counts.add(tally.finish(batch))
            counts = {}

    def add_rows(
        self, source: Source, state: EngineState, rows: Rows, tally: Tally
    ) -> Iterator[None]:
        """Add the results of one record, or why there are none, as a dead letter; a step a row."""
        if source.value is None:
            error = MessageError("no-value", "the record has no value")
            self.add_dead_letter(source, error, None, rows, tally)
            yield
            return
        try:
            deliveries = state.engine.process(source.value)
        except MessageError as error:
            self.add_dead_letter(source, error, None, rows, tally)
            yield
            return
        for delivery in deliveries:
            recipient = state.recipients[delivery.subscription]
            if recipient.subscriber not in self.suspended:
                self.add_delivery(source, delivery, recipient, rows, tally)
                yield

    def add_delivery(
        self, source: Source, delivery: Delivery, recipient: Recipient, rows: Rows, tally: Tally
    ) -> None:
        """One subscription's result."""
        payload = delivery.payload
        if payload is None:
            assert delivery.error is not None
            self.add_dead_letter(source, delivery.error, recipient.name, rows, tally)
            return
        topic = self.names.output(recipient.subscriber)
        key = recipient.subscriber.encode() if self.names.shared else source.key
        largest = self.largest_records.get(topic, self.max_record_bytes)
        size = source.result_size + recipient.size + len(payload) + len(key or b"")
        if size > largest:
            detail = f"the record has {size} bytes, more than {largest}"
            error = BrokerError("too-large-for-topic", detail)
            self.add_dead_letter(source, error, recipient.name, rows, tally)
            return
        is_json = recipient.format == _GROUPS and payload is not source.value
        own = (
            delivery_id(source.place, recipient),
            recipient.subscription,
            recipient.version,
            source.place,
            b"application/json" if is_json else b"application/xml",
        )
        headers = Headers(source.result_names, own + source.headers.values)
        rows.add(topic, key, payload, headers, size)
        tally.delivered(recipient.name, len(payload))

    def add_dead_letter(
        self,
        source: Source,
        error: BrokerError,
        subscription: str | None,
        rows: Rows,
        tally: Tally,
    ) -> None:
        """The record itself, with the reason: for all, or for one subscription.

        One that does not fit into the topic of dead letters stays where it is, as `xb-source` says:
        a batch that can't be written would be tried for ever.
        """
        headers = Headers(
            ("xb-source", "xb-error", "xb-error-detail"),
            (source.place, error.code.encode(), error.detail.encode("utf-8", "replace")),
        )
        if subscription is not None:
            headers += Headers(("xb-subscription",), (subscription.encode(),))
        key, value, topic = source.key, source.value, self.names.dead_letters
        whole = headers + source.headers
        size = _RECORD_OVERHEAD + len(key or b"") + len(value or b"") + whole.size()
        if size <= self.largest_records.get(topic, self.max_record_bytes):
            headers = whole
        else:
            omitted = str(len(value or b"")).encode()
            headers += Headers(("xb-omitted-bytes",), (omitted,))
            key = value = None
            size = _RECORD_OVERHEAD + headers.size()
        rows.add(topic, key, value, headers, size)
        tally.refused(error.code, source.place.decode(), subscription)


def hand_on(rows: Rows, tally: Tally) -> Iterator[pa.RecordBatch]:
    """Let Spark have the rows, whose time it then is."""
    batch = rows.take()
    tally.pause()
    yield batch
    tally.resume()
    reach(KillPoint.WRITING)


def sources(batch: pa.RecordBatch) -> Iterator[Source]:
    """The records of an Arrow batch."""
    # Not all columns: times take long to become objects of Python's.
    names = ("topic", "partition", "offset", "key", "value", "headers")
    columns = [batch.column(name).to_pylist() for name in names]
    for topic, partition, offset, key, value, headers in zip(*columns, strict=True):
        place = f"{topic}/{partition}/{offset}".encode()
        yield Source.of(place, key, value, passed_on(headers))


def passed_on(headers: list[dict[str, Any]] | None) -> Headers:
    """The headers of a source record that its results have too; names with xb- are ours."""
    if not headers:
        return _NO_HEADERS
    kept = [
        each
        for each in headers
        if not each["key"].lower().startswith("xb-") and each["key"].lower() != "content-type"
    ]
    return Headers(tuple([each["key"] for each in kept]), tuple([each["value"] for each in kept]))


def delivery_id(place: bytes, recipient: Recipient) -> bytes:
    """The same for the same record, subscription and version, whenever and wherever it is made."""
    return blake2b(place + recipient.identity, digest_size=16).hexdigest().encode()

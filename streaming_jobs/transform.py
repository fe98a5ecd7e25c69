"""Source records in, output records out: what a Python worker does with its part of a batch."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import Accumulator

from broker.engine import Delivery
from broker.errors import BrokerError, MessageError
from broker.message_factory import OutputFormat
from streaming_jobs.kill_points import KillPoint, reach
from streaming_jobs.rows import Headers, Rows
from streaming_jobs.snapshot import Entry, Snapshot
from streaming_jobs.statistics import Counts
from streaming_jobs.worker import EngineLimits, EngineState, engine_at
from subscriptions.topic_names import TopicNames

_RECORD_OVERHEAD = 200
"""What Kafka adds to a record beside its key, value and headers."""


class Source(NamedTuple):
    """A record that was read."""

    place: str
    """`topic/partition/offset`."""
    key: bytes | None
    value: bytes | None
    headers: Headers
    """Without those that are ours to give."""


@dataclass(frozen=True)
class Transform:
    """Runs in the workers, once for each partition of a batch."""

    snapshot: Snapshot
    limits: EngineLimits
    names: TopicNames
    max_record_bytes: int
    suspended: frozenset[str]
    """Subscribers that have no topic to write to."""
    counts: "Accumulator[Counts]"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The output records for some source records, in their order."""
        state = engine_at(self.snapshot, self.limits)
        for batch in batches:
            rows = Rows()
            counts: Counts = {}
            started = time.perf_counter()
            for source in sources(batch):
                self.add_rows(source, state, rows, counts)
            counts["messages"] = batch.num_rows
            counts["seconds"] = time.perf_counter() - started
            self.counts.add(counts)
            if len(rows):
                yield rows.to_arrow()
                reach(KillPoint.WRITING)

    def add_rows(self, source: Source, state: EngineState, rows: Rows, counts: Counts) -> None:
        """The results of one record, or the reason why there are none, as a dead letter."""
        if source.value is None:
            error = MessageError("no-value", "the record has no value")
            self.add_dead_letter(source, error, None, rows, counts)
            return
        try:
            deliveries = state.engine.process(source.value)
        except MessageError as error:
            self.add_dead_letter(source, error, None, rows, counts)
            return
        for delivery in deliveries:
            subscriber = delivery.subscription.partition("/")[0]
            if subscriber not in self.suspended:
                self.add_delivery(
                    source, delivery, state.entries[delivery.subscription], rows, counts
                )

    def add_delivery(
        self, source: Source, delivery: Delivery, entry: Entry, rows: Rows, counts: Counts
    ) -> None:
        """One subscription's result."""
        payload = delivery.payload
        if payload is None:
            assert delivery.error is not None
            self.add_dead_letter(source, delivery.error, entry.name, rows, counts)
            return
        is_json = entry.format == OutputFormat.GROUPS.value and payload is not source.value
        content_type = b"application/json" if is_json else b"application/xml"
        headers: Headers = [
            ("xb-id", delivery_id(source.place, entry).encode()),
            ("xb-subscription", entry.name.encode()),
            ("xb-version", str(entry.version).encode()),
            ("xb-source", source.place.encode()),
            ("content-type", content_type),
            *source.headers,
        ]
        size = record_size(source.key, payload, headers)
        if size > self.max_record_bytes:
            detail = f"the record has {size} bytes, more than {self.max_record_bytes}"
            error = BrokerError("too-large-for-topic", detail)
            self.add_dead_letter(source, error, entry.name, rows, counts)
            return
        subscriber = entry.name.partition("/")[0]
        key = subscriber.encode() if self.names.shared else source.key
        rows.add(self.names.output(subscriber), key, payload, headers)
        counts["deliveries"] = counts.get("deliveries", 0) + 1
        counts["output_bytes"] = counts.get("output_bytes", 0) + len(payload)

    def add_dead_letter(
        self,
        source: Source,
        error: BrokerError,
        subscription: str | None,
        rows: Rows,
        counts: Counts,
    ) -> None:
        """The record itself, with the reason: for all, or for one subscription."""
        headers: Headers = [
            ("xb-source", source.place.encode()),
            ("xb-error", error.code.encode()),
            ("xb-error-detail", error.detail.encode("utf-8", "replace")),
        ]
        if subscription is not None:
            headers.append(("xb-subscription", subscription.encode()))
        rows.add(self.names.dead_letters, source.key, source.value, [*headers, *source.headers])
        counts["dead_letters"] = counts.get("dead_letters", 0) + 1


def sources(batch: pa.RecordBatch) -> Iterator[Source]:
    """The records of an Arrow batch."""
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    for topic, partition, offset, key, value, headers in zip(
        *(columns[name] for name in ("topic", "partition", "offset", "key", "value", "headers")),
        strict=True,
    ):
        yield Source(f"{topic}/{partition}/{offset}", key, value, passed_on(headers))


def passed_on(headers: list[dict[str, Any]] | None) -> Headers:
    """The headers of a source record that its results have too; names with xb- are ours."""
    if not headers:
        return []
    return [
        (each["key"], each["value"])
        for each in headers
        if not each["key"].lower().startswith("xb-") and each["key"].lower() != "content-type"
    ]


def delivery_id(place: str, entry: Entry) -> str:
    """The same for the same record, subscription and version, whenever and wherever it is made."""
    text = f"{place}\n{entry.name}\n{entry.version}"
    return blake2b(text.encode(), digest_size=16).hexdigest()


def record_size(key: bytes | None, value: bytes, headers: Headers) -> int:
    """About how many bytes a record takes in its topic."""
    size = _RECORD_OVERHEAD + len(key or b"") + len(value)
    for name, content in headers:
        size += len(name) + len(content or b"") + 4
    return size

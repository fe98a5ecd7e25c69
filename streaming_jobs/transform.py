"""Source records in, output records out: what a Python worker does with its part of a batch."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
from pyspark import Accumulator

from broker.delivery import Delivery
from broker.errors import BrokerError, MessageError
from streaming_jobs.delivery_ids import LENGTH, id_of_source
from streaming_jobs.kill_points import KillPoint, reach
from streaming_jobs.output_limits import OutputLimits
from streaming_jobs.rows import MANY_BYTES, MANY_ROWS, Headers, Rows
from streaming_jobs.snapshot import Stored, received
from streaming_jobs.sources import Source, sources
from streaming_jobs.statistics import Counts
from streaming_jobs.tally import Tally
from streaming_jobs.worker import EngineLimits, EngineState, Recipient, engine_at
from subscriptions.topic_names import TopicNames

OWN_HEADERS = ("xb-id", "xb-subscription", "xb-version", "xb-source", "content-type")
"""What every result has, before the headers of its source."""

_XML, _JSON = b"application/xml", b"application/json"

_RECORD_OVERHEAD = 200
"""What Kafka adds to a record beside its key, value and headers."""

_OWN_SIZE = _RECORD_OVERHEAD + Headers(OWN_HEADERS, (b"-" * LENGTH, _JSON)).size()
"""What a result takes at least: with an id and the longest type."""


_LONGEST_DETAIL = 1_000
"""Characters of what is wrong with a message: its own words may be in it, as many as it has."""


@dataclass(frozen=True)
class Transform:
    """Runs in the workers, once for each partition of a batch."""

    stored: Stored
    limits: EngineLimits
    names: TopicNames
    output_limits: OutputLimits
    suspended: frozenset[str]
    """Subscribers that have no topic to write to."""
    counts: "Accumulator[Counts]"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The output records for some source records, in their order."""
        counts: Counts = {}
        state = engine_at(received(self.stored), self.limits, self.names, counts)
        for batch in batches:
            work = Work(self, state, Tally(state, counts))
            for source in sources(batch):
                yield from work.answer(source)
            yield from work.hand_on()
            self.counts.add(work.tally.finish(batch))
            counts = {}


class Work:
    """What is made of the records of one Arrow batch."""

    def __init__(self, transform: Transform, state: EngineState, tally: Tally) -> None:
        self._transform = transform
        self._state = state
        self.tally = tally
        self._rows = Rows()
        self._smallest_limit = transform.output_limits.smallest
        self._is_shared = bool(transform.names.shared)
        self._may_lack_key = bool(transform.output_limits.keyed) and not self._is_shared

    def answer(self, source: Source) -> Iterator[pa.RecordBatch]:
        """The results of one record, or why there are none, as a dead letter; handed on if there
        are many.
        """
        if source.value is None:
            self._add_dead_letter(source, MessageError("no-value", "the record has no value"))
        else:
            try:
                deliveries = self._state.engine.process(source.value)
            except MessageError as error:
                self._add_dead_letter(source, error)
            else:
                if deliveries:
                    yield from self.deliver(source, deliveries)
        if self.is_full:
            yield from self.hand_on()

    @property
    def is_full(self) -> bool:
        """Whether there are so many rows that it is time to hand them on."""
        return self._rows.is_full

    def hand_on(self) -> Iterator[pa.RecordBatch]:
        """Let Spark have the rows, whose time it then is."""
        if not len(self._rows):
            return
        batch = self._rows.take()
        self.tally.pause()
        yield batch
        self.tally.resume()
        reach(KillPoint.WRITING)

    # Results

    def deliver(self, source: Source, deliveries: list[Delivery]) -> Iterator[pa.RecordBatch]:
        """What all subscriptions get of a record: together, unless there is something about one."""
        recipients = cast("list[Recipient]", [each.subscription for each in deliveries])
        payloads = [each.payload for each in deliveries]
        suspended = self._transform.suspended
        if None in payloads or (suspended and any(r.subscriber in suspended for r in recipients)):
            yield from self._deliver_singly(source, deliveries, recipients)
            return
        made: list[bytes] = payloads  # type: ignore[assignment]
        around = _OWN_SIZE + len(source.place) + len(source.key or b"") + source.headers.size()
        largest = around + max(map(len, made)) + Recipient.LARGEST
        size = sum(map(len, made)) + len(made) * (around + Recipient.LARGEST)
        is_keyless = self._may_lack_key and source.key is None
        is_large = largest > self._smallest_limit or size > MANY_BYTES
        if is_large or is_keyless or len(made) > MANY_ROWS:
            yield from self._deliver_singly(source, deliveries, recipients)
            return
        if not self._rows.has_room(len(made), size):
            yield from self.hand_on()
        self._add_results(source, recipients, made, size)

    def _deliver_singly(
        self, source: Source, deliveries: list[Delivery], recipients: list[Recipient]
    ) -> Iterator[pa.RecordBatch]:
        for delivery, recipient in zip(deliveries, recipients, strict=True):
            if recipient.subscriber in self._transform.suspended:
                continue
            if self._rows.is_full:
                yield from self.hand_on()
            if delivery.payload is None:
                assert delivery.error is not None
                self._add_dead_letter(source, delivery.error, recipient)
            else:
                self._add_if_it_fits(source, recipient, delivery.payload)

    def _add_if_it_fits(self, source: Source, recipient: Recipient, payload: bytes) -> None:
        limits = self._transform.output_limits
        largest = limits.largest_record(recipient.topic)
        key = self._keys(source, [recipient])[0]
        if key is None and recipient.topic in limits.keyed:
            detail = "its topic is compacted (cleanup.policy): it takes no record without a key"
            self._add_dead_letter(source, BrokerError("no-key-for-topic", detail), recipient)
            return
        size = _OWN_SIZE + len(source.place) + len(key or b"") + source.headers.size()
        size += recipient.size + len(payload)
        if size <= largest:
            self._add_results(source, [recipient], [payload], size)
        else:
            detail = f"the record has {size} bytes, more than {largest}"
            self._add_dead_letter(source, BrokerError("too-large-for-topic", detail), recipient)

    def _add_results(
        self, source: Source, recipients: list[Recipient], payloads: list[bytes], size: int
    ) -> None:
        place, value, count = source.place, source.value, len(recipients)
        id = id_of_source(place)
        headers: list[list[bytes | None]] = [
            [id + each.identity for each in recipients],
            [each.subscription for each in recipients],
            [each.version for each in recipients],
            [place] * count,
            [
                _JSON if each.is_json and payload is not value else _XML
                for each, payload in zip(recipients, payloads, strict=True)
            ],
            *([each] * count for each in source.headers.values),
        ]
        self._rows.add_alike(
            [each.topic for each in recipients],
            self._keys(source, recipients),
            payloads,
            names=OWN_HEADERS + source.headers.names,
            headers=headers,
            size=size,
        )
        self.tally.delivered(recipients, payloads)

    def _keys(self, source: Source, recipients: list[Recipient]) -> list[bytes | None]:
        if self._is_shared:
            return [each.subscriber.encode() for each in recipients]
        return [source.key] * len(recipients)

    # Dead letters

    def _add_dead_letter(
        self, source: Source, error: BrokerError, recipient: Recipient | None = None
    ) -> None:
        """The record itself, with the reason: for all, or for one subscription.

        One that does not fit into the topic of dead letters is without its headers there, or stays
        where it is, as `xb-source` says: a batch that can't be written would be tried for ever.
        """
        headers = Headers(
            ("xb-source", "xb-error", "xb-error-detail"),
            (source.place, error.code.encode(), _shortened(error.detail)),
        )
        if recipient is not None:
            headers += Headers(("xb-subscription",), (recipient.subscription,))
        value, topic = source.value, self._transform.names.dead_letters
        limits = self._transform.output_limits
        no_key = source.place if topic in limits.keyed else None
        key = no_key if source.key is None else source.key
        largest = limits.largest_record(topic)
        message = _RECORD_OVERHEAD + len(key or b"") + len(value or b"")
        whole = headers + source.headers
        if message + whole.size() > largest:
            omitted = str(len(source.headers.names)).encode()
            whole = headers + Headers(("xb-omitted-headers",), (omitted,))
        if message + whole.size() > largest:
            omitted = str(len(value or b"")).encode()
            whole = headers + Headers(("xb-omitted-bytes",), (omitted,))
            key, value, message = no_key, None, _RECORD_OVERHEAD + len(no_key or b"")
        self._rows.add(topic, key, value, whole, message + whole.size())
        self.tally.refused(error.code, source.place.decode(), recipient)


def _shortened(detail: str) -> bytes:
    kept = detail if len(detail) <= _LONGEST_DETAIL else f"{detail[:_LONGEST_DETAIL]}…"
    return kept.encode("utf-8", "replace")

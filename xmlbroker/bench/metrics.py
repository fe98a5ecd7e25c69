"""`xmlbroker bench metrics`: what it costs to count, with and without, on the same messages.

What a worker does with a batch of messages is run in this process, without Spark, which would only
make the share of counting smaller: once as it is, with all that is counted brought to the metrics
of the driver, and once with nothing counted and no clock asked.
"""

import pickle
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa

from broker.delivery import Deliveries, Delivery
from broker.documents import Message, parse_message
from broker.metrics import EngineMetrics
from streaming_jobs.metrics import Metrics
from streaming_jobs.overview import Overview
from streaming_jobs.snapshot import Entry, Snapshot
from streaming_jobs.sources import sources
from streaming_jobs.statistics import Counts, CountsParam
from streaming_jobs.tally import Tally
from streaming_jobs.transform import Transform, Work
from streaming_jobs.worker import EngineLimits, EngineState, Recipient, engine_at
from subscriptions.topic_names import TopicNames
from xmlbroker.bench import books
from xmlbroker.bench.measure import compare

_MESSAGES = 150
"""In an Arrow batch: about what a worker gets at a time under load."""


def run(rounds: int, subscriptions: int = 10_000, batches: int = 20) -> dict[str, object]:
    """The figures."""
    texts = books.book_queries(subscriptions, subscriptions)
    entries = [
        Entry(f"subscriber-{number % 20:02}/s{number}", number, text, "xml")
        for number, text in enumerate(texts)
    ]
    driver = _Driver()
    snapshot = Snapshot("bench", 0, 0, cast("Any", _Local(pickle.dumps(entries))), ())
    limits = EngineLimits()
    transform = Transform(
        snapshot, limits, TopicNames(), 1_000_000, {}, frozenset(), cast("Any", driver)
    )
    bare = _Unmeasured(transform, engine_at(snapshot, limits, transform.names))
    timings = compare(
        {"nothing counted": bare.run, "all counted": lambda batch: _drain(transform([batch]))},
        lambda number: [_batch(number * batches + each, subscriptions) for each in range(batches)],
        rounds,
    )
    return {
        "bench": "metrics",
        "workload": f"{_MESSAGES} messages each, {subscriptions} subscriptions",
        "batches": {"count": rounds * batches, "timings": [asdict(each) for each in timings]},
    }


def _batch(seed: int, values: int) -> pa.RecordBatch:
    messages = books.feed_messages(_MESSAGES, values, seed)
    header = [{"key": "published-ns", "value": b"1234567890123456789"}]
    return pa.RecordBatch.from_pydict(
        {
            "topic": ["xmlbroker.messages"] * _MESSAGES,
            "partition": [0] * _MESSAGES,
            "offset": list(range(_MESSAGES)),
            "timestamp": pa.array([datetime.now(UTC)] * _MESSAGES, pa.timestamp("us", tz="UTC")),
            "key": pa.array([None] * _MESSAGES, pa.binary()),
            "value": messages,
            "headers": [header] * _MESSAGES,
        }
    )


class _Local:
    """A broadcast that stays here."""

    def __init__(self, value: bytes) -> None:
        self.value = value


class _Driver:
    """An accumulator that does what the driver does with what workers tell."""

    def __init__(self) -> None:
        self._metrics = Metrics()
        self._overview = Overview()

    def add(self, counts: Counts) -> None:
        told = CountsParam().addInPlace({}, pickle.loads(pickle.dumps(counts)))
        self._metrics.count_batch(told, time.time() * 1000)
        self._overview.count_batch(told)


class _NoTally:
    """Notes nothing."""

    def delivered(self, recipients: list[Recipient], payloads: list[bytes]) -> None:
        """Nothing is noted."""

    def pause(self) -> None:
        """No clock stands still."""

    def resume(self) -> None:
        """No clock runs."""


class _Unmeasured:
    """What `Transform` and `Engine.deliveries` do, but for the counting."""

    def __init__(self, transform: Transform, state: EngineState) -> None:
        self._transform = transform
        self._state = state
        self._metrics = EngineMetrics()
        # What is found by a matcher, or depends on the table of labels, must be the same for both.
        assert not state.engine.matcher.describe().queries

    def run(self, batch: pa.RecordBatch) -> None:
        work = Work(self._transform, self._state, cast("Tally", _NoTally()))
        engine = self._state.engine
        for source in sources(batch):
            assert source.value is not None
            message = parse_message(source.value, engine.message_limits, engine._labels)  # noqa: SLF001 - of both
            deliveries = self._deliveries(message)
            if deliveries:
                _drain(work.deliver(source, deliveries))
        _drain(work.hand_on())

    def _deliveries(self, message: Message) -> list[Delivery]:
        engine = self._state.engine
        deliveries = Deliveries(message, engine._makers, self._metrics)  # noqa: SLF001 - its own
        engine._deliver(message, list(engine._found(message, ())), deliveries)  # noqa: SLF001
        return deliveries.made


def _drain(batches: Iterator[pa.RecordBatch]) -> None:
    for _ in batches:
        pass

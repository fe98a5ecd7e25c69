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

from broker.delivery import Delivery, deliver
from broker.documents import Message
from broker.metrics import EngineMetrics
from streaming_jobs.metrics import Metrics
from streaming_jobs.overview import Overview
from streaming_jobs.rows import Rows
from streaming_jobs.snapshot import Entry, Snapshot
from streaming_jobs.statistics import Counts, CountsParam
from streaming_jobs.tally import Tally
from streaming_jobs.transform import Transform, sources
from streaming_jobs.worker import EngineLimits, EngineState, engine_at
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
    bare = _Unmeasured(transform, engine_at(snapshot, limits))
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
    messages = books.book_messages(_MESSAGES, values, elements=110, seed=seed)
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

    def delivered(self, subscription: str, size: int) -> None:
        """Nothing is noted."""


class _Unmeasured:
    """What `Transform` and `Engine.deliveries` do, but for the counting."""

    def __init__(self, transform: Transform, state: EngineState) -> None:
        self._transform = transform
        self._state = state
        self._metrics = EngineMetrics()
        # What is found by a matcher, or depends on the table of labels, must be the same for both.
        assert not state.engine.matcher.describe().queries

    def run(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows, tally = Rows(), cast("Tally", _NoTally())
        engine, recipients = self._state.engine, self._state.recipients
        for source in sources(batch):
            assert source.value is not None
            message = Message.parse(source.value, engine.message_limits, engine._labels)  # noqa: SLF001 - of both
            for delivery in self._deliveries(message):
                recipient = recipients[delivery.subscription]
                self._transform.add_delivery(source, delivery, recipient, rows, tally)
                if rows.is_full:
                    rows.take()
        return rows.take()

    def _deliveries(self, message: Message) -> list[Delivery]:
        engine = self._state.engine
        made: list[Delivery] = []
        for transformation, result in engine._outcomes(message, list(engine._found(message, ()))):  # noqa: SLF001 - without its clock
            made += deliver(transformation, result, message, engine.result_limits, self._metrics)
        return made


def _drain(batches: Iterator[pa.RecordBatch]) -> None:
    for _ in batches:
        pass

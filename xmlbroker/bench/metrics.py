"""`xmlbroker bench metrics`: what it costs to count, with and without, on the same messages.

What a worker does with a batch of messages is run in this process, without Spark, which makes the
share of counting smaller: once as it is, with all that is counted brought to the metrics of the
driver, and once with nothing counted and no clock asked. Then, in the pipeline, a job counts in
every second of its batches.
"""

import pickle
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa

from broker.delivery import Deliveries, Delivery
from broker.documents import Message, parse_message
from broker.metrics import EngineMetrics
from streaming_jobs.broker_job import BrokerJob
from streaming_jobs.in_force import Selected
from streaming_jobs.metrics import Metrics
from streaming_jobs.output_limits import OutputLimits
from streaming_jobs.overview import Overview
from streaming_jobs.settings import JobSettings
from streaming_jobs.snapshot import Entry, Stored, received
from streaming_jobs.sources import sources
from streaming_jobs.statistics import Counts, CountsParam
from streaming_jobs.tally import Tally
from streaming_jobs.transform import Transform, Work
from streaming_jobs.worker import EngineLimits, EngineState, Recipient, engine_at
from subscriptions.topic_names import TopicNames
from xmlbroker.bench import books
from xmlbroker.bench.measure import compare, progress
from xmlbroker.bench.pipeline import drained, running
from xmlbroker.bench.pipeline_load import publish

_MESSAGES = 150
"""In an Arrow batch: about what a worker gets at a time under load."""

_BATCH = 1_000
"""In a batch of the pipeline: few, so that neighbours have the same minute."""


def run(rounds: int, subscriptions: int = 10_000, batches: int = 20) -> dict[str, object]:
    """The figures."""
    texts = books.book_queries(subscriptions, subscriptions)
    entries = [
        Entry(f"subscriber-{number % 20:02}/s{number}", number, text, "xml")
        for number, text in enumerate(texts)
    ]
    driver = _Driver()
    stored = Stored("bench", 0, cast("Any", _Local([pickle.dumps(entries)])))
    limits = EngineLimits()
    transform = Transform(
        stored, limits, TopicNames(), OutputLimits(1_000_000), frozenset(), cast("Any", driver)
    )
    bare = _Unmeasured(transform, engine_at(received(stored), limits, transform.names))
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

    def __init__(self, value: list[bytes]) -> None:
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


class Uncounted(Transform):
    """Answers the messages of a batch without counting anything; runs in the workers."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same output records."""
        unmeasured = _Unmeasured(self, engine_at(received(self.stored), self.limits, self.names))
        for batch in batches:
            yield from unmeasured.answers(batch)


class AlternatingJob(BrokerJob):
    """A broker that counts in every second batch only."""

    def transform(self, selected: Selected) -> Transform:
        """What the workers do with the messages of the next batch."""
        counted = super().transform(selected)
        if self.batches % 2 == 0:
            return counted
        return Uncounted(**{each.name: getattr(counted, each.name) for each in fields(counted)})


def in_pipeline(messages: int, subscriptions: int = 10_000) -> dict[str, object]:
    """How long batches take that are counted, against their neighbours that are not.

    In one job on a backlog, so that all else is the same: machine, JVM, engines, minute.
    """
    with running(subscriptions) as bench:
        progress(f"publishing {messages:,} messages")
        publish(bench.kafka.bootstrap_servers, bench.names.messages, messages, values=bench.values)
        settings = JobSettings(checkpoint=bench.checkpoint(), max_messages_per_batch=_BATCH)
        with AlternatingJob(bench.spark, bench.kafka, settings) as job:
            query = job.start(progress, available_now=True)
            drained(query)
            # The last one has what was left over.
            done = [each for each in query.recentProgress if each["numInputRows"]][:-1]
    seconds = [
        int(each["durationMs"]["triggerExecution"]) / 1000 / int(each["numInputRows"]) * _BATCH
        for each in done
    ]
    by_kind: dict[bool, list[float]] = {True: [], False: []}
    for each, spent in zip(done, seconds, strict=True):
        by_kind[int(each["batchId"]) % 2 == 0].append(spent)
    # The first are still finding their stride.
    settled = range(len(done) // 5 // 2 * 2, len(done) - 2, 2)
    assert int(done[0]["batchId"]) % 2 == 0
    # Each against the mean of the two beside it.
    ratios = sorted(2 * seconds[at] / (seconds[at - 1] + seconds[at + 1]) for at in settled[1:])
    return {
        "batches": len(done),
        "messages_a_batch": _BATCH,
        "counted_seconds": statistics.median(by_kind[True]),
        "uncounted_seconds": statistics.median(by_kind[False]),
        "pairs": len(ratios),
        "ratio": statistics.median(ratios),
        "ratio_low": ratios[len(ratios) // 4],
        "ratio_high": ratios[-1 - len(ratios) // 4],
    }


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
        _drain(self.answers(batch))

    def answers(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        work = Work(self._transform, self._state, cast("Tally", _NoTally()))
        engine = self._state.engine
        for source in sources(batch):
            assert source.value is not None
            message = parse_message(source.value, engine.message_limits, engine._labels)  # noqa: SLF001 - of both
            deliveries = self._deliveries(message)
            if deliveries:
                yield from work.deliver(source, deliveries)
            if work.is_full:
                yield from work.hand_on()
        yield from work.hand_on()

    def _deliveries(self, message: Message) -> list[Delivery]:
        engine = self._state.engine
        deliveries = Deliveries(message, engine._makers, self._metrics)  # noqa: SLF001 - its own
        engine._deliver(message, list(engine._found(message, ())), deliveries)  # noqa: SLF001
        return deliveries.made


def _drain(batches: Iterator[pa.RecordBatch]) -> None:
    for _ in batches:
        pass

"""What a Python worker notes while it answers messages, and tells the driver once an Arrow batch.

The names that go with it, of subscriptions and of places, are few: the largest, the first.
"""

import time
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from streaming_jobs.consumers import largest
from streaming_jobs.statistics import Counts, resident_bytes
from streaming_jobs.worker import EngineState, Recipient

STAGES = ("parse", "match", "transform", "serialise")

_NAMES_TOLD = 20
"""So many subscriptions with most time, and with most bytes, are told of an Arrow batch."""

_DEAD_LETTERS_TOLD = 5

_SAMPLED = 16
"""One message in so many is looked at more closely."""

_SLOT_MS = 50
"""Latencies are known as finely as this."""


class Tally:
    """The notes on some messages."""

    def __init__(self, state: EngineState, counts: Counts) -> None:
        self._state = state
        self.counts = counts
        """What is known from before: the engine may have been built for them."""
        self._bytes: dict[str, float] = {}
        self._messages = self._deliveries = self._output_bytes = 0
        self._dead_letters = 0
        self._before = state.engine.metrics.totals()
        self._cache_before = state.engine.describe().cache_use
        self._seconds = 0.0
        self.resume()

    def resume(self) -> None:
        """The clock runs from here."""
        self._started = time.perf_counter()

    def pause(self) -> None:
        """The clock stands still: others are at work."""
        self._seconds += time.perf_counter() - self._started

    def delivered(self, recipients: list[Recipient], payloads: list[bytes]) -> None:
        """Results of one message."""
        self._deliveries += len(recipients)
        self._output_bytes += sum(map(len, payloads))
        self._messages += 1
        # Whose they are is noted for some messages only, and taken to be so for the others.
        if self._messages % _SAMPLED == 1:
            for recipient, payload in zip(recipients, payloads, strict=True):
                self._bytes[recipient] = self._bytes.get(recipient, 0) + len(payload)

    def refused(self, code: str, place: str, subscription: str | None) -> None:
        """One dead letter."""
        name = f"dead_letters:{code}"
        self.counts[name] = self.counts.get(name, 0) + 1
        self._dead_letters += 1
        if self._dead_letters <= _DEAD_LETTERS_TOLD:
            self.counts[f"dead_letter:{code} {place} {subscription or ''}"] = 1

    def finish(self, batch: pa.RecordBatch) -> Counts:
        """All of it, for the messages of an Arrow batch."""
        counts = self.counts
        self.pause()
        counts["seconds"] = self._seconds
        counts["messages"] = batch.num_rows
        counts["deliveries"] = self._deliveries
        counts["output_bytes"] = self._output_bytes
        counts["input_bytes"] = pc.sum(pc.binary_length(batch.column("value"))).as_py() or 0
        for topic, count in Counter(batch.column("topic").to_pylist()).items():
            counts[f"read:{topic}"] = count
        self._add_engine(counts)
        scale = self._messages / max(1, -(-self._messages // _SAMPLED))
        for name, size in largest(self._bytes, _NAMES_TOLD).items():
            counts[f"bytes_of:{name}"] = size * scale
        for name, seconds in self._state.engine.costs(_NAMES_TOLD).items():
            counts[f"seconds_of:{name}"] = seconds
        _add_times(batch, counts)
        counts["worker_memory"] = resident_bytes()
        return counts

    def _add_engine(self, counts: Counts) -> None:
        engine = self._state.engine
        done = engine.metrics.totals()
        spent = {name: number - self._before[name] for name, number in done.items()}
        for stage in STAGES:
            counts[f"stage_seconds:{stage}"] = spent.pop(f"{stage}_seconds")
            counts[f"stage_runs:{stage}"] = spent.pop(f"{stage}_runs")
        counts.update(spent)
        described, before = engine.describe(), self._cache_before
        counts["cache_look_ups"] = described.cache_use.looked_up - before.looked_up
        counts["cache_misses"] = described.cache_use.missed - before.missed
        counts["engine:states"] = described.states
        counts["engine:cached_states"] = described.cached_states
        counts["engine:cached_bytes"] = described.cached_bytes
        counts["engine:active_states"] = described.active_states
        counts["engine:queries"] = described.queries
        for way, number in engine.transformations.items():
            counts[f"transformations:{way}"] = number


def _add_times(batch: pa.RecordBatch, counts: Counts) -> None:
    """Count messages by when they were published."""
    stamps = pc.cast(batch.column("timestamp"), pa.int64())
    slots = Counter(stamp // (_SLOT_MS * 1000) for stamp in stamps.to_pylist())
    for slot, count in slots.items():
        counts[f"published_ms:{slot * _SLOT_MS}"] = count

"""What `xmlbroker top` shows of a running job: the last minute, who is slow, what was refused.

Everything with a name is here and not among the metrics. It is small, and of now: for what was,
there is Prometheus.
"""

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from time import time
from typing import Any, NamedTuple

from streaming_jobs.consumers import Fading
from streaming_jobs.statistics import Counts
from streaming_jobs.tally import STAGES
from subscriptions.registry import Registry

_LOGGER = logging.getLogger(__name__)
_WINDOW_SECONDS = 60.0
_SHOWN = 10
_DEAD_LETTERS_KEPT = 20


class _Batch(NamedTuple):
    time: float
    counts: Counts
    latencies: Counter[float]
    """Messages by their latency in milliseconds."""


class Overview:
    """Takes what batches did; says what is going on. Any thread may ask."""

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._started = clock()
        self._batches: deque[_Batch] = deque()
        self._seconds = Fading(clock)
        self._bytes = Fading(clock)
        self._dead_letters: deque[dict[str, str]] = deque(maxlen=_DEAD_LETTERS_KEPT)
        self._committed: dict[str, Any] = {}
        self._registry: dict[str, Any] = {}
        self._next_line = clock() + _WINDOW_SECONDS

    def count_batch(self, counts: Counts) -> None:
        """What the workers did in a batch whose output is acknowledged."""
        now = self._clock()
        latencies: Counter[float] = Counter()
        plain: Counts = {}
        by_kind: dict[str, Counts] = {"seconds_of": {}, "bytes_of": {}}
        with self._lock:
            for name, number in counts.items():
                kind, _, label = name.partition(":")
                if kind == "published_ms":
                    latencies[max(0.0, now * 1000 - float(label))] += int(number)
                elif kind in by_kind:
                    by_kind[kind][label] = number
                elif kind == "dead_letter":
                    code, place, subscription = label.split(" ", 2)
                    self._dead_letters.append(
                        {"code": code, "source": place, "subscription": subscription}
                    )
                elif kind == "dead_letters":
                    plain[kind] = plain.get(kind, 0) + number
                else:
                    plain[name] = number
            self._seconds.add(by_kind["seconds_of"])
            self._bytes.add(by_kind["bytes_of"])
            self._batches.append(_Batch(now, plain, latencies))
            self._forget(now)

    def count_commit(
        self, batch: int, milliseconds: Mapping[str, int], lag: Mapping[str, int]
    ) -> None:
        """What Spark says of a batch that is committed."""
        with self._lock:
            self._committed = {
                "batch": batch,
                "batch_milliseconds": dict(milliseconds),
                "lag": dict(lag),
            }

    def follow(self, registry: Registry) -> None:
        """What the registry says; and once a minute a line of the log on who is busiest."""
        census = registry.census
        with self._lock:
            self._registry = {
                "version": registry.version,
                "subscriptions": {state.value: n for state, n in census.states.items() if n},
                "rejections": [
                    {**each._asdict(), "since": each.since.isoformat()} for each in census.refusals
                ],
            }
        if self._clock() >= self._next_line:
            self._next_line = self._clock() + _WINDOW_SECONDS
            self._log_busiest()

    def _log_busiest(self) -> None:
        with self._lock:
            slowest, largest = self._seconds.most(3), self._bytes.most(3)
        if slowest or largest:
            _LOGGER.info(
                "busiest subscriptions",
                extra={
                    "ms_per_second": {name: round(1000 * each, 2) for name, each in slowest},
                    "bytes_per_second": {name: round(each) for name, each in largest},
                },
            )

    def to_data(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        now = self._clock()
        with self._lock:
            self._forget(now)
            window = min(_WINDOW_SECONDS, max(1.0, now - self._started))
            total: Counter[str] = Counter()
            latencies: Counter[float] = Counter()
            for batch in self._batches:
                total.update(batch.counts)
                latencies.update(batch.latencies)
            return {
                "uptime_seconds": round(now - self._started, 1),
                **self._registry,
                **self._committed,
                "per_second": {
                    name: total[name] / window
                    for name in ("messages", "deliveries", "output_bytes", "dead_letters")
                },
                "stage_share": {
                    stage: total[f"stage_seconds:{stage}"] / (total["seconds"] or 1)
                    for stage in STAGES
                },
                "latency_milliseconds": _quantiles(latencies),
                "slowest": [
                    {"subscription": name, "ms_per_second": 1000 * each}
                    for name, each in self._seconds.most(_SHOWN)
                ],
                "largest": [
                    {"subscription": name, "bytes_per_second": each}
                    for name, each in self._bytes.most(_SHOWN)
                ],
                "dead_letters": list(self._dead_letters),
            }

    def _forget(self, now: float) -> None:
        while self._batches and self._batches[0].time < now - _WINDOW_SECONDS:
            self._batches.popleft()


def _quantiles(latencies: Counter[float]) -> dict[str, float] | None:
    """The median and the 99th hundredth, of messages by their latency."""
    messages = latencies.total()
    if not messages:
        return None
    found: dict[str, float] = {}
    seen = 0
    for latency, count in sorted(latencies.items()):
        seen += count
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            if name not in found and seen >= share * messages:
                found[name] = round(latency)
    return found

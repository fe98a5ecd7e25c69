"""What Prometheus is told: all of it is on the driver, counted once for each batch.

No label has the name of a subscriber or a subscription: there may be a hundred thousand.
"""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from streaming_jobs.statistics import Counts

_LATENCY_BOUNDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)


class Latency(Collector):
    """A histogram that takes many observations of one value at once."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._buckets = [0.0] * (len(_LATENCY_BOUNDS) + 1)
        self._sum = 0.0
        registry.register(self)

    def observe(self, seconds: float, count: float) -> None:
        """So many messages had this latency."""
        seconds = max(0.0, seconds)
        place = next((n for n, bound in enumerate(_LATENCY_BOUNDS) if seconds <= bound), -1)
        self._buckets[place] += count
        self._sum += seconds * count

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The histogram as Prometheus has it: buckets count all below their bound."""
        total = 0.0
        buckets = []
        for bound, count in zip((*map(str, _LATENCY_BOUNDS), "+Inf"), self._buckets, strict=True):
            total += count
            buckets.append((bound, total))
        yield HistogramMetricFamily(
            "xmlbroker_latency_seconds",
            "From the source record's timestamp until its batch's output was acknowledged.",
            buckets=buckets,
            sum_value=self._sum,
        )


class Metrics:
    """All metrics of a job, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.latency = Latency(self.registry)
        self.messages = self._counter("messages", "Messages that batches had.")
        self.deliveries = self._counter("deliveries", "Records written to output topics.")
        self.output_bytes = self._counter("output_bytes", "Bytes of those records' values.")
        self.dead_letters = self._counter("dead_letters", "Dead letters by reason.", "code")
        self.stage_seconds = self._counter(
            "stage_seconds", "Time of the workers' engines by stage.", "stage"
        )
        self.engine_builds = self._counter("engine_builds", "Engines built from the beginning.")
        self.engine_build_seconds = self._counter("engine_build_seconds", "Time that took.")
        self.batches = self._counter("batches", "Batches that were committed.")
        self.phase_seconds = self._counter(
            "batch_phase_seconds", "Time of batches by Spark's phases.", "phase"
        )
        self.retried_writes = self._counter(
            "retried_writes", "Batches whose output was written again, for a topic's sake."
        )
        self.batch_seconds = self._gauge("batch_seconds", "Time of the last batch.")
        self.batch_timestamp = self._gauge("batch_timestamp_seconds", "When it was committed.")
        self.lag = self._gauge(
            "lag_messages", "Messages not read yet, of the input partition with most of them."
        )
        self.subscriptions = self._gauge("subscriptions", "Subscriptions by state.", "state")
        self.version = self._gauge("subscription_version", "Offset of the last record taken.")
        self.unusable_records = self._gauge(
            "unusable_subscription_records",
            "Records of the subscription topic without a usable key.",
        )
        self.memory = self._gauge(
            "memory_bytes", "Resident memory of the driver, and of the largest worker.", "process"
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"xmlbroker_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"xmlbroker_{name}", text, labels, registry=self.registry)

    def count_batch(self, counts: Counts, written_ms: float) -> None:
        """What the workers did in a batch whose output is acknowledged."""
        plain = {
            "messages": self.messages,
            "deliveries": self.deliveries,
            "output_bytes": self.output_bytes,
            "engine_builds": self.engine_builds,
            "engine_build_seconds": self.engine_build_seconds,
        }
        for name, number in counts.items():
            kind, _, label = name.partition(":")
            if kind in plain:
                plain[kind].inc(number)
            elif kind == "dead_letters":
                self.dead_letters.labels(label).inc(number)
            elif kind == "stage_seconds":
                self.stage_seconds.labels(label).inc(number)
            elif kind == "published_ms":
                self.latency.observe((written_ms - float(label)) / 1000, number)
            elif kind == "worker_memory":
                self.memory.labels("worker").set(number)

    def count_commit(self, milliseconds: Mapping[str, int], lag: float, timestamp: float) -> None:
        """What Spark says of a batch that is committed."""
        self.batches.inc()
        self.lag.set(lag)
        self.batch_timestamp.set(timestamp)
        for phase, spent in milliseconds.items():
            self.phase_seconds.labels(phase).inc(spent / 1000)
        self.batch_seconds.set(milliseconds.get("triggerExecution", 0) / 1000)

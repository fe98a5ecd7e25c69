"""What Prometheus is told: all of it is on the driver, counted once for each batch.

No label has the name of a subscriber or a subscription: there may be a hundred thousand. Those that
take most time and bytes are told by `overview.py`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from streaming_jobs.memory import MemoryUse, memory_use
from streaming_jobs.statistics import Counts
from streaming_jobs.tally import STAGES
from subscriptions.model import State
from subscriptions.registry import Registry

_LATENCY_BOUNDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
_BATCH_BOUNDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)

_STATES = (State.ACTIVE, State.PAUSED, State.EXPIRED, State.SUSPENDED)

MESSAGE_CODES = (
    *("no-value", "empty", "too-large", "not-well-formed", "encoding-refused"),
    *("doctype-refused", "entity-refused", "too-deep", "too-many-elements"),
    *("too-many-attributes", "too-many-namespaces", "too-many-names"),
    *("too-many-paths", "too-nested"),
)
"""Why a message is a dead letter for all."""

RESULT_CODES = (
    *("budget-exceeded", "too-large-for-topic", "no-key-for-topic"),
    *("attribute-after-content", "attribute-without-element", "duplicate-attribute"),
)
"""Why it is one for a single subscription, which is then to blame."""


class Latency(Collector):
    """A histogram that takes many observations of one value at once."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._buckets = [0.0] * (len(_LATENCY_BOUNDS) + 1)
        self._sum = 0.0
        registry.register(self)

    def observe(self, seconds: float, count: float) -> None:
        """So many messages had this latency."""
        seconds = max(0.0, seconds)
        self._buckets[bisect_left(_LATENCY_BOUNDS, seconds)] += count
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


class Running:
    """A context that is as long as what it tells of; a batch that hangs is seen nowhere else."""

    def __init__(self, gauge: Gauge, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._began: float | None = None
        gauge.set_function(self._seconds)

    def __enter__(self) -> None:
        self._began = self._clock()

    def __exit__(self, *_error: object) -> None:
        self._began = None

    def _seconds(self) -> float:
        began = self._began
        return 0.0 if began is None else self._clock() - began


class MachineMemory(Collector):
    """Looked up when it is asked for. Where it isn't known there is no sample: 0 would be wrong."""

    def __init__(
        self, registry: CollectorRegistry, use: Callable[[], MemoryUse | None] = memory_use
    ) -> None:
        self._use = use
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """How much there is, and how much of it is used."""
        use = self._use()
        if use is not None:
            used = "Memory in use in the driver's container, or on its machine, by all processes."
            yield GaugeMetricFamily("xmlbroker_memory_used_bytes", used, value=use.used)
            limit = "How much memory that container or machine has."
            yield GaugeMetricFamily("xmlbroker_memory_limit_bytes", limit, value=use.limit)


class Metrics:
    """All metrics of a job, in a registry of their own."""

    def __init__(self, topics: Iterable[str] = ()) -> None:
        self.registry = CollectorRegistry()
        self._refused = 0
        """The refused records that are counted."""
        self.latency = Latency(self.registry)
        MachineMemory(self.registry)
        # What the workers did
        self.messages = self._counter("messages", "Messages that batches had.", "topic")
        self.input_bytes = self._counter("input_bytes", "Bytes of those messages.")
        self.deliveries = self._counter("deliveries", "Records written to output topics.")
        self.output_bytes = self._counter("output_bytes", "Bytes of those records' values.")
        self.dead_letters = self._counter("dead_letters", "Dead letters by reason.", "code")
        self.stage_seconds = self._counter(
            "stage_seconds", "Time of the workers' engines by stage.", "stage"
        )
        self.stage_runs = self._counter(
            "stage_runs",
            "How often: messages parsed and matched, transformations answered, outputs made.",
            "stage",
        )
        self.matches = self._counter("matches", "Distinct queries that had a result, by message.")
        self.bindings = self._counter("bindings", "Groups that transformations made.")
        self.budget_overruns = self._counter("budget_overruns", "Results refused for their size.")
        self.dtd_fallbacks = self._counter(
            "dtd_fallbacks", "Messages answered without the DTD, which they don't conform to."
        )
        self.cache_look_ups = self._counter(
            "cache_look_ups", "Label paths that messages asked the automata for."
        )
        self.cache_misses = self._counter(
            "cache_misses", "Label paths that were not in the cache: the NFA was stepped."
        )
        self.engine_builds = self._counter("engine_builds", "Engines built from the beginning.")
        self.engine_build_seconds = self._counter("engine_build_seconds", "Time that took.")
        self.reloads = self._counter("reloads", "Changes of subscriptions taken by engines.")
        self.reload_seconds = self._counter("reload_seconds", "Time that took.")
        self.automaton_states = self._gauge(
            "automaton_states", "States of the NFA, and of what is determinised of it.", "kind"
        )
        self.automaton_cache_bytes = self._gauge(
            "automaton_cache_bytes", "Memory of what is determinised."
        )
        self.active_states_bound = self._gauge(
            "active_states_bound", "States that all filters can keep active at once, summed up."
        )
        self.matcher_queries = self._gauge(
            "matcher_queries", "Distinct filters in the automaton, those of transformations too."
        )
        self.transformations = self._gauge(
            "transformations", "Distinct transformations by how they are answered.", "way"
        )
        # What Spark says
        self.batches = self._counter("batches", "Batches that were committed.")
        self.batch_seconds = Histogram(
            "xmlbroker_batch_seconds",
            "Time of batches.",
            buckets=_BATCH_BOUNDS,
            registry=self.registry,
        )
        self.phase_seconds = self._counter(
            "batch_phase_seconds", "Time of batches by Spark's phases.", "phase"
        )
        self.retried_writes = self._counter(
            "retried_writes", "Batches whose output was written again, for a topic's sake."
        )
        self.batch_timestamp = self._gauge(
            "batch_timestamp_seconds", "When the last batch was committed."
        )
        self.batch_running = Running(
            self._gauge("batch_running_seconds", "How long this batch is under way; 0 without one.")
        )
        self.batch_limit = self._gauge(
            "batch_limit_messages", "The most messages that a batch takes, by its setting."
        )
        self.lag = self._gauge("lag_messages", "Messages not read yet.", "topic")
        # What the registry says
        self.subscriptions = self._gauge("subscriptions", "Subscriptions by state.", "state")
        self.version = self._gauge("subscription_version", "Offset of the last record taken.")
        self.rejected_records = self._counter(
            "rejected_records", "Subscription records refused since the start."
        )
        self.unusable_records = self._gauge(
            "unusable_subscription_records",
            "Records of the subscription topic without a usable key.",
        )
        self.ready = self._gauge("ready", "1 while messages and subscriptions are processed.")
        self.memory = self._gauge(
            "memory_bytes",
            "Resident memory of the driver, of its JVM, and of the largest worker.",
            "process",
        )
        # What is counted for the first time has to be seen as a rise, from 0.
        for topic in topics:
            self.messages.labels(topic)
        for code in (*MESSAGE_CODES, *RESULT_CODES):
            self.dead_letters.labels(code)
        for stage in STAGES:
            self.stage_seconds.labels(stage)
            self.stage_runs.labels(stage)
        self._plain = {
            name: getattr(self, name)
            for name in (
                *("input_bytes", "deliveries", "output_bytes", "matches", "bindings"),
                *("budget_overruns", "dtd_fallbacks", "cache_look_ups", "cache_misses"),
                *("engine_builds", "engine_build_seconds", "reloads", "reload_seconds"),
            )
        }
        self._labelled = {
            "read": self.messages,
            "dead_letters": self.dead_letters,
            "stage_seconds": self.stage_seconds,
            "stage_runs": self.stage_runs,
        }
        self._sizes = {
            "engine:states": self.automaton_states.labels("nfa"),
            "engine:cached_states": self.automaton_states.labels("determinised"),
            "engine:cached_bytes": self.automaton_cache_bytes,
            "engine:active_states": self.active_states_bound,
            "engine:queries": self.matcher_queries,
            "worker_memory": self.memory.labels("worker"),
        }

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"xmlbroker_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"xmlbroker_{name}", text, labels, registry=self.registry)

    def count_batch(self, counts: Counts, written_ms: float) -> None:
        """What the workers did in a batch whose output is acknowledged."""
        for name, number in counts.items():
            kind, _, label = name.partition(":")
            if kind in self._plain:
                self._plain[kind].inc(number)
            elif kind in self._labelled:
                self._labelled[kind].labels(label).inc(number)
            elif name in self._sizes:
                self._sizes[name].set(number)
            elif kind == "transformations":
                self.transformations.labels(label).set(number)
            elif kind == "published_ms":
                self.latency.observe((written_ms - float(label)) / 1000, number)

    def count_commit(
        self, milliseconds: Mapping[str, int], lag: Mapping[str, int], timestamp: float
    ) -> None:
        """What Spark says of a batch that is committed."""
        self.batches.inc()
        for topic, messages in lag.items():
            self.lag.labels(topic).set(messages)
        self.batch_timestamp.set(timestamp)
        for phase, spent in milliseconds.items():
            self.phase_seconds.labels(phase).inc(spent / 1000)
        self.batch_seconds.observe(milliseconds.get("triggerExecution", 0) / 1000)

    def show_registry(self, registry: Registry) -> None:
        """The subscriptions as they are, and the records that were refused since the last time."""
        for state in _STATES:
            self.subscriptions.labels(state.value).set(registry.census.states[state])
        self.subscriptions.labels(State.REJECTED.value).set(registry.refused)
        refused = registry.census.refused_records
        self.rejected_records.inc(refused - self._refused)
        self._refused = refused
        self.version.set(registry.version)
        self.unusable_records.set(registry.unreported)

"""The job: read, transform, write; batch by batch, each with one set of subscriptions.

The main thread keeps the registry up to date and waits for the end; batches run on a thread of
Spark's, one at a time. Both use the registry, so there is a lock.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from broker.errors import BrokerError
from streaming_jobs import sink, source
from streaming_jobs.checkpoint_lock import CheckpointLock
from streaming_jobs.failures import explain_failure
from streaming_jobs.kill_points import KillPoint, arm, reach
from streaming_jobs.metrics import Metrics
from streaming_jobs.output_watch import OutputWatch
from streaming_jobs.overview import Overview
from streaming_jobs.pins import Pin, pins_of
from streaming_jobs.progress import Progress
from streaming_jobs.rows import SCHEMA
from streaming_jobs.session import jvm_process
from streaming_jobs.settings import JobSettings
from streaming_jobs.snapshot import Snapshot, Snapshots
from streaming_jobs.statistics import Collected, resident_bytes
from streaming_jobs.transform import Transform
from streaming_jobs.warm_up import warm_up
from streaming_jobs.worker import EngineLimits
from subscriptions.connection import KafkaSettings
from subscriptions.errors import KafkaError
from subscriptions.kafka_log import KafkaStatusLog, KafkaSubscriptionLog
from subscriptions.records import RecordLimits
from subscriptions.registry import Registry
from subscriptions.topics import TopicAdmin, TopicSettings

_LOGGER = logging.getLogger(__name__)
_POLL_SECONDS = 0.2
_SOON_SECONDS = 0.02
"""When there are many changes at once: batches come in between."""
_WARM_AFTER_SECONDS = 20.0
_STOP_SECONDS = 60.0
_RETRY_SECONDS = 2.0

Say = Callable[[str], None]


class BrokerJob:
    """A broker on a Spark session. A context: what it opens is closed at its end."""

    def __init__(
        self,
        spark: SparkSession,
        kafka: KafkaSettings,
        job: JobSettings,
        limits: EngineLimits | None = None,
    ) -> None:
        self.spark = spark
        self.kafka = kafka
        self.job = job
        self.limits = limits if limits is not None else EngineLimits()
        self.names = kafka.names
        self.inputs = job.input_topics or (self.names.messages,)
        self.metrics = Metrics(self.inputs)
        self.metrics.batch_limit.set(job.max_messages_per_batch)
        self.overview = Overview()
        self._progress = Progress(self.metrics, self.overview)
        self.batches = 0
        self.totals: dict[str, float] = {}
        """What the workers did since the start; no names that only some batches have."""
        self._written = Collected(spark.sparkContext)
        self._warmed = Collected(spark.sparkContext)
        self._lock = threading.Lock()
        self._now = datetime.now(UTC)
        """The registry's time: a pin has the very moment that decided about `expires`."""
        self._trouble: str | None = None
        """Why the registry can't be followed, if it can't."""
        self._is_rebuilt = False
        """Whether the snapshot is that of a batch that came again, not the registry's."""
        self._stopping = threading.Event()
        self._last_batch = time.monotonic()
        self._jvm = jvm_process(spark)
        self._in_batch: frozenset[str] | None = None
        """The subscribers of the batch that is under way."""
        self._query: StreamingQuery | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if not _is_remote(self.job.checkpoint):
                stack.enter_context(CheckpointLock(Path(self.job.checkpoint)))
            self._open(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _open(self, stack: ExitStack) -> None:
        client = self.kafka.client_settings()
        one_partition = TopicSettings(partitions=1)
        self._admin = stack.enter_context(TopicAdmin(client, self.names, outputs=one_partition))
        self._admin.ensure(self._admin.control_topics())
        log = stack.enter_context(KafkaSubscriptionLog(client, self.names.subscriptions))
        statuses = stack.enter_context(KafkaStatusLog(client, self.names.status))
        self._watch = OutputWatch(self._admin)
        self._largest_records = self._watch.largest_records((), self.job.max_record_bytes)
        self._registry = Registry(
            log,
            statuses,
            prepare=self._admin.ensure_outputs,
            clock=lambda: self._now,
            limits=RecordLimits(query=self.limits.query),
        )
        self._pins = pins_of(self.spark, self.job.checkpoint)
        self._snapshots = Snapshots(self.spark.sparkContext)

    # Life

    def start(self, say: Say = _LOGGER.info, *, available_now: bool = False) -> StreamingQuery:
        """Replay the subscriptions, build the engines, start to read. Ready when it returns.

        With `available_now` it ends by itself when all messages that there are have been read.
        """
        arm(self.spark.sparkContext.environment)
        say("reading the subscriptions")
        self._registry.catch_up(
            lambda done, end: say(f"reading the subscriptions: {done:,} of {end:,}")
        )
        self._snapshots.replace(self._registry.active)
        say(f"building the engines: {len(self._snapshots):,} subscriptions")
        self._warm_up()
        say("starting the stream")
        self._query = self._start_stream(available_now=available_now)
        return self._query

    def _start_stream(self, *, available_now: bool) -> StreamingQuery:
        messages = source.read(self.spark, self.kafka, self.inputs, self.job.max_messages_per_batch)
        stream = (
            messages.writeStream.foreachBatch(self._run_batch)
            .option("checkpointLocation", str(self.job.checkpoint))
            .queryName("xmlbroker")
        )
        if available_now:
            stream = stream.trigger(availableNow=True)
        try:
            return stream.start()
        except (Py4JJavaError, PySparkException) as error:
            raise explain_failure(error) from None

    def run(self) -> None:
        """Keep the subscriptions up to date until `stop` is called, or raise what went wrong.

        While Kafka can't be reached it waits, and goes on where it stopped.
        """
        assert self._query is not None
        while not self._stopping.wait(self.pause_seconds):
            if not self._query.isActive:
                self._start_again(explain_failure(self._query.exception()))
                continue
            self._progress.look(self._query)
            if not self._query.status["isTriggerActive"]:
                reach(KillPoint.BETWEEN)
            try:
                self.follow()
                self._trouble = None
            except KafkaError as error:
                self._wait_for_kafka(error)
                continue
            is_idle = time.monotonic() - self._last_batch > _WARM_AFTER_SECONDS
            if is_idle and self._in_batch is None:
                self._keep_warm()
        self._stop_between_batches(self._query)
        self._progress.look(self._query)
        failure = self._query.exception()
        if failure is not None:
            raise explain_failure(failure)

    def _start_again(self, failure: BrokerError) -> None:
        """The stream has ended; if Kafka was away, it is started again, else that was it."""
        if failure.code != "kafka-unreachable":
            raise failure
        self._wait_for_kafka(failure)
        self._query = self._start_stream(available_now=False)

    def _wait_for_kafka(self, error: BrokerError) -> None:
        if self._trouble is None:
            _LOGGER.warning("waiting for Kafka: %s", error)
        self._trouble = error.detail
        self.metrics.ready.set(0)
        self._stopping.wait(_RETRY_SECONDS)

    @property
    def pause_seconds(self) -> float:
        """How long to wait before `follow` is called again."""
        return _SOON_SECONDS if self._registry.is_behind else _POLL_SECONDS

    @property
    def version(self) -> int:
        """The version of the subscriptions that the next batch has."""
        return self._registry.version

    def follow(self) -> None:
        """Take the changes of subscriptions that there are now; `run` does it all the time."""
        with self._lock:
            self._follow_registry()
            self._watch_outputs()

    def _watch_outputs(self) -> None:
        """Make output topics that are gone, also while a batch is written: the producer tries again
        until they are there. The batch may have subscribers that have left meanwhile.
        """
        failed = self._watch.check_if_due({*self._snapshots.subscribers, *(self._in_batch or ())})
        if failed:
            self._registry.suspend(failed)
            self._follow_registry()

    def stop(self) -> None:
        """Let `run` come to its end; may be called from a signal handler."""
        self._stopping.set()

    def _stop_between_batches(self, query: StreamingQuery) -> None:
        """In the middle of a batch, Spark would leave it to be done again."""
        deadline = time.monotonic() + _STOP_SECONDS
        while query.isActive and time.monotonic() < deadline:
            status = query.status
            if not status["isTriggerActive"] or not status["isDataAvailable"]:
                break
            time.sleep(0.005)
        query.stop()

    def _keep_warm(self) -> None:
        """Workers die when they are idle for a minute, and their engines with them."""
        try:
            self._warm_up()
        except Py4JJavaError as error:
            # A batch may have begun meanwhile and freed what this one sent; it keeps them warm.
            _LOGGER.debug("the workers were not warmed: %s", error)

    def _warm_up(self) -> None:
        self._last_batch = time.monotonic()
        with self._lock:
            snapshot = self._snapshots.current()
        warm_up(self.spark, snapshot, self.limits, self.names, self._warmed.anew())
        self.metrics.count_batch(self._warmed.counts, time.time() * 1000)

    # Batches

    def _run_batch(self, messages: DataFrame, batch: int) -> None:
        with self.metrics.batch_running:
            if self._query is not None:
                self._progress.look(self._query)
            self._answer(messages, batch)

    def _answer(self, messages: DataFrame, batch: int) -> None:
        """One batch: pin its subscriptions, and write all their results in one action."""
        reach(KillPoint.BEGUN)
        with self._lock:
            snapshot, suspended = self._pinned(batch)
            self._in_batch = frozenset(self._snapshots.subscribers)
        reach(KillPoint.PINNED)
        try:
            self._write(messages, snapshot, suspended)
        except Py4JJavaError as error:
            self.metrics.retried_writes.inc()
            with self._lock:
                suspended = self._suspend_after(error, snapshot)
            self._write(messages, snapshot, suspended)
        finally:
            self._in_batch = None
        reach(KillPoint.WRITTEN)
        self._snapshots.release()
        self.batches += 1
        self._last_batch = time.monotonic()

    def _write(self, messages: DataFrame, snapshot: Snapshot, suspended: frozenset[str]) -> None:
        transform = Transform(
            snapshot,
            self.limits,
            self.names,
            self.job.max_record_bytes,
            self._largest_records,
            suspended,
            self._written.anew(),
        )
        rows = messages.mapInArrow(transform, SCHEMA)
        topics = self.names.shared or len(self._in_batch or ())
        sink.write(rows, self.kafka, self.job.max_record_bytes, topics)
        counts = self._written.counts
        self.metrics.count_batch(counts, time.time() * 1000)
        self.overview.count_batch(counts)
        for name, number in counts.items():
            if ":" not in name:
                self.totals[name] = self.totals.get(name, 0.0) + number

    def _pinned(self, batch: int) -> tuple[Snapshot, frozenset[str]]:
        """The subscriptions of a batch: those it had if it was begun before, else those of now."""
        pin = self._pins.read(batch)
        if pin is not None:
            _LOGGER.info("batch %d comes again, with version %d", batch, pin.version)
            self._progress.version = pin.version
            return self._rebuilt(pin)
        self._follow_registry()
        if self._is_rebuilt:
            self._snapshots.replace(self._registry.active)
            self._is_rebuilt = False
        self._watch_outputs()
        registry, suspended = self._registry, frozenset(self._registry.suspended)
        pin = Pin(
            registry.version,
            registry.digest(),
            self._now.isoformat(),
            tuple(suspended),
            tuple((key.decode(), each.to_bytes().decode()) for key, each in registry.kept.items()),
        )
        self._pins.write(batch, pin)
        self._progress.version = pin.version
        return self._snapshots.current(), suspended

    def _rebuilt(self, pin: Pin) -> tuple[Snapshot, frozenset[str]]:
        set_then = self._registry.rebuild(pin.version, pin.digest, pin.statuses)
        active = {
            key: each
            for key, each in set_then.active_at(pin.moment).items()
            if key.subscriber not in pin.suspended
        }
        snapshot = self._snapshots.replace(active)
        self._is_rebuilt = True
        # Those whose topic is gone since then have nowhere to get it.
        failed = self._watch.check(self._snapshots.subscribers)
        return snapshot, frozenset({*pin.suspended, *failed})

    def _follow_registry(self) -> None:
        self._now = datetime.now(UTC)
        changes = self._registry.poll()
        if changes and not self._is_rebuilt:
            self._snapshots.update((each.key, each.subscription) for each in changes)
        self._show_registry()

    def _show_registry(self) -> None:
        self.overview.follow(self._registry)
        self.metrics.show_registry(self._registry)
        self.metrics.memory.labels("driver").set(resident_bytes())
        self.metrics.memory.labels("jvm").set(resident_bytes(self._jvm))
        self.metrics.ready.set(self.why_not_ready() is None)

    # Health

    def why_not_live(self) -> str | None:
        """None while the stream runs, or has yet to start; else what became of it."""
        query = self._query
        return None if query is None or query.isActive else "the stream has ended"

    def why_not_ready(self) -> str | None:
        """None when subscriptions are replayed, the stream runs and Kafka answers."""
        if self._query is None:
            return "the subscriptions are being read"
        if not self._query.isActive:
            return "the stream has ended"
        if self._trouble is not None:
            return self._trouble
        return None

    def _suspend_after(self, error: Py4JJavaError, snapshot: Snapshot) -> frozenset[str]:
        """Who is left out when a write is tried again; raises if that would change nothing."""
        # Not those of now: a subscriber may have gone, and taken the topic away.
        subscribers = snapshot.subscribers()
        text = str(error)
        missing = self._admin.missing(self.names.output(each) for each in subscribers)
        failed = self._watch.refused(text, subscribers)
        known = self._largest_records
        if "RecordTooLargeException" in text:
            self._largest_records = self._watch.largest_records(
                subscribers, self.job.max_record_bytes
            )
        if not missing and not failed and self._largest_records == known:
            raise explain_failure(error)
        failed.update(self._watch.check(subscribers))
        if failed:
            self._registry.suspend(failed)
        return frozenset({*self._registry.suspended, *failed})


def _is_remote(checkpoint: Path | str) -> bool:
    return isinstance(checkpoint, str) and "://" in checkpoint

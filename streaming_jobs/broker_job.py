"""The job: read, transform, write; batch by batch, each with one set of subscriptions.

The main thread keeps the subscriptions up to date and waits for the end; batches run on a thread of
Spark's, one at a time.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from broker.errors import BrokerError
from streaming_jobs import sink, source
from streaming_jobs.arrow_map import ArrowMap
from streaming_jobs.checkpoint_lock import CheckpointLock
from streaming_jobs.failures import STOPPING, JobError, explain_failure, explained
from streaming_jobs.in_force import InForce, Selected
from streaming_jobs.kill_points import KillPoint, arm, reach
from streaming_jobs.metrics import Metrics
from streaming_jobs.overview import Overview
from streaming_jobs.progress import Progress
from streaming_jobs.rows import SCHEMA
from streaming_jobs.session import end_expected, jvm_process
from streaming_jobs.settings import JobSettings
from streaming_jobs.statistics import Collected, resident_bytes
from streaming_jobs.storage import is_remote
from streaming_jobs.transform import Transform
from streaming_jobs.warm_up import warm_up
from streaming_jobs.worker import EngineLimits
from subscriptions.connection import KafkaSettings
from subscriptions.errors import KafkaError
from subscriptions.registry import Registry

_LOGGER = logging.getLogger(__name__)
_WARM_AFTER_SECONDS = 20.0
_STOP_SECONDS = 60.0
_STOP_WITHOUT_KAFKA_SECONDS = 5.0
_RETRY_SECONDS = 2.0
_SWITCH_SECONDS = 0.0005
"""How long a thread may have to wait for another one that keeps Python busy. A batch asks the JVM
some dozens of questions and would wait so long after each answer, while subscriptions are parsed:
5 ms, as Python has it, are a batch of twice the time."""

Say = Callable[[str], None]


class BrokerJob:
    """A broker on a Spark session. A context: what it opens is closed at its end."""

    in_force: InForce
    """There while it is open."""
    _aside: Executor
    """Does what a batch need not wait for, but for its end; there while it is open, too."""

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
        self.inputs = self.names.inputs(job.input_topics)
        self.metrics = Metrics(self.inputs)
        self.metrics.batch_limit.set(job.max_messages_per_batch)
        self.overview = Overview()
        self._progress = Progress(self.metrics, self.overview)
        self.batches = 0
        self._committed = 0
        """How many of them are known to be."""
        self.totals: dict[str, float] = {}
        """What the workers did since the start; no names that only some batches have."""
        self._map = ArrowMap(source.COLUMNS, SCHEMA)
        self._sink = sink.Sink(kafka, job.max_record_bytes)
        self._written = Collected(spark.sparkContext)
        self._warmed = Collected(spark.sparkContext)
        self._trouble: str | None = None
        """Why the registry can't be followed, if it can't."""
        self._stopping = threading.Event()
        self._last_batch = time.monotonic()
        self._jvm = jvm_process(spark)
        self._query: StreamingQuery | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with explained(), ExitStack() as stack:
            stack.callback(sys.setswitchinterval, sys.getswitchinterval())
            sys.setswitchinterval(_SWITCH_SECONDS)
            if not is_remote(self.job.checkpoint):
                stack.enter_context(CheckpointLock(Path(self.job.checkpoint)))
            self._aside = stack.enter_context(ThreadPoolExecutor(1, "xmlbroker-aside"))
            self.in_force = InForce(
                self.spark,
                self.kafka,
                self.job,
                limits=self.limits,
                show=self._show_registry,
                give_up=self._give_up,
                stack=stack,
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # An error may have come up while batches run: they need what is closed here.
        with suppress(Py4JError, ConnectionError):
            if self._query is not None and self._query.isActive:
                self._query.stop()
        self._stack.close()

    # Life

    def start(self, say: Say = _LOGGER.info, *, available_now: bool = False) -> StreamingQuery:
        """Replay the subscriptions, build the engines, start to read. Ready when it returns.

        With `available_now` it ends by itself when all messages that there are have been read.
        """
        arm(self.spark.sparkContext.environment)
        with explained():
            say("reading the subscriptions")
            self.in_force.catch_up(
                lambda done, end: say(f"reading the subscriptions: {done:,} of {end:,}")
            )
            say(f"building the engines: {len(self.in_force):,} subscriptions")
            self._warm_up()
            say("starting the stream")
            self._query = self._start_stream(available_now=available_now)
            if not available_now:
                self._await_first_trigger(self._query)
        return self._query

    def _await_first_trigger(self, query: StreamingQuery) -> None:
        """Wait until a batch is done, or there is none to do: what can't be gone on with, a batch
        whose subscriptions are lost or a torn checkpoint, is known then.
        """
        while query.isActive and not self.batches and not self._stopping.is_set():
            if query.status["message"].startswith("Waiting for"):
                break
            time.sleep(0.02)
        failure = query.exception()
        if failure is not None:
            explained = explain_failure(failure)
            if explained.code != "kafka-unreachable":  # `run` waits for it
                raise explained

    def _start_stream(self, *, available_now: bool) -> StreamingQuery:
        messages = source.read(self.spark, self.kafka, self.inputs, self.job.max_messages_per_batch)
        stream = (
            messages.writeStream.foreachBatch(self._run_batch)
            .option("checkpointLocation", str(self.job.checkpoint))
            .queryName("xmlbroker")
        )
        if available_now:
            stream = stream.trigger(availableNow=True)
        return stream.start()

    def run(self, tend: Callable[[], None] = lambda: None) -> None:
        """Keep the subscriptions up to date until `stop` is called, or raise what went wrong.

        While Kafka can't be reached it waits, and goes on where it stopped. `tend` is called now
        and then, for what else has to be looked after on this thread.
        """
        with explained():
            self._follow(tend)

    def _follow(self, tend: Callable[[], None]) -> None:
        assert self._query is not None
        while not self._stopping.wait(self.in_force.pause_seconds):
            tend()
            if not self._query.isActive:
                self._start_again(explain_failure(self._query.exception()))
                continue
            self._progress.look(self._query)
            if not self._query.status["isTriggerActive"]:
                self._pass_commit()
                reach(KillPoint.BETWEEN)
            try:
                self.in_force.follow()
                if self._trouble is not None:
                    _LOGGER.warning("Kafka answers again")
                self._trouble = None
            except KafkaError as error:
                self._wait_for_kafka(error)
                continue
            is_idle = time.monotonic() - self._last_batch > _WARM_AFTER_SECONDS
            if is_idle and not self.in_force.is_in_batch:
                self._keep_warm()
        with end_expected():
            is_between = self._stop_between_batches(self._query)
        if is_between:
            _LOGGER.info("stopped between batches")
        else:
            _LOGGER.warning("stopped within a batch, which comes again at the next start")
        self._progress.look(self._query)
        failure = self._query.exception()
        if failure is not None and explain_failure(failure).code != STOPPING:
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

    def stop(self) -> None:
        """Let `run` come to its end; may be called from a signal handler."""
        self._stopping.set()

    def _stop_between_batches(self, query: StreamingQuery) -> bool:
        """In the middle of a batch, Spark would leave it to be done again. If there are messages
        for another batch, that one ends the stream. False if that takes too long.
        """
        patience = _STOP_SECONDS if self._trouble is None else _STOP_WITHOUT_KAFKA_SECONDS
        deadline = time.monotonic() + patience
        while query.isActive and time.monotonic() < deadline:
            status = query.status
            if not status["isTriggerActive"] or not status["isDataAvailable"]:
                break
            time.sleep(0.005)
        is_between = time.monotonic() < deadline
        query.stop()
        return is_between

    def _keep_warm(self) -> None:
        """Workers die when they are idle for a minute, and their engines with them."""
        try:
            self._warm_up()
        except Py4JJavaError as error:
            # A batch may have begun meanwhile and freed what this one sent; it keeps them warm.
            _LOGGER.debug("the workers were not warmed: %s", error)

    def _warm_up(self) -> None:
        self._last_batch = time.monotonic()
        snapshot = self.in_force.current()
        warm_up(self.spark, snapshot, self.limits, self.names, self._warmed.anew())
        self.metrics.count_batch(self._warmed.counts, time.time() * 1000)

    # Batches

    def _run_batch(self, messages: DataFrame, batch: int) -> None:
        if self._stopping.is_set():
            # The last one is committed, and nothing of this one is done or written down.
            raise JobError(STOPPING, "the job is to end")
        self._pass_commit()
        with self.metrics.batch_running:
            self._answer(messages, batch)

    def _pass_commit(self) -> None:
        """The last batch is committed: there is another one, or none under way."""
        if self._committed != self.batches:
            self._committed = self.batches
            reach(KillPoint.COMMITTED)

    def _answer(self, messages: DataFrame, batch: int) -> None:
        """One batch: pin its subscriptions, and write all their results in one action."""
        reach(KillPoint.BEGUN)
        with self.in_force.selected(batch) as selected:
            reach(KillPoint.PINNED)
            telling = self._aside.submit(self._tell_of_last)
            self._write_or_again(messages, selected)
            reach(KillPoint.WRITTEN)
            if telling.exception() is not None:
                _LOGGER.warning("nothing is known of the last batch: %s", telling.exception())
        self._progress.version = selected.version
        self.batches += 1
        self._last_batch = time.monotonic()

    def _tell_of_last(self) -> None:
        """Of the batch before this one: Spark says what it was like until this one ends."""
        if self._query is not None:
            self._progress.look(self._query)

    def _write_or_again(self, messages: DataFrame, selected: Selected) -> None:
        """Write all results: at another try, without those whose topics made the last one fail."""
        while True:
            try:
                self._write(messages, selected)
            except Py4JJavaError as error:
                self.metrics.retried_writes.inc()
                self._sink.start_anew()
                selected = self.in_force.without_failed(selected, error)
            else:
                return

    def transform(self, selected: Selected) -> Transform:
        """What the workers do with the messages of a batch."""
        return Transform(
            selected.snapshot.stored,
            self.limits,
            self.names,
            selected.output_limits,
            selected.suspended,
            self._written.anew(),
        )

    def _write(self, messages: DataFrame, selected: Selected) -> None:
        transform = self.transform(selected)
        selected.snapshot.send(self.spark.sparkContext)
        rows = self._map.over(messages, transform)
        self._sink.write(
            rows, sink.batch_bytes(self.in_force.topics, selected.output_limits.smallest)
        )
        counts = self._written.counts
        self.metrics.count_batch(counts, time.time() * 1000)
        self.overview.count_batch(counts)
        for name, number in counts.items():
            if ":" not in name:
                self.totals[name] = self.totals.get(name, 0.0) + number

    def _give_up(self) -> None:
        """End the write that is under way: its batch is tried again without those who have no
        topic.
        """
        assert self._query is not None
        _LOGGER.warning("a write is given up that waits for a topic which can't be had")
        self.spark.sparkContext.cancelJobGroup(str(self._query.runId))

    def _show_registry(self, registry: Registry) -> None:
        self.overview.follow(registry)
        self.metrics.show_registry(registry)
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

"""`xmlbroker bench pipeline`: the broker on Spark and Kafka, against an identity job.

Kafka and Spark are started for it. Load and consumer are processes of their own. The two jobs take
turns, each with a checkpoint of its own, and what is compared is medians.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming_jobs.broker_job import BrokerJob
from streaming_jobs.identity_job import Copies, start_identity
from streaming_jobs.local import die_with_parent
from streaming_jobs.local.jars import jars
from streaming_jobs.local.kafka_broker import EmbeddedKafka
from streaming_jobs.session import spark_session, stop_spark
from streaming_jobs.settings import JobSettings
from subscriptions.connection import KafkaSettings
from subscriptions.kafka_client import KafkaAdminClient, TopicPartition, open_client
from subscriptions.kafka_log import KafkaSubscriptionLog
from subscriptions.topics import TopicAdmin, TopicNames, TopicSettings
from xmlbroker.bench import books
from xmlbroker.bench.measure import progress
from xmlbroker.bench.pipeline_load import publish

SUBSCRIBERS = 20
_OBSERVED = 2
"""Topics that the consumer reads: all of them would cost it cores that the jobs need."""
_PARTITIONS = 2
_BATCH = 4_000
_WARM_SECONDS = 10.0
_PROGRESS_KEPT = 100_000

_YARDSTICKS = ("identity", "same_bytes", "once")
"""An identity job that writes each message as often as the broker has results of one, one that
writes as many bytes as the broker does, too, and one that writes each message once: the least that
Spark and Kafka take.
"""


@dataclass
class Bench:
    """A Kafka and a Spark, and what is on them."""

    spark: SparkSession
    kafka: KafkaSettings
    directory: Path
    subscriptions: int
    filters: float
    """The share of them that are filters."""
    runs: int = 0
    children: list[subprocess.Popen[str]] = field(default_factory=list)

    def module(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        """A part of the benchmark as a process of its own, beside the one that is measured."""
        shim = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())]
        command = [sys.executable, "-W", "ignore", "-m", f"xmlbroker.bench.{name}", *arguments]
        pipe = subprocess.PIPE
        child = subprocess.Popen([*shim, *command], stdin=pipe, stdout=pipe, text=True)
        self.children.append(child)
        return child

    def end_children(self) -> None:
        """Should the benchmark be interrupted."""
        for child in self.children:
            child.kill()
            child.wait()

    def checkpoint(self) -> Path:
        """A new one."""
        self.runs += 1
        return self.directory / f"checkpoint-{self.runs}"

    @property
    def values(self) -> int:
        """So many values in messages and queries that a dozen queries match a message."""
        return round(self.subscriptions * 0.53)

    def queries(self) -> Iterator[str]:
        """Filters and transformations, in turn as their shares are."""
        filters = round(self.subscriptions * self.filters)
        kinds = iter(books.book_filters(filters, self.values))
        others = iter(books.book_queries(self.subscriptions - filters, self.values))
        for number in range(1, self.subscriptions + 1):
            is_filter = round(number * self.filters) > round((number - 1) * self.filters)
            yield next(kinds if is_filter else others)

    @property
    def names(self) -> TopicNames:
        """The topics."""
        return self.kafka.names

    @property
    def outputs(self) -> tuple[str, ...]:
        """The topics of all subscribers."""
        return tuple(self.names.output(f"subscriber-{each:02}") for each in range(SUBSCRIBERS))

    @contextmanager
    def broker(
        self, phases: dict[str, float] | None = None, *, available_now: bool = False
    ) -> Iterator[tuple[BrokerJob, StreamingQuery]]:
        """The broker, running; `phases` is told how long each part of its start took."""
        settings = JobSettings(checkpoint=self.checkpoint(), max_messages_per_batch=_BATCH)
        last = ("", time.perf_counter())

        def say(text: str) -> None:
            nonlocal last
            progress(text)
            name, now = text.partition(":")[0], time.perf_counter()
            if phases is not None and last[0]:
                phases[last[0]] = phases.get(last[0], 0.0) + now - last[1]
            last = (name, now)

        with BrokerJob(self.spark, self.kafka, settings) as job:
            query = job.start(say, available_now=available_now)
            say("started")
            yield job, query
            end(query)

    def identity(
        self, name: str, records: float, payload: float, *, available_now: bool
    ) -> StreamingQuery:
        """One of the yardsticks, started, beside a broker with so many records of so many bytes."""
        copies = {
            "identity": Copies(self.outputs, round(records)),
            "same_bytes": Copies(self.outputs, round(records), round(payload)),
            "once": Copies(self.outputs, 1),
        }
        return start_identity(
            self.spark,
            self.kafka,
            copies[name],
            self.names.messages,
            self.checkpoint(),
            available_now=available_now,
            max_messages=_BATCH,
        )


def run(
    subscriptions: int, filters: float, messages: int, seconds: float, rounds: int
) -> dict[str, object]:
    """Throughput and latency for a number of subscriptions."""
    with running(subscriptions, filters) as bench:
        phases: dict[str, float] = {}
        with bench.broker(phases):
            pass
        progress(f"publishing {messages:,} messages")
        publish(bench.kafka.bootstrap_servers, bench.names.messages, messages, values=bench.values)
        measured = throughput(bench, rounds)
        figures: dict[str, object] = {
            "bench": "pipeline",
            "subscriptions": subscriptions,
            "filters": filters,
            "start_seconds": phases,
            "throughput": measured,
        }
        if seconds:
            figures["latency"] = latency(bench, measured, seconds, rounds)
        return figures


@contextmanager
def running(
    subscriptions: int, filters: float = 0.0, progress_kept: int = _PROGRESS_KEPT
) -> Iterator[Bench]:
    """Kafka and Spark, with topics and subscriptions; so many batches are told of by Spark."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xmlbroker-")))
        progress("starting Kafka and Spark")
        broker = stack.enter_context(EmbeddedKafka(directory / "kafka"))
        kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        settings = {"spark.sql.streaming.numRecentProgressUpdates": str(progress_kept)}
        spark = spark_session("xmlbroker bench", jars=jars("spark"), settings=settings)
        stack.callback(stop_spark, spark)
        bench = Bench(spark, kafka, directory, subscriptions, filters)
        stack.callback(bench.end_children)
        set_up(bench)
        yield bench


def set_up(bench: Bench) -> None:
    """Make the topics, and register the subscriptions."""
    client = bench.kafka.client_settings()
    one = TopicSettings(partitions=1)
    with TopicAdmin(client, bench.names, outputs=one) as admin:
        admin.ensure(admin.control_topics(messages=TopicSettings(partitions=_PARTITIONS)))
    progress(f"registering {bench.subscriptions:,} subscriptions")
    with KafkaSubscriptionLog(client, bench.names.subscriptions) as log:
        log.append_all(
            (
                f"subscriber-{number % SUBSCRIBERS:02}/s{number}".encode(),
                json.dumps({"query": query}).encode(),
            )
            for number, query in enumerate(bench.queries())
        )


# Throughput


def throughput(bench: Bench, rounds: int) -> dict[str, Any]:
    """Messages a second over a backlog, of the broker and of the identity jobs in turn.

    A first round is not counted: Java's code is still being compiled while the first job runs, and
    the others would have the good of it.
    """
    rates: dict[str, list[float]] = {"broker": [], **{name: [] for name in _YARDSTICKS}}
    records, payload, seconds_in_engine = 1.0, 1.0, 0.0
    for number in range(rounds + 1):
        progress(f"throughput: round {number} of {rounds}, broker")
        with bench.broker(available_now=True) as (job, query):
            rates["broker"].append(drained(query))
            messages = job.totals["messages"]
            records = job.totals["deliveries"] / messages
            payload = job.totals["output_bytes"] / job.totals["deliveries"]
            seconds_in_engine = job.totals["seconds"] / messages
        for name in _YARDSTICKS:
            progress(f"throughput: round {number} of {rounds}, {name.replace('_', ' ')}")
            query = bench.identity(name, records, payload, available_now=True)
            rates[name].append(drained(query))
    counted = {name: each[1:] for name, each in rates.items()}
    return {
        "records_a_message": records,
        "bytes_a_record": payload,
        "engine_microseconds_a_message": seconds_in_engine * 1e6,
        "messages_a_second": {name: statistics.median(each) for name, each in counted.items()},
        **{f"to_{name}": _ratio(counted["broker"], counted[name]) for name in _YARDSTICKS},
    }


def _ratio(own: list[float], base: list[float]) -> dict[str, Any]:
    """The median of the rounds' ratios, and all of them."""
    ratios = [mine / theirs for mine, theirs in zip(own, base, strict=True)]
    return {"ratio": statistics.median(ratios), "ratios": ratios}


def drained(query: StreamingQuery) -> float:
    """Wait until a job has read all there is; its messages a second without the first batch."""
    query.awaitTermination(600)
    failure = query.exception()
    if failure is not None:
        raise failure
    done = [each for each in query.recentProgress if each["numInputRows"]]
    steady = done[1:] or done
    rows = sum(int(each["numInputRows"]) for each in steady)
    milliseconds = sum(int(each["durationMs"]["triggerExecution"]) for each in steady)
    return rows / (milliseconds / 1000)


# Latency


def latency(
    bench: Bench, measured: dict[str, Any], seconds: float, rounds: int, rate: int = 500
) -> dict[str, object]:
    """The time from sent to received at a steady rate, of the broker and of the identity jobs in
    turn, which write as much as the broker was measured to. As with throughput, a first round is
    not counted. They come in either order: each is as often before another as after it.
    """
    records, payload = measured["records_a_message"], measured["bytes_a_record"]
    turns = ["broker", *_YARDSTICKS]
    spent: dict[str, list[dict[str, float]]] = {name: [] for name in turns}
    for number in range(rounds + 1):
        for name in turns:
            progress(f"latency: round {number} of {rounds}, {name.replace('_', ' ')}")
            empty_input(bench)
            with latency_job(bench, name, records, payload):
                spent[name].append(under_load(bench, seconds, rate, seed=number))
        turns.reverse()
    spent = {name: runs[1:] for name, runs in spent.items()}
    figures: dict[str, object] = {"messages_a_second": rate}
    for which in ("p50", "p99"):
        of = {name: [each[which] for each in runs] for name, runs in spent.items()}
        figures[which] = {
            **{name: statistics.median(each) for name, each in of.items()},
            **{f"to_{name}": _ratio(of["broker"], of[name]) for name in _YARDSTICKS},
        }
    return figures


@contextmanager
def latency_job(bench: Bench, name: str, records: float, payload: float) -> Iterator[None]:
    """The broker or a yardstick, waiting for messages."""
    if name == "broker":
        with bench.broker() as (job, query), following(job):
            query.processAllAvailable()
            yield
        return
    query = bench.identity(name, records, payload, available_now=False)
    query.processAllAvailable()
    yield
    end(query)


def empty_input(bench: Bench) -> None:
    """Let go of all messages: a job with a new checkpoint would answer them before its own."""
    partitions = [TopicPartition(bench.names.messages, each) for each in range(_PARTITIONS)]
    admin = open_client(KafkaAdminClient, bench.kafka.client_settings())
    admin.delete_records(dict.fromkeys(partitions, -1))
    admin.close()


@contextmanager
def following(job: BrokerJob) -> Iterator[None]:
    """Have a job keep its subscriptions up to date by a thread of its own, as `run` does it."""
    stop = threading.Event()

    def follow() -> None:
        while not stop.wait(job.in_force.pause_seconds):
            job.in_force.follow()

    follower = threading.Thread(target=follow)
    follower.start()
    try:
        yield
    finally:
        stop.set()
        follower.join()


def end(query: StreamingQuery) -> None:
    """Stop a job that is still running, between batches."""
    if query.isActive:
        query.processAllAvailable()
        query.stop()


def under_load(bench: Bench, seconds: float, rate: int, seed: int) -> dict[str, Any]:
    """Publish for a while at a rate; what a consumer saw of it.

    Not of the first seconds: after a start, and at another load than before, Java's code is still
    being compiled.
    """
    start_load(bench, _WARM_SECONDS, rate, seed + 1000).communicate()
    servers = bench.kafka.bootstrap_servers
    observer = bench.module("pipeline_observer", servers, "5", *bench.outputs[:_OBSERVED])
    assert observer.stdout is not None
    observer.stdout.readline()
    start_load(bench, seconds, rate, seed).communicate()
    figures: dict[str, Any] = json.loads(observer.communicate()[0])
    return figures


def start_load(bench: Bench, seconds: float, rate: int, seed: int) -> subprocess.Popen[str]:
    """Messages at a rate for a while, published by a process of its own."""
    return bench.module(
        "pipeline_load",
        bench.kafka.bootstrap_servers,
        bench.names.messages,
        *map(str, (int(seconds * rate), bench.values, rate, seed)),
    )

"""Faults on the real thing. After each, the ledger says whether all that came out is what had to.

The numbers are those of the list of faults in `docs/`. Kill points are counted, not timed, and each
run prints its seed, so that a failure can be replayed.
"""

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.errors import BrokerError
from streaming_jobs import broker_job
from streaming_jobs.checkpoint_lock import CheckpointError
from streaming_jobs.kill_points import VARIABLE, KillPoint
from streaming_jobs.local.kafka_broker import EmbeddedKafka
from tests.faults.conftest import RunningKafka
from tests.faults.jobs import JobHere, JobProcess, python_workers
from tests.faults.scenario import Scenario
from tests.faults.traffic import Message, Traffic, wait_until

SEED = int(os.environ.get("XB_FAULT_SEED", random.SystemRandom().randrange(1_000_000)))


class Bench:
    """A scenario, and jobs on its prefix and checkpoint: one after the other, or together."""

    def __init__(
        self, spark: SparkSession | None, servers: str, prefix: str, directory: Path
    ) -> None:
        self.checkpoint = directory / "checkpoint"
        self.traffic = Traffic(servers, prefix)
        self.scenario = Scenario(self.traffic, self.checkpoint, SEED)
        self._spark = spark
        self._directory = directory

    def job(self, **settings: int) -> JobHere:
        """One in this process."""
        assert self._spark is not None
        traffic = self.traffic
        return JobHere(
            self._spark, traffic.bootstrap_servers, traffic.prefix, self.checkpoint, **settings
        )

    def process(self, **environment: str) -> JobProcess:
        """One of its own, that can be killed."""
        traffic = self.traffic
        return JobProcess(
            traffic.bootstrap_servers,
            traffic.prefix,
            self.checkpoint,
            self._directory / "log",
            environment,
        )

    def subscribe_some(self, count: int = 10) -> None:
        """Random subscriptions of three subscribers, beside one that gets everything."""
        self.traffic.subscribe("all/all", "//*")
        for number, record in enumerate(self.scenario.queries(self.scenario.messages(10), count)):
            self.traffic.subscribe(f"s{number % 3}/q{number}", **record)  # type: ignore[arg-type]

    def change_something(self) -> None:
        """One more change of a subscription that all messages match."""
        rng = self.scenario.rng
        if rng.random() < 0.2:
            self.traffic.unsubscribe("all/changing")
        else:
            self.traffic.subscribe("all/changing", f"//*[count(*) < {rng.randrange(5, 99)}]")

    def publish(self, count: int) -> None:
        self.traffic.publish(self.scenario.messages(count))


MakeBench = Callable[[], Bench]


@pytest.fixture
def bench(
    spark: SparkSession, kafka: RunningKafka, topic_prefix: str, tmp_path: Path
) -> Iterator[Bench]:
    made = Bench(spark, kafka.bootstrap_servers, topic_prefix, tmp_path)
    with made.traffic:
        made.traffic.make_topics()
        yield made


# F1


def test_a_python_worker_is_killed_in_a_batch(bench: Bench) -> None:
    """F1: its task is tried again and the query lives on."""
    bench.subscribe_some()
    kills = 2
    with bench.job() as job:
        for _ in range(kills):
            bench.publish(2_000)
            bench.traffic.settle()
            before = job.job.batches
            wait_until(lambda: bench.scenario.lag() > 0, "messages wait")
            workers = python_workers(os.getpid())
            wait_until(lambda: is_in_batch(bench.checkpoint), "a batch is under way")
            for each in workers:
                os.kill(each, signal.SIGKILL)
            assert workers
            bench.scenario.come_to_rest(job)
            assert job.job.batches > before
    bench.scenario.verify(repeated_batches=kills)


def is_in_batch(checkpoint: Path) -> bool:
    """Whether a batch is begun and not committed."""
    begun, done = (
        {each.name for each in (checkpoint / name).glob("[0-9]*")}
        for name in ("offsets", "commits")
    )
    return bool(begun - done)


# F2, F8, F9


class CrashError(Exception):
    """Ends a batch as a crash would: nothing after it is done."""


def crash_at(monkeypatch: pytest.MonkeyPatch, point: KillPoint, count: int) -> None:
    passed = 0

    def reach(here: KillPoint) -> None:
        nonlocal passed
        passed += here is point
        if here is point and passed == count:
            raise CrashError(point.value)

    monkeypatch.setattr(broker_job, "reach", reach)


def test_batches_that_come_again_have_the_version_they_had(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F8 and F9: subscriptions change all the time, also between a crash and the restart."""
    bench.subscribe_some()
    points = [KillPoint.BEGUN, KillPoint.PINNED, KillPoint.WRITTEN, KillPoint.WRITTEN]
    for point in points:
        crash_at(monkeypatch, point, bench.scenario.rng.randint(1, 3))
        with bench.job(max_messages_per_batch=40) as job:
            while job.is_alive:
                bench.change_something()
                bench.publish(20)
                bench.scenario.batches.collect()
                time.sleep(0.05)
            assert job.failure is not None
        for _ in range(5):
            bench.change_something()
    monkeypatch.undo()
    with bench.job() as job:
        bench.publish(20)
        bench.scenario.come_to_rest(job)
    written = points.count(KillPoint.WRITTEN)
    report = bench.scenario.verify(repeated_batches=written)
    assert report.raw_duplicates > 0
    assert len(set(bench.scenario.batches.versions())) > 4


def kill_and_restart(bench: Bench, point: KillPoint, count: int) -> None:
    """Kill the driver at a point while messages and changes come in, and start it again."""
    bench.subscribe_some()
    small = {"XMLBROKER_JOB__MAX_MESSAGES_PER_BATCH": "60"}
    bench.publish(60)
    with bench.process(**{VARIABLE: f"{point}:{count}"}, **small) as job:
        job.await_ready()
        deadline = time.monotonic() + 120
        while job.is_alive:
            assert time.monotonic() < deadline, f"it was not killed at {point}\n{job.log()[-3000:]}"
            bench.change_something()
            bench.publish(30)
            bench.scenario.batches.collect()
            time.sleep(0.1)
        assert job.await_end() == -signal.SIGKILL, job.log()[-3000:]
    for _ in range(3):
        bench.change_something()
    bench.publish(30)
    with bench.process(**small) as job:
        assert job.await_ready(), job.log()[-3000:]
        version = bench.traffic.subscribe("all/after", "//*")
        bench.traffic.wait_for_status("all/after", version)
        bench.publish(30)
        bench.scenario.come_to_rest(job)
        assert job.stop() == 0, job.log()[-3000:]
    bench.scenario.verify(repeated_batches=1)


@pytest.fixture
def bench_without_spark(kafka: RunningKafka, topic_prefix: str, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(None, kafka.bootstrap_servers, topic_prefix, tmp_path)
    with made.traffic:
        made.traffic.make_topics()
        yield made


def test_the_driver_is_killed_when_all_is_written(bench_without_spark: Bench) -> None:
    """F2 and F9 with a real `kill -9`, at the point with most to repeat."""
    kill_and_restart(bench_without_spark, KillPoint.WRITTEN, 2)


@pytest.mark.slow
@pytest.mark.parametrize("point", [each for each in KillPoint if each is not KillPoint.WRITTEN])
def test_the_driver_is_killed_at(bench_without_spark: Bench, point: KillPoint) -> None:
    """F2 and F9 at all other points."""
    kill_and_restart(bench_without_spark, point, bench_without_spark.scenario.rng.randint(1, 4))


# F3


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A Kafka that a test may kill."""
    with EmbeddedKafka(tmp_path / "kafka") as broker:
        yield broker


def kafka_goes_away(
    bench: Bench, kafka: EmbeddedKafka, end: Callable[[], None], seconds: float
) -> None:
    bench.traffic.make_topics()
    bench.subscribe_some()
    with bench.job() as job:
        stop = threading.Event()

        def publish() -> None:
            while not stop.wait(0.1):
                bench.publish(10)

        publisher = threading.Thread(target=publish)
        publisher.start()
        try:
            wait_until(lambda: job.job.batches > 1, "some batches")
            end()
            time.sleep(seconds)  # the fault itself
            kafka.start()
            wait_until(lambda: len(bench.traffic.topics()) > 0, "Kafka is there again")
            done = job.job.batches
            wait_until(lambda: job.job.batches > done + 1 or not job.is_alive, "batches go on", 120)
        finally:
            stop.set()
            publisher.join()
        ended = not job.is_alive
        if not ended:
            bench.scenario.come_to_rest(job)
    if ended:
        # It may give up, if it says why and goes on where it stopped.
        assert job.failure is not None
        assert job.failure.code == "kafka-unreachable"
        print(f"the job ended: {job.failure}")
        with bench.job() as job:
            bench.scenario.come_to_rest(job)
    bench.scenario.verify(repeated_batches=2)


def test_kafka_is_killed(spark: SparkSession, own_kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """F3: nothing that was acknowledged is lost, and order is kept."""
    bench = Bench(spark, own_kafka.bootstrap_servers, "killed", tmp_path)
    with bench.traffic:
        kafka_goes_away(bench, own_kafka, own_kafka.kill, 3)


@pytest.mark.slow
def test_kafka_is_stopped_for_half_a_minute(
    spark: SparkSession, own_kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    bench = Bench(spark, own_kafka.bootstrap_servers, "stopped", tmp_path)
    with bench.traffic:
        kafka_goes_away(bench, own_kafka, own_kafka.stop, 30)


# F7


def test_an_output_topic_is_deleted(bench: Bench) -> None:
    """F7: it is made again, and other subscribers of the batch notice nothing."""
    bench.subscribe_some()
    bench.traffic.subscribe("unlucky/all", "//*")
    topic = f"{bench.traffic.prefix}.out.unlucky"
    with bench.job() as job:
        for _ in range(3):
            bench.publish(200)
            bench.traffic.admin.delete_topics([topic])
            bench.publish(200)
            bench.scenario.come_to_rest(job)
        wait_until(lambda: topic in bench.traffic.topics(), "the topic is made again")
        version = bench.traffic.subscribe("unlucky/again", "//*")
        bench.traffic.wait_for_status("unlucky/again", version)
        bench.publish(20)
        bench.scenario.come_to_rest(job)
        records = bench.traffic.drain([topic])
        assert sum(each.header("xb-subscription") == "unlucky/again" for each in records) == 20
    bench.scenario.verify(repeated_batches=3, may_lack=frozenset({"unlucky"}))


def test_a_subscriber_leaves_and_takes_the_topic_along(bench: Bench) -> None:
    """F7: a batch that is under way still has the subscription, and no topic for it."""
    bench.subscribe_some()
    with bench.job() as job:
        for number in range(3):
            name = f"leaving{number}"
            version = bench.traffic.subscribe(f"{name}/all", "//*")
            bench.traffic.wait_for_status(f"{name}/all", version)
            bench.publish(500)
            wait_until(lambda: is_in_batch(bench.checkpoint), "a batch is under way")
            bench.traffic.unsubscribe(f"{name}/all")
            bench.traffic.admin.delete_topics([f"{bench.traffic.prefix}.out.{name}"])
            bench.publish(100)
            bench.scenario.come_to_rest(job)
    leaving = frozenset(f"leaving{number}" for number in range(3))
    bench.scenario.verify(repeated_batches=3, may_lack=leaving)


def test_results_that_are_too_large_for_their_topic(bench: Bench) -> None:
    """F7: they are dead letters of their subscription; all others get theirs."""
    bench.subscribe_some()
    bench.traffic.subscribe("small/all", "//*")
    bench.scenario.largest_results["small"] = 20_000
    topic = f"{bench.traffic.prefix}.out.small"
    large = [Message(b"<a>%s</a>" % (b"x" * size)) for size in (10_000, 50_000, 1_500_000)]
    with bench.job() as job:
        version = bench.traffic.subscribe("small/b", "//b")
        bench.traffic.wait_for_status("small/b", version)
        bench.traffic.set_config(topic, "max.message.bytes", "20000")
        bench.traffic.publish([*large, *bench.scenario.messages(40), *large])
        bench.scenario.come_to_rest(job)
    report = bench.scenario.verify(repeated_batches=2)
    assert report.dead == 0


# F10


@pytest.mark.slow
def test_the_subscription_topic_is_compacted(
    spark: SparkSession, kafka: RunningKafka, topic_prefix: str, tmp_path: Path
) -> None:
    """F10: a cold start has the warm state, what is deleted stays deleted, and a batch whose
    version is gone is refused rather than judged under another one.
    """
    bench = Bench(spark, kafka.bootstrap_servers, topic_prefix, tmp_path)
    with bench.traffic as traffic:
        traffic.make_topics(
            min_compaction_lag_ms="0",
            min_cleanable_dirty_ratio="0.001",
            segment_ms="100",
            delete_retention_ms="100",
        )
        bench.subscribe_some()
        traffic.subscribe("all/removed", "//*")
        with bench.job() as job:
            for _ in range(100):
                bench.change_something()
            traffic.unsubscribe("all/removed")
            bench.publish(50)
            bench.scenario.come_to_rest(job)
            wait_until(lambda: is_compacted(bench), "the topic is compacted", 120)
            warm = warm_state(job, traffic)
        with bench.job() as job:
            assert warm_state(job, traffic) == warm
            bench.publish(50)
            bench.scenario.come_to_rest(job)
        bench.scenario.verify()


def warm_state(job: JobHere, traffic: Traffic) -> tuple[int, str, set[str]]:
    registry = job.job._registry
    last = traffic.book.records[-1].version
    wait_until(lambda: registry.version >= last, "all records are taken")
    return registry.version, registry.digest(), {str(key) for key in registry.active}


def is_compacted(bench: Bench) -> bool:
    # The segment that is written to is never compacted.
    bench.change_something()
    time.sleep(0.2)
    records = bench.traffic.drain([f"{bench.traffic.prefix}.subscriptions"])
    return len(records) < len(bench.traffic.book.records) / 2


@pytest.mark.slow
def test_a_batch_whose_version_is_compacted_away(
    spark: SparkSession,
    kafka: RunningKafka,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(spark, kafka.bootstrap_servers, topic_prefix, tmp_path)
    with bench.traffic as traffic:
        traffic.make_topics(
            min_compaction_lag_ms="0", min_cleanable_dirty_ratio="0.001", segment_ms="100"
        )
        for _ in range(50):
            bench.change_something()
        crash_at(monkeypatch, KillPoint.PINNED, 1)
        bench.publish(10)
        with bench.job() as job:
            job.await_end()
        monkeypatch.undo()
        wait_until(lambda: is_compacted(bench), "the topic is compacted", 120)
        assert refusal_of(bench.job()).code == "version-lost"
        outputs = [each for each in traffic.topics() if ".out." in each]
        assert traffic.drain(outputs) == []


# F11


def refusal_of(job: JobHere) -> BrokerError:
    """Why a job does not start, or ends at once."""
    try:
        with job:
            failure = job.await_end()
    except BrokerError as error:
        return error
    assert failure is not None
    return failure


def newest(directory: Path) -> Path:
    return max(directory.glob("[0-9]*"), key=lambda each: int(each.stem))


def tear(file: Path, content: Callable[[bytes], bytes]) -> None:
    """Change a file and, as whoever restores a part of a disk would, not its checksum."""
    file.write_bytes(content(file.read_bytes()))
    checksum = file.with_name(f".{file.name}.crc")
    checksum.unlink(missing_ok=True)


TORN: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "offsets cut short": ("offsets", lambda data: data[: len(data) // 2]),
    "offsets empty": ("offsets", lambda _: b""),
    "offsets of zeros": ("offsets", lambda data: bytes(len(data))),
    "offsets of the wrong form": ("offsets", lambda data: data.replace(b"{", b"[")),
    "commits empty": ("commits", lambda _: b""),
    "commits of zeros": ("commits", lambda data: bytes(len(data))),
    "metadata cut short": ("metadata", lambda data: data[: len(data) // 2]),
    "metadata of zeros": ("metadata", lambda data: bytes(len(data))),
    "pin cut short": ("xmlbroker-pins", lambda data: data[: len(data) // 2]),
    "pin empty": ("xmlbroker-pins", lambda _: b""),
    "pin of another form": ("xmlbroker-pins", lambda _: b'{"version": null}'),
}


def test_a_torn_checkpoint_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """F11: with a clear message, and nothing is skipped: mended, it goes on where it stopped."""
    bench.subscribe_some(3)
    crash_at(monkeypatch, KillPoint.WRITTEN, 2)
    with bench.job(max_messages_per_batch=20) as job:
        bench.publish(40)
        job.await_end()
    monkeypatch.undo()
    bench.scenario.batches.collect()
    written = total_written(bench)
    codes = {}
    for what, (place, content) in TORN.items():
        file = bench.checkpoint / place
        if file.is_dir():
            file = newest(file)
        checksum = file.with_name(f".{file.name}.crc")
        whole = file.read_bytes()
        sum_before = checksum.read_bytes() if checksum.exists() else None
        tear(file, content)
        codes[what] = refusal_of(bench.job()).code
        file.write_bytes(whole)
        if sum_before is not None:
            checksum.write_bytes(sum_before)
    assert set(codes.values()) == {"torn-checkpoint", "torn-pin"}, codes
    assert {what for what, code in codes.items() if code == "torn-pin"} == {
        what for what in TORN if what.startswith("pin")
    }
    assert total_written(bench) == written
    with bench.job() as job:
        bench.scenario.come_to_rest(job)
    bench.scenario.verify(repeated_batches=1)


def total_written(bench: Bench) -> int:
    traffic = bench.traffic
    outputs = [each for each in traffic.topics() if ".out." in each or "dead" in each]
    return sum(traffic.ends(outputs).values())


@pytest.mark.slow
def test_the_command_says_that_the_checkpoint_is_torn(bench: Bench) -> None:
    with bench.job() as job:
        bench.publish(20)
        bench.scenario.come_to_rest(job)
    tear(newest(bench.checkpoint / "offsets"), lambda data: data[: len(data) // 2])
    with bench.process() as process:
        process.await_ready()
        assert process.await_end() == 1
        assert "torn-checkpoint" in process.log()
        assert "Nothing was skipped" in process.log()
        assert "Traceback" not in process.log()


# F14


def test_a_second_job_on_the_same_checkpoint(bench: Bench) -> None:
    """F14: it refuses, and the first goes on."""
    bench.subscribe_some(3)
    with bench.job() as job:
        bench.publish(20)
        second: AbstractContextManager[object] = bench.job()
        with pytest.raises(CheckpointError) as refused, second:
            pass
        assert refused.value.code == "checkpoint-in-use"
        assert str(os.getpid()) in refused.value.detail
        bench.publish(20)
        bench.scenario.come_to_rest(job)
    bench.scenario.verify()


@pytest.mark.slow
def test_the_command_says_that_the_checkpoint_is_in_use(bench: Bench) -> None:
    with bench.job() as job, bench.process() as process:
        assert not process.await_ready()
        assert process.await_end() == 1
        assert "checkpoint-in-use" in process.log()
        bench.publish(20)
        bench.scenario.come_to_rest(job)
    bench.scenario.verify()
    assert json.loads((bench.checkpoint / "xmlbroker.lock").read_text()) == os.getpid()

"""Killed workers and drivers (F1, F2), with subscriptions that change meanwhile (F8, F9)."""

import signal
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.errors import BrokerError
from streaming_jobs.kill_points import ONCE, VARIABLE, KillPoint
from tests.faults.bench import Bench, crash_at
from tests.faults.jobs import JobHere
from tests.faults.traffic import wait_until
from tests.live import RunningKafka

_MOST_WAITING = 60
"""A job that is to be killed gets no more messages while so many wait: a batch of them."""


def test_a_python_worker_is_killed_in_a_batch(
    bench: Bench, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """F1: its task is tried again and the query lives on."""
    bench.subscribe_some()
    of_workers = spark.sparkContext.environment
    counts = [1, bench.scenario.rng.randint(2, 3)]
    with bench.job(max_messages_per_batch=500) as job:
        for number, count in enumerate(counts):
            killed = tmp_path / f"killed{number}"
            monkeypatch.setitem(of_workers, VARIABLE, f"{KillPoint.WRITING}:{count}")
            monkeypatch.setitem(of_workers, ONCE, str(killed))
            bench.publish(2_000)
            bench.scenario.come_to_rest(job)
            assert killed.exists(), "a worker was killed after some of its output"
        published = len(counts) * 2_000
        wait_until(lambda: job.job.totals["messages"] >= published, "all are counted")
        assert job.job.totals["messages"] == published, "once, however often tasks are tried"
    bench.scenario.verify(repeated_batches=len(counts))


def test_batches_that_come_again_have_the_version_they_had(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F8 and F9: subscriptions change all the time, also between a crash and the restart."""
    bench.subscribe_some()
    points = [KillPoint.BEGUN, KillPoint.PINNED, KillPoint.WRITTEN, KillPoint.WRITTEN]
    for point in points:
        crash_at(monkeypatch, point, bench.scenario.rng.randint(2, 3))
        failure = crash_of(bench, bench.job(max_messages_per_batch=40))
        assert failure is not None
        assert failure.code == "job-failed", failure
        for _ in range(5):
            bench.change_something()
    monkeypatch.undo()
    with bench.job() as job:
        bench.publish(20)
        bench.scenario.come_to_rest(job)
    written = points.count(KillPoint.WRITTEN)
    report = bench.scenario.verify(repeated_batches=written)
    assert report.raw_duplicates > 0
    assert len(set(bench.scenario.batches.versions())) >= len(points)


def crash_of(bench: Bench, job: JobHere) -> BrokerError | None:
    """Why a job ended while messages and changes come in."""
    try:
        with job:
            while job.is_alive:
                bench.change_something()
                bench.publish(20)
                bench.scenario.batches.collect()
                time.sleep(0.05)
    except BrokerError as error:  # in one of the batches that it starts with
        return error
    return job.failure


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
            if bench.scenario.lag() < _MOST_WAITING:
                # Else it would never be between two batches, and have much to do afterwards.
                bench.publish(30)
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


def test_the_driver_is_killed_when_all_is_written(bench_without_spark: Bench) -> None:
    """F2 and F9 with a real `kill -9`, at the point with most to repeat."""
    kill_and_restart(bench_without_spark, KillPoint.WRITTEN, 2)


@pytest.mark.slow
def test_the_driver_is_killed_when_subscribers_share_topics(
    kafka: RunningKafka, topic_prefix: str, tmp_path: Path
) -> None:
    servers = kafka.bootstrap_servers
    bench = Bench(None, servers, topic_prefix, tmp_path, shared_topics=2)
    with bench.traffic:
        bench.traffic.make_topics()
        kill_and_restart(bench, KillPoint.WRITTEN, 2)


@pytest.mark.slow
@pytest.mark.parametrize("point", [each for each in KillPoint if each is not KillPoint.WRITTEN])
def test_the_driver_is_killed_at(bench_without_spark: Bench, point: KillPoint) -> None:
    """F2 and F9 at all other points."""
    kill_and_restart(bench_without_spark, point, bench_without_spark.scenario.rng.randint(1, 4))

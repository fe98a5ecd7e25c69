"""A Kafka that is killed or stopped while batches run (F3)."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming_jobs.local.kafka_broker import EmbeddedKafka
from tests.faults.bench import Bench
from tests.faults.traffic import wait_until


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
    bench.scenario.verify(repeated_batches=2, attempts=4)


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

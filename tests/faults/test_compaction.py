"""A subscription topic that is compacted in earnest (F10)."""

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming_jobs.kill_points import KillPoint
from tests.faults.bench import Bench, crash_at, refusal_of
from tests.faults.jobs import JobHere
from tests.faults.traffic import Record, Traffic, wait_until
from tests.live import RunningKafka


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
    registry = job.job.in_force.registry
    last = traffic.book.records[-1].version
    wait_until(lambda: registry.version >= last, "all records are taken")
    return registry.version, registry.digest(), {str(key) for key in registry.active}


def is_compacted(bench: Bench) -> bool:
    return len(kept_records(bench)) < len(bench.traffic.book.records) / 2


def is_gone(bench: Bench, version: int) -> bool:
    return all(each.place.offset != version for each in kept_records(bench))


def kept_records(bench: Bench) -> list[Record]:
    """What is left of the subscription topic after one more change."""
    # The segment that is written to is never compacted.
    bench.change_something()
    time.sleep(0.2)
    return bench.traffic.drain([f"{bench.traffic.prefix}.subscriptions"])


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
        # The last one is no removal: where nothing is in force, nothing can be lost.
        for _ in range(49):
            bench.change_something()
        pinned = traffic.subscribe("all/changing", "//*")
        crash_at(monkeypatch, KillPoint.PINNED, 1)
        bench.publish(10)
        assert refusal_of(bench.job()).code == "job-failed"
        monkeypatch.undo()
        wait_until(lambda: is_gone(bench, pinned), "the record is compacted away", 120)
        assert refusal_of(bench.job()).code == "version-lost"
        outputs = [each for each in traffic.topics() if ".out." in each]
        assert traffic.drain(outputs) == []

"""The subscriptions in force: a batch takes them as they were left, and asks Kafka nothing."""

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark import Broadcast
from pyspark.sql import SparkSession

from streaming_jobs import in_force, snapshot
from streaming_jobs.broker_job import BrokerJob
from streaming_jobs.in_force import InForce
from streaming_jobs.settings import JobSettings
from subscriptions.connection import KafkaSettings
from subscriptions.kafka_log import KafkaSubscriptionLog
from tests.live import RunningKafka


@pytest.fixture
def settings(kafka: RunningKafka, topic_prefix: str) -> KafkaSettings:
    return KafkaSettings(bootstrap_servers=kafka.bootstrap_servers, prefix=topic_prefix)


@pytest.fixture
def job(spark: SparkSession, settings: KafkaSettings, tmp_path: Path) -> Iterator[BrokerJob]:
    with BrokerJob(spark, settings, JobSettings(checkpoint=tmp_path / "checkpoint")) as job:
        job.in_force.catch_up(lambda _done, _end: None)
        yield job


@pytest.fixture
def log(job: BrokerJob) -> Iterator[KafkaSubscriptionLog]:
    client = job.kafka.client_settings()
    with KafkaSubscriptionLog(client, job.names.subscriptions) as log:
        yield log


def subscribe(log: KafkaSubscriptionLog, name: str) -> int:
    return log.append(name.encode(), json.dumps({"query": "//a"}).encode())


def version_of(subscriptions: InForce, batch: int) -> int:
    with subscriptions.selected(batch) as selected:
        return selected.version


def test_a_batch_does_not_wait_while_kafka_is_asked(
    job: BrokerJob, log: KafkaSubscriptionLog
) -> None:
    version = subscribe(log, "a/one")
    while job.in_force.version < version:
        job.in_force.follow()
    with job.in_force._keeping, ThreadPoolExecutor(1) as batches:
        assert batches.submit(version_of, job.in_force, 0).result(30) == version


def test_nobody_is_told_of_a_subscription_that_the_next_batch_does_not_have(
    job: BrokerJob, log: KafkaSubscriptionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    publish = job.in_force.registry.publish

    def tell() -> None:
        told.append(version_of(job.in_force, len(told)))
        publish()

    monkeypatch.setattr(job.in_force.registry, "publish", tell)
    version = subscribe(log, "a/one")
    while job.in_force.version < version:
        job.in_force.follow()
    assert told[-1] == version


def test_a_batch_looks_for_changes_if_nobody_else_has(
    job: BrokerJob, log: KafkaSubscriptionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.in_force.follow()
    version = subscribe(log, "a/one")
    assert version_of(job.in_force, 0) < version
    monkeypatch.setattr(in_force, "_STALE_SECONDS", 0.0)
    batch = 1
    while version_of(job.in_force, batch) < version:
        batch += 1


def test_what_comes_again_is_as_it_was_and_then_all_is_as_it_is_now(
    job: BrokerJob, log: KafkaSubscriptionLog
) -> None:
    before = version_of(job.in_force, 0)
    version = subscribe(log, "a/one")
    while job.in_force.version < version:
        job.in_force.follow()
    with job.in_force.selected(0) as selected:
        assert selected.version == before
        assert selected.snapshot.subscribers() == set()
    with job.in_force.selected(1) as selected:
        assert selected.version == version
        assert selected.snapshot.subscribers() == {"a"}


def test_what_only_earlier_batches_used_is_freed_though_no_other_one_comes(
    job: BrokerJob, log: KafkaSubscriptionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_SMALLEST_REBASE", 0)
    freed: set[int] = set()
    monkeypatch.setattr(Broadcast, "destroy", lambda self: freed.add(id(self)))
    kept: list[Broadcast[Any]] = []  # for the ids to stay theirs

    def change() -> set[int]:
        """What was in use before a change."""
        kept.extend(job.in_force.current().stored.broadcasts)
        version = subscribe(log, "a/one")
        while job.in_force.version < version:
            job.in_force.follow()
        return set(map(id, kept))

    with job.in_force.selected(0):
        change()
        assert not freed
    before = change()
    assert before
    assert freed == before


def test_threads_take_turns_as_before_when_a_job_has_ended(
    spark: SparkSession, settings: KafkaSettings, tmp_path: Path
) -> None:
    before = sys.getswitchinterval()
    with BrokerJob(spark, settings, JobSettings(checkpoint=tmp_path / "checkpoint")):
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before

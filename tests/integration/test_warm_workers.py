"""Workers have their engines before there are messages for them, also after a long rest."""

import logging
import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming_jobs import broker_job
from subscriptions.kafka_log import KafkaSubscriptionLog
from subscriptions.topics import TopicAdmin, TopicNames
from tests.faults.jobs import JobHere, python_workers
from tests.faults.traffic import Traffic, wait_until
from tests.live import RunningKafka

MANY = 2_500


def test_workers_that_are_gone_come_back_while_there_is_nothing_to_do(
    spark: SparkSession,
    kafka: RunningKafka,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Spark ends workers that are idle for a minute, and their engines with them."""
    caplog.set_level(logging.INFO, logger="streaming_jobs.worker")
    monkeypatch.setattr(broker_job, "_WARM_AFTER_SECONDS", 1.0)
    servers = kafka.bootstrap_servers
    register_many(servers, topic_prefix)
    with (
        Traffic(servers, topic_prefix) as traffic,
        JobHere(spark, servers, topic_prefix, tmp_path / "checkpoint") as here,
    ):
        version = traffic.subscribe("a/x", "//m")
        traffic.wait_for_status("a/x", version)

        def builds() -> float:
            found = here.job.metrics.registry.get_sample_value("xmlbroker_engine_builds_total")
            assert found is not None
            return found

        wait_until(lambda: builds() > 0, "engines are built at the start")
        before = builds()
        killed = python_workers(os.getpid())
        assert killed
        for each in killed:
            os.kill(each, signal.SIGKILL)
        wait_until(lambda: builds() >= before + 2, "both workers have engines again")
        assert not set(killed) & set(python_workers(os.getpid()))
        assert not here.job.totals.get("messages"), "there was none to build them for"
        wait_until(lambda: built(caplog) >= 2, "the driver's log has what workers say of it")


def register_many(servers: str, prefix: str) -> None:
    """So many that they are broadcast, and not sent as changes."""
    settings, names = {"bootstrap_servers": servers}, TopicNames(prefix)
    with TopicAdmin(settings, names) as admin:
        admin.ensure(admin.control_topics())
    with KafkaSubscriptionLog(settings, names.subscriptions) as log:
        log.append_all((b"a/s%d" % number, b'{"query": "//n"}') for number in range(MANY))


def built(caplog: pytest.LogCaptureFixture) -> int:
    said = [each.getMessage() for each in caplog.records if each.name == "streaming_jobs.worker"]
    return sum(each.startswith(f"built the engine: {MANY} subscriptions in ") for each in said)

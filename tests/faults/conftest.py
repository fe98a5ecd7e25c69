"""A Kafka and a Spark for the tests of this directory, which run in a process of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming_jobs.local.jars import jars
from streaming_jobs.session import spark_session, stop_spark
from tests.faults.bench import Bench
from tests.integration import conftest as integration

RunningKafka = integration.RunningKafka

kafka = integration.kafka
admin = integration.admin
topic_prefix = integration.topic_prefix


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with the Kafka connector."""
    session = spark_session("faults", jars=jars("spark"))
    yield session
    stop_spark(session)


@pytest.fixture
def bench(
    spark: SparkSession, kafka: RunningKafka, topic_prefix: str, tmp_path: Path
) -> Iterator[Bench]:
    """One whose jobs may be in this process."""
    made = Bench(spark, kafka.bootstrap_servers, topic_prefix, tmp_path)
    with made.traffic:
        made.traffic.make_topics()
        yield made


@pytest.fixture
def bench_without_spark(kafka: RunningKafka, topic_prefix: str, tmp_path: Path) -> Iterator[Bench]:
    """One whose jobs are processes."""
    made = Bench(None, kafka.bootstrap_servers, topic_prefix, tmp_path)
    with made.traffic:
        made.traffic.make_topics()
        yield made

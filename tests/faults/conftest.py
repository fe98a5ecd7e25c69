"""Brokers to be hurt, on the Kafka and the Spark of all tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.faults.bench import Bench
from tests.live import RunningKafka


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

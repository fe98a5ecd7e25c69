"""A Kafka and a Spark for the tests of this directory; they end with it, so that tests of other
directories can have others.
"""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from streaming_jobs.local.jars import jars
from streaming_jobs.session import spark_session, stop_spark
from tests.integration import conftest as integration

RunningKafka = integration.RunningKafka

kafka = integration.kafka
admin = integration.admin
topic_prefix = integration.topic_prefix


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session with the Kafka connector. Of a module: there can be one in a process at a time."""
    session = spark_session("faults", jars=jars("spark"))
    yield session
    stop_spark(session)

"""A Kafka and a Spark for the tests that need them, one of each for all tests of a process.

Kafka is, in this order: the one that XB_TEST_BOOTSTRAP_SERVERS names, one in Docker if an
engine answers, one that runs from the jars. So no test is skipped for want of a Kafka.

Each worker of pytest-xdist starts its own. Much of these tests is waiting, for Kafka, for Spark and
for processes to start, so two at a time take two thirds of the time, on two cores, too.
"""

import os
import socket
import uuid
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

with warnings.catch_warnings():
    # kafka-python reads its schemas with functions that importlib has deprecated.
    warnings.filterwarnings("ignore", r"(open|read)_text is deprecated", DeprecationWarning)
    from kafka import KafkaAdminClient

from pyspark.sql import SparkSession

from streaming_jobs.local.jars import jars
from streaming_jobs.local.kafka_broker import MAX_RECORD_BYTES, EmbeddedKafka
from streaming_jobs.session import spark_session, stop_spark

BOOTSTRAP_SERVERS = "XB_TEST_BOOTSTRAP_SERVERS"


@dataclass(frozen=True)
class RunningKafka:
    """A Kafka that answers, and who runs it."""

    bootstrap_servers: str
    run_by: str


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningKafka]:
    """A Kafka for all tests: topics must have names of their own (`topic_prefix`)."""
    servers = os.environ.get(BOOTSTRAP_SERVERS)
    if servers:
        yield RunningKafka(servers, "environment")
    elif docker_answers():
        yield from kafka_in_docker()
    else:
        with EmbeddedKafka(tmp_path_factory.mktemp("kafka")) as broker:
            yield RunningKafka(broker.bootstrap_servers, "embedded")


def docker_answers() -> bool:
    """Whether a Docker engine accepts connections; its client library would leak a socket."""
    address = urlsplit(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    try:
        if address.scheme == "unix":
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(2)
                probe.connect(address.path)
        else:
            socket.create_connection((address.hostname, address.port or 2375), timeout=2).close()
    except OSError:
        return False
    return True


def kafka_in_docker() -> Iterator[RunningKafka]:
    from testcontainers.community.kafka import KafkaContainer  # noqa: PLC0415 - asks for an engine

    container = KafkaContainer().with_kraft()
    container.with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
    container.with_env("KAFKA_MESSAGE_MAX_BYTES", str(MAX_RECORD_BYTES))
    with container:
        yield RunningKafka(container.get_bootstrap_server(), "docker")


@pytest.fixture(scope="session")
def admin(kafka: RunningKafka) -> Iterator[KafkaAdminClient]:
    """A client to create and look at topics with."""
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic_prefix(admin: KafkaAdminClient) -> Iterator[str]:
    """A prefix that no other test has; the topics that start with it are deleted afterwards."""
    prefix = f"test-{uuid.uuid4().hex[:12]}"
    yield prefix
    topics = [name for name in admin.list_topics() if name.startswith(prefix)]
    if topics:
        admin.delete_topics(topics)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with the Kafka connector."""
    session = spark_session("tests", jars=jars("spark"))
    yield session
    stop_spark(session)

"""A job whose subscribers share a few topics (`kafka.shared_topics`)."""

from pathlib import Path

from pyspark.sql import SparkSession

from subscriptions.topics import TopicNames
from tests.faults.jobs import JobHere
from tests.faults.traffic import Message, Traffic, wait_until
from tests.live import RunningKafka

SHARED = 2
SUBSCRIBERS = [f"s{number}" for number in range(5)]
MESSAGES = [b'<m n="%d"/>' % number for number in range(40)]


def test_each_record_has_its_subscriber_as_its_key(
    spark: SparkSession, kafka: RunningKafka, topic_prefix: str, tmp_path: Path
) -> None:
    servers, names = kafka.bootstrap_servers, TopicNames(topic_prefix, shared=SHARED)
    shared = [f"{names.outputs}{number}" for number in range(SHARED)]
    assert {names.output(each) for each in SUBSCRIBERS} == set(shared), "both are used"
    with (
        Traffic(servers, topic_prefix) as traffic,
        JobHere(spark, servers, topic_prefix, tmp_path / "c", shared_topics=SHARED),
    ):
        for subscriber in SUBSCRIBERS:
            version = traffic.subscribe(f"{subscriber}/all", "//m")
            assert traffic.wait_for_status(f"{subscriber}/all", version)["state"] == "active"
        traffic.publish((Message(value, key=b"of the source") for value in MESSAGES), partitions=1)
        traffic.settle()
        wanted = len(MESSAGES) * len(SUBSCRIBERS)
        wait_until(lambda: len(traffic.drain(shared)) >= wanted, "all results")
        records = traffic.drain(shared)
        assert len(records) == len({each.header("xb-id") for each in records}) == wanted
        for subscriber in SUBSCRIBERS:
            own = [each for each in records if each.key == subscriber.encode()]
            assert {each.place.topic for each in own} == {names.output(subscriber)}
            assert {each.header("xb-subscription") for each in own} == {f"{subscriber}/all"}
            assert [each.value for each in own] == MESSAGES, "in the order of their source"
        assert not [each for each in traffic.topics() if ".out." in each]

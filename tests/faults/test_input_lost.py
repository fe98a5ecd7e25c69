"""Messages that retention took before they were read (F12), and one that can't be read at all."""

from contextlib import closing

import pytest

from subscriptions.kafka_client import KafkaProducer, TopicPartition, errors, open_client
from tests.faults.bench import Bench, refusal_of


def test_the_job_stops_and_says_so(bench: Bench) -> None:
    """F12: nothing is skipped in silence."""
    bench.subscribe_some()
    with bench.job() as job:
        bench.publish(20)
        bench.scenario.come_to_rest(job)
    bench.publish(40)
    bench.traffic.settle()
    ends = bench.traffic.ends([bench.traffic.input])
    bench.traffic.admin.delete_records(
        {TopicPartition(each.topic, each.partition): end - 5 for each, end in ends.items()}
    )
    failure = refusal_of(bench.job())
    assert failure.code == "input-lost"
    assert "start with a new checkpoint" in failure.detail


def send_at(bench: Bench, topic: str, milliseconds: int) -> None:
    """A message of that time, from a client that takes any number for one."""
    producer = open_client(
        KafkaProducer,
        {"bootstrap_servers": bench.traffic.bootstrap_servers},
        enable_idempotence=False,
    )
    with closing(producer):
        producer.send(topic, value=b"<a/>", timestamp_ms=milliseconds, partition=0).get(30)


# Too early for Spark, too late for it, and too late for Kafka, where subtracting wraps around.
@pytest.mark.parametrize("milliseconds", [-(2**62), 2**62, -(2**63) + 1])
def test_a_time_that_spark_cannot_read(bench: Bench, milliseconds: int) -> None:
    """Our topics don't take it; with another one the job says what is the matter."""
    bench.traffic.subscribe("all/all", "//*")
    with pytest.raises(errors.InvalidTimestampError):
        send_at(bench, bench.traffic.input, milliseconds)
    for name in ("before", "after"):
        config = f"message.timestamp.{name}.max.ms"
        bench.traffic.set_config(bench.traffic.input, config, str(2**63 - 1))
    send_at(bench, bench.traffic.input, milliseconds)
    failure = refusal_of(bench.job())
    assert failure.code == "message-time"
    assert "kafka-delete-records.sh" in failure.detail

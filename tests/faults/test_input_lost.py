"""Messages that retention took before they were read (F12), and one that can't be read at all."""

from contextlib import closing

import pytest

from subscriptions.kafka_client import KafkaProducer, TopicPartition, errors, open_client
from tests.faults.bench import Bench, refusal_of
from tests.faults.traffic import wait_until


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


def make_anew(bench: Bench, topic: str) -> None:
    bench.traffic.settle()
    bench.traffic.admin.delete_topics([topic])
    wait_until(lambda: topic not in bench.traffic.topics(), "the topic is gone")
    bench.traffic.make_topics()


def test_an_input_topic_that_is_made_anew_while_the_job_is_stopped(bench: Bench) -> None:
    """F12: Spark would go on at the place where it was, and skip what is before it."""
    bench.traffic.subscribe("all/all", "//*")
    for _ in range(2):  # a second start, on the same topic, is none
        with bench.job() as job:
            bench.publish(20)
            bench.scenario.come_to_rest(job)
    make_anew(bench, bench.traffic.input)
    bench.publish(200)
    bench.traffic.settle()
    for _ in range(2):
        failure = refusal_of(bench.job())
        assert failure.code == "input-lost"
        assert f"{bench.traffic.input} was deleted and made again" in failure.detail
        assert "new checkpoint" in failure.detail


def test_an_input_topic_that_is_made_anew_while_the_job_runs(bench: Bench) -> None:
    bench.traffic.subscribe("all/all", "//*")
    with bench.job() as job:
        bench.publish(20)
        bench.scenario.come_to_rest(job)
        make_anew(bench, bench.traffic.input)
        failure = job.await_end()
    assert failure is not None
    assert failure.code == "input-lost"
    assert refusal_of(bench.job()).code == "input-lost"


def test_a_subscription_topic_that_is_made_anew_while_the_job_runs(bench: Bench) -> None:
    """Else the first records of the other one would be passed over."""
    bench.traffic.subscribe("all/all", "//*")
    topic = f"{bench.traffic.prefix}.subscriptions"
    with bench.job() as job:
        bench.publish(20)
        bench.scenario.come_to_rest(job)
        bench.traffic.admin.delete_topics([topic])
        wait_until(lambda: "no topic" in (job.job.why_not_ready() or ""), "it is noticed")
        assert job.is_alive
        bench.traffic.make_topics()
        failure = job.await_end()
    assert failure is not None
    assert failure.code == "subscriptions-lost"
    bench.traffic.subscribe("others/all", "//*")
    with bench.job() as job:
        assert list(map(str, job.job.in_force.registry.active)) == ["others/all"]


def test_a_torn_file_of_topics(bench: Bench) -> None:
    file = bench.checkpoint / "xmlbroker-inputs" / "topics.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"a')
    failure = refusal_of(bench.job())
    assert failure.code == "torn-checkpoint"
    assert str(file) in failure.detail


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


@pytest.mark.slow
def test_a_message_that_is_larger_than_the_memory(bench: Bench) -> None:
    """F6: 25 kB in Kafka, 700 MB uncompressed, which nobody sees before it is read. The job says
    what is the matter, and with more memory it is one more dead letter.
    """
    bench.traffic.subscribe("all/all", "//*")
    producer = open_client(
        KafkaProducer,
        {"bootstrap_servers": bench.traffic.bootstrap_servers},
        compression_type="zstd",
        max_request_size=2**31 - 1,
    )
    with closing(producer):
        producer.send(bench.traffic.input, value=bytes(700_000_000), partition=0).get(60)
        producer.send(bench.traffic.input, value=b"<a/>", partition=0).get(60)
    for _ in range(2):
        with bench.process() as job:
            job.await_ready()
            assert job.await_end() == 1
            assert job.log().splitlines()[-1].startswith("out-of-memory: Spark's JVM had not")
    more = '{"spark.driver.memory": "8g"}'
    with bench.process(XMLBROKER_JOB__SPARK=more) as job:
        assert job.await_ready()
        wait_until(lambda: len(bench.traffic.drain([f"{bench.traffic.prefix}.out.all"])) == 1, "it")
        (letter,) = bench.traffic.drain([f"{bench.traffic.prefix}.dead-letters"])
        assert letter.header("xb-error") == "too-large"
        assert letter.header("xb-omitted-bytes") == "700000000"
        assert job.stop() == 0

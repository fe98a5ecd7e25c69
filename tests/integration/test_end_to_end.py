"""The whole way on the real thing: a Kafka, a Spark, a job, and what people send to it.

One job runs for all tests here, and each compares all that ever came out with what had to: so
what one test does must not change the results of another.
"""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import SparkSession

from tests.faults.jobs import JobHere, JobProcess
from tests.faults.ledger import Place
from tests.faults.poison import POISON
from tests.faults.scenario import Scenario
from tests.faults.traffic import Message, Traffic, wait_until
from tests.live import RunningKafka
from tests.unit.subscriptions.hostile_records import HOSTILE

PREFIX = "end-to-end"


class Broker:
    """The job of all tests, with the traffic and the scenario."""

    def __init__(self, job: JobHere, scenario: Scenario) -> None:
        self.job = job
        self.scenario = scenario
        self.traffic = scenario.traffic

    def verify(self) -> None:
        self.scenario.come_to_rest(self.job)
        self.scenario.verify()


@pytest.fixture(scope="module")
def broker(
    spark: SparkSession, kafka: RunningKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    checkpoint = tmp_path_factory.mktemp("job") / "checkpoint"
    prefix = f"{PREFIX}-{time.time_ns()}"
    with Traffic(kafka.bootstrap_servers, prefix) as traffic:
        traffic.make_topics()
        scenario = Scenario(traffic, checkpoint)
        with JobHere(spark, kafka.bootstrap_servers, prefix, checkpoint) as job:
            yield Broker(job, scenario)
        traffic.admin.delete_topics(traffic.topics())


def test_random_messages_and_subscriptions(broker: Broker) -> None:
    """Bytes, ids, order, owners and versions of all deliveries are what the oracles say."""
    scenario, traffic = broker.scenario, broker.traffic
    messages = scenario.messages(150)
    version = -1
    for number, record in enumerate(scenario.queries(messages, 40)):
        name = f"random{number % 5}/q{number}"
        version = traffic.subscribe(name, **record)  # type: ignore[arg-type]
    assert traffic.wait_for_status(name, version)["state"] == "active"
    traffic.publish(messages)
    broker.verify()


def test_headers_and_keys(broker: Broker) -> None:
    traffic = broker.traffic
    kinds = {
        "filter": ("//h[@n='1']", "xml", "application/xml"),
        "filter-groups": ("//h[@n='1']", "groups", "application/xml"),
        "made": ("for $h in //h return <hit>{$h/@n}</hit>", "xml", "application/xml"),
        "groups": ("for $h in //h return <hit>{$h/@n}</hit>", "groups", "application/json"),
    }
    versions = {}
    for name, (query, format, _) in kinds.items():
        versions[name] = traffic.subscribe(f"headers/{name}", query, format=format)
    traffic.wait_for_status(f"headers/{name}", versions[name])
    given = [
        ("tenant", "é".encode()),
        ("xb-id", b"forged"),
        ("XB-Source", b"forged"),
        ("twice", b"1"),
        ("twice", b"2"),
        ("content-type", b"text/plain"),
        ("empty", b""),
        ("bytes", b"\xff\x00"),
    ]
    kept = [each for each in given if each[0].lower() not in {"xb-id", "xb-source", "content-type"}]
    value = b"<h n='1'/>"
    traffic.publish([Message(value, key=b"k\xff", headers=given), Message(value, headers=())])
    broker.verify()
    records = traffic.drain([f"{traffic.prefix}.out.headers"])
    assert len(records) == 2 * len(kinds)
    for record in records:
        name = record.header("xb-subscription").partition("/")[2]
        headers = record.headers
        assert [each for each, _ in headers[:5]] == [
            *("xb-id", "xb-subscription", "xb-version", "xb-source", "content-type")
        ]
        assert record.header("xb-version") == str(versions[name])
        assert record.header("content-type") == kinds[name][2]
        assert Place.parse(record.header("xb-source")).topic == traffic.input
        assert bytes.fromhex(record.header("xb-id"))
        has_headers = record.key is not None
        assert record.key in (b"k\xff", None)
        assert headers[6:] == (kept if has_headers else [])  # the ledger's own is the fifth
        if name == "groups":
            assert json.loads(record.value or b"") == {"lists": ["$h/@n"], "groups": [[["1"]]]}
    assert len({record.header("xb-id") for record in records}) == len(records)


def test_subscriptions_come_change_and_go(broker: Broker) -> None:
    """Messages flow all the time; each is judged under one version, never an older one than its
    sender had seen to be in force.
    """
    scenario, traffic = broker.scenario, broker.traffic

    def flow() -> None:
        traffic.publish(scenario.messages(12))
        time.sleep(scenario.rng.random() / 4)  # so that batches and changes meet in many ways

    def settled(name: str, version: int) -> str:
        flow()
        state = str(traffic.wait_for_status(name, version)["state"])
        flow()
        return state

    name, every = "changing/a", "//*"
    assert settled(name, traffic.subscribe(name, every)) == "active"
    assert settled(name, traffic.subscribe(name, "//a")) == "active"
    made = "for $x in //* return <n>{$x/@id}{count($x/*)}</n>"
    assert settled(name, traffic.subscribe(name, made, format="groups")) == "active"
    assert settled(name, traffic.subscribe(name, made)) == "active"
    assert settled(name, traffic.subscribe(name, made, paused=True)) == "paused"
    assert settled(name, traffic.subscribe(name, every)) == "active"
    assert settled(name, traffic.unsubscribe(name)) == "removed"
    assert settled(name, traffic.subscribe(name, every)) == "active"
    over = (datetime.now(UTC) + timedelta(seconds=3)).isoformat().replace("+00:00", "Z")
    assert settled(name, traffic.subscribe(name, every, expires=over)) == "active"

    def is_expired() -> bool:
        flow()
        traffic.poll_statuses()
        return bool(traffic.statuses[name]["state"] == "expired")

    wait_until(is_expired, "the subscription expires")
    flow()
    past = "2020-01-01T00:00:00Z"
    assert settled(name, traffic.subscribe(name, every, expires=past)) == "expired"
    for number in range(30):
        traffic.subscribe("changing/b", f"//*[count(*) < {number % 5}]")
        if number % 3 == 0:
            traffic.unsubscribe("changing/b")
            flow()
    broker.verify()


def test_malformed_subscription_records(broker: Broker) -> None:
    """F13: they are rejected on the status topic, and nothing else changes."""
    traffic = broker.traffic
    standing = traffic.subscribe("hostile/standing", "//*")
    traffic.wait_for_status("hostile/standing", standing)
    hostile = [each for each in HOSTILE if len(each.value) < 1_000_000]
    versions = {}
    for number, each in enumerate(hostile):
        name = f"hostile/h{number}"
        versions[name] = traffic.write_record(name, each.value, is_right=False)
        if number % 10 == 0:
            traffic.write_record("hostile/standing", each.value, is_right=False)
    for key in (b"", b"no-slash", b"\xff/\xfe", b"A/b", b"a/b/c", b"-a/b", b"x" * 10_000):
        traffic.write_record(key, b'{"query": "//*"}', is_right=False)
        traffic.write_record(key, None, is_right=False)
    last = traffic.subscribe("hostile/last", "//a")
    assert traffic.wait_for_status("hostile/last", last)["state"] == "active"
    for (name, version), each in zip(versions.items(), hostile, strict=True):
        status = traffic.statuses[name]
        assert (status["state"], status["version"]) == ("rejected", version), each.what
        assert status["error"]["code"] == each.code, each.what
    refusal = traffic.statuses["hostile/standing"]
    assert (refusal["state"], refusal["active_version"]) == ("rejected", standing)
    assert traffic.statuses["a/b/c"]["state"] == "rejected"
    traffic.publish(broker.scenario.messages(20))
    broker.verify()


def test_poison_messages(broker: Broker) -> None:
    """F6: each is in the dead letters once, with its code, and its neighbours are untouched."""
    scenario, traffic = broker.scenario, broker.traffic
    for name, query in {"all": "//*", "made": "for $a in //a return <x>{$a}</x>"}.items():
        version = traffic.subscribe(f"poisoned/{name}", query)
    traffic.wait_for_status(f"poisoned/{name}", version)
    messages: list[Message] = []
    for poison in POISON.values():
        messages += [*scenario.messages(3), poison]
    traffic.publish(messages)
    broker.verify()
    letters = traffic.drain([f"{traffic.prefix}.dead-letters"])
    sources = [each.header("xb-source") for each in letters if not each.has("xb-subscription")]
    assert len(set(sources)) == len(sources) == len(POISON)


def test_messages_that_are_most_expensive_to_name(broker: Broker) -> None:
    """Names that are never seen again fill libxml2's dictionary; neighbours must not notice."""
    scenario, traffic = broker.scenario, broker.traffic
    version = traffic.subscribe("named/new", "//never-seen-before")
    traffic.wait_for_status("named/new", version)
    rng = scenario.rng
    hostile = [
        Message(
            b"<a>%s</a>"
            % b"".join(b"<n%s%d/>" % (rng.randbytes(30).hex().encode(), n) for n in range(9_000))
        )
        for _ in range(12)
    ]
    traffic.publish([*hostile, Message(b"<never-seen-before/>"), *scenario.messages(10)])
    scenario.come_to_rest(broker.job)
    records = traffic.drain([f"{traffic.prefix}.out.named"])
    assert [each.value for each in records] == [b"<never-seen-before/>"]


def test_batches_leave_nothing_behind_in_the_driver(broker: Broker) -> None:
    """PySpark keeps every accumulator: one for each batch was a megabyte a minute."""
    accumulators, batches = len(_accumulatorRegistry), broker.job.job.batches
    for _ in range(3):
        broker.traffic.publish(broker.scenario.messages(3))
        broker.scenario.come_to_rest(broker.job)
    assert broker.job.job.batches >= batches + 3
    assert len(_accumulatorRegistry) == accumulators


def test_a_consumer_who_knows_only_the_interface(
    kafka: RunningKafka, topic_prefix: str, tmp_path: Path
) -> None:
    """`xmlbroker run` as a process, and kafka-python as anyone would use it."""
    servers = kafka.bootstrap_servers
    log = tmp_path / "log"
    with (
        JobProcess(servers, topic_prefix, tmp_path / "checkpoint", log) as job,
        KafkaProducer(bootstrap_servers=servers) as producer,
    ):
        assert job.await_ready(), job.log()
        record = {
            "query": "for $b in //book where $b/price < 50 return <hit>{$b/title}{$b/author}</hit>",
            "format": "groups",
            "note": "cheap books",
        }
        producer.send(
            f"{topic_prefix}.subscriptions", key=b"acme/cheap", value=json.dumps(record).encode()
        ).get(timeout=30)
        with KafkaConsumer(
            f"{topic_prefix}.subscription-status",
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            group_id=None,
        ) as consumer:
            status = json.loads(next(consumer).value)
        assert status["state"] == "active"
        assert status["version"] == 0
        assert datetime.fromisoformat(status["since"]) <= datetime.now(UTC)
        for number in range(20):
            book = f"<book><title>{number}</title><price>{number * 5}</price></book>"
            headers = [("number", str(number).encode())]
            producer.send(
                f"{topic_prefix}.messages", book.encode(), key=b"%d" % number, headers=headers
            )
        producer.flush()
        seen: dict[str, tuple[bytes, dict[str, object]]] = {}
        with KafkaConsumer(
            bootstrap_servers=servers, group_id="acme", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe([f"{topic_prefix}.out.acme"])
            deadline = time.monotonic() + 90
            while len(seen) < 10 and time.monotonic() < deadline:
                for records in consumer.poll(timeout_ms=200).values():
                    for each in records:
                        names = dict(each.headers)
                        seen.setdefault(names["xb-id"], (each.key, json.loads(each.value)))
                        assert names["xb-subscription"] == b"acme/cheap"
                        assert names["xb-version"] == b"0"
                        assert names["content-type"] == b"application/json"
                        assert names["number"] == each.key
                        topic, partition, offset = names["xb-source"].split(b"/")
                        assert topic.decode() == f"{topic_prefix}.messages"
                        consumer.end_offsets([TopicPartition(topic.decode(), int(partition))])
                        assert int(offset) >= 0
        assert [each for _, each in seen.values()] == [
            {
                "lists": ["$b/title", "$b/author"],
                "groups": [[[f"<title>{number}</title>"], []]],
            }
            for number in range(10)
        ]
        assert job.stop() == 0, job.log()
    assert "Traceback" not in log.read_text()

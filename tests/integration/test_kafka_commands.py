"""The commands that write to Kafka, without a broker's job: the tests answer as it would."""

import gc
import io
import json
import socket
import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pytest

from broker.message_factory import OutputFormat
from subscriptions.kafka_client import KafkaProducer, open_client
from subscriptions.kafka_log import KafkaStatusLog, KafkaSubscriptionLog
from subscriptions.log import LogRecord
from subscriptions.model import State, Status, SubscriptionRecord
from subscriptions.records import encode
from subscriptions.topics import TopicAdmin, TopicNames, TopicSettings
from tests.live import BOOTSTRAP_SERVERS
from tests.unit.command_line import conftest as command_line
from tests.unit.command_line.conftest import Run
from tests.unit.command_line.test_match import write
from xmlbroker import kafka_access
from xmlbroker.topic_reader import Received, TopicReader

SINCE = datetime(2027, 1, 1, tzinfo=UTC)
NO_TOPIC = {"code": "no-output-topic", "detail": "why"}
REFUSED = {"code": "syntax", "detail": "d", "shown": "1 | //a[\n  |    ^"}

run = command_line.run


class RunningKafka(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


@pytest.fixture
def settings(kafka: RunningKafka) -> dict[str, object]:
    return {"bootstrap_servers": kafka.bootstrap_servers}


@pytest.fixture(autouse=True)
def _only_settings(kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands refuse a variable that is no setting of theirs."""
    monkeypatch.delenv(BOOTSTRAP_SERVERS, raising=False)


@pytest.fixture
def names(
    kafka: RunningKafka, settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> TopicNames:
    """Topics of a prefix that no other test has, which the commands have from the environment."""
    names = TopicNames(f"test-{uuid.uuid4().hex[:12]}")
    with TopicAdmin(settings, names) as admin:
        admin.ensure(admin.control_topics(messages=TopicSettings(partitions=2)))
    monkeypatch.setenv("XMLBROKER_KAFKA__BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    monkeypatch.setenv("XMLBROKER_KAFKA__PREFIX", names.prefix)
    return names


Write = Callable[..., None]


@pytest.fixture
def produce(settings: dict[str, object]) -> Iterator[Write]:
    """Write a record; headers are named with `_` for `-`."""
    producer = open_client(KafkaProducer, settings)

    def write_one(topic: str, value: bytes | None, key: bytes | None = None, **own: str) -> None:
        headers = [(name.replace("_", "-"), text.encode()) for name, text in own.items()]
        producer.send(topic, value=value, key=key, headers=headers).get(timeout=30)

    yield write_one
    producer.close()


def records_of(settings: dict[str, object], topic: str) -> list[Received]:
    with TopicReader(settings, topic) as reader:
        reader.seek(reader.starts())
        return sorted(reader.until(reader.ends()), key=lambda each: (each.partition, each.offset))


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# publish


def test_publish_files_and_directories(
    run: Run, tmp_path: Path, names: TopicNames, settings: dict[str, object]
) -> None:
    feed = tmp_path / "feed"
    feed.mkdir()
    broken = write(feed, "a.xml", b"<a>\xff")  # what is in it is not the publisher's business
    write(feed, "b.xml", b"<b/>")
    write(feed, "c.txt", b"<c/>")
    empty = write(tmp_path, "empty.xml", b"")
    options = ("--key", "k", "--header", "tenant=é", "--header", "x=a=b", "--json")
    ran = run("publish", feed, empty, tmp_path / "none.xml", *options)
    assert ran.status == 1
    lines = {each["document"]: each for each in lines_of(ran.out)}
    assert lines["empty.xml"]["error"]["code"] == "empty"
    assert lines["none.xml"]["error"]["code"] == "not-readable"
    assert f"2 messages published to {names.messages}, 2 not" in ran.err
    records = records_of(settings, names.messages)
    assert [each.value for each in records] == [broken.read_bytes(), b"<b/>"]
    assert {each.key for each in records} == {b"k"}
    assert records[0].headers == [("tenant", "é".encode()), ("x", b"a=b")]
    place = {"topic": names.messages, "partition": records[0].partition, "offset": 0}
    assert lines["a.xml"] == {"document": "a.xml", **place}


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ((), [b"<a/>\n\n<b/>\r\n"]),
        (("--lines",), [b"<a/>", b"<b/>"]),
        (("--lines", "--repeat", "2", "--rate", "100"), [b"<a/>", b"<b/>", b"<a/>", b"<b/>"]),
    ],
)
def test_publish_standard_input(
    run: Run,
    names: TopicNames,
    settings: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
    *,
    options: tuple[str, ...],
    values: list[bytes],
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"<a/>\n\n<b/>\r\n")))
    ran = run("publish", "-", "--topic", names.dead_letters, *options)
    assert (ran.status, ran.out) == (0, "")
    assert [each.value for each in records_of(settings, names.dead_letters)] == values


def test_publish_what_kafka_refuses(
    run: Run, tmp_path: Path, names: TopicNames, settings: dict[str, object]
) -> None:
    topic = f"{names.prefix}.small"
    with TopicAdmin(settings, names) as admin:
        admin.ensure({topic: TopicSettings(1, configs={"max.message.bytes": "50000"})})
    large = write(tmp_path, "large.xml", b"<a>" + b"x" * 60_000)
    small = write(tmp_path, "small.xml", b"<a/>")
    ran = run("publish", "--topic", topic, small, large, small)
    assert ran.status == 1
    assert "large.xml: too-large-for-topic: 60,085 bytes" in ran.err
    assert f"2 messages published to {topic}, 1 not" in ran.err
    assert [each.value for each in records_of(settings, topic)] == [b"<a/>", b"<a/>"]


def test_publish_to_what_the_broker_reads(
    run: Run,
    tmp_path: Path,
    names: TopicNames,
    settings: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    orders = f"{names.prefix}.orders"
    with TopicAdmin(settings, names) as admin:
        admin.ensure({orders: TopicSettings(partitions=1)})
    monkeypatch.setenv("XMLBROKER_JOB__INPUT_TOPICS", json.dumps([orders]))
    ran = run("publish", write(tmp_path, "a.xml", "<a/>"))
    assert (ran.status, ran.err) == (0, f"1 message published to {orders}\n")
    assert [each.value for each in records_of(settings, orders)] == [b"<a/>"]


def test_publish_to_a_topic_that_is_not_there(run: Run, tmp_path: Path, names: TopicNames) -> None:
    document = write(tmp_path, "a.xml", b"<a/>")
    for topic in (f"{names.prefix}.none", "no topic"):
        ran = run("publish", document, "--topic", topic)
        assert ran.status == 1
        assert f"topic-missing: there is no topic {topic}\nThe broker makes its topics" in ran.err


def test_nobody_answers(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_access, "_ANSWER_SECONDS", 0.3)
    document = write(tmp_path, "a.xml", b"<a/>")
    with socket.socket() as unused, warnings.catch_warnings():
        # kafka-python leaves the sockets of refused connections to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        for command in (("publish", document), ("subscriptions",), ("consume", "acme")):
            ran = run(*command, "--bootstrap-servers", address)
            assert ran.status == 1
            assert ran.out == ""
            assert ran.err.startswith(f"kafka-unreachable: no Kafka broker answers at {address}")
            assert ran.err.splitlines()[-1].startswith("Start one with `xmlbroker up`")
            assert "Traceback" not in ran.err
        gc.collect()


# subscribe, unsubscribe, subscriptions


@contextmanager
def answering(
    settings: dict[str, object],
    names: TopicNames,
    answer: Callable[[LogRecord], list[Status]],
) -> Iterator[list[LogRecord]]:
    """A broker that answers each record; the records that it has seen."""
    seen: list[LogRecord] = []
    stop = threading.Event()
    with (
        KafkaSubscriptionLog(settings, names.subscriptions) as log,
        KafkaStatusLog(settings, names.status) as status_log,
    ):
        log.follow(log.end())

        def answer_all() -> None:
            while not stop.is_set():
                for record in log.poll(0.1):
                    seen.append(record)
                    assert record.key is not None
                    for status in answer(record):
                        status_log.publish(record.key, status)
                    status_log.flush()

        thread = threading.Thread(target=answer_all)
        thread.start()
        try:
            yield seen
        finally:
            stop.set()
            thread.join()


def test_subscribe_shows_the_answer_to_its_own_record(
    run: Run, tmp_path: Path, names: TopicNames, settings: dict[str, object]
) -> None:
    query = write(tmp_path, "q.xp", "//book [price < 50]\n")
    with KafkaStatusLog(settings, names.status) as earlier:
        earlier.publish(b"acme/books", Status(State.REJECTED, 0, SINCE))
        earlier.flush()

    def answer(record: LogRecord) -> list[Status]:
        older = Status(State.PAUSED, record.offset - 1, SINCE)
        state = State.ACTIVE if record.value is not None else State.REMOVED
        return [older, Status(state, record.offset, SINCE)]

    with answering(settings, names, answer) as seen:
        options = ("--format", "groups", "--expires", "2030-01-01T01:00:00+01:00", "--note", "ü")
        ran = run("subscribe", "acme/books", "--query", query, *options)
        assert (ran.status, ran.err) == (0, "")
        assert ran.out == "acme/books: active, version 0, since 2027-01-01T00:00:00Z\n"
        ran = run("unsubscribe", "acme/books", "--json")
        assert ran.status == 0
        assert lines_of(ran.out) == [
            {
                "subscription": "acme/books",
                "state": "removed",
                "version": 1,
                "since": "2027-01-01T00:00:00Z",
            }
        ]
        ran = run("unsubscribe", "acme/boks")
        assert (ran.status, ran.out) == (1, "")
        assert "there is no subscription acme/boks; `xmlbroker subscriptions acme`" in ran.err
        assert run("unsubscribe", "acme/books").status == 1, "it is gone already"
    assert [each.key for each in seen] == [b"acme/books"] * 2
    assert json.loads(seen[0].value or b"") == {
        "query": "//book [price < 50]",
        "format": "groups",
        "expires": "2030-01-01T00:00:00Z",
        "note": "ü",
    }
    assert seen[1].value is None


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        (Status(State.PAUSED, 0, SINCE), 0, ""),
        (Status(State.SUSPENDED, 0, SINCE, error=NO_TOPIC), 1, "no-output-topic: why"),
        (
            Status(State.REJECTED, 0, SINCE, error=REFUSED, active_version=7),
            1,
            "1 | //a[\n  |    ^\nVersion 7 stays as it was.",
        ),
        (Status(State.EXPIRED, 0, SINCE), 1, ""),
        (Status(State.ACTIVE, 1, SINCE), 1, "This is about a later record: version 0"),
    ],
)
def test_subscribe_ends_well_only_if_it_is_accepted(
    run: Run,
    tmp_path: Path,
    names: TopicNames,
    settings: dict[str, object],
    *,
    answer: Status,
    status: int,
    says: str,
) -> None:
    query = write(tmp_path, "q.xp", "//book")
    with answering(settings, names, lambda _: [answer]):
        ran = run("subscribe", "acme/books", "--query", query, "--paused")
    assert ran.status == status
    assert f"acme/books: {answer.state}, version {answer.version}" in ran.out
    assert says in ran.err


def test_no_broker_answers_a_subscription(
    run: Run, tmp_path: Path, names: TopicNames, settings: dict[str, object]
) -> None:
    query = write(tmp_path, "q.xp", "//book")
    ran = run("subscribe", "acme/books", "--query", query, "--timeout", "0.5")
    assert ran.status == 1
    assert "The record is written, but no broker answered within 0.5 s" in ran.err
    ran = run("subscribe", "acme/other", "--query", query, "--no-wait", "--json")
    assert (ran.status, ran.err) == (0, "")
    assert lines_of(ran.out) == [{"subscription": "acme/other", "state": None, "version": 1}]
    refused = run("subscribe", "acme/bad", "--query", write(tmp_path, "bad.xp", "//book["))
    assert refused.status == 1
    assert [each.key for each in records_of(settings, names.subscriptions)] == [
        b"acme/books",
        b"acme/other",
    ]


def test_a_copy_of_the_subscriptions_is_restored(
    run: Run, names: TopicNames, settings: dict[str, object], tmp_path: Path
) -> None:
    kept = SubscriptionRecord(query="//kept", format=OutputFormat.GROUPS, note="é")
    with (
        KafkaSubscriptionLog(settings, names.subscriptions) as log,
        KafkaStatusLog(settings, names.status) as status_log,
    ):
        log.append(b"acme/one", b'{ "query": "//one", "paused": true }')
        log.append(b"acme/two", b'{"query": "//two"}')
        log.append(b"acme/malformed", b'{"query": "//a", "colour": "red"}')
        refused = log.append(b"acme/refused", b'{"query": "//sec[tion"}')
        error = {"code": "syntax", "detail": "d"}
        status = Status(State.REJECTED, refused, SINCE, error, 0, kept)
        status_log.publish(b"acme/refused", status)
        status_log.flush()
        copy = write(tmp_path, "copy.jsonl", run("subscriptions", "--json").out)
        log.append(b"acme/two", None)
        before = log.end()
        ran = run("admin", "restore", copy, "--dry-run")
        assert (ran.status, ran.out) == (0, "acme/refused\nacme/two\n")
        assert "2 of 3 subscriptions to write; nothing was done" in ran.err
        assert log.end() == before
        ran = run("admin", "restore", copy)
        assert "2 of 3 subscriptions written" in ran.err
        assert "left out, since they are no records: acme/malformed" in ran.err
        written = {each.key: each.value for each in log.read(before)}
        assert written == {b"acme/two": b'{"query":"//two"}', b"acme/refused": encode(kept)}
        assert "0 of 3 subscriptions written" in run("admin", "restore", copy).err
    for text in (b'{"subscription": "acme/one"}\n', b'{"subscription": "acme/\xff"}\n'):
        ran = run("admin", "restore", write(tmp_path, "other.jsonl", text))
        assert ran.status == 2
        assert "line 1: this is no line of `xmlbroker subscriptions --json`" in ran.err


def test_subscriptions(
    run: Run, names: TopicNames, settings: dict[str, object], produce: Write
) -> None:
    long = "//book[" + " or ".join(f"@a = '{number}'" for number in range(20)) + "]"
    half = b'{"query": "//[red]a[/red]", "note": "\\ud800"}'
    with (
        KafkaSubscriptionLog(settings, names.subscriptions) as log,
        KafkaStatusLog(settings, names.status) as status_log,
    ):
        active = log.append(b"acme/active", json.dumps({"query": long}).encode())
        rejected = log.append(b"acme/rejected", half)
        pending = log.append(b"acme/pending", b'{"query": "//b"}')
        log.append(b"other/one", b'{"query": "//c"}')
        removed = log.append(b"acme/removed", None)
        error = {"code": "bad-record", "detail": "`note`: \x1b[31m"}
        status_log.publish(b"acme/active", Status(State.ACTIVE, active, SINCE))
        status_log.publish(
            b"acme/rejected",
            Status(State.REJECTED, rejected, SINCE, error, 0, SubscriptionRecord(query="//kept")),
        )
        status_log.publish(b"acme/removed", Status(State.REMOVED, removed, SINCE))
        status_log.flush()
    ran = run("subscriptions", "acme")
    assert (ran.status, ran.err) == (0, "")
    rows = [line.split() for line in ran.out.splitlines()]
    assert [row[:3] for row in rows[1:]] == [
        ["acme/active", "active", str(active)],
        ["acme/pending", "pending", str(pending)],
        ["acme/rejected", "rejected", str(rejected)],
    ]
    assert "…" in ran.out
    assert "//[red]a[/red]" in ran.out
    assert "(version 0 stays as it was)" in ran.out
    assert "\x1b" not in ran.out
    lines = {each["subscription"]: each for each in lines_of(run("subscriptions", "--json").out)}
    assert list(lines) == ["acme/active", "acme/pending", "acme/rejected", "other/one"]
    assert lines["acme/active"]["record"] == {"query": long}
    assert lines["acme/active"]["since"] == "2027-01-01T00:00:00Z"
    assert lines["acme/rejected"]["error"] == error
    assert lines["acme/rejected"]["active_record"] == {"query": "//kept"}
    ran = run("subscriptions", "--state", "removed", "--json")
    assert [each["subscription"] for each in lines_of(ran.out)] == ["acme/removed"]
    ran = run("subscriptions", "nobody")
    assert (ran.status, ran.out, ran.err) == (0, "", "there are none\n")

"""The logs on a real Kafka: what all logs do, and what only Kafka does."""

import gc
import logging
import socket
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Protocol

import pytest

from subscriptions.errors import KafkaError, KafkaUnreachableError, TopicError
from subscriptions.kafka_client import KafkaConsumer, KafkaProducer, errors, open_client
from subscriptions.kafka_log import KafkaStatusLog, KafkaSubscriptionLog
from subscriptions.log import StatusLog, SubscriptionLog
from subscriptions.model import State, SubscriptionKey
from subscriptions.registry import Registry
from subscriptions.topics import (
    TopicAdmin,
    TopicNames,
    TopicSettings,
    status_settings,
    subscription_settings,
)
from tests.unit.subscriptions.log_behaviour import StatusLogBehaviour, SubscriptionLogBehaviour

COMPACTED_AT_ONCE = TopicSettings(
    1,
    -1,
    {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.001",
        "segment.ms": "100",
        "delete.retention.ms": "100",
        "min.compaction.lag.ms": "0",
    },
)


class RunningKafka(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


@pytest.fixture
def settings(kafka: RunningKafka) -> dict[str, object]:
    return {"bootstrap_servers": kafka.bootstrap_servers}


@pytest.fixture
def admin(settings: dict[str, object]) -> Iterator[TopicAdmin]:
    """An administrator with a prefix that no other test has."""
    with TopicAdmin(settings, TopicNames(f"test-{uuid.uuid4().hex[:12]}")) as opened:
        yield opened


@pytest.fixture
def open_log(
    settings: dict[str, object], admin: TopicAdmin
) -> Iterator[Callable[..., KafkaSubscriptionLog]]:
    opened: list[KafkaSubscriptionLog] = []

    def open_one(made_with: TopicSettings | None = None) -> KafkaSubscriptionLog:
        made_with = made_with if made_with is not None else subscription_settings()
        admin.ensure({admin.names.subscriptions: made_with})
        opened.append(KafkaSubscriptionLog(settings, admin.names.subscriptions))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def kafka_status_log(settings: dict[str, object], admin: TopicAdmin) -> Iterator[KafkaStatusLog]:
    admin.ensure({admin.names.status: status_settings()})
    with KafkaStatusLog(settings, admin.names.status) as opened:
        yield opened


class TestKafkaSubscriptionLog(SubscriptionLogBehaviour):
    @pytest.fixture
    def log(self, open_log: Callable[..., KafkaSubscriptionLog]) -> SubscriptionLog:
        return open_log()


class TestKafkaStatusLog(StatusLogBehaviour):
    @pytest.fixture
    def status_log(self, kafka_status_log: KafkaStatusLog) -> StatusLog:
        return kafka_status_log


def refusal(settings: dict[str, object]) -> tuple[str, str]:
    """The code and the words of the error, without the error and what hangs on it."""
    try:
        KafkaSubscriptionLog(settings, "any")
    except KafkaUnreachableError as error:
        return error.code, error.detail
    return "", ""


def test_nobody_answers(caplog: pytest.LogCaptureFixture) -> None:
    # Log records that are kept keep their errors, and so the sockets.
    caplog.set_level(logging.CRITICAL, logger="kafka")
    with socket.socket() as unused, warnings.catch_warnings():
        # kafka-python leaves the sockets of refused connections to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        before = threading.active_count()
        code, detail = refusal({"bootstrap_servers": address, "bootstrap_timeout_ms": 300})
        gc.collect()
    assert code == "kafka-unreachable"
    assert address in detail
    assert threading.active_count() == before, "a failed client leaves its thread behind"


def test_a_missing_topic_is_not_made(settings: dict[str, object], admin: TopicAdmin) -> None:
    topic = admin.names.subscriptions
    with pytest.raises(TopicError) as caught:
        KafkaSubscriptionLog(settings, topic)
    assert caught.value.code == "topic-missing"
    assert list(admin.missing([topic])) == [topic]


def test_a_version_needs_one_partition(settings: dict[str, object], admin: TopicAdmin) -> None:
    admin.ensure({admin.names.subscriptions: TopicSettings(partitions=2)})
    with pytest.raises(TopicError) as caught:
        KafkaSubscriptionLog(settings, admin.names.subscriptions)
    assert caught.value.code == "topic-partitions"


def test_topics_are_made_once(admin: TopicAdmin) -> None:
    topics = admin.control_topics(messages=TopicSettings(partitions=3))
    assert set(admin.missing(topics)) == set(topics)
    assert set(admin.ensure(topics)) == set(topics)
    assert admin.ensure(topics) == []
    assert admin.missing(topics) == {}
    assert admin.partitions(admin.names.messages) == 3
    assert admin.partitions(admin.names.subscriptions) == 1


def test_output_topics_in_bulk(admin: TopicAdmin) -> None:
    subscribers = [f"s{number}" for number in range(40)]
    assert admin.ensure_outputs(subscribers[:20]) == {}
    assert admin.ensure_outputs(subscribers) == {}
    assert admin.missing(admin.names.output(each) for each in subscribers) == {}


def test_an_output_topic_that_cannot_be_made(
    settings: dict[str, object], admin: TopicAdmin
) -> None:
    impossible = TopicSettings(replication=99)
    with TopicAdmin(settings, admin.names, outputs=impossible) as other:
        reasons = other.ensure_outputs(["acme"])
        with pytest.raises(TopicError):
            other.ensure({"any": impossible})
    assert list(reasons) == ["acme"]
    assert "replication" in reasons["acme"].lower()


def test_an_aborted_transaction_at_the_end(
    settings: dict[str, object], open_log: Callable[..., KafkaSubscriptionLog]
) -> None:
    """The last offsets belong to no record that can be read, and the read ends all the same."""
    log = open_log()
    log.append(b"a/1", b"seen")
    producer = open_client(KafkaProducer, settings, transactional_id=uuid.uuid4().hex)
    producer.init_transactions()
    for value, commit in [(b"committed", True), (b"aborted", False)]:
        producer.begin_transaction()
        producer.send(log.topic, key=b"a/2", value=value, partition=0).get(timeout=30)
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    assert log.end() == 5
    assert [each.value for each in log.read()] == [b"seen", b"committed"]
    log.follow(0)
    log.append(b"a/3", b"after")
    polled = [each.value for _ in range(20) for each in log.poll(0.1)]
    assert polled == [b"seen", b"committed", b"after"]


def test_a_cold_start_after_compaction_is_the_warm_state(
    open_log: Callable[..., KafkaSubscriptionLog], kafka_status_log: KafkaStatusLog
) -> None:
    log = open_log(COMPACTED_AT_ONCE)
    warm = Registry(log, kafka_status_log, prepare=lambda _: {})
    warm.catch_up()
    log.append(b"acme/removed", b'{"query": "//a"}')
    log.append(b"acme/kept", b'{"query": "//old"}')
    for number in range(200):
        log.append(b"acme/often", b'{"query": "//b%d"}' % number)
    log.append(b"acme/kept", b'{"query": "//a[")')
    log.append(b"acme/removed", None)
    while warm.version < log.end() - 1:
        warm.poll(0.2)
    deadline = time.monotonic() + 60
    while len(remaining := list(log.read())) > 20 and time.monotonic() < deadline:
        log.append(b"acme/other", b'{"query": "//c"}')  # the active segment is never compacted
        time.sleep(0.2)
    assert len(remaining) <= 20, "not compacted"
    while warm.version < log.end() - 1:
        warm.poll(0.2)
    published = kafka_status_log.read_all()
    cold = Registry(log, kafka_status_log, prepare=lambda _: {})
    cold.catch_up()
    assert dict(cold.active) == dict(warm.active)
    assert (cold.version, cold.digest()) == (warm.version, warm.digest())
    assert cold.active[SubscriptionKey("acme", "kept")].record.query == "//old"
    assert SubscriptionKey("acme", "removed") not in cold.subscriptions
    assert kafka_status_log.read_all() == published
    assert published[b"acme/removed"].state is State.REMOVED


@pytest.mark.parametrize("codec", ["snappy", "lz4", "zstd", "gzip"])
def test_records_that_others_compress(
    settings: dict[str, object], open_log: Callable[..., KafkaSubscriptionLog], codec: str
) -> None:
    log = open_log()
    log.follow(0)
    with closing(open_client(KafkaProducer, settings, compression_type=codec)) as producer:
        for value in (b"one", b"two"):
            producer.send(log.topic, key=b"a/1", value=value, partition=0)
        producer.flush(30)
    assert [each.value for each in log.read()] == [b"one", b"two"]
    assert [each.value for _ in range(20) for each in log.poll(0.1)] == [b"one", b"two"]


class BrokenName(str):
    """The name of a header, as clients write it that don't look whether it is UTF-8."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return b"\xff" + super().encode(encoding, errors)


@pytest.mark.parametrize("is_bomb", [False, True])
def test_what_cannot_be_read_is_a_record_without_a_key(
    settings: dict[str, object],
    open_log: Callable[..., KafkaSubscriptionLog],
    kafka_status_log: KafkaStatusLog,
    *,
    is_bomb: bool,
) -> None:
    """It changes nothing, and what comes after it is read; also by who starts later."""
    log = open_log()
    warm = Registry(log, kafka_status_log, prepare=lambda _: {})
    warm.catch_up()
    log.append(b"acme/before", b'{"query": "//a"}')
    value = b'{"query": "//b"}' + b" " * (100_000_000 if is_bomb else 0)
    headers = [] if is_bomb else [(BrokenName("h"), b"")]
    large = {"compression_type": "zstd", "max_request_size": 200_000_000}
    with closing(open_client(KafkaProducer, settings, **large)) as producer:
        sent = {"key": b"acme/hidden", "value": value, "partition": 0}
        producer.send(log.topic, **sent, headers=headers).get(30)
    log.append(b"acme/after", b'{"query": "//c"}')
    while warm.version < log.end() - 1:
        warm.poll(0.2)
    cold = Registry(log, kafka_status_log, prepare=lambda _: {})
    cold.catch_up()
    for registry in (warm, cold):
        assert [str(key) for key in registry.active] == ["acme/before", "acme/after"]
        assert registry.unreported == 1
    assert cold.digest() == warm.digest() == warm.rebuild(2).digest()


def test_a_poll_that_fails_is_no_end(
    open_log: Callable[..., KafkaSubscriptionLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that raised may never come to an end again: another one goes on for it."""
    log = open_log()
    log.follow(0)
    log.append(b"a/1", b"first")
    assert [each.value for _ in range(10) for each in log.poll(0.2)] == [b"first"]
    log.append_all([(b"a/1", b"second"), (b"a/1", b"third")])
    poll = KafkaConsumer.poll
    fails = iter([True])

    def failing(consumer: object, **options: object) -> object:
        polled = poll(consumer, **options)
        if polled and next(fails, False):
            raise errors.CorruptRecordError("the checksum is wrong")
        return polled

    monkeypatch.setattr(KafkaConsumer, "poll", failing)
    with pytest.raises(KafkaError):
        _ = [log.poll(0.2) for _ in range(20)]
    assert log.end() == 3
    assert [each.value for _ in range(10) for each in log.poll(0.2)] == [b"second", b"third"]

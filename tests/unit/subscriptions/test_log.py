"""The logs in memory: what all logs do, and compaction."""

import threading

import pytest

from subscriptions.log import InMemoryLog, InMemoryStatusLog, StatusLog, SubscriptionLog
from subscriptions.model import State, Status
from tests.unit.subscriptions.log_behaviour import (
    LONG_AGO,
    StatusLogBehaviour,
    SubscriptionLogBehaviour,
)


class TestInMemoryLog(SubscriptionLogBehaviour):
    @pytest.fixture
    def log(self) -> SubscriptionLog:
        return InMemoryLog()


class TestInMemoryStatusLog(StatusLogBehaviour):
    @pytest.fixture
    def status_log(self) -> StatusLog:
        return InMemoryStatusLog()


@pytest.fixture
def log() -> InMemoryLog:
    """Two keys written twice, one removed, one written once."""
    made = InMemoryLog()
    for key, value in [("a", "0"), ("b", "1"), ("a", "2"), ("c", "3"), ("b", None), ("d", "5")]:
        made.append(key.encode(), value.encode() if value is not None else None)
    return made


def test_compaction_keeps_the_last_record_of_each_key(log: InMemoryLog) -> None:
    log.compact(keep_tombstones=True)
    assert [each.offset for each in log.read()] == [2, 3, 4, 5]


def test_compaction_drops_tombstones_and_leaves_gaps(log: InMemoryLog) -> None:
    log.compact()
    assert [each.offset for each in log.read()] == [2, 3, 5]
    assert log.end() == 6
    assert log.append(b"e", b"6") == 6


def test_compaction_leaves_young_records_alone(log: InMemoryLog) -> None:
    log.compact(before=4)
    assert [each.offset for each in log.read()] == [1, 2, 3, 4, 5]


def test_following_goes_on_over_gaps(log: InMemoryLog) -> None:
    log.follow(0)
    log.append(b"d", None)
    log.compact()
    assert [each.offset for each in log.poll()] == [2, 3]
    log.append(b"e", b"7")
    assert [each.offset for each in log.poll()] == [7]


def test_polling_waits_for_a_record() -> None:
    log = InMemoryLog()
    log.follow(0)
    writer = threading.Timer(0.05, log.append, (b"a", b"0"))
    writer.start()
    assert [each.offset for each in log.poll(timeout=30)] == [0]
    writer.join()


def test_statuses_are_seen_when_they_were_flushed() -> None:
    log = InMemoryStatusLog()
    log.publish(b"a", Status(State.ACTIVE, 1, LONG_AGO))
    assert log.read_all() == {}
    log.flush()
    assert log.published == [(b"a", Status(State.ACTIVE, 1, LONG_AGO))]

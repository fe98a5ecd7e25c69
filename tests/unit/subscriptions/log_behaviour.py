"""What every subscription log and status log does, in memory or on Kafka.

`test_log.py` runs it on the doubles, `tests/integration/test_kafka_log.py` on Kafka.
"""

import time
from datetime import UTC, datetime

import pytest

from subscriptions.log import LogRecord, StatusLog, SubscriptionLog
from subscriptions.model import State, Status, SubscriptionRecord

LONG_AGO = datetime(2020, 2, 29, 12, 30, 0, 123000, tzinfo=UTC)


def poll_until(log: SubscriptionLog, count: int) -> list[LogRecord]:
    """So many of the records that follow, and no more than there are."""
    records: list[LogRecord] = []
    attempts = 0
    while len(records) < count and attempts < 50:
        records += log.poll(0.2)
        attempts += 1
    return records


class SubscriptionLogBehaviour:
    @pytest.fixture
    def log(self) -> SubscriptionLog:
        raise NotImplementedError

    def test_an_empty_log(self, log: SubscriptionLog) -> None:
        assert log.end() == 0
        assert list(log.read()) == []
        log.follow(0)
        assert log.poll() == []

    def test_records_come_back_as_they_went(self, log: SubscriptionLog) -> None:
        written = [(b"a/1", b"x"), (b"a/2", b""), (b"a/1", None), (b"\xff\0", b"\0\xff")]
        before = int(time.time() * 1000)
        offsets = [log.append(key, value) for key, value in written]
        records = list(log.read())
        assert [each.offset for each in records] == offsets == [0, 1, 2, 3]
        assert [(each.key, each.value) for each in records] == written
        assert all(before - 60_000 < each.timestamp_ms < before + 600_000 for each in records)

    def test_many_at_once(self, log: SubscriptionLog) -> None:
        assert log.append_all([]) == []
        offsets = log.append_all((b"a/%d" % n, b"%d" % n) for n in range(3000))
        assert offsets == list(range(3000))
        assert log.end() == 3000
        assert [each.value for each in log.read()] == [b"%d" % n for n in range(3000)]

    def test_an_interval_has_its_start_and_not_its_end(self, log: SubscriptionLog) -> None:
        log.append_all((b"a/%d" % n, b"x") for n in range(10))
        assert [each.offset for each in log.read(3, 6)] == [3, 4, 5]
        assert [each.offset for each in log.read(8)] == [8, 9]
        assert list(log.read(4, 4)) == []
        assert list(log.read(10)) == []

    def test_a_read_ends_where_the_log_ended_at_the_call(self, log: SubscriptionLog) -> None:
        log.append(b"a/1", b"x")
        records = log.read()
        log.append(b"a/2", b"x")
        assert [each.offset for each in records] == [0]

    def test_following(self, log: SubscriptionLog) -> None:
        log.append_all([(b"a/1", b"old"), (b"a/2", b"new")])
        log.follow(1)
        assert [each.value for each in poll_until(log, 1)] == [b"new"]
        assert log.poll() == []
        log.append(b"a/3", b"newer")
        assert [each.value for each in poll_until(log, 1)] == [b"newer"]

    def test_a_read_does_not_disturb_following(self, log: SubscriptionLog) -> None:
        log.append_all([(b"a/1", b"0"), (b"a/2", b"1")])
        log.follow(0)
        assert len(poll_until(log, 2)) == 2
        assert len(list(log.read(0, 1))) == 1
        log.append(b"a/3", b"2")
        assert [each.value for each in poll_until(log, 1)] == [b"2"]

    def test_closing_twice(self, log: SubscriptionLog) -> None:
        log.append(b"a/1", b"x")
        log.close()
        log.close()


class StatusLogBehaviour:
    @pytest.fixture
    def status_log(self) -> StatusLog:
        raise NotImplementedError

    def test_an_empty_log(self, status_log: StatusLog) -> None:
        assert status_log.read_all() == {}
        status_log.flush()

    def test_the_last_status_of_each_key(self, status_log: StatusLog) -> None:
        refused = Status(
            State.REJECTED,
            7,
            LONG_AGO,
            error={"code": "bad-json", "detail": "ü €"},
            active_version=3,
            active_record=SubscriptionRecord(query="//a", note="ü"),
        )
        status_log.publish(b"a/1", Status(State.ACTIVE, 3, LONG_AGO))
        status_log.publish(b"\xff", Status(State.REJECTED, 5, LONG_AGO, error={"code": "bad-key"}))
        status_log.publish(b"a/1", refused)
        status_log.flush()
        assert status_log.read_all() == {
            b"\xff": Status(State.REJECTED, 5, LONG_AGO, error={"code": "bad-key"}),
            b"a/1": refused,
        }

    def test_a_status_that_is_forgotten(self, status_log: StatusLog) -> None:
        for key in (b"a/1", b"a/2"):
            status_log.publish(key, Status(State.ACTIVE, 3, LONG_AGO))
        status_log.forget(b"a/1")
        status_log.forget(b"never/there")
        status_log.flush()
        assert list(status_log.read_all()) == [b"a/2"]

    def test_closing_twice(self, status_log: StatusLog) -> None:
        status_log.publish(b"a/1", Status(State.ACTIVE, 3, LONG_AGO))
        status_log.flush()
        status_log.close()
        status_log.close()

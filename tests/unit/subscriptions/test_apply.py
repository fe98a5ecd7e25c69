"""The reducer: one record, one key, no clock and no Kafka."""

from datetime import UTC, datetime

import pytest

from subscriptions.apply import Outcome, apply
from subscriptions.log import LogRecord
from subscriptions.model import State, Status, Subscription, SubscriptionKey, SubscriptionRecord
from tests.unit.subscriptions.hostile_records import HOSTILE, Hostile

KEY = SubscriptionKey("acme", "books")
PREVIOUS = Subscription(KEY, 3, SubscriptionRecord(query="//old"))
SECOND_ONE = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def record(value: bytes | None, key: bytes | None = b"acme/books") -> LogRecord:
    return LogRecord(7, key, value, 1000)


@pytest.mark.parametrize("previous", [None, PREVIOUS])
def test_a_right_record_replaces_what_was_there(previous: Subscription | None) -> None:
    made = Subscription(KEY, 7, SubscriptionRecord(query="//a"))
    assert apply(previous, record(b'{"query": "//a"}')) == Outcome(
        KEY, made, Status(State.ACTIVE, 7, SECOND_ONE), changed=True
    )


def test_a_paused_record() -> None:
    outcome = apply(None, record(b'{"query": "//a", "paused": true}'))
    assert outcome.subscription is not None
    assert outcome.status == Status(State.PAUSED, 7, SECOND_ONE)


@pytest.mark.parametrize("previous", [None, PREVIOUS])
def test_null_removes_what_was_there(previous: Subscription | None) -> None:
    assert apply(previous, record(None)) == Outcome(
        KEY, None, Status(State.REMOVED, 7, SECOND_ONE), changed=previous is not None
    )


@pytest.mark.parametrize("case", HOSTILE, ids=[case.what for case in HOSTILE])
def test_a_refused_record_changes_nothing(case: Hostile) -> None:
    for previous in (None, PREVIOUS):
        outcome = apply(previous, record(case.value))
        assert outcome.subscription is previous
        assert not outcome.changed
        status = outcome.status
        assert status is not None
        assert (status.state, status.version) == (State.REJECTED, 7)
        assert status.error is not None
        assert status.error["code"] == case.code
        assert status.kept(KEY) == previous
        assert status.active_version == (None if previous is None else 3)
        assert Status.parse(status.to_bytes()) == status


@pytest.mark.parametrize("value", [None, b'{"query": "//a"}', b"\xff"])
def test_a_wrong_key_is_answered_under_itself(value: bytes | None) -> None:
    outcome = apply(None, record(value, b"ACME/b\xff"))
    assert (outcome.key, outcome.subscription, outcome.changed) == (None, None, False)
    assert outcome.status is not None
    assert outcome.status.error is not None
    assert outcome.status.error["code"] == "bad-key"


@pytest.mark.parametrize("key", [None, b"x" * 1_000_000])
def test_where_there_is_no_usable_key_there_is_no_answer(key: bytes | None) -> None:
    assert apply(None, record(b"{}", key)) == Outcome(None, None, None, changed=False)

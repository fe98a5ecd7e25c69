"""Keys, records and statuses, and their one spelling in bytes."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from broker.message_factory import OutputFormat
from subscriptions.errors import RecordError
from subscriptions.model import (
    State,
    Status,
    Subscription,
    SubscriptionKey,
    SubscriptionRecord,
    moment_of,
)
from subscriptions.records import decode, encode

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
IDS = st.from_regex(r"[a-z0-9][a-z0-9-]{0,62}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
MOMENTS = st.datetimes(
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
    min_value=datetime(1970, 1, 3),  # noqa: DTZ001 - hypothesis wants bounds without a zone
    max_value=datetime(9999, 12, 30),  # noqa: DTZ001
)
RECORDS = st.builds(
    SubscriptionRecord,
    query=st.sampled_from(["//a", "//book[price < 50]", "for $b in //b return $b/ü"]),
    format=st.sampled_from(OutputFormat),
    paused=st.booleans(),
    expires=st.none() | MOMENTS,
    note=st.none() | TEXTS,
)
STATUSES = st.builds(
    Status,
    state=st.sampled_from(State),
    version=st.integers(0, 2**63 - 1),
    since=MOMENTS,
    error=st.none() | st.dictionaries(TEXTS, st.text(max_size=5) | st.integers() | st.lists(TEXTS)),
    active_version=st.none() | st.integers(0, 2**63 - 1),
    active_record=st.none() | RECORDS,
)


class TestKey:
    @given(IDS, IDS)
    def test_one_spelling(self, subscriber: str, name: str) -> None:
        key = SubscriptionKey(subscriber, name)
        assert SubscriptionKey.parse(key.to_bytes()) == SubscriptionKey.parse(str(key)) == key
        assert SubscriptionKey.parse(key.to_bytes()).to_bytes() == key.to_bytes()

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "/",
            "a",
            "a/",
            "/b",
            "a/b/c",
            "A/b",
            "a/B",
            "-a/b",
            "a/-b",
            "a /b",
            "a/b\n",
            "a\n/b",
            "a/b\0",
            "a.b/c",
            "a_b/c",
            "ä/b",
            "a/１",
            "a/" + "b" * 64,
            "a" * 64 + "/b",
            "a/\ud800",
            b"\xff/b",
            b"a/b\x00",
        ],
    )
    def test_what_is_no_key(self, text: str | bytes) -> None:
        with pytest.raises(RecordError) as caught:
            SubscriptionKey.parse(text)
        assert caught.value.code == "bad-key"

    def test_a_key_is_shown_short_and_on_one_line(self) -> None:
        with pytest.raises(RecordError) as caught:
            SubscriptionKey.parse("a/\n" + "b" * 100_000)
        assert len(caught.value.detail) < 200
        assert caught.value.detail.isprintable()

    def test_keys_made_of_parts_are_checked_too(self) -> None:
        with pytest.raises(RecordError):
            SubscriptionKey("a/b", "c")


class TestRecord:
    @given(RECORDS)
    def test_canonical_bytes_come_back(self, record: SubscriptionRecord) -> None:
        data = encode(record)
        decoded = decode(b"a/b", data).record
        assert decoded == record
        assert encode(decoded) == data

    def test_spellings_of_one_record_have_the_same_bytes(self) -> None:
        spellings = [
            b'{"query": "//\\u0061", "expires": "2027-01-01T01:00:00+01:00", "paused": false}',
            b'{"note": null, "expires": "2027-01-01T00:00Z", "format": "xml", "query": "//a"}',
            b'{"query":"//a","expires":"2027-01-01T00:00:00.000Z"}',
        ]
        records = [decode(b"a/b", spelling).record for spelling in spellings]
        assert {encode(record) for record in records if record is not None} == {
            b'{"query":"//a","expires":"2027-01-01T00:00:00Z"}'
        }

    def test_it_can_not_be_changed(self) -> None:
        record = SubscriptionRecord(query="//a")
        with pytest.raises(ValidationError):
            record.paused = True

    def test_a_time_needs_a_zone(self) -> None:
        with pytest.raises(ValidationError):
            SubscriptionRecord(query="//a", expires=datetime(2027, 1, 1))  # noqa: DTZ001

    def test_when_it_is_active(self) -> None:
        key = SubscriptionKey("a", "b")
        lasting = Subscription(key, 0, SubscriptionRecord(query="//a"))
        ending = Subscription(key, 0, SubscriptionRecord(query="//a", expires=NOON))
        paused = Subscription(key, 0, SubscriptionRecord(query="//a", paused=True))
        before = NOON - timedelta(seconds=1)
        assert [each.is_active(before) for each in (lasting, ending, paused)] == [True, True, False]
        assert [each.is_active(NOON) for each in (lasting, ending, paused)] == [True, False, False]


class TestStatus:
    @given(STATUSES)
    @example(Status(State.REJECTED, 1, NOON, error={"detail": "half: \ud800"}))
    def test_bytes_come_back(self, status: Status) -> None:
        assert Status.parse(status.to_bytes()) == status
        assert Status.parse(status.to_bytes()).to_bytes() == status.to_bytes()

    def test_what_is_there_and_what_is_not(self) -> None:
        assert Status(State.ACTIVE, 7, NOON).to_bytes() == (
            b'{"state":"active","version":7,"since":"2026-06-01T12:00:00Z"}'
        )

    def test_a_later_release_may_say_more(self) -> None:
        data = b'{"state":"active","version":7,"since":"2026-06-01T12:00:00Z","cost":3}'
        assert Status.parse(data) == Status(State.ACTIVE, 7, NOON)

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\xff",
            b"[]",
            b"null",
            b"{}",
            b"[" * 100_000,
            b'{"state":"asleep","version":7,"since":"2026-06-01T12:00:00Z"}',
            b'{"state":"active","version":"7","since":"2026-06-01T12:00:00Z"}',
            b'{"state":"active","version":7,"since":"2026-06-01T12:00:00"}',
        ],
    )
    def test_what_is_no_status(self, data: bytes) -> None:
        with pytest.raises(RecordError) as caught:
            Status.parse(data)
        assert caught.value.code == "bad-status"

    def test_what_says_the_same(self) -> None:
        status = Status(State.ACTIVE, 7, NOON)
        assert status.says_same_as(Status(State.ACTIVE, 7, NOON + timedelta(days=1)))
        assert not status.says_same_as(Status(State.ACTIVE, 8, NOON))
        assert not status.says_same_as(Status(State.PAUSED, 7, NOON))
        assert not status.says_same_as(None)


@pytest.mark.parametrize("timestamp", [-1, -(2**63), 2**63 - 1, 10**15])
def test_timestamps_that_are_no_time(timestamp: int) -> None:
    assert moment_of(timestamp) == datetime(1970, 1, 1, tzinfo=UTC)


def test_a_timestamp() -> None:
    assert moment_of(1_780_315_200_250) == datetime(2026, 6, 1, 12, 0, 0, 250_000, tzinfo=UTC)

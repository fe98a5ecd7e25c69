"""What a worker makes of source records, without Spark: how rows are handed on."""

import pickle
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
import pytest

from streaming_jobs import rows, worker
from streaming_jobs.output_limits import OutputLimits
from streaming_jobs.snapshot import Entry, Stored
from streaming_jobs.statistics import Counts
from streaming_jobs.transform import Transform
from streaming_jobs.worker import EngineLimits
from subscriptions.topic_names import TopicNames

FILTERS = 700


class Local:
    """A broadcast, and an accumulator, that stay here."""

    def __init__(self, value: list[bytes] | None = None) -> None:
        self.value = value
        self.counts: list[Counts] = []

    def add(self, counts: Counts) -> None:
        self.counts.append(counts)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Local:
    monkeypatch.setattr(worker, "_state", None)
    return Local()


@pytest.fixture
def transform(told: Local) -> Transform:
    entries = [Entry(f"s{n % 7}/q{n}", n, "//a", "xml") for n in range(FILTERS)]
    stored = Stored("test", 0, cast("Any", Local([pickle.dumps(entries)])))
    names = TopicNames("t")
    return Transform(
        stored,
        EngineLimits(),
        names,
        OutputLimits(1_000_000),
        frozenset({"s3"}),
        cast("Any", told),
    )


def batch_of(values: list[bytes | None]) -> pa.RecordBatch:
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "topic": ["t.messages"] * count,
            "partition": [0] * count,
            "offset": list(range(count)),
            "timestamp": pa.array([datetime.now(UTC)] * count, pa.timestamp("us", tz="UTC")),
            "key": pa.array([None] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(
                [[{"key": "k", "value": b"v"}]] * count,
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )


def places(rows: list[pa.RecordBatch]) -> list[tuple[str, str]]:
    """The source and the subscription of all rows that are results."""
    found = []
    for batch in rows:
        for headers in batch.column("headers").to_pylist():
            named = {each["key"]: each["value"].decode() for each in headers}
            assert named["k"] == "v"
            if "xb-id" in named:
                found.append((named["xb-source"], named["xb-subscription"]))
    return found


def test_many_rows_are_handed_on_in_parts(transform: Transform, told: Local) -> None:
    made = list(transform([batch_of([b"<a/>", b"<b/>", b"<a", None, b"<a>2</a>"])]))
    assert len(made) > 2
    assert all(batch.num_rows <= 500 for batch in made)
    subscribers = [f"s{n % 7}/q{n}" for n in range(FILTERS) if n % 7 != 3]
    expected = [(f"t.messages/0/{place}", name) for place in (0, 4) for name in subscribers]
    assert sorted(places(made)) == sorted(expected)
    assert [place for place, _ in places(made)] == sorted(place for place, _ in expected)
    letters = [topic for each in made for topic in each.column("topic").to_pylist()]
    assert letters.count("t.dead-letters") == 2
    (counts,) = told.counts
    assert counts["messages"] == 5
    assert counts["deliveries"] == 1_200


def test_large_rows_are_not_held_together(transform: Transform) -> None:
    large = b"<a>%b</a>" % (b"x" * 400_000)
    made = list(transform([batch_of([large])]))
    assert max(batch.num_rows for batch in made) == 3
    assert sum(batch.num_rows for batch in made) == 600


def test_dead_letters_and_headers_are_not_held_together_either(transform: Transform) -> None:
    made = list(transform([batch_of([b"<a>%b" % (b"x" * 400_000)] * 10)]))
    assert [batch.num_rows for batch in made] == [3, 3, 3, 1]
    batch = batch_of([b"<a/>"])
    large = [[{"key": "k", "value": b"v" * 400_000}]]
    headers = pa.array(large, batch.schema.field("headers").type)
    made = list(transform([batch.set_column(6, "headers", headers)]))
    assert max(batch.num_rows for batch in made) == 3


def test_what_is_wrong_is_not_told_at_any_length(transform: Transform) -> None:
    """A message's own words are in it: it has to fit into any topic, whatever they are."""
    named = b"<!DOCTYPE a><a>&%b;</a>" % (b"\xff" * 2_000_000)
    (made,) = transform([batch_of([named])])
    (headers,) = made.column("headers").to_pylist()
    detail = {each["key"]: each["value"].decode() for each in headers}["xb-error-detail"]
    assert len(detail) == 1_001
    assert detail.endswith("…")


def test_a_compacted_topic_gets_no_record_without_a_key(transform: Transform) -> None:
    """Kafka would refuse it, and the batch could never be written."""
    batch = batch_of([b"<a/>", b"<a/>", b"<a"])
    keys = pa.array([None, b"", None], pa.binary())
    batch = batch.set_column(batch.schema.get_field_index("key"), "key", keys)
    keyed = frozenset({"t.out.s2", "t.dead-letters"})
    limits = OutputLimits(1_000_000, {}, keyed)
    rows = [
        row
        for made in replace(transform, output_limits=limits)([batch])
        for row in made.to_pylist()
    ]
    assert not [row for row in rows if row["key"] is None and row["topic"] in keyed]
    refused = [
        {each["key"]: each["value"].decode() for each in row["headers"]}
        for row in rows
        if row["topic"] == "t.dead-letters"
    ]
    of_each = [(each["xb-source"], each["xb-error"]) for each in refused]
    assert of_each.count(("t.messages/0/0", "no-key-for-topic")) == FILTERS // 7
    assert of_each[-1] == ("t.messages/0/2", "not-well-formed")
    assert len(of_each) == FILTERS // 7 + 1
    assert {row["key"] for row in rows if row["topic"] == "t.dead-letters"} == {
        b"t.messages/0/0",
        b"t.messages/0/2",
    }
    got = [row["topic"] for row in rows if row["topic"] != "t.dead-letters"]
    assert got.count("t.out.s2") == FILTERS // 7
    assert got.count("t.out.s1") == 2 * FILTERS // 7


def test_many_names_of_headers_are_not_kept(transform: Transform) -> None:
    batch = batch_of([b"<a/>"])
    many = pa.array([[{"key": "", "value": b""}] * 20_000], batch.schema.field("headers").type)
    before = rows._repeated.cache_info().currsize
    made = list(transform([batch.set_column(6, "headers", many)]))
    assert sum(each.num_rows for each in made) == 600
    assert all(len(each) == 20_005 for each in made[0].column("headers").to_pylist())
    assert rows._repeated.cache_info().currsize == before


@pytest.mark.parametrize("characters", [0, 63, 64, 8_191, 8_192, 1_048_576])
def test_headers_take_no_more_of_a_record_than_is_said(characters: int) -> None:
    """Else Kafka refuses a record that should have fitted, and with it the batch."""
    name, value = "n" * characters, b"v" * characters
    said = rows.Headers((name,) * 3, (value, None, value)).size()
    numbers = -(-max(1, (2 * characters).bit_length()) // 7)
    assert said >= 3 * (numbers + characters) + 2 * (numbers + characters) + 1


def test_the_time_of_others_is_not_the_workers(
    transform: Transform, told: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: clock)
    for _ in transform([batch_of([b"<a/>"])]):
        clock += 10
    assert clock > 10
    (counts,) = told.counts
    assert counts["seconds"] == 0

"""What is going on now, and who is busiest."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from streaming_jobs.consumers import HALF_LIFE_SECONDS, Fading, largest
from streaming_jobs.overview import Overview
from subscriptions.census import Census
from subscriptions.model import State, Status, SubscriptionKey
from subscriptions.registry import Registry


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_amounts_fade_and_the_busiest_come_first() -> None:
    clock = Clock()
    fading = Fading(clock)
    fading.add({"a": 10.0, "b": 1.0})
    clock.now += HALF_LIFE_SECONDS
    fading.add({"c": 4.0})
    names = [name for name, _ in fading.most(3)]
    assert names == ["a", "c", "b"]
    a_second = dict(fading.most(3))
    assert a_second["a"] == pytest.approx(a_second["c"] * 5 / 4)


def test_a_steady_amount_is_its_rate() -> None:
    clock = Clock()
    fading = Fading(clock)
    for _ in range(1_000):
        clock.now += 1
        fading.add({"a": 3.0})
    assert dict(fading.most(1))["a"] == pytest.approx(3.0, rel=0.02)


def test_names_don_t_pile_up() -> None:
    fading = Fading(Clock())
    for number in range(5_000):
        fading.add({f"s{number}": float(number)})
    assert len(fading.most(10_000)) <= 500
    assert fading.most(1)[0][0] == "s4999"


def test_the_largest() -> None:
    assert largest({"a": 1, "b": 3, "c": 2}, 2) == {"b": 3, "c": 2}
    assert largest({"a": 1}, 2) == {"a": 1}


def test_a_minute_of_batches() -> None:
    clock = Clock()
    overview = Overview(clock)
    clock.now += 100
    for _ in range(30):
        clock.now += 1
        overview.count_batch(
            {
                "messages": 120,
                "deliveries": 240,
                "output_bytes": 2_400,
                "seconds": 0.5,
                "stage_seconds:parse": 0.25,
                "dead_letters:too-deep": 6,
                "dead_letter:too-deep in/0/7 ": 1,
                "dead_letter:budget-exceeded in/0/8 a/b": 1,
                f"published_ms:{clock.now * 1000 - 200:.0f}": 119,
                f"published_ms:{clock.now * 1000 - 900:.0f}": 1,
                "seconds_of:a/slow": 0.2,
                "bytes_of:a/large": 2_000,
            }
        )
    overview.count_commit(41, {"triggerExecution": 300}, {"in": 5})
    data = overview.to_data()
    assert data["per_second"] == {
        "messages": 60,
        "deliveries": 120,
        "output_bytes": 1_200,
        "dead_letters": 3,
    }
    assert data["latency_milliseconds"] == {"p50": 200, "p99": 200}
    assert data["stage_share"]["parse"] == 0.5
    assert (data["batch"], data["lag"]) == (41, {"in": 5})
    assert data["slowest"][0]["subscription"] == "a/slow"
    assert data["largest"][0]["subscription"] == "a/large"
    assert data["dead_letters"][-1] == {
        "code": "budget-exceeded",
        "source": "in/0/8",
        "subscription": "a/b",
    }
    assert len(data["dead_letters"]) == 20
    clock.now += 61
    data = overview.to_data()
    assert data["per_second"]["messages"] == 0
    assert data["latency_milliseconds"] is None


def test_subscriptions_are_counted_by_state() -> None:
    census = Census()
    one, other = SubscriptionKey("a", "one"), SubscriptionKey("a", "other")
    census.note(one, State.ACTIVE)
    census.note(other, State.ACTIVE)
    census.note(one, State.PAUSED)
    census.note(other, None)
    census.note(other, None)
    error = {"code": "bad-json", "detail": "line 1\nline 2"}
    for number in range(30):
        census.refuse(b"a/\xff", Status(State.REJECTED, number, datetime.now(UTC), error=error))
    assert census.refused_records == 30
    assert len(census.refusals) == 20
    overview = Overview()
    overview.follow(cast("Registry", SimpleNamespace(census=census, version=29)))
    data = overview.to_data()
    assert data["subscriptions"] == {"paused": 1}
    assert data["version"] == 29
    assert data["rejections"][-1]["version"] == 29
    assert data["rejections"][-1]["detail"] == "line 1"

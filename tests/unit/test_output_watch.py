"""The output topics of a job, with a Kafka that the tests speak for."""

from collections.abc import Iterable

import pytest

from streaming_jobs.output_watch import OutputWatch
from streaming_jobs.sink import LARGEST_RECORD_BYTES
from subscriptions.topics import NO_LEADER, Accepted, TopicAdmin, TopicNames
from subscriptions.topics import _why_unwritable as why_unwritable


class Topics(TopicAdmin):
    """What Kafka would say of topics, without one."""

    def __init__(self) -> None:
        self.names = TopicNames("x")
        self.unusable: dict[str, str] = {}
        self.asked_for: list[list[str]] = []
        self.told: dict[str, Accepted] = {}

    def unwritable(self, topics: object) -> dict[str, str]:  # noqa: ARG002
        return dict(self.unusable)

    def ensure_outputs(self, subscribers: object) -> dict[str, str]:
        assert hasattr(subscribers, "__iter__")
        self.asked_for.append(list(subscribers))
        return dict.fromkeys(self.asked_for[-1], "away")

    def accepted(self, topics: Iterable[str]) -> dict[str, Accepted]:
        return {each: self.told[each] for each in topics if each in self.told}


@pytest.fixture
def topics() -> Topics:
    return Topics()


def test_a_topic_may_be_without_a_leader_for_a_moment(topics: Topics) -> None:
    """An election is nobody's fault, and what a suspended subscriber misses is not made up for."""
    now = 5.0
    watch = OutputWatch(topics, 1_000_000, lambda: now)
    topics.unusable = {"x.out.a": NO_LEADER}
    assert watch.check(["a", "b"]) == {}
    now += 19
    assert watch.check(["a", "b"]) == {}
    topics.unusable = {}
    assert watch.check(["a", "b"]) == {}
    topics.unusable = {"x.out.a": NO_LEADER}
    now += 19
    assert watch.check(["a", "b"]) == {}
    assert topics.asked_for == []
    now += 20
    assert watch.check(["a", "b"]) == {"a": "away"}


def test_a_topic_that_is_gone_is_seen_to_at_once(topics: Topics) -> None:
    watch = OutputWatch(topics, 1_000_000, lambda: 5.0)
    topics.unusable = {"x.out.b": "there is no such topic"}
    assert watch.check(["a", "b"]) == {"b": "away"}
    assert topics.asked_for == [["b"]]


def test_what_topics_take(topics: Topics) -> None:
    """What Kafka does not tell of a topic stays as it was; of topics that are gone nothing does."""
    usual, small = Accepted(1_000_000, needs_keys=False), Accepted(500, needs_keys=True)
    topics.told = {"x.out.a": small, "x.out.b": usual, "x.dead-letters": Accepted(2**31 - 1, False)}
    watch = OutputWatch(topics, 1_000_000)
    watch.measure(["a", "b"])
    assert watch.limits.keyed == {"x.out.a"}
    assert watch.limits.largest == {"x.out.a": 500, "x.dead-letters": LARGEST_RECORD_BYTES}
    assert watch.limits.smallest == 500
    topics.told = {}
    watch.measure(["a", "b"])
    assert watch.limits.keyed == {"x.out.a"}
    topics.told = {"x.out.a": usual}
    watch.measure(["a", "b"])
    assert watch.limits.keyed == set()
    assert watch.limits.largest_record("x.out.a") == 1_000_000
    topics.told = {"x.out.b": small}
    watch.measure(["a", "b"])
    watch.measure(["a"])
    assert watch.limits.keyed == set()
    assert watch.limits.largest.keys() == {"x.dead-letters"}


@pytest.mark.parametrize(
    ("leaders", "operations", "reason"),
    [
        ([1, 2], ["READ", "WRITE"], None),
        ([1, 2], None, None),
        ([1, -1], ["WRITE"], NO_LEADER),
        ([1], ["READ"], "no access rule lets us write to it"),
    ],
)
def test_why_a_topic_can_not_be_written_to(
    leaders: list[int], operations: list[str] | None, reason: str | None
) -> None:
    described = {
        "authorized_operations": operations,
        "partitions": [{"leader_id": leader} for leader in leaders],
    }
    assert why_unwritable(described) == reason

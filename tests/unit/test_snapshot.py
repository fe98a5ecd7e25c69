"""Snapshots: whatever a worker was at, it gets to the state that a batch uses."""

import random
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import TaskContext

from streaming_jobs import snapshot as snapshot_module
from streaming_jobs.snapshot import Snapshot, Snapshots, received
from streaming_jobs.worker import EngineLimits, EngineState, Recipient
from subscriptions.model import Subscription, SubscriptionKey, SubscriptionRecord
from subscriptions.topic_names import TopicNames


class KeptBroadcast:
    """A broadcast within one process; a destroyed one can't be read, as with Spark."""

    def __init__(self, value: object) -> None:
        self._value: object | None = value

    @property
    def value(self) -> object:
        assert self._value is not None, "it was destroyed"
        return self._value

    def destroy(self) -> None:
        assert self._value is not None, "it was destroyed before"
        self._value = None


class Task:
    """As much of a task's context as snapshots need."""

    def __init__(self, driver: "Driver") -> None:
        self._properties = driver.properties

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        return self._properties.get(name)


class Driver:
    """As much of a Spark context as snapshots need."""

    def __init__(self) -> None:
        self.broadcasts: list[Any] = []
        self.properties: dict[str, str] = {}

    def broadcast(self, value: object) -> KeptBroadcast:
        made = KeptBroadcast(value)
        self.broadcasts.append(made)
        return made

    def setLocalProperty(self, name: str, value: str) -> None:  # noqa: N802 - Spark's name
        self.properties[name] = value

    @property
    def kept(self) -> set[Any]:
        """Those that were not destroyed."""
        return {each for each in self.broadcasts if each._value is not None}


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def snapshots(driver: Driver) -> Snapshots:
    return Snapshots(cast("Any", driver))


def subscription(name: str, version: int) -> Subscription:
    record = SubscriptionRecord(query=f"/a[@v = '{version}']")
    return Subscription(SubscriptionKey.parse(name), version, record)


@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_workers_get_to_the_state_of_the_batch(rng: random.Random) -> None:
    driver = Driver()
    snapshots = Snapshots(cast("Any", driver))
    wanted: dict[str, int] = {}
    workers: list[EngineState | None] = [None, None, None]
    with pytest.MonkeyPatch.context() as sizes:
        sizes.setattr(snapshot_module, "_SMALLEST_REBASE", rng.choice((10, 50, 2_000)))
        sizes.setattr(snapshot_module, "_LONGEST_TEXT", rng.choice((0, 300, 1_000, 48_000)))
        for version in range(rng.randint(1, 25)):
            before = snapshots.current.number
            snapshot = change(snapshots, wanted, version, rng)
            if snapshot.since(before) is None:
                assert snapshot == Snapshot(snapshot.stored, snapshot.stored.base_number)
                assert not snapshot.stored.runs
            for place in range(3):
                if rng.random() < 0.6:
                    worker = brought(workers[place], snapshot)
                    workers[place] = worker
                    assert {
                        str(each): int(cast("Recipient", each).version)
                        for each in worker.engine._places
                    } == wanted
                    assert len(worker.engine) == len(wanted)
            snapshots.release(snapshot)
            assert driver.kept == set(snapshot.stored.broadcasts)
            assert snapshots.subscribers == {name.partition("/")[0] for name in wanted}
            assert snapshot.subscribers() == snapshots.subscribers


def change(
    snapshots: Snapshots, wanted: dict[str, int], version: int, rng: random.Random
) -> Snapshot:
    """Some subscriptions come, change and go; or all of them are given."""
    changes: list[tuple[SubscriptionKey, Subscription | None]] = []
    for _ in range(rng.choice((0, 1, 3, 40))):
        name = f"s{rng.randrange(5)}/{rng.randrange(30)}"
        if rng.random() < 0.3:
            wanted.pop(name, None)
            changes.append((SubscriptionKey.parse(name), None))
        else:
            wanted[name] = version
            changes.append((SubscriptionKey.parse(name), subscription(name, version)))
    if rng.random() < 0.1:
        return snapshots.replace(
            {SubscriptionKey.parse(name): subscription(name, at) for name, at in wanted.items()}
        )
    return snapshots.update(changes)


def brought(worker: EngineState | None, snapshot: Snapshot) -> EngineState:
    """As `engine_at` does it, for one of several workers."""
    if worker is None or not worker.follow(snapshot):
        worker = EngineState(snapshot, EngineLimits(), TopicNames())
        assert worker.follow(snapshot)
    return worker


def changed(snapshots: Snapshots, *names: str, version: int = 1) -> Snapshot:
    return snapshots.update((SubscriptionKey.parse(n), subscription(n, version)) for n in names)


def test_a_large_change_makes_a_new_base_and_old_deltas_go(snapshots: Snapshots) -> None:
    changed(snapshots, "s/0")
    first = changed(snapshots, *(f"s/{number}" for number in range(3_000)))
    assert first.stored.base_number == first.number
    assert not first.recent
    assert not first.stored.runs
    assert len(first.entries()) == 3_000
    second = snapshots.update([(SubscriptionKey.parse("s/1"), None)])
    assert second.stored is not first.stored
    assert second.stored == first.stored
    assert [delta.size for delta in second.recent] == [1]
    assert second.since(first.number) == list(second.recent)
    assert second.since(0) is None


def test_many_changes_become_a_run_and_then_a_base(
    snapshots: Snapshots, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_module, "_LONGEST_TEXT", 1_000)
    seen = [changed(snapshots, f"s/{number}") for number in range(2_100)]
    assert max(len(each._text) for each in seen) < 3_000
    assert len(driver.broadcasts) < 300
    based = [each for each in seen if each.stored.base_number]
    assert based[0].stored.base_number == based[0].number == 2_001
    last, worker = seen[-1], brought(None, seen[1_000])
    snapshots.release(last)
    assert driver.kept == set(last.stored.broadcasts)
    # Who was at a state of a while ago gets along without the base.
    monkeypatch.setattr(last.stored.base, "_value", None)
    assert worker.follow(last)
    assert len(worker.engine) == 2_100


def test_workers_that_are_up_to_date_are_never_built_anew_for_small_changes(
    snapshots: Snapshots,
) -> None:
    """Changes that are short, as removals are, make long runs."""
    names = [f"s/{number}" for number in range(6_000)]
    worker = brought(None, changed(snapshots, *names))
    for start in range(0, len(names), 50):
        snapshot = snapshots.update((SubscriptionKey.parse(n), None) for n in names[start:][:50])
        assert worker.follow(snapshot)
    assert len(worker.engine) == 0
    assert snapshot.stored.base_number > 1


def test_what_batches_use_is_not_freed(snapshots: Snapshots) -> None:
    before = changed(snapshots, "s/0")
    after = changed(snapshots, *(f"s/{number}" for number in range(3_000)))
    snapshots.release(before)
    assert len(brought(None, before).engine) == 1
    snapshots.release(after)
    with pytest.raises(AssertionError, match="destroyed"):
        before.entries()


def test_a_worker_reads_only_the_changes_that_it_has_not_made(snapshots: Snapshots) -> None:
    worker = brought(None, changed(snapshots, "s/0"))
    worker.follow(changed(snapshots, "s/1"))
    sent = changed(snapshots, "s/2", version=2)
    # What it has made before is not even looked at.
    unread = tuple(delta._replace(packed=b"") for delta in sent.recent[:2])
    assert worker.follow(replace(sent, recent=(*unread, sent.recent[2])))
    assert len(worker.engine) == 3


def test_a_task_gets_what_was_sent_with_it(
    snapshots: Snapshots, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, sent = changed(snapshots, "s/0"), changed(snapshots, "s/1", "s/2")
    sent.send(cast("Any", driver))
    with monkeypatch.context() as task:
        task.setattr(TaskContext, "get", lambda: Task(driver))
        assert received(first.stored) == sent
        other = Snapshots(cast("Any", driver)).current
        with pytest.raises(AssertionError, match="another job"):
            received(other.stored)
        driver.properties.clear()
        with pytest.raises(AssertionError, match="no snapshot was sent"):
            received(first.stored)

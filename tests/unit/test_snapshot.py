"""Snapshots: whatever a worker was at, it gets to the state that a batch uses."""

import random
from dataclasses import replace
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from streaming_jobs.snapshot import Snapshot, Snapshots
from streaming_jobs.worker import EngineLimits, EngineState, Recipient
from subscriptions.model import Subscription, SubscriptionKey, SubscriptionRecord
from subscriptions.topic_names import TopicNames


class KeptBroadcast:
    """A broadcast within one process; a destroyed one can't be read, as with Spark."""

    def __init__(self, value: bytes) -> None:
        self._value: bytes | None = value

    @property
    def value(self) -> bytes:
        assert self._value is not None, "it was destroyed"
        return self._value

    def destroy(self) -> None:
        self._value = None


class Driver:
    """As much of a Spark context as snapshots need."""

    def broadcast(self, value: bytes) -> KeptBroadcast:
        return KeptBroadcast(value)


def subscription(name: str, version: int) -> Subscription:
    record = SubscriptionRecord(query=f"/a[@v = '{version}']")
    return Subscription(SubscriptionKey.parse(name), version, record)


@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_workers_get_to_the_state_of_the_batch(rng: random.Random) -> None:
    snapshots = Snapshots(cast("Any", Driver()))
    wanted: dict[str, int] = {}
    workers: list[EngineState | None] = [None, None, None]
    for version in range(rng.randint(1, 12)):
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
            active = {
                SubscriptionKey.parse(name): subscription(name, at) for name, at in wanted.items()
            }
            snapshot = snapshots.replace(active)
        else:
            snapshot = snapshots.update(changes)
        for place in range(3):
            if rng.random() < 0.6:
                worker = brought(workers[place], snapshot)
                workers[place] = worker
                assert {
                    str(each): int(cast("Recipient", each).version)
                    for each in worker.engine._places
                } == wanted
                assert len(worker.engine) == len(wanted)
        snapshots.release()
        assert snapshots.subscribers == {name.partition("/")[0] for name in wanted}


def brought(worker: EngineState | None, snapshot: Snapshot) -> EngineState:
    """As `engine_at` does it, for one of several workers."""
    if worker is None or not worker.follow(snapshot):
        worker = EngineState(snapshot, EngineLimits(), TopicNames())
        assert worker.follow(snapshot)
    return worker


def test_a_large_change_makes_a_new_base_and_old_deltas_go() -> None:
    snapshots = Snapshots(cast("Any", Driver()))
    many = [f"s/{number}" for number in range(3_000)]
    first = snapshots.update((SubscriptionKey.parse(n), subscription(n, 1)) for n in many)
    assert first.base_number == first.number
    assert not first.deltas
    assert len(first.entries()) == 3_000
    second = snapshots.update([(SubscriptionKey.parse("s/1"), None)])
    assert second.base_number == first.number
    assert [delta.size for delta in second.deltas] == [1]
    assert second.since(first.number) == second.deltas
    assert second.since(0) is None


def test_a_worker_reads_only_the_changes_that_it_has_not_made() -> None:
    snapshots = Snapshots(cast("Any", Driver()))
    keys = [SubscriptionKey.parse(f"s/{number}") for number in range(3)]
    for key in keys[:2]:
        snapshots.update([(key, subscription(str(key), 1))])
    worker = brought(None, snapshots.current())
    sent: Snapshot = snapshots.update([(keys[2], subscription("s/2", 2))])
    # What it has made before is not even looked at.
    unread = tuple(delta._replace(pickled=b"") for delta in sent.deltas[:2])
    assert worker.follow(replace(sent, deltas=(*unread, sent.deltas[2])))
    assert len(worker.engine) == 3

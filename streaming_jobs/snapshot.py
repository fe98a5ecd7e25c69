"""The subscriptions that a batch uses, on their way to the workers.

A worker builds its engine once, from a broadcast base, and then follows by deltas, which go with
each batch: so a change costs what it is, not what is registered. Deltas pile up until a new base
takes them in; some older ones stay, for workers that were idle in the meantime.
"""

import pickle
import uuid
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Self

from pyspark import Broadcast, SparkContext

from subscriptions.model import Subscription, SubscriptionKey

_SMALLEST_REBASE = 2_000
"""So many changes go with each batch in any case before there is a new base."""


class Entry(NamedTuple):
    """A subscription as workers need it."""

    name: str
    """`subscriber/subscription`."""
    version: int
    query: str
    format: str


class Changes(NamedTuple):
    """What becomes of a state."""

    added: tuple[Entry, ...]
    removed: tuple[str, ...]


class Delta(NamedTuple):
    """The changes that lead to a state from the one before it.

    They go with every batch until a new base takes them in, and nearly every worker has made them
    before: so they are pickled once, and unpickled by those who need them.
    """

    number: int
    size: int
    """How many changes there are."""
    pickled: bytes

    @classmethod
    def of(cls, number: int, changes: Changes) -> Self:
        """The changes that lead to the state of a number."""
        size = len(changes.added) + len(changes.removed)
        return cls(number, size, pickle.dumps(changes))

    def changes(self) -> Changes:
        """The changes themselves."""
        changes: Changes = pickle.loads(self.pickled)
        return changes


@dataclass(frozen=True)
class Snapshot:
    """The state that a batch uses, and how to get there from the base or from another state."""

    job: str
    """Numbers count from the start of a job: no other's state is this one's."""
    number: int
    base_number: int
    base: "Broadcast[bytes]"
    deltas: tuple[Delta, ...]
    """In order; they may start before the base."""

    def entries(self) -> list[Entry]:
        """All subscriptions of the base."""
        entries: list[Entry] = pickle.loads(self.base.value)
        return entries

    def subscribers(self) -> set[str]:
        """Those who have a subscription in this state."""
        names = {entry.name for entry in self.entries()}
        for delta in self.since(self.base_number) or ():
            changes = delta.changes()
            names.difference_update(changes.removed)
            names.update(entry.name for entry in changes.added)
        return {name.partition("/")[0] for name in names}

    def since(self, number: int) -> tuple[Delta, ...] | None:
        """The deltas after a state; None if there is no way from it."""
        if number > self.number:
            return None
        if number == self.number:
            return ()
        if not self.deltas or self.deltas[0].number > number + 1:
            return None
        return tuple(delta for delta in self.deltas if delta.number > number)


class Snapshots:
    """Makes the snapshots of a job, on its driver."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._job = uuid.uuid4().hex
        self._entries: dict[str, Entry] = {}
        self._subscribers: dict[str, int] = {}
        self._number = 0
        self._deltas: list[Delta] = []
        self._base_number = 0
        self._base = context.broadcast(pickle.dumps([]))
        self._retired: list[Broadcast[bytes]] = []

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def subscribers(self) -> Set[str]:
        """Those who have an active subscription."""
        return self._subscribers.keys()

    def update(self, changes: Iterable[tuple[SubscriptionKey, Subscription | None]]) -> Snapshot:
        """The snapshot after some changes; None in the place of a subscription removes it."""
        added: dict[str, Entry] = {}
        removed: dict[str, None] = {}
        for key, subscription in changes:
            name = str(key)
            added.pop(name, None)
            removed.pop(name, None)
            if subscription is not None:
                added[name] = entry_of(subscription)
            elif name in self._entries:
                removed[name] = None
        added = {name: entry for name, entry in added.items() if self._entries.get(name) != entry}
        if added or removed:
            self._number += 1
            delta = Delta.of(self._number, Changes(tuple(added.values()), tuple(removed)))
            self._deltas.append(delta)
            self._count(name for name in added if name not in self._entries)
            self._entries.update(added)
            for name in removed:
                del self._entries[name]
            self._discount(removed)
            self._rebase_if_due()
        return self.current()

    def _count(self, names: Iterable[str]) -> None:
        for name in names:
            subscriber = name.partition("/")[0]
            self._subscribers[subscriber] = self._subscribers.get(subscriber, 0) + 1

    def _discount(self, names: Iterable[str]) -> None:
        for name in names:
            subscriber = name.partition("/")[0]
            self._subscribers[subscriber] -= 1
            if not self._subscribers[subscriber]:
                del self._subscribers[subscriber]

    def replace(self, active: Mapping[SubscriptionKey, Subscription]) -> Snapshot:
        """The snapshot with just these."""
        gone = [SubscriptionKey.parse(name) for name in self._entries]
        changes: dict[SubscriptionKey, Subscription | None] = dict.fromkeys(gone)
        changes.update(active)
        return self.update(changes.items())

    def current(self) -> Snapshot:
        """The snapshot as it is."""
        return Snapshot(self._job, self._number, self._base_number, self._base, tuple(self._deltas))

    def release(self) -> None:
        """Free the bases that no batch uses any more."""
        while self._retired:
            with suppress(FileNotFoundError):  # who tidies temporary files was quicker
                self._retired.pop().destroy()

    def _rebase_if_due(self) -> None:
        since_base = sum(d.size for d in self._deltas if d.number > self._base_number)
        if since_base <= max(_SMALLEST_REBASE, len(self._entries) // 10):
            return
        self._retired.append(self._base)
        self._base = self._context.broadcast(pickle.dumps(list(self._entries.values())))
        self._base_number = self._number
        # For workers that were idle in the meantime: some of the last ones.
        kept = sum(delta.size for delta in self._deltas)
        while kept > _SMALLEST_REBASE:
            kept -= self._deltas.pop(0).size


def entry_of(subscription: Subscription) -> Entry:
    """A subscription as workers need it."""
    record = subscription.record
    return Entry(str(subscription.key), subscription.version, record.query, record.format.value)

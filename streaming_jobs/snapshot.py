"""The subscriptions that a batch uses, on their way to the workers.

A worker builds its engine once, from a broadcast base, and then follows by deltas: so a change
costs what it is, not what is registered. The last deltas go with the tasks of a batch, as text, so
that the function which runs there stays the same; when they are many they are broadcast, as a run.
A new base takes all of them in now and then; some older ones stay, for workers that were idle in
the meantime.
"""

import base64
import pickle
import threading
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, Self

from pyspark import Broadcast, SparkContext, TaskContext

from subscriptions.model import Subscription, SubscriptionKey

_SMALLEST_REBASE = 2_000
"""So many changes are kept in any case before there is a new base, and after that for workers that
were idle meanwhile."""

_REBASE_SHARE = 4
"""There is one when so large a part of all subscriptions, a quarter, has changed."""

_LONGEST_TEXT = 48_000
"""So many bytes of changes go with each task; about a thousand of them."""

_PART = 1_000
"""So many entries are pickled at a time: other threads have to wait for that."""

_PROPERTY = "xmlbroker.snapshot"


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

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.added) + len(self.removed)


class Delta(NamedTuple):
    """The changes that lead to a state from the one before it.

    Nearly every worker that gets them has made them before: so they are packed once, and unpacked
    by those who need them.
    """

    number: int
    size: int
    """How many changes there are."""
    packed: bytes

    @classmethod
    def of(cls, number: int, changes: Changes) -> Self:
        """The changes that lead to the state of a number."""
        return cls(number, changes.size, zlib.compress(pickle.dumps(changes), 1))

    def changes(self) -> Changes:
        """The changes themselves."""
        changes: Changes = pickle.loads(zlib.decompress(self.packed))
        return changes


class Run(NamedTuple):
    """Deltas that follow one another, broadcast together."""

    first: int
    last: int
    size: int
    """How many changes they have."""
    deltas: "Broadcast[tuple[Delta, ...]]"


@dataclass(frozen=True)
class Stored:
    """As much of a snapshot as is broadcast: the same for many batches."""

    job: str
    """Numbers count from the start of a job: no other's state is this one's."""
    base_number: int
    base: "Broadcast[list[bytes]]"
    """All subscriptions of its state, pickled in parts."""
    runs: tuple[Run, ...] = ()
    """One following the other; they may start before the base, and then lead at least to it."""

    @property
    def number(self) -> int:
        """The state that it leads to."""
        return self.runs[-1].last if self.runs else self.base_number

    @property
    def broadcasts(self) -> Iterator["Broadcast[Any]"]:
        """All that it needs."""
        return chain((self.base,), (run.deltas for run in self.runs))


@dataclass(frozen=True)
class Snapshot:
    """The state that a batch uses, and how to get there from the base or from another state."""

    stored: Stored
    number: int
    recent: tuple[Delta, ...] = ()
    """Those that lead there from what is stored, in order."""

    def entries(self) -> list[Entry]:
        """All subscriptions of the base."""
        return list(chain.from_iterable(map(pickle.loads, self.stored.base.value)))

    def subscribers(self) -> set[str]:
        """Those who have a subscription in this state."""
        names = {entry.name for entry in self.entries()}
        for delta in self.since(self.stored.base_number) or ():
            changes = delta.changes()
            names.difference_update(changes.removed)
            names.update(entry.name for entry in changes.added)
        return {name.partition("/")[0] for name in names}

    def since(self, number: int) -> list[Delta] | None:
        """The deltas after a state; None if there is no way from it."""
        if number > self.number:
            return None
        deltas = [delta for delta in self.recent if delta.number > number]
        if number >= self.stored.number:
            return deltas
        runs = self.stored.runs
        if not runs or runs[0].first > number + 1:
            return None
        stored = chain.from_iterable(run.deltas.value for run in runs if run.last > number)
        return [delta for delta in stored if delta.number > number] + deltas

    # From the driver to the tasks

    @cached_property
    def _text(self) -> str:
        packed = base64.b64encode(pickle.dumps(self.recent)).decode()
        return f"{self.stored.job} {self.number} {packed}"

    def send(self, context: SparkContext) -> None:
        """Let the tasks of what this thread has Spark do use this snapshot.

        By a property of theirs: in the function it would be another function, and ten to twenty
        milliseconds to bring that to the JVM.
        """
        context.setLocalProperty(_PROPERTY, self._text)


def received(stored: Stored) -> Snapshot:
    """The snapshot that was sent to the task which this runs in; in none, that which is stored."""
    context = TaskContext.get()
    if context is None:
        return Snapshot(stored, stored.number)
    text = context.getLocalProperty(_PROPERTY)
    assert text is not None, "no snapshot was sent with the task"
    job, number, packed = text.split(" ")
    assert job == stored.job, "the snapshot of another job was sent with the task"
    return Snapshot(stored, int(number), pickle.loads(base64.b64decode(packed)))


class Snapshots:
    """Makes the snapshots of a job, on its driver."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._entries: dict[str, Entry] = {}
        self._subscribers: dict[str, int] = {}
        """How many subscriptions each has."""
        self.subscribers: frozenset[str] = frozenset()
        """Those who have an active subscription."""
        self._recent: list[Delta] = []
        self._runs: list[Run] = []
        self._base_number = 0
        self._since_base = 0
        """How many changes there were."""
        self._base: Broadcast[list[bytes]] = context.broadcast([])
        self._retired: list[Broadcast[Any]] = []
        self._lock = threading.Lock()
        """For the ones that are retired: those who free them are others."""
        self.current = Snapshot(Stored(uuid.uuid4().hex, 0, self._base), 0)
        """The snapshot as it is."""

    def __len__(self) -> int:
        return len(self._entries)

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
            self._count(name for name in added if name not in self._entries)
            self._entries.update(added)
            for name in removed:
                del self._entries[name]
            self._discount(removed)
            if self.subscribers != self._subscribers.keys():
                self.subscribers = frozenset(self._subscribers)
            self._lead_on(Changes(tuple(added.values()), tuple(removed)))
        return self.current

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

    def release(self, in_use: Snapshot) -> None:
        """Free what no batch uses any more, if batches use this snapshot or later ones."""
        used = set(map(id, in_use.stored.broadcasts))
        with self._lock:
            unused = [each for each in self._retired if id(each) not in used]
            self._retired = [each for each in self._retired if id(each) in used]
        for each in unused:
            with suppress(FileNotFoundError):  # who tidies temporary files was quicker
                each.destroy()

    # The ways to a state

    def _lead_on(self, changes: Changes) -> None:
        """Make the next state, and a way there."""
        number = self.current.number + 1
        most = max(_SMALLEST_REBASE, len(self._entries) // _REBASE_SHARE)
        self._since_base += changes.size
        if changes.size > most:
            self._recent.clear()
            self._retire(*(run.deltas for run in self._runs))
            self._runs.clear()
            self._make_base(number)
        else:
            self._recent.append(Delta.of(number, changes))
            is_due = self._since_base > most
            if is_due or sum(len(delta.packed) for delta in self._recent) > _LONGEST_TEXT:
                self._make_run()
            if is_due:
                self._forget_runs()
                self._make_base(number)
        stored = Stored(self.current.stored.job, self._base_number, self._base, tuple(self._runs))
        self.current = Snapshot(stored, number, tuple(self._recent))

    def _make_run(self) -> None:
        deltas = tuple(self._recent)
        size = sum(delta.size for delta in deltas)
        made = self._context.broadcast(deltas)
        self._runs.append(Run(deltas[0].number, deltas[-1].number, size, made))
        self._recent.clear()

    def _forget_runs(self) -> None:
        """Let go of old ones without which there are enough changes for workers that were idle."""
        kept = sum(run.size for run in self._runs)
        while kept - self._runs[0].size >= _SMALLEST_REBASE:
            oldest = self._runs.pop(0)
            kept -= oldest.size
            self._retire(oldest.deltas)

    def _make_base(self, number: int) -> None:
        self._retire(self._base)
        entries = list(self._entries.values())
        parts = [entries[start : start + _PART] for start in range(0, len(entries), _PART)]
        self._base = self._context.broadcast([pickle.dumps(part) for part in parts])
        self._base_number = number
        self._since_base = 0

    def _retire(self, *broadcasts: "Broadcast[Any]") -> None:
        with self._lock:
            self._retired += broadcasts


def entry_of(subscription: Subscription) -> Entry:
    """A subscription as workers need it."""
    record = subscription.record
    return Entry(str(subscription.key), subscription.version, record.query, record.format.value)

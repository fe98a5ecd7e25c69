"""The engine of a Python worker: built once, then kept up with the snapshots of batches.

It lives in a global of this module, which Spark's workers import once and keep from batch to batch.
"""

import gc
import logging
import time
from dataclasses import dataclass, field
from typing import ClassVar, Self

import pyarrow as pa
from pyspark import TaskContext

from broker.engine import Engine
from broker.errors import QueryError
from broker.limits import MessageLimits, QueryLimits, ResultLimits
from broker.loading import keep_loaded, uncollected
from broker.message_factory import OutputFormat
from broker.query import parse
from streaming_jobs.delivery_ids import id_of_subscription
from streaming_jobs.snapshot import Entry, Snapshot
from streaming_jobs.statistics import Counts
from streaming_jobs.worker_log import log_to_spark
from subscriptions.topic_names import TopicNames

_LOGGER = logging.getLogger(__name__)
_PROGRESS_EVERY = 10_000

_GARBAGE = 50_000
"""Python looks for garbage when there are so many objects more than there were."""

_SETTLED = 100
"""After so many tasks, what an engine has learned of the feed is taken to stay."""

_SETTLED_FIRST = 10
"""By then it has learned most of it."""


@dataclass(frozen=True)
class EngineLimits:
    """The limits of all that an engine does."""

    query: QueryLimits = field(default_factory=QueryLimits)
    message: MessageLimits = field(default_factory=MessageLimits)
    result: ResultLimits = field(default_factory=ResultLimits)


class Recipient(str):
    """A subscription as results are addressed to it: its name, and what all of them have alike.

    The engine hands on the very names that it was given, so results come with their recipients.
    """

    __slots__ = ("identity", "is_json", "subscriber", "subscription", "topic", "version")

    LARGEST: ClassVar = 150
    """What any adds at most to the size of a record: two ids and a number."""

    identity: bytes
    """Its part of the ids of its deliveries."""
    is_json: bool
    """Unless it is a filter, whose results are messages."""
    subscriber: str
    subscription: bytes
    topic: str
    version: bytes

    def __new__(cls, entry: Entry, names: TopicNames) -> Self:
        """The recipient that an entry is about."""
        made = super().__new__(cls, entry.name)
        made.subscriber = entry.name.partition("/")[0]
        made.topic = names.output(made.subscriber)
        made.is_json = entry.format == OutputFormat.GROUPS.value
        made.subscription = entry.name.encode()
        made.version = str(entry.version).encode()
        made.identity = id_of_subscription(entry)
        return made

    @property
    def size(self) -> int:
        """What it adds to the size of each record."""
        return len(self.subscription) + len(self.version)


class EngineState:
    """An engine, and the snapshot that it is at."""

    def __init__(self, snapshot: Snapshot, limits: EngineLimits, names: TopicNames) -> None:
        self.limits = limits
        self.names = names
        self.engine = Engine(message_limits=limits.message, result_limits=limits.result)
        self.job = snapshot.stored.job
        self.number = snapshot.stored.base_number
        self._uses = 0
        self._renewals = 0
        started = time.monotonic()
        entries = snapshot.entries()
        with uncollected():  # not around what is broadcast: to read it lets the collector go on
            for count, entry in enumerate(entries, start=1):
                self._add(entry)
                if count % _PROGRESS_EVERY == 0:
                    _LOGGER.info("building the engine: %d of %d subscriptions", count, len(entries))
        if entries:
            spent = time.monotonic() - started
            _LOGGER.info("built the engine: %d subscriptions in %.1f s", len(entries), spent)

    def follow(self, snapshot: Snapshot) -> bool:
        """Apply what is new in a snapshot; False if there is no way there from here."""
        if snapshot.stored.job != self.job:
            return False
        deltas = snapshot.since(self.number)
        if deltas is None:
            return False
        for delta in deltas:
            changes = delta.changes()
            for name in changes.removed:
                self.engine.remove(name)
            for entry in changes.added:
                self._add(entry)
            self.number = delta.number
        return True

    def settle(self) -> None:
        """Now and then, let the collector pass over what the engine has learned of the feed, too;
        but not over what it has let go of.
        """
        self._uses += 1
        if self._uses % _SETTLED and self._uses != _SETTLED_FIRST:
            return
        if self.engine.renewals != self._renewals:
            self._renewals = self.engine.renewals
            gc.unfreeze()
            gc.collect()
        gc.freeze()

    def _add(self, entry: Entry) -> None:
        try:
            query = parse(entry.query, self.limits.query)
            self.engine.add(Recipient(entry, self.names), query, OutputFormat(entry.format))
        except QueryError as error:
            # The registry has checked it; a worker with other code or limits must not die of it.
            _LOGGER.error("%s can't be added: %s", entry.name, error)
            self.engine.remove(entry.name)


_state: EngineState | None = None


def engine_at(
    snapshot: Snapshot, limits: EngineLimits, names: TopicNames, counts: Counts | None = None
) -> EngineState:
    """The engine of the worker that this runs in, brought to a snapshot."""
    global _state  # noqa: PLW0603 - one for each worker process, that is what it is for
    state = _state
    started = time.monotonic()
    number = -1 if state is None else state.number
    if state is None or state.limits != limits or not state.follow(snapshot):
        _state = state = None  # free the old one before the new one is built
        if TaskContext.get() is not None:
            log_to_spark()
        gc.unfreeze()
        gc.collect()
        pa.array([0])  # for its first one pyarrow imports pandas, which takes a second and stays
        state = EngineState(snapshot, limits, names)
        followed = state.follow(snapshot)
        assert followed, "a snapshot leads from its base to itself"
        # Spark collects all garbage after each task: it need not walk over what stays. And Python
        # need not look for garbage while messages come and go: what they leave is freed at once.
        keep_loaded()
        gc.set_threshold(_GARBAGE, 20, 100)
        _state = state
        if counts is not None:
            counts["engine_builds"] = 1
            counts["engine_build_seconds"] = time.monotonic() - started
    elif counts is not None and state.number != number:
        counts["reloads"] = 1
        counts["reload_seconds"] = time.monotonic() - started
    state.settle()
    return state

"""The engine of a Python worker: built once, then kept up with the snapshots of batches.

It lives in a global of this module, which Spark's workers import once and keep from batch to batch.
"""

import gc
import logging
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.engine import Engine
from broker.errors import QueryError
from broker.limits import MessageLimits, QueryLimits, ResultLimits
from broker.message_factory import OutputFormat
from broker.query import parse
from streaming_jobs.snapshot import Entry, Snapshot
from streaming_jobs.statistics import Counts

_LOGGER = logging.getLogger(__name__)
_PROGRESS_EVERY = 10_000


@dataclass(frozen=True)
class EngineLimits:
    """The limits of all that an engine does."""

    query: QueryLimits = field(default_factory=QueryLimits)
    message: MessageLimits = field(default_factory=MessageLimits)
    result: ResultLimits = field(default_factory=ResultLimits)


class Recipient(NamedTuple):
    """A subscription as results are addressed to it: what all of them have alike."""

    name: str
    subscriber: str
    format: str
    subscription: bytes
    version: bytes
    identity: bytes
    """What a delivery's id is made of, beside the source record."""
    size: int
    """What it adds to the size of each record."""

    @classmethod
    def of(cls, entry: Entry) -> "Recipient":
        """The recipient for an entry of a snapshot."""
        name, version = entry.name.encode(), str(entry.version).encode()
        subscriber = entry.name.partition("/")[0]
        identity = b"\n%b\n%b" % (name, version)
        size = len(name) + len(version)
        return cls(entry.name, subscriber, entry.format, name, version, identity, size)


class EngineState:
    """An engine, and the snapshot that it is at."""

    def __init__(self, snapshot: Snapshot, limits: EngineLimits) -> None:
        self.limits = limits
        self.engine = Engine(message_limits=limits.message, result_limits=limits.result)
        self.recipients: dict[str, Recipient] = {}
        self.job = snapshot.job
        self.number = snapshot.base_number
        started = time.monotonic()
        entries = snapshot.entries()
        for count, entry in enumerate(entries, start=1):
            self._add(entry)
            if count % _PROGRESS_EVERY == 0:
                _LOGGER.info("building the engine: %d of %d subscriptions", count, len(entries))
        if entries:
            spent = time.monotonic() - started
            _LOGGER.info("built the engine: %d subscriptions in %.1f s", len(entries), spent)

    def follow(self, snapshot: Snapshot) -> bool:
        """Apply what is new in a snapshot; False if there is no way there from here."""
        if snapshot.job != self.job:
            return False
        deltas = snapshot.since(self.number)
        if deltas is None:
            return False
        for delta in deltas:
            for name in delta.removed:
                self.engine.remove(name)
                self.recipients.pop(name, None)
            for entry in delta.added:
                self._add(entry)
            self.number = delta.number
        return True

    def _add(self, entry: Entry) -> None:
        try:
            query = parse(entry.query, self.limits.query)
            self.engine.add(entry.name, query, OutputFormat(entry.format))
        except QueryError as error:
            # The registry has checked it; a worker with other code or limits must not die of it.
            _LOGGER.error("%s can't be added: %s", entry.name, error)
            self.engine.remove(entry.name)
            self.recipients.pop(entry.name, None)
            return
        self.recipients[entry.name] = Recipient.of(entry)


_state: EngineState | None = None


def engine_at(
    snapshot: Snapshot, limits: EngineLimits, counts: Counts | None = None
) -> EngineState:
    """The engine of the worker that this runs in, brought to a snapshot."""
    global _state  # noqa: PLW0603 - one for each worker process, that is what it is for
    state = _state
    started = time.monotonic()
    number = -1 if state is None else state.number
    if state is None or state.limits != limits or not state.follow(snapshot):
        _state = None  # free the old one before the new one is built
        state = EngineState(snapshot, limits)
        followed = state.follow(snapshot)
        assert followed, "a snapshot leads from its base to itself"
        # Spark collects all garbage after each task: it need not walk over what stays.
        gc.collect()
        gc.freeze()
        _state = state
        if counts is not None:
            counts["engine_builds"] = 1
            counts["engine_build_seconds"] = time.monotonic() - started
    elif counts is not None and state.number != number:
        counts["reloads"] = 1
        counts["reload_seconds"] = time.monotonic() - started
    return state

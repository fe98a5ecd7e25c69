"""The two topics as ports, and both in memory.

`kafka_log.py` has them on Kafka. The doubles here behave the same, gaps and compaction included,
and are part of the package so that whoever builds on it can test without Kafka.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from subscriptions.model import Status


class LogRecord(NamedTuple):
    """One record of the subscription topic."""

    offset: int
    key: bytes | None
    value: bytes | None
    """None deletes; an empty value does not."""
    timestamp_ms: int


MOST_POLLED = 50
"""So many records come of one `poll`: batches wait while they are taken, and not for long."""


class SubscriptionLog(Protocol):
    """The subscription topic: one partition, so that an offset is a version of all of it.

    Offsets rise and have gaps: compaction drops records, and a transaction takes an offset.
    A log belongs to one thread.
    """

    def append(self, key: bytes, value: bytes | None) -> int:
        """Write a record; its offset, once it can't be lost any more."""
        ...

    def append_all(self, records: Iterable[tuple[bytes, bytes | None]]) -> list[int]:
        """Write many records without waiting for each; their offsets."""
        ...

    def end(self) -> int:
        """The offset that the next record will have or exceed."""
        ...

    def read(self, start: int = 0, end: int | None = None) -> Iterator[LogRecord]:
        """The records from `start` on, up to but not including `end`: by default the end as it is
        at the call.
        """
        ...

    def follow(self, start: int) -> None:
        """Let `poll` go on from here."""
        ...

    def poll(self, timeout: float = 0.0) -> list[LogRecord]:
        """Some of the records that follow, oldest first, `MOST_POLLED` at most; waits up to so many
        seconds for one.
        """
        ...

    def close(self) -> None:
        """Let go of connections; more than once does no harm."""
        ...


class StatusLog(Protocol):
    """The status topic: the last status of each key."""

    def publish(self, key: bytes, status: Status) -> None:
        """Write a status. It is sure to be there after `flush`."""
        ...

    def forget(self, key: bytes) -> None:
        """Let there be no status of a key, after `flush`."""
        ...

    def flush(self) -> None:
        """Wait until all that was published is there; raises if something can't be."""
        ...

    def read_all(self) -> dict[bytes, Status]:
        """The last status of each key. What is no status is passed over."""
        ...

    def close(self) -> None:
        """Let go of connections; more than once does no harm."""
        ...


class InMemoryLog:
    """A subscription topic in memory. Other threads may append."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._records: list[LogRecord] = []
        self._end = 0
        self._next = 0
        self._changed = threading.Condition()

    def append(self, key: bytes | None, value: bytes | None) -> int:
        """Write a record."""
        with self._changed:
            record = LogRecord(self._end, key, value, int(self._clock() * 1000))
            self._records.append(record)
            self._end += 1
            self._changed.notify_all()
            return record.offset

    def append_all(self, records: Iterable[tuple[bytes, bytes | None]]) -> list[int]:
        """Write many records."""
        return [self.append(key, value) for key, value in records]

    def end(self) -> int:
        """The offset of the next record."""
        return self._end

    def read(self, start: int = 0, end: int | None = None) -> Iterator[LogRecord]:
        """The records of an interval of offsets, as they are at the call."""
        last = self._end if end is None else end
        return iter([each for each in self._records if start <= each.offset < last])

    def follow(self, start: int) -> None:
        """Let `poll` go on from here."""
        self._next = start

    def poll(self, timeout: float = 0.0) -> list[LogRecord]:
        """The records that follow."""
        with self._changed:
            if timeout > 0:
                self._changed.wait_for(lambda: self._end > self._next, timeout)
            records = list(islice(self.read(self._next), MOST_POLLED))
            self._next = records[-1].offset + 1 if len(records) == MOST_POLLED else self._end
            return records

    def compact(self, before: int | None = None, *, keep_tombstones: bool = False) -> None:
        """Drop what a later record of the same key makes superfluous, as Kafka's cleaner does.

        `before` is the first offset that it leaves alone, for records that are younger than
        `min.compaction.lag.ms`. Tombstones go too, as they do after `delete.retention.ms`.
        """
        with self._changed:
            limit = self._end if before is None else before
            last = {each.key: each.offset for each in self._records if each.offset < limit}
            self._records = [
                each
                for each in self._records
                if each.offset >= limit
                or (last[each.key] == each.offset and (each.value is not None or keep_tombstones))
            ]

    def close(self) -> None:
        """There is nothing to let go of."""


class InMemoryStatusLog:
    """A status topic in memory. Statuses pass through their bytes, as they do on Kafka."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._buffer: list[tuple[bytes, bytes | None]] = []
        self.published: list[tuple[bytes, Status]] = []
        """All that was ever published, oldest first."""

    def publish(self, key: bytes, status: Status) -> None:
        """Write a status."""
        self._buffer.append((key, status.to_bytes()))

    def forget(self, key: bytes) -> None:
        """Delete a status."""
        self._buffer.append((key, None))

    def flush(self) -> None:
        """Make what was published visible."""
        for key, value in self._buffer:
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
                self.published.append((key, Status.parse(value)))
        self._buffer.clear()

    def read_all(self) -> dict[bytes, Status]:
        """The last status of each key."""
        return {key: Status.parse(value) for key, value in self._values.items()}

    def close(self) -> None:
        """There is nothing to let go of."""

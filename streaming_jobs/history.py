"""Which batch had a message, and what it judged it by: read off a checkpoint on this machine.

Spark keeps the offsets of its last hundred batches, and the broker their pins (`pins.py`).
"""

import json
from pathlib import Path
from typing import NamedTuple

from streaming_jobs.pins import DIRECTORY, Pin, Pins
from streaming_jobs.storage import LocalStorage


class Judged(NamedTuple):
    """A batch, and what it used."""

    batch: int
    pin: Pin
    is_committed: bool


class BatchHistory:
    """The batches of a checkpoint that are still known."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._pins = Pins(LocalStorage(checkpoint / DIRECTORY))

    def find(self, topic: str, partition: int, offset: int) -> Judged | None:
        """The batch that had a message; None if there is none yet, or it is too long ago."""
        batches = self._numbers("offsets")
        for before, batch in zip([None, *batches], batches, strict=False):
            if offset >= self._end(batch, topic, partition):
                continue
            is_first_known = before is None and batch > 0
            if is_first_known or (before is not None and before != batch - 1):
                return None  # it may have been in one that is gone
            pin = self._pins.read(batch)
            if pin is None:
                return None
            return Judged(batch, pin, batch in self._numbers("commits"))
        return None

    def end(self, topic: str, partition: int) -> int:
        """The first offset that no committed batch has."""
        done = self._numbers("commits")
        return self._end(done[-1], topic, partition) if done else 0

    def _numbers(self, log: str) -> list[int]:
        directory = self._checkpoint / log
        return sorted(int(each.name) for each in directory.glob("*") if each.name.isdigit())

    def _end(self, batch: int, topic: str, partition: int) -> int:
        try:
            lines = (self._checkpoint / "offsets" / str(batch)).read_text().splitlines()
            # A version, the settings of the query, and a line for each source.
            read = json.loads(lines[2])
            return int(read[topic][str(partition)])
        except (OSError, ValueError, LookupError):
            return 0

"""Which batch had which messages and which subscriptions, as the checkpoint has it.

Spark keeps the logs of a hundred batches, and so does the broker; `Batches` remembers what it has
seen, and makes sure that nothing that was written down once is another thing later.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tests.faults.ledger import Place

Ends = dict[tuple[str, int], int]
"""The first offset that is not read, for each partition."""


class Judgement(NamedTuple):
    """What a batch judged its messages by."""

    batch: int
    version: int
    moment: datetime
    suspended: frozenset[str]


class Batches:
    """All batches of a checkpoint that were seen."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._ends: dict[int, Ends] = {}
        self._pins: dict[int, bytes] = {}

    def collect(self) -> None:
        """Take in what is there; to be called at least once in a hundred batches."""
        for batch, data in _read(self._checkpoint / "offsets"):
            ends = _parse_offsets(data.decode())
            assert self._ends.setdefault(batch, ends) == ends, f"batch {batch} has other messages"
        for batch, pin in _read(self._checkpoint / "xmlbroker-pins", ".json"):
            assert self._pins.setdefault(batch, pin) == pin, f"batch {batch} has another version"
        missing = set(range(max(self._ends, default=-1) + 1)) - set(self._ends)
        assert not missing, f"collect was called too rarely: {missing} are gone"

    def committed(self) -> Ends:
        """How far the job has come."""
        # First what is done: a batch may be begun and done while others are looked at.
        done = [batch for batch, _ in _numbered(self._checkpoint / "commits")]
        self.collect()
        return self._ends[max(done)] if done else {}

    def __len__(self) -> int:
        return len(self._ends)

    def of(self, place: Place) -> int | None:
        """The batch of a message."""
        line = (place.topic, place.partition)
        for batch in sorted(self._ends):
            if place.offset < self._ends[batch].get(line, 0):
                return batch
        return None

    def judgement(self, place: Place) -> Judgement | None:
        """What a message was judged by."""
        batch = self.of(place)
        if batch is None or batch not in self._pins:
            return None
        pin = json.loads(self._pins[batch])
        return Judgement(
            batch,
            pin["version"],
            datetime.fromisoformat(pin["time"]),
            frozenset(pin["suspended"]),
        )

    def versions(self) -> list[int]:
        """The versions of the batches, in order."""
        return [json.loads(self._pins[batch])["version"] for batch in sorted(self._pins)]


def _numbered(directory: Path, suffix: str = "") -> list[tuple[int, Path]]:
    if not directory.is_dir():
        return []
    files = [each for each in directory.iterdir() if each.suffix == suffix and each.stem.isdigit()]
    return sorted((int(each.stem), each) for each in files)


def _read(directory: Path, suffix: str = "") -> Iterator[tuple[int, bytes]]:
    """What files hold; old ones may go meanwhile, which were seen before."""
    for batch, file in _numbered(directory, suffix):
        with suppress(FileNotFoundError):
            yield batch, file.read_bytes()


def _parse_offsets(text: str) -> Ends:
    """Spark's offset log: a version, the settings of the query, and a line for each source."""
    source = json.loads(text.splitlines()[2])
    return {
        (topic, int(partition)): end
        for topic, partitions in source.items()
        for partition, end in partitions.items()
    }

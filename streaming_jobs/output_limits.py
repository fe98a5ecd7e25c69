"""What output topics take: a row that one does not take fails its task, and with it the batch."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class OutputLimits:
    """How large records may be, and which need a key."""

    usual: int
    """The bytes of a record that topics take, as far as nothing else is known."""
    largest: Mapping[str, int] = field(default_factory=dict)
    """How large dead letters may be, and records of topics that are known to take less."""
    keyed: frozenset[str] = frozenset()
    """Topics that are compacted: they take no record without a key."""

    def largest_record(self, topic: str) -> int:
        """How large a record of a topic may be."""
        return self.largest.get(topic, self.usual)

    @property
    def smallest(self) -> int:
        """How large a record may be that any topic takes."""
        return min(self.usual, *self.largest.values(), self.usual)

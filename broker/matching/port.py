"""What every matching engine offers, as little as they all allow.

An engine knows queries by numbers, which it gives out itself: equal queries have one number and
cost one. Who subscribes to a number is not its business.
"""

from dataclasses import dataclass, field
from typing import Protocol

from broker.documents import Message
from broker.matching.match_set import MatchSet
from broker.metrics import CacheUse
from broker.query import Filter


@dataclass(frozen=True, slots=True)
class Description:
    """An engine's size and shape."""

    engine: str
    queries: int
    states: int
    cached_states: int
    cached_bytes: int
    active_states: int
    """How many states its queries can keep active at once, summed up."""
    cache_demand: int
    """How many bytes of the cache they can demand for one label path, summed up."""
    cache_use: CacheUse = field(default_factory=CacheUse, compare=False)
    """How often the cache had what messages asked for, since the engine was made."""


class Engine(Protocol):
    """A set of filters that messages are matched against."""

    def add(self, query: Filter) -> int:
        """Take a filter; effective with the next message. Equal filters get equal numbers."""
        ...

    def remove(self, number: int) -> None:
        """Drop a filter, once for each time that it was added; effective with the next message."""
        ...

    def match(self, message: Message) -> MatchSet:
        """The numbers of the filters that take a message."""
        ...

    def describe(self) -> Description:
        """Its size and shape now."""
        ...

"""Which subscriptions take most time and bytes, lately.

They are no labels of metrics, since there may be a hundred thousand of them. What each batch was
busiest with is summed up here with a memory that fades, so that a name that is not seen again goes.
"""

import heapq
import math
from collections.abc import Callable, Mapping
from operator import itemgetter
from time import monotonic

HALF_LIFE_SECONDS = 60.0
_MOST_NAMES = 500


class Fading:
    """Amounts by name, each of which counts half after a minute.

    Instead of all that there is becoming less, what is added counts more, the later it is.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._amounts: dict[str, float] = {}
        """What each would be at the beginning."""
        self._since = clock()
        """The beginning; a later one now and then, before numbers become too large."""

    def add(self, amounts: Mapping[str, float]) -> None:
        """Count some more."""
        weight = self._weight()
        for name, amount in amounts.items():
            self._amounts[name] = self._amounts.get(name, 0.0) + amount * weight
        if len(self._amounts) > _MOST_NAMES:
            self._amounts = dict(self._largest(_MOST_NAMES // 2))

    def most(self, count: int) -> list[tuple[str, float]]:
        """The largest, each with about how much it is a second."""
        a_second = math.log(2) / HALF_LIFE_SECONDS / self._weight()
        return [(name, amount * a_second) for name, amount in self._largest(count)]

    def _largest(self, count: int) -> list[tuple[str, float]]:
        return heapq.nlargest(count, self._amounts.items(), key=itemgetter(1))

    def _weight(self) -> float:
        """How much what is added now counts at the beginning."""
        now = self._clock()
        half_lives = (now - self._since) / HALF_LIFE_SECONDS
        if abs(half_lives) < 1.0:
            return float(2.0**half_lives)
        # A clock may be set back, or forward by years.
        factor = 0.5 ** min(max(half_lives, 0.0), 1_000.0)
        self._since = now
        self._amounts = {name: amount * factor for name, amount in self._amounts.items()}
        return 1.0


def largest(amounts: Mapping[str, float], count: int) -> dict[str, float]:
    """The largest of some amounts: what a worker tells of a batch."""
    if len(amounts) <= count:
        return dict(amounts)
    return dict(heapq.nlargest(count, amounts.items(), key=itemgetter(1)))

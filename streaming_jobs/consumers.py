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
    """Amounts by name, each of which counts half after a minute."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._amounts: dict[str, float] = {}
        self._since = clock()

    def add(self, amounts: Mapping[str, float]) -> None:
        """Count some more."""
        self._fade()
        for name, amount in amounts.items():
            self._amounts[name] = self._amounts.get(name, 0.0) + amount
        if len(self._amounts) > _MOST_NAMES:
            self._amounts = dict(self._largest(_MOST_NAMES // 2))

    def most(self, count: int) -> list[tuple[str, float]]:
        """The largest, each with about how much it is a second."""
        self._fade()
        a_second = math.log(2) / HALF_LIFE_SECONDS
        return [(name, amount * a_second) for name, amount in self._largest(count)]

    def _largest(self, count: int) -> list[tuple[str, float]]:
        return heapq.nlargest(count, self._amounts.items(), key=itemgetter(1))

    def _fade(self) -> None:
        now = self._clock()
        factor = 0.5 ** ((now - self._since) / HALF_LIFE_SECONDS)
        self._since = now
        if factor < 1.0:
            for name in self._amounts:
                self._amounts[name] *= factor


def largest(amounts: Mapping[str, float], count: int) -> dict[str, float]:
    """The largest of some amounts: what a worker tells of a batch."""
    if len(amounts) <= count:
        return dict(amounts)
    return dict(heapq.nlargest(count, amounts.items(), key=itemgetter(1)))

"""What each transformation costs, found out by samples.

To ask a clock before and after each result would take a good part of what a result takes. So that
is done for one message in a few, and the others are taken to be like it.
"""

from collections.abc import Iterator
from heapq import nlargest
from itertools import islice
from operator import itemgetter
from time import perf_counter

from broker.delivery import Deliveries, Transformation
from broker.errors import ResultError
from broker.results import Result

SAMPLED = 128
"""One message in so many, however few of them come between two questions."""

_SECONDS = 1.0
"""After so long without a sample, the next message is one: there is time enough."""

Outcomes = Iterator[tuple[Transformation, Result | ResultError]]
"""Transformations with their results, which are made as they are asked for."""


class Costs:
    """The seconds that results take."""

    def __init__(self) -> None:
        self._seconds: dict[Transformation, float] = {}
        self._begun = 0
        """Messages since it was last time for a sample: the first of them is one."""
        self._last = 0.0
        """When the last sample was."""
        self._messages = self._samples = 0
        """Since costs were last told."""
        self._sampled = self._serialising = 0.0
        """What samples took since the beginning, and the part of it that was making bytes."""

    @property
    def share_of_serialising(self) -> float:
        """Which part of the time of results it takes to make their bytes."""
        return self._serialising / self._sampled if self._sampled else 0.0

    def begin(self) -> bool:
        """Another message begins; whether it is a sample."""
        self._messages += 1
        self._begun += 1
        return self._begun % SAMPLED == 1

    def sample(self, outcomes: Outcomes, deliveries: Deliveries) -> int:
        """Make all results of a message, with a look at the clock for each; how many there were."""
        seconds = self._seconds
        self._samples += 1
        count = 0
        self._last = before = perf_counter()
        for transformation, result in outcomes:
            made = perf_counter()
            deliveries.add_result(transformation, result)
            after = perf_counter()
            self._serialising += after - made
            self._sampled += after - before
            seconds[transformation] = seconds.get(transformation, 0.0) + after - before
            before = after
            count += 1
        return count

    def forget(self, transformation: Transformation) -> None:
        """Nobody subscribes to it any more."""
        self._seconds.pop(transformation, None)

    def tell(self, most: int) -> dict[str, float]:
        """The seconds of the subscriptions that took most by themselves since this was last asked.

        What all share, parsing and matching, is nobody's; equal transformations share theirs.
        Messages without a sample among them are told of with the next one.
        """
        if perf_counter() - self._last > _SECONDS:
            self._begun = 0
        if not self._samples:
            return {}
        scale = self._messages / self._samples
        shares = [
            (seconds * scale / len(transformation.subscribers), transformation.subscribers)
            for transformation, seconds in self._seconds.items()
        ]
        self._seconds.clear()
        self._messages = self._samples = 0
        costs: dict[str, float] = {}
        for share, subscribers in nlargest(most, shares, key=itemgetter(0)):
            costs.update(dict.fromkeys(islice(subscribers, most - len(costs)), share))
        return costs

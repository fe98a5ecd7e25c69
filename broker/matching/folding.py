"""Folding: several automata into one, a little at a time.

The automaton that is made gets the filters of those that are folded, without the dead ones, some
with each step; then the label paths that they have at hand, one with each step, so that it is as
warm as they are. Until it is complete, those that are folded go on.
"""

import heapq
from collections.abc import Container, Iterator

from broker.matching.automaton import Automaton
from broker.matching.fresh import Fresh

Filters = Automaton | Fresh
"""What can be folded."""

_QUERIES_A_STEP = 4
"""A fraction of what matching a message costs."""

_RATIO = 4
"""Automata are folded with others that are up to so many times as large."""


def choose(settled: list[Filters]) -> list[Filters]:
    """The automata that are to be folded next, none if all are as they should be.

    Small ones are folded into larger ones of about their size, so that a filter is moved a number
    of times that grows with the logarithm of their number; any one when many in it are dead.
    """
    by_size = sorted(settled, key=len)
    for first, smallest in enumerate(by_size):
        chosen = [smallest]
        together = len(smallest)
        for automaton in by_size[first + 1 :]:
            if len(automaton) > _RATIO * together:
                break
            chosen.append(automaton)
            together += len(automaton)
        if len(chosen) > 1:
            return chosen
    return [each for each in settled if is_due(each) or isinstance(each, Fresh)][:1]


def is_due(automaton: Filters) -> bool:
    """Whether so many filters of an automaton are dead that it should be made anew."""
    return len(automaton.dead) * _RATIO > len(automaton)


class Folding:
    """One folding that is under way."""

    def __init__(self, folded: list[Filters], made: Automaton, alive: Container[int]) -> None:
        self.folded = folded
        self.made = made
        self.alive = alive
        """The numbers that are not dead; they change while folding is under way."""
        self._work = self._steps()

    def advance(self) -> bool:
        """Do one step; True when all is done."""
        return next(self._work, None) is None

    def _steps(self) -> Iterator[bool]:
        # Numbers rise in each automaton, and have to in the one that is made.
        filters = heapq.merge(
            *(zip(each.numbers, each.queries, strict=True) for each in self.folded)
        )
        for done, (number, query) in enumerate(filters, start=1):
            if number in self.alive:
                self.made.add(number, query)
            if done % _QUERIES_A_STEP == 0:
                yield True
        tables = [each.labels for each in self.folded if each.labels is not None]
        if not tables:
            return
        table = tables[0]
        # Parents have smaller numbers than their children, so each step makes one entry.
        for label in sorted({label for each in self.folded for label in each.at_hand}):
            if any(each.labels not in (None, table) for each in self.folded):
                return  # the feed goes on with another table
            self.made.warm(table, label)
            yield True

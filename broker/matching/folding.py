"""Folding: several automata into one, a little at a time.

The automaton that is made gets the filters of those that are folded, without the dead ones, some
with each step; then the label paths that they have at hand, one with each step, so that it is as
warm as they are. Until it is complete, those that are folded go on.
"""

from collections.abc import Iterator

from broker.matching.automaton import Automaton

_QUERIES_A_STEP = 16
"""About as much work as matching one message."""

_RATIO = 4
"""Automata are folded with others that are up to so many times as large."""


def choose(settled: list[Automaton], dead: set[int]) -> list[Automaton]:
    """The automata that are to be folded next, none if all are as they should be.

    Small ones are folded into larger ones of about their size, so that a filter is moved a number
    of times that grows with the logarithm of their number; large ones when many in them are dead.
    """
    by_size = sorted(settled, key=len)
    chosen: list[Automaton] = []
    together = 0
    for automaton in by_size:
        if chosen and len(automaton) > _RATIO * together:
            break
        chosen.append(automaton)
        together += len(automaton)
    if len(chosen) > 1:
        return chosen
    if settled and len(dead) * _RATIO > sum(map(len, settled)):
        most = max(settled, key=lambda each: len(dead & each.queries.keys()))
        return [most] if not dead.isdisjoint(most.queries) else []
    return []


class Folding:
    """One folding that is under way."""

    def __init__(self, folded: list[Automaton], made: Automaton) -> None:
        self.folded = folded
        self.made = made
        self._work = self._steps()
        self._dead: set[int] = set()

    def advance(self, dead: set[int]) -> bool:
        """Do one step; True when all is done."""
        self._dead = dead
        return next(self._work, None) is None

    def _steps(self) -> Iterator[bool]:
        done = 0
        for automaton in self.folded:
            for number, query in automaton.queries.items():
                if number not in self._dead:
                    self.made.add(number, query)
                    done += 1
                    if done % _QUERIES_A_STEP == 0:
                        yield True
        caches = [automaton.determinised for automaton in self.folded]
        labels = next((cache.labels for cache in caches if cache.labels is not None), None)
        if labels is None:
            return
        # Parents have smaller numbers than their children, so each step makes one entry.
        at_hand = sorted({label for cache in caches for label in cache.young})
        for label in at_hand:
            if any(cache.labels is not labels for cache in caches):
                return  # the feed goes on with another table
            self.made.warm(labels, label)
            yield True

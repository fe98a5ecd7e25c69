"""How things are timed: in turn, many times, and compared round by round.

A machine swings by a factor of two within minutes, and both sides of a ratio swing with it when
they are timed one after the other. So a round runs all contestants in turn, on a few items at a
time, and what is reported is the median over the rounds of each round's ratio.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

_SLICES = 20


@dataclass(frozen=True)
class Timing:
    """A contestant's times per item, in microseconds, and its ratio to the first contestant."""

    name: str
    microseconds: float
    ratio: float
    ratio_low: float
    ratio_high: float


def compare(
    contestants: Mapping[str, Callable[[T], object]],
    items_of: Callable[[int], Sequence[T]],
    rounds: int,
) -> list[Timing]:
    """Time the contestants on the items of each round. The first one is the yardstick.

    They take turns within a round as well, slice by slice, so that a disturbance hits all; and in
    either order, so that each comes as often to what the other has brought into the caches.
    """
    names = list(contestants)
    _time(contestants, items_of(0), 0)
    settle()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(1, rounds + 1):
        progress(f"round {number} of {rounds}")
        items = items_of(number)
        gc.collect()
        for name, spent in _time(contestants, items, number).items():
            seconds[name].append(spent / len(items))
    progress("")
    timings = []
    for name in names:
        ratios = sorted(
            own / base for own, base in zip(seconds[name], seconds[names[0]], strict=True)
        )
        timings.append(
            Timing(
                name,
                statistics.median(seconds[name]) * 1e6,
                statistics.median(ratios),
                ratios[len(ratios) // 10],
                ratios[-1 - len(ratios) // 10],
            )
        )
    return timings


def _time(
    contestants: Mapping[str, Callable[[T], object]], items: Sequence[T], number: int
) -> dict[str, float]:
    """The seconds that each contestant takes for the items of a round."""
    seconds = dict.fromkeys(contestants, 0.0)
    size = max(1, len(items) // _SLICES)
    turns = list(contestants.items())
    if number % 2:
        turns.reverse()
    for start in range(0, len(items), size):
        part = items[start : start + size]
        turns.reverse()
        for name, run in turns:
            started = time.perf_counter()
            for item in part:
                run(item)
            seconds[name] += time.perf_counter() - started
    return seconds


def settle() -> None:
    """Let the collector leave alone what was loaded: it stays, and would only be walked over."""
    gc.collect()
    gc.freeze()


def progress(text: str) -> None:
    """Say what is going on, on a terminal. By no thread of its own: it would be timed, too."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

"""How things are timed: in turn, many times, and compared round by round.

A machine swings by a factor of two within minutes, and both sides of a ratio swing with it when
they are timed one after the other. So a round runs all contestants, and what is reported is the
median over the rounds of each round's ratio.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """A contestant's times per item, in microseconds, and its ratio to the first contestant."""

    name: str
    microseconds: float
    ratio: float
    ratio_low: float
    ratio_high: float


def compare(
    contestants: Mapping[str, Callable[[], object]], items: int, rounds: int
) -> list[Timing]:
    """Time the contestants in turn; each handles `items` items. The first is the yardstick."""
    names = list(contestants)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for run in contestants.values():
        run()
    for _ in range(rounds):
        for name, run in contestants.items():
            gc.collect()
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    timings = []
    for name in names:
        ratios = sorted(
            own / base for own, base in zip(seconds[name], seconds[names[0]], strict=True)
        )
        timings.append(
            Timing(
                name,
                statistics.median(seconds[name]) / items * 1e6,
                statistics.median(ratios),
                ratios[len(ratios) // 10],
                ratios[-1 - len(ratios) // 10],
            )
        )
    return timings

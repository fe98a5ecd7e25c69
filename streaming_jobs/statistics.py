"""What the workers did, brought to the driver with each batch.

An accumulator: it is complete when the write returns, and attempts that failed don't count.
"""

import resource
from pathlib import Path

from pyspark import Accumulator, AccumulatorParam, SparkContext

Counts = dict[str, float]
"""Numbers by name; what is after a colon in a name is a label."""

_LARGEST = {"worker_memory", "engine", "transformations"}
"""Of these the largest counts, not the sum: each worker has all of it."""


class Collected:
    """What the workers tell of one action after the other.

    One accumulator for all of them: PySpark keeps each that is made while the driver lives.
    """

    def __init__(self, context: SparkContext) -> None:
        self._accumulator = context.accumulator({}, CountsParam())

    def anew(self) -> "Accumulator[Counts]":
        """For the next action; what late tasks of one that failed say, Spark passes over."""
        self._accumulator.value = {}
        return self._accumulator

    @property
    def counts(self) -> Counts:
        """What was told of the last action."""
        return self._accumulator.value


class CountsParam(AccumulatorParam[Counts]):
    """Adds dictionaries of numbers."""

    def zero(self, value: Counts) -> Counts:
        """Nothing counted."""
        return dict.fromkeys(value, 0.0)

    def addInPlace(self, value1: Counts, value2: Counts) -> Counts:  # noqa: N802 - Spark's name
        """Both together, in the first."""
        for name, number in value2.items():
            known = value1.get(name, 0.0)
            is_largest = name.partition(":")[0] in _LARGEST
            value1[name] = max(known, number) if is_largest else known + number
        return value1


def resident_bytes(process: int | None = None) -> int:
    """How much memory a process has now, this one without a number.

    Where that is not known: at most, for this one, and 0 for others.
    """
    try:
        pages = int(Path(f"/proc/{process or 'self'}/statm").read_text().split()[1])
    except OSError:
        if process is not None:
            return 0
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()

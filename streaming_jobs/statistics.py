"""What the workers did, brought to the driver with each batch.

An accumulator: it is complete when the write returns, and attempts that failed don't count.
"""

from pyspark import AccumulatorParam

Counts = dict[str, float]


class CountsParam(AccumulatorParam[Counts]):
    """Adds dictionaries of numbers."""

    def zero(self, value: Counts) -> Counts:
        """Nothing counted."""
        return dict.fromkeys(value, 0.0)

    def addInPlace(self, value1: Counts, value2: Counts) -> Counts:  # noqa: N802 - Spark's name
        """Both together, in the first."""
        for name, number in value2.items():
            value1[name] = value1.get(name, 0.0) + number
        return value1

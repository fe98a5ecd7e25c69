"""Functions over frame after frame: as `DataFrame.mapInArrow` does it, but prepared once."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

from streaming_jobs.arrow_map import ArrowMap

VARIABLE = "XB_TEST_ADDED"


@dataclass(frozen=True)
class Add:
    """Adds a number, and what the environment of the workers says."""

    number: int
    pickled: ClassVar[list[int]] = []

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        added = self.number + int(os.environ.get(VARIABLE, "0"))
        for batch in batches:
            sums = pc.add(batch.column("id"), added)
            yield pa.RecordBatch.from_arrays([sums], names=["sum"])

    def __reduce__(self) -> tuple[type["Add"], tuple[int]]:
        self.pickled.append(self.number)
        return Add, (self.number,)


@pytest.fixture
def mapping() -> Iterator[ArrowMap]:
    Add.pickled.clear()
    yield ArrowMap(["id"], "sum long")
    Add.pickled.clear()


def sums(rows: DataFrame) -> list[int]:
    return sorted(row["sum"] for row in rows.collect())


def test_a_function_is_prepared_when_it_is_another_one(
    spark: SparkSession, mapping: ArrowMap
) -> None:
    for number in (1, 1, 2, 2, 1):
        first = 10 * len(Add.pickled)
        rows = spark.range(first, first + 3, numPartitions=2)
        assert sums(mapping.over(rows, Add(number))) == [first + number + each for each in range(3)]
    assert Add.pickled == [1, 2, 1]


def test_the_environment_of_the_workers_counts(
    spark: SparkSession, mapping: ArrowMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.range(1, numPartitions=1)
    assert sums(mapping.over(rows, Add(1))) == [1]
    monkeypatch.setitem(spark.sparkContext.environment, VARIABLE, "5")
    assert sums(mapping.over(rows, Add(1))) == [6]
    assert sums(mapping.over(rows, Add(1))) == [6]
    assert Add.pickled == [1, 1]


def test_columns_come_by_their_names(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, 2, 3)], "a long, id long, c long")
    assert sums(ArrowMap(["id"], "sum long").over(rows, Add(0))) == [2]

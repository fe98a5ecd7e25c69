"""Has every Python worker build its engine before there are messages for it."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import SparkSession

from streaming_jobs.snapshot import Snapshot, Stored, received
from streaming_jobs.statistics import Counts
from streaming_jobs.worker import EngineLimits, engine_at
from subscriptions.topic_names import TopicNames

_LINGER_SECONDS = 0.1
"""Tasks last so long that no worker does two of them."""


@dataclass(frozen=True)
class _WarmUp:
    """Runs in the workers."""

    stored: Stored
    limits: EngineLimits
    names: TopicNames
    counts: "Accumulator[Counts]"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counts: Counts = {}
            engine_at(received(self.stored), self.limits, self.names, counts)
            self.counts.add(counts)
            time.sleep(_LINGER_SECONDS)
            yield batch


def warm_up(
    spark: SparkSession,
    snapshot: Snapshot,
    limits: EngineLimits,
    names: TopicNames,
    counts: "Accumulator[Counts]",
) -> None:
    """Bring the engines of all workers to a snapshot; what that took is counted."""
    tasks = spark.sparkContext.defaultParallelism
    numbers = spark.range(0, tasks, 1, tasks)
    snapshot.send(spark.sparkContext)
    warmed = numbers.mapInArrow(_WarmUp(snapshot.stored, limits, names, counts), "id bigint")
    warmed.write.format("noop").mode("overwrite").save()

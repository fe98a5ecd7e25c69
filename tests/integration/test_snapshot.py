"""Changes of subscriptions on their way through Spark: every worker gets to what a batch uses."""

import json
import os
import random
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from streaming_jobs import snapshot as snapshot_module
from streaming_jobs.snapshot import Snapshot, Snapshots, Stored, received
from streaming_jobs.worker import EngineLimits, Recipient, engine_at
from subscriptions.topic_names import TopicNames
from tests.faults.jobs import python_workers
from tests.unit.test_snapshot import change


@dataclass(frozen=True)
class Told:
    """Runs in the workers, which tell what they have."""

    stored: Stored

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            state = engine_at(received(self.stored), EngineLimits(), TopicNames())
            names = cast("Iterable[Recipient]", state.engine._places)
            found = {str(name): int(name.version) for name in names}
            yield pa.RecordBatch.from_pydict({"found": [json.dumps(found)]})


def found(spark: SparkSession, snapshot: Snapshot) -> list[dict[str, int]]:
    """The subscriptions that each task has."""
    snapshot.send(spark.sparkContext)
    tasks = spark.range(0, 2, 1, 2).mapInArrow(Told(snapshot.stored), "found string")
    return [json.loads(row.found) for row in tasks.collect()]


def broadcast_files(spark: SparkSession) -> int:
    return len(list(Path(spark.sparkContext._temp_dir or "").iterdir()))


def test_workers_follow_and_those_that_are_new_catch_up(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_module, "_SMALLEST_REBASE", 60)
    monkeypatch.setattr(snapshot_module, "_LONGEST_TEXT", 600)
    rng = random.Random(os.environ.get("XB_SEED", "1"))
    snapshots = Snapshots(spark.sparkContext)
    files = broadcast_files(spark)
    wanted: dict[str, int] = {}
    kinds: set[tuple[bool, bool]] = set()
    for version in range(40):
        snapshot = change(snapshots, wanted, version, rng)
        kinds.add((bool(snapshot.stored.runs), bool(snapshot.recent)))
        if version % 13 == 12:
            for worker in python_workers(os.getpid()):
                os.kill(worker, signal.SIGKILL)
        assert found(spark, snapshot) == [wanted, wanted]
        snapshots.release(snapshot)
        kept = len(list(snapshot.stored.broadcasts))
        assert broadcast_files(spark) <= files + kept
    assert kinds >= {(True, True), (True, False), (False, True)}


def test_the_function_stays_the_same_while_subscriptions_change(spark: SparkSession) -> None:
    snapshots = Snapshots(spark.sparkContext)
    first = Told(snapshots.current.stored)
    wanted: dict[str, int] = {}
    for version in range(5):
        snapshot = change(snapshots, wanted, version, random.Random(version))
        assert Told(snapshot.stored) == first
        assert found(spark, snapshot) == [wanted, wanted]

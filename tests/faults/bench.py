"""A broker to be hurt: a scenario, jobs on its checkpoint, and the ways to hurt them.

Kill points are counted, not timed.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.errors import BrokerError
from streaming_jobs import broker_job
from streaming_jobs.kill_points import KillPoint
from tests.faults.jobs import JobHere, JobProcess
from tests.faults.scenario import Scenario
from tests.faults.traffic import Traffic


class Bench:
    """A scenario, and jobs on its prefix and checkpoint: one after the other, or together."""

    def __init__(
        self,
        spark: SparkSession | None,
        servers: str,
        prefix: str,
        directory: Path,
        *,
        shared_topics: int = 0,
    ) -> None:
        self.checkpoint = directory / "checkpoint"
        self.traffic = Traffic(servers, prefix)
        self.scenario = Scenario(self.traffic, self.checkpoint, shared_topics=shared_topics)
        self._spark = spark
        self._directory = directory

    def job(self, **settings: int) -> JobHere:
        """One in this process."""
        assert self._spark is not None
        traffic = self.traffic
        return JobHere(
            self._spark, traffic.bootstrap_servers, traffic.prefix, self.checkpoint, **settings
        )

    def process(self, **environment: str) -> JobProcess:
        """One of its own, that can be killed."""
        traffic = self.traffic
        return JobProcess(
            traffic.bootstrap_servers,
            traffic.prefix,
            self.checkpoint,
            self._directory / "log",
            {"XMLBROKER_KAFKA__SHARED_TOPICS": str(self.scenario.shared_topics), **environment},
        )

    def subscribe_some(self, count: int = 10) -> None:
        """Random subscriptions of three subscribers, beside one that gets everything."""
        self.traffic.subscribe("all/all", "//*")
        for number, record in enumerate(self.scenario.queries(self.scenario.messages(10), count)):
            self.traffic.subscribe(f"s{number % 3}/q{number}", **record)  # type: ignore[arg-type]

    def change_something(self) -> None:
        """One more change of a subscription that all messages match."""
        rng = self.scenario.rng
        if rng.random() < 0.2:
            self.traffic.unsubscribe("all/changing")
        else:
            self.traffic.subscribe("all/changing", f"//*[count(*) < {rng.randrange(5, 99)}]")

    def publish(self, count: int) -> None:
        self.traffic.publish(self.scenario.messages(count))


def is_in_batch(checkpoint: Path) -> bool:
    """Whether a batch is begun and not committed."""
    begun, done = (
        {each.name for each in (checkpoint / name).glob("[0-9]*")}
        for name in ("offsets", "commits")
    )
    return bool(begun - done)


class CrashError(Exception):
    """Ends a batch as a crash would: nothing after it is done."""


def crash_at(monkeypatch: pytest.MonkeyPatch, point: KillPoint, count: int) -> None:
    passed = 0

    def reach(here: KillPoint) -> None:
        nonlocal passed
        passed += here is point
        if here is point and passed == count:
            raise CrashError(point.value)

    monkeypatch.setattr(broker_job, "reach", reach)


def refusal_of(job: JobHere) -> BrokerError:
    """Why a job does not start, or ends at once."""
    try:
        with job:
            failure = job.await_end()
    except BrokerError as error:
        return error
    assert failure is not None
    return failure

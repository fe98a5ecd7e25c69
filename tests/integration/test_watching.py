"""`xmlbroker top` and `xmlbroker trace` on a broker that runs."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from streaming_jobs.health import HealthServer
from tests.faults.jobs import JobHere
from tests.faults.scenario import Scenario
from tests.faults.traffic import Message, Traffic, wait_until
from tests.live import RunningKafka
from tests.unit.command_line import conftest as command_line
from tests.unit.command_line.conftest import Run

run = command_line.run


class Watched(NamedTuple):
    """A broker that has done something of everything, with its endpoints."""

    job: JobHere
    traffic: Traffic
    scenario: Scenario
    address: str
    checkpoint: Path
    versions: dict[str, int]

    def trace(self, run: Run, offset: int, **variables: str) -> tuple[int, dict[str, Any]]:
        source = f"{self.traffic.input}/{self.partition(offset)}"
        checkpoint = variables.get("checkpoint", str(self.checkpoint))
        ran = run("trace", source, "--json", "--checkpoint", checkpoint, *self.servers)
        return ran.status, json.loads(ran.out)

    def partition(self, place: int) -> str:
        sent = list(self.traffic.sent)[place]
        assert sent.place is not None
        return f"{sent.place.partition}/{sent.place.offset}"

    @property
    def servers(self) -> tuple[str, str]:
        return ("--bootstrap-servers", self.traffic.bootstrap_servers)


@pytest.fixture(scope="module")
def watched(
    spark: SparkSession, kafka: RunningKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    checkpoint = tmp_path_factory.mktemp("watched") / "checkpoint"
    prefix = f"watched-{time.time_ns()}"
    with Traffic(kafka.bootstrap_servers, prefix) as traffic:
        traffic.make_topics()
        scenario = Scenario(traffic, checkpoint, seed=7)
        with JobHere(spark, kafka.bootstrap_servers, prefix, checkpoint) as job:
            running = job.job
            server = HealthServer(
                running.metrics.registry,
                running.why_not_live,
                running.why_not_ready,
                running.overview.to_data,
            )
            versions = {
                "one/all": traffic.subscribe("one/all", "//a"),
                "one/made": traffic.subscribe("one/made", "for $b in //b return <x>{$b}</x>"),
                "two/all": traffic.subscribe("two/all", "/m"),
                "two/refused": traffic.subscribe("two/refused", "//a["),
            }
            traffic.wait_for_status("two/refused", versions["two/refused"])
            traffic.publish(
                [
                    Message(b"<m><a/><b>1</b></m>"),
                    Message(b"<other/>"),
                    Message(b"<m><a>"),
                ]
            )
            scenario.come_to_rest(job)
            # Spark tells of a batch a moment after it has committed it.
            wait_until(lambda: "lag" in running.overview.to_data(), "the batch is told")
            with server:
                yield Watched(job, traffic, scenario, server.address, checkpoint, versions)
        traffic.admin.delete_topics(traffic.topics())


@pytest.fixture(autouse=True)
def prefix(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is set where somebody works with this broker."""
    monkeypatch.setenv("XMLBROKER_KAFKA__PREFIX", watched.traffic.prefix)


def test_top(watched: Watched, run: Run) -> None:
    ran = run("top", "--once", "--json", "--url", f"{watched.address}/metrics")
    assert ran.status == 0
    data = json.loads(ran.out)
    assert data["not_ready"] is None
    assert data["subscriptions"] == {"active": 3}
    assert data["rejections"][-1]["key"] == "two/refused"
    assert data["per_second"]["messages"] > 0
    assert {each["subscription"] for each in data["largest"]} >= {"one/made", "two/all"}
    assert "one/made" in {each["subscription"] for each in data["slowest"]}
    assert [each["code"] for each in data["dead_letters"]] == ["not-well-formed"]
    assert data["lag"] == {watched.traffic.input: 0}
    shown = run("top", "--once", "--url", watched.address)
    assert shown.status == 0
    for text in ("ready", "one/made", "two/refused", "not-well-formed", "latency p99"):
        assert text in shown.out


def test_top_without_a_broker(run: Run) -> None:
    ran = run("top", "--once", "--url", "127.0.0.1:1")
    assert ran.status == 1
    assert "no broker answers at http://127.0.0.1:1/top" in ran.err
    assert run("top", "--once").status == 2


def test_trace_of_a_message_that_was_delivered(watched: Watched, run: Run) -> None:
    status, data = watched.trace(run, 0)
    assert (status, data["state"]) == (0, "delivered")
    assert data["version_is_recorded"]
    assert data["version"] == watched.versions["two/refused"]
    by_name = {row["subscription"]: row for row in data["results"]}
    assert by_name.keys() == {"one/all", "one/made", "two/all"}
    records = watched.traffic.drain([f"{watched.traffic.prefix}.out.one"])
    for record in records:
        row = by_name[record.header("xb-subscription")]
        assert row["id"] == record.header("xb-id")
        assert row["version"] == int(record.header("xb-version"))
        assert row["found"] == str(record.place)
        assert row["bytes"] == len(record.value or b"")
    assert len(records) == 2
    source = f"{watched.traffic.input}/{watched.partition(0)}"
    shown = run("trace", source, "--checkpoint", watched.checkpoint, *watched.servers)
    assert by_name["one/made"]["id"] in shown.out


def test_trace_of_others(watched: Watched, run: Run) -> None:
    assert watched.trace(run, 1)[1]["state"] == "unmatched"
    status, data = watched.trace(run, 2)
    assert (status, data["state"]) == (0, "dead-letter")
    assert data["results"][0]["error"] == "not-well-formed"
    assert data["results"][0]["found"].startswith(f"{watched.traffic.prefix}.dead-letters/")


def test_trace_without_the_checkpoint(watched: Watched, run: Run, tmp_path: Path) -> None:
    status, data = watched.trace(run, 0, checkpoint=str(tmp_path / "none"))
    assert (status, data["state"]) == (0, "delivered")
    assert not data["version_is_recorded"]


def test_trace_of_what_there_is_not(watched: Watched, run: Run) -> None:
    source = f"{watched.traffic.input}/0/999999"
    ran = run("trace", source, "--checkpoint", watched.checkpoint, *watched.servers)
    assert ran.status == 1
    assert "no-such-message" in ran.err
    assert run("trace", "nothing").status == 2


def test_a_change_is_seen(watched: Watched) -> None:
    """Metrics follow a subscription that is paused, and count a batch once."""
    metrics = watched.job.job.metrics.registry
    version = watched.traffic.subscribe("one/all", "//a", paused=True)
    watched.traffic.wait_for_status("one/all", version)
    wait_until(
        lambda: metrics.get_sample_value("xmlbroker_subscriptions", {"state": "paused"}) == 1,
        "the paused one is counted",
    )
    before = metrics.get_sample_value("xmlbroker_latency_seconds_count")
    watched.traffic.publish([Message(b"<m/>")] * 5)
    watched.scenario.come_to_rest(watched.job)
    assert before is not None
    assert metrics.get_sample_value("xmlbroker_latency_seconds_count") == before + 5
    assert metrics.get_sample_value("xmlbroker_ready") == 1
    assert metrics.get_sample_value("xmlbroker_rejected_records_total") == 1

"""`xmlbroker up` with a data directory that is kept: ended, killed with -9, and started again."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.jobs import JobProcess
from tests.faults.scenario import Scenario
from tests.faults.traffic import Traffic, wait_until
from tests.live import RunningKafka

PATIENCE_SECONDS = 180.0


class Up:
    """A running one, and what it said when it was ready."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        assert process.stdout is not None
        self.process = process
        line = process.stdout.readline()
        assert line, log.read_text(encoding="utf-8")
        self.said: dict[str, str] = json.loads(line)
        self.servers = self.said["bootstrap_servers"]
        self.family = family(process.pid)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def child(self, program: str) -> int:
        """The process that it started with such a command line."""
        self.family = family(self.process.pid)
        (found,) = [
            each
            for each in self.family
            if program in Path(f"/proc/{each}/cmdline").read_text().split("\0")
        ]
        return found

    def run(self, *arguments: str, text: str | None = None) -> str:
        """What a command says that is sent to it."""
        command = [sys.executable, "-m", "xmlbroker", *arguments]
        ran = subprocess.run(
            [*command, "--bootstrap-servers", self.servers],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def await_end_of_all(self) -> None:
        """Neither Kafka nor Spark nor a Python worker outlives it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while left := [each for each in self.family if is_alive(each)]:
            assert time.monotonic() < deadline, f"still there: {left}"
            time.sleep(0.1)
        host, port = self.servers.split(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))


@contextmanager
def up(data: Path, log: Path, entering: Sequence[str] = ()) -> Iterator[Up]:
    with log.open("a", encoding="utf-8") as stream:
        process = subprocess.Popen(
            [*entering, sys.executable, "-m", "xmlbroker", "up", "--data-dir", str(data)],
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
        )
        try:
            yield Up(process, log)
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_SECONDS)


def family(process: int) -> list[int]:
    """A process and all that it has started, and those."""
    children = Path(f"/proc/{process}/task").glob("*/children")
    below = [int(each) for file in children for each in file.read_text().split()]
    return [process, *(each for child in below for each in family(child))]


def is_alive(process: int) -> bool:
    """Whether a process is there that has not ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def received(broker: Up, count: int) -> list[str]:
    """The values of so many records for the desk, from the first on."""
    said = broker.run("consume", "desk", "--from-start", "--count", str(count))
    return [line.strip() for line in said.splitlines() if line.strip()]


@pytest.mark.slow
def test_what_is_kept_outlives_a_kill_and_nothing_that_was_started_does(tmp_path: Path) -> None:
    data, log, query = tmp_path / "data", tmp_path / "log", tmp_path / "query"
    query.write_text("for $m in /m return <got>{$m/n}</got>", encoding="utf-8")
    documents = tmp_path / "documents"
    documents.mkdir()
    with up(data, log) as first:
        assert first.said["data_dir"] == str(data)
        assert len(first.family) >= 4, "Kafka, Spark, and Spark's Python"
        first.run("subscribe", "desk/all", "--query", str(query))
        (documents / "1.xml").write_text("<m><n>1</n></m>", encoding="utf-8")
        first.run("publish", str(documents))
        assert received(first, 1) == ["<got><n>1</n></got>"]
        first.family = family(first.process.pid)
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
        first.await_end_of_all()
    with up(data, log) as second:
        assert second.servers == first.servers, "clients find it where it was"
        assert "desk/all" in second.run("subscriptions")
        (documents / "1.xml").write_text("<m><n>2</n></m>", encoding="utf-8")
        second.run("publish", str(documents))
        got = received(second, 2)
        # The first batch was done, but it may have been killed before it was known to be.
        if got[1] == got[0]:
            got = received(second, 3)[1:]
        assert got == ["<got><n>1</n></got>", "<got><n>2</n></got>"]
        second.process.terminate()
        assert second.process.wait(PATIENCE_SECONDS) == 0
        second.await_end_of_all()


@pytest.mark.slow
def test_its_kafka_is_killed_and_then_its_spark(tmp_path: Path) -> None:
    """Kafka is started again at its address; without Spark's JVM it ends, and can be started."""
    data, log = tmp_path / "data", tmp_path / "log"
    with up(data, log) as first:
        traffic = Traffic(first.servers, "xmlbroker")
        scenario = Scenario(traffic, data / "checkpoint")
        traffic.subscribe("desk/all", "//*")
        traffic.publish(scenario.messages(50), partitions=1)
        for _ in range(2):
            os.kill(first.child("kafka.Kafka"), signal.SIGKILL)
            traffic.publish(scenario.messages(50), partitions=1)
            scenario.come_to_rest(first)
        os.kill(first.child("org.apache.spark.deploy.SparkSubmit"), signal.SIGKILL)
        assert first.process.wait(PATIENCE_SECONDS) == 1
        first.await_end_of_all()
    said = log.read_text(encoding="utf-8")
    assert "Kafka has ended with status -9" in said
    assert said.splitlines()[-1].startswith("spark-ended: Spark's JVM has ended")
    assert "Traceback" not in [line[:9] for line in said.splitlines()]
    with traffic, up(data, log) as second:
        traffic.publish(scenario.messages(50), partitions=1)
        scenario.come_to_rest(second)
        scenario.verify(repeated_batches=3, attempts=4)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("stage", ["starting Spark", "building the engines"])
def test_it_can_be_stopped_while_it_starts(
    kafka: RunningKafka, topic_prefix: str, tmp_path: Path, stage: str, number: signal.Signals
) -> None:
    """With status 0, whatever call the signal interrupts, and without a trace."""
    log = tmp_path / "log"
    with JobProcess(kafka.bootstrap_servers, topic_prefix, tmp_path / "c", log) as job:
        wait_until(lambda: stage in job.log(), stage, PATIENCE_SECONDS)
        time.sleep(0.5)
        started = family(job.process.pid)
        assert job.stop(number) == 0, job.log()
        assert "Traceback" not in job.log()
        wait_until(lambda: not any(map(is_alive, started)), "all have ended")

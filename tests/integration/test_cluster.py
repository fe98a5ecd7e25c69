"""The job on a standalone cluster of two workers, one of whose executors is killed on the way.

The executors' Python has what we depend on, but not our packages: those are shipped to it.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from subscriptions.kafka_client import KafkaConsumer, KafkaProducer, TopicPartition, open_client
from subscriptions.kafka_log import KafkaSubscriptionLog
from tests.live import RunningKafka

HOME = Path(pyspark.__file__).parent
PATIENCE_SECONDS = 120.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def process(command: list[str], log: Path, **more: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", **more}
    with log.open("w") as stream:
        started = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=stream, text=True
        )
        try:
            yield started
        finally:
            started.terminate()
            started.communicate(timeout=60)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.2)


def executors(work: Path) -> list[int]:
    """The process ids of the executors that run in a directory."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                command = (directory / "cmdline").read_bytes()
                is_ours = (directory / "cwd").readlink().is_relative_to(work)
            except OSError:
                continue
            if b"CoarseGrainedExecutorBackend" in command and is_ours:
                found.append(int(directory.name))
    return found


def python_without_us(directory: Path) -> Path:
    """A Python with the libraries of this one that can't import our packages by itself."""
    python = directory / "python"
    # Without its module `site` it doesn't know of the checkout that is installed.
    libraries = sysconfig.get_path("purelib")
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n'
    )
    python.chmod(0o755)
    subprocess.run([python, "-c", "import lxml, pyarrow, pydantic"], cwd=directory, check=True)
    alone = subprocess.run(
        [python, "-c", "import broker"], cwd=directory, check=False, capture_output=True
    )
    assert b"ModuleNotFoundError" in alone.stderr
    return python


def test_a_cluster_with_an_executor_killed(
    kafka: RunningKafka, topic_prefix: str, tmp_path: Path
) -> None:
    client: dict[str, object] = {"bootstrap_servers": kafka.bootstrap_servers}
    port = free_port()
    spark_class = str(HOME / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    with ExitStack() as stack:
        master = [spark_class, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port"]
        stack.enter_context(process([*master, str(port), "--webui-port", "0"], tmp_path / "m.log"))
        for number in (1, 2):
            worker = [spark_class, f"{deploy}.worker.Worker", "--cores", "1", "--memory", "1g"]
            worker += ["--webui-port", "0", "--work-dir", str(tmp_path / f"w{number}")]
            stack.enter_context(
                process([*worker, f"spark://127.0.0.1:{port}"], tmp_path / f"w{number}.log")
            )
        command = [str(Path(sys.executable).parent / "xmlbroker"), "run"]
        command += ["--master", f"spark://127.0.0.1:{port}"]
        command += ["--bootstrap-servers", kafka.bootstrap_servers]
        command += ["--checkpoint", str(tmp_path / "checkpoint")]
        job = stack.enter_context(
            process(
                command,
                tmp_path / "job.log",
                XMLBROKER_KAFKA__PREFIX=topic_prefix,
                XMLBROKER_JOB__EXECUTOR_MEMORY="700m",
                PYSPARK_PYTHON=str(python_without_us(tmp_path)),
            )
        )
        assert job.stdout is not None
        line = job.stdout.readline()
        assert line, (tmp_path / "job.log").read_text()
        assert json.loads(line)["bootstrap_servers"] == kafka.bootstrap_servers
        with KafkaSubscriptionLog(client, f"{topic_prefix}.subscriptions") as log:
            query = {"query": "for $m in /m where $m/n >= 0 return <got>{$m/n}</got>"}
            log.append(b"one/all", json.dumps(query).encode())
        producer = stack.enter_context(open_client(KafkaProducer, client))
        consumer = stack.enter_context(open_client(KafkaConsumer, client))
        wait_until(lambda: f"{topic_prefix}.out.one" in consumer.topics(), "output topic")
        output = TopicPartition(f"{topic_prefix}.out.one", 0)
        consumer.assign([output])
        consumer.seek_to_beginning(output)
        got: set[bytes] = set()

        def arrived(count: int) -> bool:
            for records in consumer.poll(timeout_ms=200).values():
                got.update(record.value for record in records)
            return len(got) >= count

        def publish(first: int, last: int) -> None:
            for number in range(first, last):
                producer.send(f"{topic_prefix}.messages", b"<m><n>%d</n></m>" % number)
            producer.flush()

        publish(0, 100)
        wait_until(lambda: arrived(100), "first results")
        running = executors(tmp_path)
        assert len(running) == 2
        os.kill(running[0], signal.SIGKILL)
        publish(100, 200)
        wait_until(lambda: arrived(200), "results after an executor was killed")
        wait_until(lambda: len(executors(tmp_path)) == 2, "executor in its place")
        assert running[0] not in executors(tmp_path)
        # The one that is left ends, too: what comes now is the newcomer's to do, and it catches up.
        os.kill(running[1], signal.SIGKILL)
        publish(200, 300)
        wait_until(lambda: arrived(300), "results of the executor that came later")
        assert got == {b"<got><n>%d</n></got>" % number for number in range(300)}
        assert job.poll() is None

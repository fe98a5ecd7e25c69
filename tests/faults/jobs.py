"""Jobs to be tested: one in this process, which starts in seconds, and one that can be killed."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

from pyspark.sql import SparkSession

from broker.errors import BrokerError
from streaming_jobs.broker_job import BrokerJob
from streaming_jobs.settings import JobSettings
from subscriptions.connection import KafkaSettings
from tests.live import BOOTSTRAP_SERVERS

START_SECONDS = 240.0
STOP_SECONDS = 120.0


class JobHere:
    """A job in this process, on a Spark session that is there; ended with the context."""

    def __init__(
        self,
        spark: SparkSession,
        servers: str,
        prefix: str,
        checkpoint: Path,
        *,
        shared_topics: int = 0,
        **settings: int,
    ) -> None:
        kafka = KafkaSettings(bootstrap_servers=servers, prefix=prefix, shared_topics=shared_topics)
        self.job = BrokerJob(spark, kafka, JobSettings(checkpoint=checkpoint, **settings))  # type: ignore[arg-type]
        self.failure: BrokerError | None = None
        self._thread = threading.Thread(target=self._run, name="broker-job")

    def _run(self) -> None:
        try:
            self.job.run()
        except BrokerError as error:
            self.failure = error

    def __enter__(self) -> Self:
        self.job.__enter__()
        try:
            self.job.start()
            self._thread.start()
        except BaseException:
            self.job.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.job.stop()
        self._thread.join(STOP_SECONDS)
        query = self.job._query
        if query is not None and query.isActive:
            query.stop()
        self.job.__exit__(None, None, None)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def await_end(self, seconds: float = STOP_SECONDS) -> BrokerError | None:
        """Why it ended, if it ends by itself."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the job goes on"
        return self.failure


class JobProcess:
    """`xmlbroker run` as a process with a group of its own, so that nothing of it is left."""

    def __init__(
        self,
        servers: str,
        prefix: str,
        checkpoint: Path,
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        entering: Sequence[str] = (),
    ) -> None:
        variables = {name: value for name, value in os.environ.items() if name != BOOTSTRAP_SERVERS}
        variables |= {"XMLBROKER_KAFKA__PREFIX": prefix, **(environment or {})}
        self._log = log
        self._stream: IO[bytes] = log.open("ab")
        self.process = subprocess.Popen(
            [
                *(*entering, sys.executable, "-m", "xmlbroker", "run"),
                *("--bootstrap-servers", servers, "--checkpoint", str(checkpoint)),
            ],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=self._stream,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        with suppress(ProcessLookupError):
            # Spark's JVM and its workers, should they have outlived the driver.
            os.killpg(self.process.pid, signal.SIGKILL)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._stream.close()

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def await_ready(self) -> bool:
        """Wait for the line that says that messages are processed; False if it ended before."""
        assert self.process.stdout is not None
        timer = threading.Timer(START_SECONDS, self.process.kill)
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        return bool(line) and "bootstrap_servers" in json.loads(line)

    def await_end(self, seconds: float = STOP_SECONDS) -> int:
        """Its exit status."""
        return self.process.wait(seconds)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop it as systemd does, or as Ctrl-C, with all of its group."""
        os.killpg(self.process.pid, number)
        return self.await_end()

    def log(self) -> str:
        return self._log.read_text(errors="replace")


def python_workers(parent: int) -> list[int]:
    """The Python workers of the Spark that a process has started: children of its daemon."""
    children: dict[int, list[int]] = {}
    commands: dict[int, str] = {}
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            stat = (each / "stat").read_text()
            commands[int(each.name)] = (each / "cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        above = int(stat.rpartition(")")[2].split()[1])
        children.setdefault(above, []).append(int(each.name))
    found: list[int] = []
    waiting = [(parent, False)]
    while waiting:
        process, is_below_daemon = waiting.pop()
        if is_below_daemon:
            found.append(process)
        is_daemon = is_below_daemon or "pyspark.daemon" in commands.get(process, "")
        waiting += [(child, is_daemon) for child in children.get(process, [])]
    return found

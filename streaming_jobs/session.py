"""The Spark session of every job: one place for the settings that were measured to help."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from broker.errors import BrokerError
from streaming_jobs.local.java import find_java
from streaming_jobs.local.spark_log import SparkLog
from streaming_jobs.shipping import is_local

_LOGGER = logging.getLogger(__name__)

LOG4J = Path(__file__).parent / "local" / "spark_log4j2.properties"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
JVM_STOP_SECONDS = 30.0

SETTINGS: Mapping[str, str] = {
    "spark.api.mode": "classic",
    "spark.driver.memory": "1g",
    # Without the C2 compiler, which competes with the work on two cores, latency is half of what it
    # is with it. But then Java has room for 48 MB of compiled code and throws some away when that
    # is full; a quarter of an hour of batches takes 43.
    # All of the memory from the start, half of it for what is short-lived, as nearly everything is,
    # and an eighth of that half for what is left of it at a collection, so that it is let go there
    # and not kept until everything is collected, which takes a third of a second.
    JAVA_OPTIONS: (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m -XX:MetaspaceSize=256m"
        " -XX:+UseParallelGC -XX:NewRatio=1 -XX:SurvivorRatio=6 -XX:-UseAdaptiveSizePolicy"
    ),
    # What Spark remembers of batches for its pages has to be short-lived, too.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "50",
    # A buffer of this size is made for the function of every batch.
    "spark.broadcast.blockSize": "256k",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    # Streaming queries don't have it, and each would warn so.
    "spark.sql.adaptive.enabled": "false",
    # A batch has too few rows to make up for writing Java code for it, a fifth of the JVM's time.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # A worker holds the engine with all subscriptions: it must live from batch to batch.
    "spark.python.worker.reuse": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.faulthandler.enabled": "true",
}
LOCAL_SETTINGS: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Renames within one file system: quicker than what other storage needs.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}
QUICK_FILES = "hadoop-bare-naked-local-fs"
"""The jar with Hadoop's local files as Java has them, checksums included. Hadoop's own starts the
program `chmod` eight times a batch, which takes 25 ms; docs/decisions/0010."""

_log: SparkLog | None = None


class SparkError(BrokerError):
    """Spark did not start; the text has its last words."""


def spark_session(
    app_name: str,
    master: str = "local[2,4]",
    *,
    jars: Sequence[Path],
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session in classic mode; `settings` go before the ones here.

    `local[2,4]` is two cores and four attempts at a task: with one attempt, as `local[2]` has, the
    death of a Python worker would end the query. What Spark logs is logged by Python's `logging`.

    Raises `JavaError` if there is no Java for it, `SparkError` if it does not start. End it with
    `stop_spark`: `SparkSession.stop` leaves the JVM running, with the memory it has.
    """
    find_java()
    _set_environment(master)
    conf = SparkConf(loadDefaults=False)
    conf.setAppName(app_name).setMaster(master)
    conf.setAll(list(_all_settings(master, jars, settings or {}).items()))
    gateway = _launch(conf) if _starts_jvm() else None
    try:
        with _own_interrupt():
            context = SparkContext(conf=conf, gateway=gateway)
        server: Any = context._accumulatorServer  # noqa: SLF001 - there is no public name for it
        server.handle_error = _say_no_more
        return SparkSession.builder.getOrCreate()
    except Py4JJavaError as error:
        reason = str(error.java_exception)
        _end_jvm()
        raise SparkError("spark-start", f"Spark did not start: {reason}") from None


def _say_no_more(_request: object, _address: object) -> None:
    """What PySpark's server for accumulators would print with a traceback: that the JVM, its one
    client, has ended. Who waits for the JVM says so.
    """


@contextmanager
def end_expected() -> Iterator[None]:
    """While a stream is ended on purpose, what Spark says about that is of no interest."""
    if _log:
        _log.expect_the_end()
    try:
        yield
    finally:
        if _log:
            _log.expect_no_end()


def stop_spark(session: SparkSession) -> None:
    """Stop the session and end its JVM, so that the next session may have other JVM settings."""
    if _log:
        _log.expect_the_end()
    try:
        session.stop()
    except (Py4JError, ConnectionError) as error:
        # A signal in the middle of a call leaves the connection between question and answer; or
        # the JVM has ended.
        _LOGGER.debug("the session was not stopped: %s", error)
        SparkContext._active_spark_context = None  # noqa: SLF001 - what is left of it
    finally:
        _end_jvm()


def jvm_process(session: SparkSession) -> int:
    """The process of the driver's JVM: its memory is not in that of Python's."""
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - there is no public name for it
    return int(jvm.ProcessHandle.current().pid())


def jvm_status(seconds: float = 2.0) -> int | None:
    """The exit status of the driver's JVM, if it is ours and ends within so many seconds."""
    gateway = SparkContext._gateway  # noqa: SLF001 - there is no public name for it
    if gateway is None or _log is None:
        return None
    jvm: subprocess.Popen[bytes] = gateway.proc
    with suppress(subprocess.TimeoutExpired):
        return jvm.wait(seconds)
    return None


def _all_settings(master: str, jars: Sequence[Path], settings: Mapping[str, str]) -> dict[str, str]:
    merged = {**SETTINGS, **(LOCAL_SETTINGS if is_local(master) else {})}
    if jars:
        merged["spark.jars"] = ",".join(str(jar) for jar in jars)
    files = next((jar for jar in jars if jar.name.startswith(QUICK_FILES)), None)
    if files is not None and is_local(master) and _starts_jvm():
        # Not by `spark.jars`: Spark needs files before it loads those.
        merged["spark.driver.extraClassPath"] = str(files)
        merged["spark.hadoop.fs.file.impl"] = (
            "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
        )
    merged.update(settings)
    merged[JAVA_OPTIONS] = f"-Xms{merged['spark.driver.memory']} {merged[JAVA_OPTIONS]}"
    # Whatever options the caller has, the log must not go to the terminal.
    merged[JAVA_OPTIONS] += f" -Dlog4j2.configurationFile={LOG4J.as_uri()}"
    return merged


def _starts_jvm() -> bool:
    """Whether the JVM is ours to start: there may be one that was left, or of `spark-submit`."""
    return SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ  # noqa: SLF001


def _set_environment(master: str) -> None:
    """Have the workers run this Python and, on one machine, the Spark that is installed with it."""
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.pop("SPARK_HOME", None)
        os.environ["SPARK_HOME"] = _find_spark_home()
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _launch(conf: SparkConf) -> Any:  # noqa: ANN401 - a gateway
    """Start the driver's JVM with its outputs in our log."""
    global _log  # noqa: PLW0603 - there is one JVM, as pyspark has it
    log = SparkLog()
    options = {
        "stdout": log.writing_end,
        "stderr": log.writing_end,
        # What ends the whole group, as systemd does, is ours to handle: in our order.
        "start_new_session": True,
    }
    try:
        with _signals_afterwards():
            gateway = launch_gateway(conf, options)  # type: ignore[no-untyped-call] # pyspark has none
    except PySparkRuntimeError:
        raise SparkError("spark-start", f"Spark's JVM ended at once:\n{log.rest()}") from None
    log.follow()
    _log = log
    return gateway


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Leave Ctrl-C to whom it belongs: PySpark would cancel its jobs first, by a call to the JVM in
    the middle of another.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _signals_afterwards() -> Iterator[None]:
    """Let signals that would end us wait: a JVM whose parent ends before it has said where it
    listens would live on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {
        each: signal.signal(each, lambda number, _frame: came.append(number)) for each in numbers
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in came:
            signal.raise_signal(each)


def _end_jvm() -> None:
    """End the JVM, if it is ours, by closing its input: it takes that for the end of its parent."""
    global _log  # noqa: PLW0603 - there is one JVM, as pyspark has it
    gateway = SparkContext._gateway  # noqa: SLF001 - there is no public name for it
    if gateway is None or _log is None:
        return
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    gateway.shutdown()
    jvm: subprocess.Popen[bytes] = gateway.proc
    assert jvm.stdin is not None
    jvm.stdin.close()
    try:
        jvm.wait(JVM_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
    _log.join()
    _log = None

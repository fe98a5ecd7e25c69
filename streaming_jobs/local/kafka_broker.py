"""A Kafka broker for one machine, as a child process: no Docker, no installation.

A data directory holds all there is of it:

    data/                what Kafka stores
    identity.json        cluster id and ports, so that a restart has the same address
    server.properties    the settings of the last start
    kafka.log            its log, rolled at 10 MB; kafka.out: what the JVM itself printed
    lock                 held as long as a broker runs on this directory
"""

import atexit
import base64
import fcntl
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from broker.errors import BrokerError
from broker.limits import MessageLimits, ResultLimits
from streaming_jobs.local import die_with_parent
from streaming_jobs.local.jars import jars
from streaming_jobs.local.java import find_java
from streaming_jobs.local.kafka_security import LISTENER, KafkaSecurity
from streaming_jobs.local.ports import HOST, choose_ports, is_free

_LOGGER = logging.getLogger(__name__)

START_SECONDS = 120.0  # recovery after a kill, on a machine that has other things to do
STOP_SECONDS = 30.0
# A killed JVM holds the lock until the kernel has taken its memory apart.
LOCK_SECONDS = 3.0
# One that ends by itself more often, in so many seconds, has a reason that starting does not mend.
REVIVED_AT_MOST, REVIVED_SECONDS = 3, 600.0
# Quick to start, and the C2 compiler would take the second core away from Spark.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError")
# The largest record there can be: a message or a result, and its key and headers.
MAX_RECORD_BYTES = max(MessageLimits().max_bytes, ResultLimits().max_output) + 256 * 1024

SETTINGS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "message.max.bytes": str(MAX_RECORD_BYTES),
    "replica.fetch.max.bytes": str(MAX_RECORD_BYTES),
    # There is one broker to keep a copy.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Fifty partitions of each would be made, and opened at every start, for nobody.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # Nobody to wait for.
    "group.initial.rebalance.delay.ms": "0",
    # After a kill the controller takes the restarted broker for a second one until this has passed.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "200",
    # Threads and buffers for a few cores and a small heap.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
}


class EmbeddedKafkaError(BrokerError):
    """The broker did not start; the text has its last words."""


@dataclass(frozen=True)
class _Identity:
    """What must be the same again when a data directory is used again."""

    cluster_id: str
    port: int = 0
    controller_port: int = 0
    formatted: bool = False


class EmbeddedKafka:
    """One broker that is its own controller, on this machine's loopback address.

    It ends with this process, however this process ends. On Linux the kernel sees to that and
    counts the thread that starts the broker as its parent, so `start` is for the main thread.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        heap: str = "512m",
        properties: Mapping[str, str] | None = None,
        security: KafkaSecurity | None = None,
    ) -> None:
        self.data_dir = data_dir.resolve()
        self._wanted_port = port
        self._heap = heap
        self._properties = dict(properties or {})
        self._security = security
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: IO[str] | None = None
        self._port = port
        self._revived: list[float] = []
        """When it was started again, the last times."""

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients; known after the first start."""
        if not self._port:
            raise RuntimeError("the broker has no address before its first start")
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """The process id of the running broker."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the broker and wait until it answers; raises `EmbeddedKafkaError` if it doesn't."""
        if self._process:
            raise RuntimeError("the broker runs already")
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("start the broker from the main thread, or it ends with this thread")
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            for last_try in (False, False, True):
                identity = self._prepare()
                self._spawn()
                if self._await_answer(identity, last_try):
                    break
            if self._security:
                self._security.add_users(self.bootstrap_servers)
        except OSError as error:
            self.kill()
            raise EmbeddedKafkaError(
                "kafka-data", f"Kafka can't keep its data in {self.data_dir}: {error.strerror}"
            ) from None
        except BaseException:
            self.kill()
            raise
        atexit.register(self.stop)

    def revive(self) -> None:
        """Start the broker again, at its address, if it has ended by itself.

        Raises `EmbeddedKafkaError` if it does so again and again, or can't be started any more.
        """
        if self._process is None or self._process.poll() is None:
            return
        status = self._process.returncode
        now = time.monotonic()
        self._revived = [each for each in self._revived if now - each < REVIVED_SECONDS]
        if len(self._revived) == REVIVED_AT_MOST:
            words = self._last_words()
            self.kill()
            raise EmbeddedKafkaError("kafka-ended", f"Kafka ends again and again. {words}")
        self._revived.append(now)
        _LOGGER.warning("Kafka has ended with status %d; it is started again", status)
        self.kill()
        self._wanted_port = self._port  # that, or none: clients know it
        self.start()
        _LOGGER.warning("Kafka runs again")

    def stop(self) -> None:
        """Shut down in order, by force if that takes too long. Does nothing if it doesn't run."""
        if self._process and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End the broker at once, as a crash would."""
        atexit.unregister(self.stop)
        if self._process:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._lock:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _take_lock(self) -> None:
        """Lock the data directory. The broker inherits the lock, so it lasts as long as it does."""
        lock = (self.data_dir / "lock").open("a+", encoding="ascii")
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    lock.seek(0)
                    owner = lock.read().strip()
                    lock.close()
                    raise EmbeddedKafkaError(
                        "kafka-data-in-use",
                        f"another Kafka runs on {self.data_dir}, started by process {owner}; "
                        "stop it or name another data directory",
                    ) from None
                time.sleep(0.05)
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock

    def _prepare(self) -> _Identity:
        """Choose the ports, write the settings, and format the directory if it is new."""
        file = self.data_dir / "identity.json"
        if file.exists():
            identity = _Identity(**json.loads(file.read_text(encoding="ascii")))
        else:
            identity = _Identity(cluster_id=_new_cluster_id())
        if self._wanted_port and not is_free(self._wanted_port):
            raise EmbeddedKafkaError("kafka-port", f"port {self._wanted_port} is in use")
        port, controller_port = choose_ports(
            self._wanted_port or identity.port, identity.controller_port
        )
        identity = replace(identity, port=port, controller_port=controller_port)
        _write_whole(file, json.dumps(asdict(identity)))
        self._port = port
        self._write_settings(identity)
        if not identity.formatted:
            self._format(identity)
            _write_whole(file, json.dumps(asdict(replace(identity, formatted=True))))
        return identity

    def _write_settings(self, identity: _Identity) -> None:
        clients = f"{LISTENER if self._security else 'PLAINTEXT'}://{HOST}:{identity.port}"
        controller = f"{HOST}:{identity.controller_port}"
        settings = {
            **SETTINGS,
            "listeners": f"{clients},CONTROLLER://{controller}",
            "advertised.listeners": clients,
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": "data",  # within the data directory, whatever characters that has
            **(self._security.properties() if self._security else {}),
            **self._properties,
        }
        lines = [f"{name}={_escaped(value)}\n" for name, value in settings.items()]
        file = self.data_dir / "server.properties"
        if self._security:
            file.touch()
            file.chmod(0o600)  # it has a password
        file.write_text("".join(lines), encoding="ascii")

    def _format(self, identity: _Identity) -> None:
        # An interrupted format is done again, hence --ignore-formatted.
        arguments = ("format", "--ignore-formatted", "-t", identity.cluster_id, "-c")
        command = self._java("kafka.tools.StorageTool", *arguments)
        done = subprocess.run(
            command,
            cwd=self.data_dir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            raise EmbeddedKafkaError(
                "kafka-format", f"{self.data_dir} can't be made ready for Kafka:\n{done.stdout}"
            )

    def _java(self, main: str, *arguments: str) -> list[str]:
        """The command for a main class of Kafka, to be run in the data directory."""
        log4j = Path(__file__).with_name("kafka_log4j2.properties")
        return [
            str(find_java()),
            *JVM_OPTIONS,
            f"-Xmx{self._heap}",
            f"-Dlog4j2.configurationFile={log4j.as_uri()}",
            "-Dxmlbroker.log=kafka.log",
            *("-cp", os.pathsep.join(str(jar) for jar in jars("kafka"))),
            main,
            *arguments,
            "server.properties",
        ]

    def _spawn(self) -> None:
        assert self._lock is not None
        shim = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())]
        with (self.data_dir / "kafka.out").open("wb") as out:
            self._process = subprocess.Popen(
                [*shim, *self._java("kafka.Kafka")],
                cwd=self.data_dir,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                pass_fds=(self._lock.fileno(),),
                start_new_session=True,  # a Ctrl-C is ours to handle, in our order
            )

    def _await_answer(self, identity: _Identity, last_try: bool) -> bool:
        """Wait until clients are served; False if a port was taken by another in the meantime."""
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while self._process.poll() is None:
            if _serves_clients(identity.port, self._security):
                return True
            if time.monotonic() > deadline:
                raise EmbeddedKafkaError(
                    "kafka-start",
                    f"Kafka does not answer after {START_SECONDS:.0f} s. {self._last_words()}",
                )
            time.sleep(0.05)
        ports = (identity.port, identity.controller_port)
        if not last_try and not all(is_free(port) for port in ports):
            return False
        raise EmbeddedKafkaError("kafka-start", f"Kafka ended at once. {self._last_words()}")

    def _last_words(self) -> str:
        lines: list[str] = []
        for name in ("kafka.log", "kafka.out"):
            file = self.data_dir / name
            if file.exists():
                lines += file.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        return f"The end of {self.data_dir / 'kafka.log'}:\n" + "\n".join(
            f"    {line}" for line in lines
        )


def _new_cluster_id() -> str:
    """A UUID as Kafka writes one; it must not start with `-`, or it would look like an option."""
    return "x" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii")[1:22]


def _serves_clients(port: int, security: KafkaSecurity | None) -> bool:
    """Whether the broker accepts connections and its controller lets it serve."""
    try:
        # The client library would log each refusal.
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    try:
        with KafkaAdminClient(
            bootstrap_servers=f"{HOST}:{port}",
            bootstrap_timeout_ms=10_000,
            **(security.client_settings() if security else {}),
        ) as admin:
            brokers = admin.describe_cluster()["brokers"]
    except KafkaError:
        return False
    return any(not broker["is_fenced"] for broker in brokers)


def _write_whole(file: Path, text: str) -> None:
    """Write so that a crash leaves the old text or the new one."""
    temporary = file.with_suffix(".new")
    temporary.write_text(text, encoding="ascii")
    temporary.replace(file)


def _escaped(value: str) -> str:
    """A value as a Java properties file has it: ASCII, backslashes doubled."""
    return "".join(
        char if " " <= char <= "~" else f"\\u{ord(char):04x}" for char in value.replace("\\", r"\\")
    )

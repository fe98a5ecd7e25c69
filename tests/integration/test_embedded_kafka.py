"""The embedded broker: serves, keeps data and address, and never outlives its process."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from streaming_jobs.local import die_with_parent, kafka_broker
from streaming_jobs.local.kafka_broker import EmbeddedKafka, EmbeddedKafkaError


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A broker to be stopped and killed, with one topic."""
    with EmbeddedKafka(tmp_path_factory.mktemp("broker")) as running:
        with KafkaAdminClient(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics({"t": {"num_partitions": 1}}, wait_for_metadata=True)
        yield running


def publish(broker: EmbeddedKafka, *values: bytes) -> None:
    with KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, max_request_size=kafka_broker.MAX_RECORD_BYTES
    ) as producer:
        for value in values:
            producer.send("t", value)


def read_all(broker: EmbeddedKafka) -> list[bytes]:
    partition = TopicPartition("t", 0)
    found: list[bytes] = []
    with KafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            for records in consumer.poll(timeout_ms=1000).values():
                found += [record.value for record in records]
    return found


def test_data_and_address_outlive_a_stop_and_a_kill(broker: EmbeddedKafka) -> None:
    address = broker.bootstrap_servers
    large = bytes(4 * 1024 * 1024)
    publish(broker, b"one", large)
    broker.stop()
    assert broker.pid is None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(address.split(":")[1])))
    broker.start()
    publish(broker, b"two")
    broker.kill()
    broker.start()
    assert broker.bootstrap_servers == address
    assert read_all(broker) == [b"one", large, b"two"]


def test_its_log_is_in_the_data_directory(broker: EmbeddedKafka) -> None:
    assert "Kafka Server started" in (broker.data_dir / "kafka.log").read_text(encoding="utf-8")
    assert (broker.data_dir / "kafka.out").read_bytes() == b""


def test_a_data_directory_in_use_is_refused(
    broker: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_broker, "LOCK_SECONDS", 0.1)
    with pytest.raises(EmbeddedKafkaError, match="another Kafka runs on") as caught:
        EmbeddedKafka(broker.data_dir).start()
    assert caught.value.code == "kafka-data-in-use"
    assert broker.pid is not None
    assert read_all(broker) is not None


def test_a_port_in_use_is_refused(broker: EmbeddedKafka, tmp_path: Path) -> None:
    port = int(broker.bootstrap_servers.split(":")[1])
    with pytest.raises(EmbeddedKafkaError, match=f"port {port} is in use"):
        EmbeddedKafka(tmp_path, port=port).start()


def test_a_broker_that_ends_at_once_says_why(broker: EmbeddedKafka) -> None:
    broker.stop()
    wrong = EmbeddedKafka(broker.data_dir, properties={"log.retention.bytes": "many"})
    with pytest.raises(EmbeddedKafkaError, match=r"(?s)ended at once.*log\.retention\.bytes"):
        wrong.start()
    assert wrong.pid is None
    broker.start()


def test_one_that_ends_by_itself_is_started_again_but_not_for_ever(
    broker: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGKILL)
        os.waitid(os.P_PID, broker.pid, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(kafka_broker, "REVIVED_AT_MOST", 1)
    process, address = broker.pid, broker.bootstrap_servers
    broker.revive()
    assert broker.pid == process, "it runs, so there is nothing to do"
    die()
    broker.revive()
    assert broker.pid != process
    assert broker.bootstrap_servers == address
    assert read_all(broker) is not None
    die()
    with pytest.raises(EmbeddedKafkaError, match="ends again and again") as caught:
        broker.revive()
    assert caught.value.code == "kafka-ended"
    assert broker.pid is None
    broker.revive()
    assert broker.pid is None, "one that was ended by us stays so"
    broker.start()


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedKafkaError, match=r"can't keep its data in .*/file: File exists"):
        EmbeddedKafka(tmp_path / "file").start()


def test_only_the_main_thread_may_start_one(tmp_path: Path) -> None:
    caught: list[RuntimeError] = []

    def start() -> None:
        try:
            EmbeddedKafka(tmp_path).start()
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(caught[0])


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def is_locked(file: Path) -> bool:
    with file.open("a", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_it_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = """
        import sys, time, pathlib
        from streaming_jobs.local.kafka_broker import EmbeddedKafka
        broker = EmbeddedKafka(pathlib.Path(sys.argv[1]))
        broker.start()
        print(broker.bootstrap_servers, flush=True)
        time.sleep(600)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        host, port = parent.stdout.readline().split(":")
        socket.create_connection((host, int(port))).close()
        assert is_locked(tmp_path / "lock")
        parent.send_signal(signal.SIGKILL)
    # The broker holds the lock itself, so this is its end and not its parent's.
    assert wait_for(lambda: not is_locked(tmp_path / "lock"))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


@pytest.mark.parametrize("way", ["become", "watch"])
def test_a_command_ends_with_its_parent(way: str, tmp_path: Path) -> None:
    """`watch` is for systems other than Linux, and works on Linux too."""
    lock = tmp_path / "lock"
    shim = f"""
        import sys
        sys.path.insert(0, {str(Path(die_with_parent.__file__).parent)!r})
        import die_with_parent
        die_with_parent.{way}(int(sys.argv[1]), sys.argv[2:])
    """
    code = f"""
        import fcntl, os, subprocess, sys, time
        lock = open({str(lock)!r}, "w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        sleep = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(600)"]
        shim = [sys.executable, "-c", {textwrap.dedent(shim)!r}, str(os.getpid()), *sleep]
        subprocess.Popen(shim, close_fds=False, pass_fds=[lock.fileno()])
        time.sleep(600)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "1\n"
        assert is_locked(lock)
        parent.send_signal(signal.SIGKILL)
    assert wait_for(lambda: not is_locked(lock))

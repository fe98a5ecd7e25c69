"""The jars are the pinned ones, whatever happened to the cache, and Spark can use them."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from pyspark.sql import SparkSession

from streaming_jobs.local.jars import Conf, JarsError, cache_directory, jars, read_pins
from tests.live import RunningKafka


def checksums(files: list[Path]) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with the connector in it, for a test to spoil."""
    jars("spark")
    shared = cache_directory()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shutil.copytree(shared, cache_directory())
    return jars("spark")[0].parent


@pytest.mark.parametrize(("conf", "count"), [("spark", 5), ("kafka", 46)])
def test_every_jar_has_its_checksum(conf: Conf, count: int) -> None:
    found = jars(conf)
    assert len(found) == count
    assert checksums(found) == read_pins(conf)


def test_a_full_cache_is_used_as_it_is(own_cache: Path) -> None:
    before = own_cache.stat().st_ino
    assert checksums(jars("spark")) == read_pins("spark")
    assert own_cache.stat().st_ino == before


def grow(jar: Path) -> None:
    with jar.open("ab") as file:
        file.write(b"x")


def add_another(jar: Path) -> None:
    shutil.copy(jar, jar.with_name("another.jar"))


def lose_the_stamp(jar: Path) -> None:
    (jar.parent / "complete").unlink()


@pytest.mark.parametrize("spoil", [grow, add_another, lose_the_stamp, Path.unlink])
def test_a_changed_cache_is_made_anew(own_cache: Path, spoil: Callable[[Path], None]) -> None:
    left_behind = own_cache.parent / ".spark-killed"
    left_behind.mkdir()
    spoil(own_cache / next(iter(read_pins("spark"))))
    told: list[tuple[str, int, int]] = []
    made = jars("spark", lambda *step: told.append(step))
    assert checksums(made) == read_pins("spark")
    assert ("found kafka-clients;3.9.2", 3, 10) in told
    assert {file.name for file in own_cache.iterdir()} == {*read_pins("spark"), "complete"}
    assert not left_behind.exists()


def test_a_jar_with_another_checksum_is_refused(own_cache: Path) -> None:
    shutil.rmtree(own_cache)
    fetched = cache_directory() / "ivy" / "cache"
    grow(next(fetched.rglob("commons-pool2-*.jar")))
    with pytest.raises(JarsError, match=r"commons-pool2-\S+\.jar") as caught:
        jars("spark")
    assert caught.value.code == "jars-checksum"
    assert not own_cache.exists()
    assert not fetched.exists(), "the next try would meet the same file"


def test_two_processes_make_one_cache(own_cache: Path) -> None:
    shutil.rmtree(own_cache)
    code = "from streaming_jobs.local.jars import jars; print(*jars('spark'))"
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert outputs[0] == outputs[1] != ""
    assert [process.returncode for process in processes] == [0, 0]


def test_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    closed = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", closed)
    with pytest.raises(JarsError, match="is there a network") as caught:
        jars("spark")
    assert caught.value.code == "jars-download"
    assert "spark-sql-kafka-0-10_2.13" in caught.value.detail


def test_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(
        JarsError, match="Java 17 or newer is needed, and there is no java on the PATH"
    ):
        jars("spark")


def test_with_an_old_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'java version \"1.8.0_292\"' >&2\n", encoding="ascii")
    java.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JarsError, match=r"Java 17 or newer is needed, and \S+ is Java 8"):
        jars("spark")


def test_the_connector_loads(
    spark: SparkSession, kafka: RunningKafka, admin: KafkaAdminClient, topic_prefix: str
) -> None:
    """The token provider is older than the connector: source and sink must load all the same."""
    admin.create_topics({topic_prefix: {"num_partitions": 2}}, wait_for_metadata=True)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic_prefix, b"%d" % number, partition=number % 2)
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic_prefix}
    read = spark.read.format("kafka").options(**options).load()
    assert sorted(row.value for row in read.select("value").collect()) == [
        b"%d" % number for number in range(10)
    ]
    sink = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic_prefix}
    read.select("key", "value").write.format("kafka").options(**sink).save()
    assert spark.read.format("kafka").options(**options).load().count() == 20

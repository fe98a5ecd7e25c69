"""The Spark session: a stream through Python from Kafka to Kafka, and silence on the terminal."""

import logging
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from streaming_jobs.local.jars import jars
from streaming_jobs.local.java import JavaError
from streaming_jobs.session import spark_session
from tests.live import RunningKafka

ROW = "topic string, key binary, value binary, headers array<struct<key:string,value:binary>>"


def test_a_stream_from_kafka_through_python_to_kafka(
    spark: SparkSession,
    kafka: RunningKafka,
    admin: KafkaAdminClient,
    topic_prefix: str,
    tmp_path: Path,
) -> None:
    source, target = f"{topic_prefix}.in", f"{topic_prefix}.out"
    admin.create_topics({source: {}, target: {}}, wait_for_metadata=True)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(100):
            headers = [("n", b"%d" % number)]
            producer.send(source, b"<m>%d</m>" % number, key=b"k", headers=headers)

    def send_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            topics = pa.array([target] * batch.num_rows, pa.string())
            columns = [topics, *(batch.column(name) for name in ("key", "value", "headers"))]
            yield pa.RecordBatch.from_arrays(columns, names=["topic", "key", "value", "headers"])

    def write(rows: DataFrame, batch: int) -> None:
        to_kafka = rows.mapInArrow(send_on, ROW).write.format("kafka")
        to_kafka.option("kafka.bootstrap.servers", kafka.bootstrap_servers).save()

    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert query.exception() is None

    partition = TopicPartition(target, 0)
    found: list[tuple[bytes, bytes, list[tuple[str, bytes]]]] = []
    with KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        while len(found) < 100:
            for records in consumer.poll(timeout_ms=1000).values():
                found += [(each.key, each.value, each.headers) for each in records]
    assert found == [(b"k", b"<m>%d</m>" % n, [("n", b"%d" % n)]) for n in range(100)]


def test_files_are_made_without_starting_programs(spark: SparkSession, tmp_path: Path) -> None:
    """As Hadoop makes them, with their sums beside them, but its own way runs `chmod` for each."""
    jvm: Any = spark.sparkContext._jvm
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    file = jvm.org.apache.hadoop.fs.Path((tmp_path / "file").as_uri())
    files = file.getFileSystem(configuration)
    assert files.getClass().getSimpleName() == "BareLocalFileSystem"
    stream = files.create(file)
    stream.write(b"content")
    stream.close()
    assert (tmp_path / "file").read_bytes() == b"content"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / ".file.crc").exists()
    (tmp_path / "file").write_bytes(b"CONTENT")
    with pytest.raises(Py4JJavaError, match="ChecksumException"):
        files.open(file).readAllBytes()


def test_nothing_but_warnings_reaches_the_terminal() -> None:
    """A session, a job with Python workers, the end of the JVM; then a worker that prints."""
    code = """
        import sys
        from pyspark import SparkContext
        from streaming_jobs.local.jars import jars
        from streaming_jobs.session import spark_session, stop_spark

        def speak(batches):
            print("said by a worker", file=sys.stderr, flush=True)
            yield from batches

        session = spark_session("quiet", jars=jars("spark"))
        jvm = SparkContext._gateway.proc
        rows = session.range(10, numPartitions=1)
        assert rows.mapInArrow(speak, "id long").count() == 10
        stop_spark(session)
        assert jvm.returncode is not None
    """
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("", "said by a worker\n", 0)


def test_spark_logs_through_logging(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    def fail(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("on purpose")

    with pytest.raises(Exception, match="on purpose"):
        spark.range(1, numPartitions=1).mapInArrow(fail, "id long").collect()
    # A thread reads what the JVM writes, so records come a little later than the exception.
    deadline = time.monotonic() + 10
    while not (found := spark_records(caplog)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "on purpose" in found[0].getMessage()
    assert found[0].levelname in {"WARNING", "ERROR"}


def spark_records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.name.startswith("org.apache.spark.")]


def test_a_spark_that_cannot_start_says_why() -> None:
    """The JVM's own words for its end, and Spark's for a session it can't make."""
    code = """
        from streaming_jobs.session import SparkError, spark_session
        for setting, value in {"spark.driver.memory": "1zz", "spark.driver.port": "1x"}.items():
            try:
                spark_session("none", jars=[], settings={setting: value})
            except SparkError as error:
                print(error)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "Invalid maximum heap size: -Xmx1zz" in ran.stdout
    assert "The value '1x' in the config \"spark.driver.port\" is invalid" in ran.stdout
    assert ran.returncode == 0, ran.stderr


def test_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = jars("spark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match="Java 17 or newer is needed, and there is no bin/java in"):
        spark_session("none", jars=found)

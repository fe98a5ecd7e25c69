"""What Spark and Kafka say when a job ends, and what is made of it."""

import errno
import os

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from broker.errors import BrokerError
from streaming_jobs.failures import JobError, explain_failure, explained

DIED = """An error occurred while calling o93.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times
: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)
Caused by: java.io.EOFException
"""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (DIED, "worker-died"),
        ("java.io.EOFException: null", "torn-checkpoint"),
        ("org.apache.hadoop.fs.ChecksumException: Checksum error: file:/c/0", "torn-checkpoint"),
        ("java.io.IOException: No space left on device", "disk-full"),
        ("OSError: [Errno 28] No space left on device: '/c/xmlbroker-pins/7.tmp'", "disk-full"),
        ("Incomplete log file file:/c/offsets/3", "torn-checkpoint"),
        ("com.fasterxml.jackson.core.JsonParseException: Unexpected character", "torn-checkpoint"),
        (
            "Some data may have been lost because they are not available in Kafka any more",
            "input-lost",
        ),
        ("Cannot fetch offset 12 (GroupId: spark-1, TopicPartition: m-0)", "input-lost"),
        (
            "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed",
            "kafka-authentication",
        ),
        (
            "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized",
            "kafka-authorisation",
        ),
        (
            "org.apache.kafka.common.errors.TimeoutException: Topic m not present",
            "kafka-unreachable",
        ),
        ("ModuleNotFoundError: No module named 'lxml'", "package-missing"),
        (
            "org.apache.kafka.common.errors.RecordTooLargeException: The request included a "
            "message larger than the max message size",
            "record-too-large",
        ),
        (
            "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent "
            "failure: Lost task 0.3 in stage 3.0 (TID 9) (h executor 3): ExecutorLostFailure "
            "(executor 3 exited caused by one of the running tasks) Reason: Command exited with "
            "code 52",
            "out-of-memory",
        ),
        ("An error occurred while calling o93.save.\nsomething else\n", "job-failed"),
        ("", "job-failed"),
    ],
)
def test_the_code_says_why(text: str, code: str) -> None:
    assert explain_failure(RuntimeError(text)).code == code


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_is_full_is_said_in_words(number: int) -> None:
    with pytest.raises(JobError, match="disk-full: there is no space left"), explained():
        raise OSError(number, os.strerror(number), "xmlbroker-pins/.ready-1")


def test_other_errors_of_files_are_not_explained_away() -> None:
    with pytest.raises(PermissionError), explained():
        raise PermissionError(errno.EACCES, "Permission denied", "xmlbroker-pins")


def test_an_error_of_ours_stays_what_it_is() -> None:
    error = BrokerError("version-lost", "compacted")
    assert explain_failure(error) is error
    through_spark = RuntimeError("…\nstreaming_jobs.pins.PinError: torn-pin: it can't be read\n…")
    explained = explain_failure(through_spark)
    assert (explained.code, explained.detail) == ("torn-pin", "it can't be read")


def test_what_spark_raises_is_said_in_words() -> None:
    for error in (Py4JNetworkError("Answer from Java side is empty"), Py4JError("o382.isActive")):
        with pytest.raises(JobError) as raised, explained():
            raise error
        assert raised.value.code == "spark-ended"
    with pytest.raises(JobError) as raised, explained():
        raise PySparkException("No space left on device")
    assert raised.value.code == "disk-full"
    with pytest.raises(ZeroDivisionError), explained():
        raise ZeroDivisionError


def test_the_detail_has_the_line_that_said_it() -> None:
    assert "Python worker exited unexpectedly" in explain_failure(RuntimeError(DIED)).detail

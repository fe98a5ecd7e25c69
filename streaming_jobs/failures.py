"""What went wrong, in words that say what to do."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from broker.errors import BrokerError
from streaming_jobs.session import jvm_status

STOPPING = "stopping"
"""The code of a batch that is not begun, since the job is to end before it."""

_OUT_OF_MEMORY = (
    "Spark's JVM had not enough memory. Nothing was skipped; start again, and it goes on where it "
    "stopped. If it ends in the same way, a message may be far larger than it is in Kafka, where "
    'it is compressed. With more memory (job.spark = {"spark.driver.memory": "8g"}; on a cluster, '
    "job.executor_memory) it is read, and refused"
)
_SPARK_OUT_OF_MEMORY = 52
"""The status that Spark's JVM ends with then."""

_CAUSES = (
    (
        r"No space left on device|Disk quota exceeded",
        "disk-full",
        "there is no space left for the checkpoint, or for Spark's temporary files. Nothing was "
        "skipped; make space, start again, and it goes on where it stopped",
    ),
    (
        # Before what a torn checkpoint says: here, too, something ended before it was complete.
        r"Python worker exited unexpectedly",
        "worker-died",
        "a Python worker died at each attempt, most often for want of memory: each has all "
        "subscriptions. Give the machine more, or the job fewer cores (job.master). Nothing was "
        "skipped; it goes on where it stopped when it is started again",
    ),
    (
        r"java\.lang\.OutOfMemoryError|Command exited with code 52\b",
        "out-of-memory",
        _OUT_OF_MEMORY,
    ),
    (
        r"No module named '(?!broker|subscriptions|streaming_jobs)",
        "package-missing",
        "a machine of the cluster lacks a package that Python workers need: pyarrow, lxml, "
        "pydantic and numpy have to be installed there",
    ),
    (
        r"RecordTooLargeException",
        "record-too-large",
        "a topic takes less than what it was said to take. Nothing was skipped; raise its "
        "max.message.bytes, start again, and it goes on where it stopped",
    ),
    (
        r"Record at topic .* has timestamp value",
        "message-time",
        "a message has a time so far away that Spark can't read it. Have Kafka take it away "
        "(kafka-delete-records.sh, up to it in its partition), start with a new checkpoint, and "
        "let the topic refuse others: message.timestamp.before.max.ms and .after.max.ms, as "
        "`xmlbroker admin apply` sets them",
    ),
    (
        r"OffsetOutOfRange|Cannot fetch offset|data may have been lost|KafkaSourceProvider.*lost"
        r"|offset.*was changed from|failOnDataLoss",
        "input-lost",
        "messages that were not read yet are gone from an input topic (its retention is too short, "
        "or it was deleted). Nothing was skipped. To go on without them, start with a new "
        "checkpoint; if Kafka lost its topics, restore the subscriptions first "
        "(docs/operations.md, Restore)",
    ),
    (
        r"JsonParseException|Incomplete log file|Log file was malformed|MALFORMED_LOG_FILE"
        r"|ChecksumException|checkpoint.*corrupt|batch .* doesn't exist|MISSING_STATE|EOFException"
        r"|UnrecognizedPropertyException|MismatchedInputException|STREAMING_CHECKPOINT"
        # What Spark's JSON reader says; the job has no JSON but the checkpoint's.
        r"|Unexpected end-of-input|Unexpected character|Unrecognized token|Illegal character",
        "torn-checkpoint",
        "the checkpoint can't be read. Nothing was skipped. Restore it from a copy, or start with "
        "a new one and let subscribers drop the deliveries that they know by their xb-id",
    ),
    (
        r"SaslAuthenticationException|Authentication failed",
        "kafka-authentication",
        "Kafka refused the user or the password; see the settings kafka.sasl_*",
    ),
    (
        r"TopicAuthorizationException|GroupAuthorizationException|ClusterAuthorizationException",
        "kafka-authorisation",
        "Kafka does not allow it; see the access rules for the broker's user",
    ),
    (
        r"UnknownTopicOrPartitionException|does not exist",
        "topic-missing",
        "a topic is gone that the job reads or writes",
    ),
    (
        r"TimeoutException|No resolvable bootstrap|ConnectException|DisconnectException"
        r"|Failed to (construct|create) (kafka|new Kafka)|BrokerNotAvailable",
        "kafka-unreachable",
        "Kafka can't be reached; the job goes on where it stopped when it is started again",
    ),
)


_SAYS_NOTHING = re.compile(r"An error occurred while calling \w+\.\w+\.$")
"""What py4j puts before the error."""


class JobError(BrokerError):
    """The job ended: the code says why, the detail what to do."""


def explain_failure(failure: BaseException | None) -> BrokerError:
    """The error for a person to read."""
    if isinstance(failure, BrokerError):
        return failure
    text = "" if failure is None else str(failure)
    inner = re.search(
        r"\b(?:broker|subscriptions|streaming_jobs)\.[\w.]*Error: ([\w-]+): (.*)", text
    )
    if inner is not None:
        # An error of ours that went through Spark on its way here.
        return JobError(inner.group(1), inner.group(2))
    for pattern, code, detail in _CAUSES:
        found = re.search(pattern, text)
        if found is not None:
            return JobError(code, f"{detail}.\n{_line_of(text, found.start())}")
    lines = (line for line in text.splitlines() if line.strip())
    first = next((line for line in lines if not _SAYS_NOTHING.match(line)), "Spark gave no reason")
    return JobError("job-failed", first.strip(": \t")[:500])


@contextmanager
def explained() -> Iterator[None]:
    """Let errors of Spark's, and a full disk, be said in words."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise explain_failure(error) from None
    except (Py4JError, ConnectionError):  # no answer of Java's, but none at all
        raise _why_spark_ended() from None
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise explain_failure(error) from None
        raise


def _why_spark_ended() -> JobError:
    status = jvm_status()
    if status == _SPARK_OUT_OF_MEMORY:
        return JobError("out-of-memory", _OUT_OF_MEMORY)
    said = "" if status is None else f" with status {status}"
    return JobError(
        "spark-ended",
        f"Spark's JVM has ended{said}: it was killed, or the machine had not enough memory. "
        "Nothing was skipped; start again, and it goes on where it stopped",
    )


def _line_of(text: str, place: int) -> str:
    start = text.rfind("\n", 0, place) + 1
    end = text.find("\n", place)
    return text[start : end if end >= 0 else None].strip()[:500]

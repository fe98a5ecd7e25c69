"""Where the job writes: a topic for each row, results and dead letters in one write."""

from typing import Any, ClassVar

from pyspark.sql import DataFrame

from subscriptions.connection import KafkaSettings

_BLOCK_MS = 10_000
"""How long a row for a topic that isn't there holds up its task. Topics are made before they are
written to, so this is for one that was deleted a moment ago."""

_REQUEST_MS = 10_000
_DELIVERY_MS = 10 * 60_000
"""How long the producer tries. Records expire one by one, and if Kafka comes back in the middle of
that, later ones are written before earlier ones, which come with the next attempt: so they must
not while Kafka may come back. A topic that can't be had does not hold up a batch for so long: the
driver sees it, and gives up the write (`in_force.py`)."""

LARGEST_RECORD_BYTES = 32 * 1024 * 1024
"""What can be written in any case: some of these fit into the producer's memory."""

_BUFFER_BYTES = 64 * 1024 * 1024
_SMALLEST_BATCH, _LARGEST_BATCH = 512, 16_384
"""Larger batches take less of Kafka's time and of Spark's, 64 kB a seventh less than 16. But there
is one for each topic that is written to, and all have to fit. And none may be more than its topic
takes: Kafka's producer would cut it into parts that are no smaller, again and again (KAFKA-8350),
and a flush would not wait for them (KAFKA-19479). So they are not larger than what hardly a topic
is ever made to take less than, and smaller if there is one that does."""

_METADATA_MS = 5 * 60_000
"""Kafka's own default."""

_LINGER_MS = 50
"""How long a batch waits for more. At the end of a task nothing waits: a task that takes less than
this sends all of it then."""


class Sink:
    """Writes the rows of batches to a Kafka."""

    _failures: ClassVar = 0
    """Of all sinks of this process: they share Spark's producers."""

    def __init__(self, kafka: KafkaSettings, max_record_bytes: int) -> None:
        self._options = {
            **kafka.spark_options(),
            "kafka.acks": "all",
            "kafka.enable.idempotence": "true",
            "kafka.max.block.ms": str(_BLOCK_MS),
            "kafka.request.timeout.ms": str(_REQUEST_MS),
            "kafka.delivery.timeout.ms": str(_DELIVERY_MS),
            "kafka.max.request.size": str(max(max_record_bytes, LARGEST_RECORD_BYTES)),
            "kafka.linger.ms": str(_LINGER_MS),
            "kafka.buffer.memory": str(_BUFFER_BYTES),
        }
        self._in_java: Any = None
        """The options as the JVM has them: one by one they would be a call each, every batch."""
        self._made_for: tuple[int, int] | None = None
        """The size of batches, and the failures, that they are for."""

    def start_anew(self) -> None:
        """Have other producers write what follows, after a write that failed.

        A write is done when its producer has nothing left, and this one may have records for a
        topic that is gone. What else it has, it goes on writing: it is a beginning of what comes
        again, so order holds.
        """
        Sink._failures += 1

    def write(self, rows: DataFrame, batch_bytes: int) -> None:
        """Write rows of topic, key, value and headers: the one action of a batch."""
        wanted = (batch_bytes, Sink._failures)
        if self._made_for != wanted:
            self._in_java = self._to_java(rows, *wanted)
            self._made_for = wanted
        # As `DataFrameWriter.options` and `save` do it, for which there is no public way.
        rows.write.format("kafka")._jwrite.options(self._in_java).save()  # noqa: SLF001

    def _to_java(self, rows: DataFrame, batch_bytes: int, failures: int) -> Any:  # noqa: ANN401 - a Java object
        jvm: Any = rows.sparkSession.sparkContext._jvm  # noqa: SLF001 - no public name for it
        made = jvm.java.util.HashMap()
        # Spark has a producer for each set of options, and a millisecond makes no difference here.
        age = str(_METADATA_MS + failures)
        sizes = {"kafka.batch.size": str(batch_bytes), "kafka.metadata.max.age.ms": age}
        for name, value in {**self._options, **sizes}.items():
            made.put(name, value)
        return made


def batch_bytes(topics: int, smallest_limit: int = _LARGEST_BATCH) -> int:
    """How large the producer's batches are, for so many topics that all take so much.

    A power of two, so that not every new subscriber makes for another producer.
    """
    most = min(_BUFFER_BYTES // 2 // max(1, topics), smallest_limit)
    size = _LARGEST_BATCH
    while size > _SMALLEST_BATCH and size > most:
        size //= 2
    return size

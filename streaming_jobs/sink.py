"""Where the job writes: a topic for each row, results and dead letters in one write."""

from pyspark.sql import DataFrame

from subscriptions.connection import KafkaSettings

_BLOCK_MS = 10_000
"""How long a row for a topic that isn't there holds up its task. Topics are made before they are
written to, so this is for one that was deleted a moment ago."""

_REQUEST_MS = 10_000
_DELIVERY_MS = 30_000
"""How long the producer tries. By its default of two minutes, and four attempts at a task, a topic
that can't be had would hold up a batch for eight minutes."""

LARGEST_RECORD_BYTES = 32 * 1024 * 1024
"""What can be written in any case: some of these fit into the producer's memory."""

_BUFFER_BYTES = 64 * 1024 * 1024
_SMALLEST_BATCH, _LARGEST_BATCH = 2_048, 65_536
"""Larger batches take less of Kafka's time and of Spark's: with 64 kB instead of 16, Kafka took
half of it for a record, and Spark a fifth less. But there is one for each topic that is written to,
and all have to fit."""

_LINGER_MS = 50
"""How long a batch waits for more. At the end of a task nothing waits: a task that takes less than
this sends all of it then."""


def write(rows: DataFrame, kafka: KafkaSettings, max_record_bytes: int, topics: int) -> None:
    """Write rows of topic, key, value and headers, to about so many topics: the one action of a
    batch.
    """
    (
        rows.write.format("kafka")
        .options(**kafka.spark_options())
        .option("kafka.acks", "all")
        .option("kafka.enable.idempotence", "true")
        .option("kafka.max.block.ms", str(_BLOCK_MS))
        .option("kafka.request.timeout.ms", str(_REQUEST_MS))
        .option("kafka.delivery.timeout.ms", str(_DELIVERY_MS))
        .option("kafka.max.request.size", str(max(max_record_bytes, LARGEST_RECORD_BYTES)))
        .option("kafka.linger.ms", str(_LINGER_MS))
        .option("kafka.batch.size", str(_batch_bytes(topics)))
        .option("kafka.buffer.memory", str(_BUFFER_BYTES))
        .save()
    )


def _batch_bytes(topics: int) -> int:
    """A power of two, so that not every new subscriber makes for another producer."""
    size = _LARGEST_BATCH
    while size > _SMALLEST_BATCH and size * topics > _BUFFER_BYTES // 2:
        size //= 2
    return size

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

_BATCH_BYTES = 4_096
_BUFFER_BYTES = 64 * 1024 * 1024


def write(rows: DataFrame, kafka: KafkaSettings, max_record_bytes: int) -> None:
    """Write rows of topic, key, value and headers: the one action of a batch."""
    (
        rows.write.format("kafka")
        .options(**kafka.spark_options())
        .option("kafka.acks", "all")
        .option("kafka.enable.idempotence", "true")
        .option("kafka.max.block.ms", str(_BLOCK_MS))
        .option("kafka.request.timeout.ms", str(_REQUEST_MS))
        .option("kafka.delivery.timeout.ms", str(_DELIVERY_MS))
        .option("kafka.max.request.size", str(max(max_record_bytes, LARGEST_RECORD_BYTES)))
        .option("kafka.linger.ms", "2")
        # Small: there is a batch for each partition of each subscriber's topic.
        .option("kafka.batch.size", str(_BATCH_BYTES))
        .option("kafka.buffer.memory", str(_BUFFER_BYTES))
        .save()
    )

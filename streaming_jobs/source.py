"""What the job reads: the input topics, from where it stopped."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from subscriptions.connection import KafkaSettings

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""What is read of each record."""


def read(
    spark: SparkSession, kafka: KafkaSettings, topics: Sequence[str], max_messages: int
) -> DataFrame:
    """A stream of source records with their headers.

    It starts at the beginning of a topic, and stops rather than go on if messages that it has not
    read yet are gone.
    """
    return (
        spark.readStream.format("kafka")
        .options(**kafka.spark_options())
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", str(max_messages))
        .option("kafka.fetch.max.wait.ms", "10")
        .load()
        .select(*COLUMNS)
    )

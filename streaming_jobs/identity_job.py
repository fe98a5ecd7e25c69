"""The yardstick of `xmlbroker bench pipeline`: the same way through Spark without a broker in it.

For each message it writes as many records, with about as many bytes and headers, as the broker
does; what is left out is the engine.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming_jobs import sink, source
from streaming_jobs.rows import SCHEMA, Headers, Rows
from streaming_jobs.transform import sources
from subscriptions.connection import KafkaSettings

_ID = b"0" * 32
_SUBSCRIPTION = b"subscriber-00/subscription-000"


@dataclass(frozen=True)
class Copies:
    """Runs in the workers: copies of the beginning of each message."""

    topics: tuple[str, ...]
    records: int
    payload: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """So many records for each message, topic by topic."""
        for batch in batches:
            rows = Rows()
            for number, each in enumerate(sources(batch)):
                value = (each.value or b"")[: self.payload]
                own = (_ID, _SUBSCRIPTION, b"0", each.place, b"application/xml")
                headers = Headers(each.result_names, own + each.headers.values)
                size = each.result_size + len(value)
                for copy in range(self.records):
                    topic = self.topics[(number + copy) % len(self.topics)]
                    rows.add(topic, each.key, value, headers, size)
                    if rows.is_full:
                        yield rows.take()
            if len(rows):
                yield rows.take()


def start_identity(
    spark: SparkSession,
    kafka: KafkaSettings,
    copies: Copies,
    topic: str,
    checkpoint: Path,
    *,
    available_now: bool,
    max_messages: int,
) -> StreamingQuery:
    """Start the job on a topic of messages."""

    def run_batch(messages: DataFrame, _batch: int) -> None:
        sink.write(messages.mapInArrow(copies, SCHEMA), kafka, 1_000_000)

    stream = source.read(spark, kafka, [topic], max_messages).writeStream
    stream = stream.foreachBatch(run_batch).option("checkpointLocation", str(checkpoint))
    if available_now:
        stream = stream.trigger(availableNow=True)
    return stream.start()

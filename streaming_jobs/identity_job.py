"""The yardstick of `xmlbroker bench pipeline`: the same way through Spark without a broker in it.

For each message it writes as many records with as many headers as the broker does: the message
itself, or as much of it as the broker's records have, so that only the engine is left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming_jobs import sink, source
from streaming_jobs.arrow_map import ArrowMap
from streaming_jobs.rows import SCHEMA, Rows
from streaming_jobs.sources import sources
from streaming_jobs.transform import OWN_HEADERS
from subscriptions.connection import KafkaSettings

_ID = b"0" * 32
_SUBSCRIPTION = b"subscriber-00/subscription-000"


@dataclass(frozen=True)
class Copies:
    """Runs in the workers: copies of each message."""

    topics: tuple[str, ...]
    records: int
    payload: int | None = None
    """So many bytes of its beginning; None for all of it."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """So many records for each message, topic by topic."""
        for batch in batches:
            rows = Rows()
            count = self.records
            for number, each in enumerate(sources(batch)):
                value = (each.value or b"")[: self.payload]
                own = (_ID, _SUBSCRIPTION, b"0", each.place, b"application/xml")
                first = number % len(self.topics)
                rows.add_alike(
                    list(islice(cycle(self.topics), first, first + count)),
                    [each.key] * count,
                    [value] * count,
                    names=OWN_HEADERS + each.headers.names,
                    headers=[[header] * count for header in own + each.headers.values],
                    size=count * (len(value) + 500),
                )
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
    copying, output = ArrowMap(source.COLUMNS, SCHEMA), sink.Sink(kafka, 1_000_000)

    def run_batch(messages: DataFrame, _batch: int) -> None:
        rows = copying.over(messages, copies)
        output.write(rows, sink.batch_bytes(len(copies.topics)))

    stream = source.read(spark, kafka, [topic], max_messages).writeStream
    stream = stream.foreachBatch(run_batch).option("checkpointLocation", str(checkpoint))
    if available_now:
        stream = stream.trigger(availableNow=True)
    return stream.start()

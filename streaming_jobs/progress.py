"""What Spark tells about batches once they are committed: one line of the log for each.

Asked for, not listened to: a listener of PySpark's takes a fifth of a second of the JVM's time for
each batch, since it fetches every number of it by a call of its own.
"""

import json
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from streaming_jobs.metrics import Metrics
from streaming_jobs.overview import Overview

_LOGGER = logging.getLogger(__name__)


class Progress:
    """Logs and counts each batch with its offsets and where its time went."""

    def __init__(self, metrics: Metrics, overview: Overview) -> None:
        self._metrics = metrics
        self._overview = overview
        self._lock = threading.Lock()
        self._told = -1
        self.version = -1
        """That of the subscriptions of the last batch; the job says it."""

    def look(self, query: StreamingQuery) -> None:
        """Tell of the last batch that was committed, if that is not done yet.

        Called while a batch is under way, when the one before it is committed, and now and then.
        """
        # Not `query.lastProgress`: it fetches number by number, too.
        last = query._jsq.lastProgress()  # noqa: SLF001 - there is no public way
        if last is None:
            return
        progress: dict[str, Any] = json.loads(last.json())
        with self._lock:
            if progress["batchId"] <= self._told or not progress["numInputRows"]:
                return
            self._told = progress["batchId"]
        self._tell(progress)

    def _tell(self, progress: Mapping[str, Any]) -> None:
        batch, messages = progress["batchId"], progress["numInputRows"]
        milliseconds: dict[str, int] = progress["durationMs"]
        sources = progress["sources"]
        lag = lag_by_topic((each["endOffset"], each["latestOffset"]) for each in sources)
        self._metrics.count_commit(milliseconds, lag, time.time())
        self._overview.count_commit(batch, milliseconds, lag)
        _LOGGER.info(
            "batch %d: %d messages",
            batch,
            messages,
            extra={
                "batch": batch,
                "version": self.version,
                "messages": messages,
                "milliseconds": milliseconds,
                "offsets": [source["endOffset"] for source in sources],
                "lag": lag,
            },
        )


Offsets = Mapping[str, Mapping[str, int]]
"""By topic and partition."""


def lag_by_topic(offsets: Iterable[tuple[Offsets | None, Offsets | None]]) -> dict[str, int]:
    """How many messages of each topic are not read yet, from where sources are and could be."""
    lag: dict[str, int] = {}
    for read, latest in offsets:
        for topic, partitions in (read or {}).items():
            for partition, offset in partitions.items():
                end = (latest or {}).get(topic, {}).get(partition, offset)
                lag[topic] = lag.get(topic, 0) + max(0, end - offset)
    return lag

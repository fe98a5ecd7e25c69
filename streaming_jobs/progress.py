"""What Spark tells about batches once they are committed: one line of the log for each."""

import json
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from streaming_jobs.kill_points import KillPoint, reach
from streaming_jobs.metrics import Metrics
from streaming_jobs.overview import Overview

_LOGGER = logging.getLogger(__name__)


class BatchListener(StreamingQueryListener):
    """Logs and counts each batch with its offsets and where its time went."""

    def __init__(self, metrics: Metrics, overview: Overview) -> None:
        super().__init__()
        self._metrics = metrics
        self._overview = overview
        self.version = -1
        """That of the subscriptions of the last batch; the job says it."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing to say: the job says when it is ready."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch is committed."""
        progress = event.progress
        if not progress.numInputRows:
            return
        reach(KillPoint.COMMITTED)
        milliseconds = dict(progress.durationMs)
        lag = lag_by_topic((each.endOffset, each.latestOffset) for each in progress.sources)
        self._metrics.count_commit(milliseconds, lag, time.time())
        self._overview.count_commit(progress.batchId, milliseconds, lag)
        _LOGGER.info(
            "batch %d: %d messages",
            progress.batchId,
            progress.numInputRows,
            extra={
                "batch": progress.batchId,
                "version": self.version,
                "messages": progress.numInputRows,
                "milliseconds": milliseconds,
                "offsets": [_offsets(source.endOffset) for source in progress.sources],
                "lag": lag,
            },
        )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing came for a while."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The job notices by itself."""


def lag_by_topic(offsets: Iterable[tuple[str, str]]) -> dict[str, int]:
    """How many messages of each topic are not read yet, from where sources are and could be."""
    lag: dict[str, int] = {}
    for read, latest in offsets:
        ends = _offsets(latest)
        for topic, partitions in _offsets(read).items():
            for partition, offset in partitions.items():
                end = ends.get(topic, {}).get(partition, offset)
                lag[topic] = lag.get(topic, 0) + max(0, end - offset)
    return lag


def _offsets(text: str) -> Mapping[str, Mapping[str, int]]:
    """Offsets by topic and partition, as Spark's source writes them."""
    try:
        read: Any = json.loads(text)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}

"""What Spark tells about batches once they are committed: one line of the log for each."""

import logging
import time

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from streaming_jobs.kill_points import KillPoint, reach
from streaming_jobs.metrics import Metrics

_LOGGER = logging.getLogger(__name__)


class BatchListener(StreamingQueryListener):
    """Logs and counts each batch with its offsets and where its time went."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__()
        self._metrics = metrics

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing to say: the job says when it is ready."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch is committed."""
        progress = event.progress
        if not progress.numInputRows:
            return
        reach(KillPoint.COMMITTED)
        behind = [float(each.metrics.get("maxOffsetsBehindLatest", 0)) for each in progress.sources]
        self._metrics.count_commit(dict(progress.durationMs), max(behind, default=0), time.time())
        _LOGGER.info(
            "batch %d: %d messages",
            progress.batchId,
            progress.numInputRows,
            extra={
                "batch": progress.batchId,
                "messages": progress.numInputRows,
                "milliseconds": dict(progress.durationMs),
                "offsets": [source.endOffset for source in progress.sources],
            },
        )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing came for a while."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The job notices by itself."""

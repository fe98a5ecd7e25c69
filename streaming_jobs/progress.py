"""What Spark tells about batches once they are committed: one line of the log for each."""

import logging

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from streaming_jobs.kill_points import KillPoint, reach

_LOGGER = logging.getLogger(__name__)


class BatchListener(StreamingQueryListener):
    """Logs each batch with its offsets and where its time went."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing to say: the job says when it is ready."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch is committed."""
        progress = event.progress
        if not progress.numInputRows:
            return
        reach(KillPoint.COMMITTED)
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

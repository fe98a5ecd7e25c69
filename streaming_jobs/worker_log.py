"""What our code logs in a Python worker, on its way to the driver's log.

Nobody has set up logging there: what is less than a warning would go nowhere, and the rest without
level and logger. A worker's standard error is the JVM's, so records go there in the form in which
the JVM's own do, and `local/spark_log.py` takes them apart. On a cluster they are in the log of the
executor.
"""

import json
import logging

_NAMES = {logging.WARNING: "WARN", logging.CRITICAL: "FATAL"}
"""Levels that log4j calls something else."""

_OURS = ("broker", "subscriptions", "streaming_jobs")


class _AsLog4j(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event = {
            "level": _NAMES.get(record.levelno, record.levelname),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event)


def log_to_spark() -> None:
    """Let a worker's log be seen. What is of interest is for the driver to say."""
    for name in _OURS:
        logger = logging.getLogger(name)
        if not logger.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(_AsLog4j())
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
            logger.propagate = False

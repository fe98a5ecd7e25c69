"""What the driver's JVM and its Python workers print, as records of Python's `logging`.

Left alone they would write to the terminal in a form of their own, between our lines and into our
JSON. So both outputs of the JVM go into a pipe, and a thread reads it: an event of log4j becomes a
record of the logger with its Java name, at its level; any other line is a warning of the logger
`spark.output`, or a debug message once Spark is being stopped: its workers then complain about
pipes that were closed on purpose.
"""

import json
import logging
import os
import threading

RAW_OUTPUT = "spark.output"
LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG,
}
# Said by every JVM that Spark's own script starts.
NOISE = ("WARNING: Using incubator modules", "Picked up JAVA_TOOL_OPTIONS")


class SparkLog:
    """The pipe that a JVM writes to. Made before the JVM, followed once it has been started."""

    def __init__(self) -> None:
        reading, self._writing = os.pipe()
        self._reading = os.fdopen(reading, encoding="utf-8", errors="replace")
        self._thread: threading.Thread | None = None
        self._raw_level = logging.WARNING

    @property
    def writing_end(self) -> int:
        """The file descriptor for the JVM's outputs."""
        return self._writing

    def follow(self) -> None:
        """Log what is written until the last writer has ended.

        Called after the JVM was forked: to fork a process that has threads is not safe.
        """
        os.close(self._writing)
        self._thread = threading.Thread(target=self._log_lines, name="spark-log", daemon=True)
        self._thread.start()

    def rest(self) -> str:
        """All that was written, for the error about a JVM that ended before it was followed."""
        os.close(self._writing)
        with self._reading:
            return self._reading.read().strip()

    def expect_the_end(self) -> None:
        """Take what workers print for of no interest: Spark is about to be stopped."""
        self._raw_level = logging.DEBUG

    def join(self) -> None:
        """Wait until the last line has been logged."""
        if self._thread:
            self._thread.join(timeout=10)

    def _log_lines(self) -> None:
        with self._reading:
            for line in self._reading:
                log_line(line.rstrip(), self._raw_level)


def log_line(line: str, raw_level: int) -> None:
    """Log one line of the JVM's output; `raw_level` is for lines that have none of their own."""
    if not line or line.startswith(NOISE):
        return
    try:
        event = json.loads(line)
        logger = logging.getLogger(event["logger"])
        level = LEVELS[event["level"]]
        text = "\n".join(event[part] for part in ("message", "exception") if event.get(part))
    except (ValueError, KeyError, TypeError, RecursionError):
        logging.getLogger(RAW_OUTPUT).log(raw_level, "%s", line)
    else:
        logger.log(level, "%s", text.rstrip())

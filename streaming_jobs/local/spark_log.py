"""What the driver's JVM and its Python workers print, as records of Python's `logging`.

Left alone they would write to the terminal in a form of their own, between our lines and into our
JSON. So both outputs of the JVM go into a pipe, and a thread reads it: an event of log4j becomes a
record of the logger with its Java name, at its level; any other line is a warning of the logger
`spark.output`. While something is being stopped all are debug messages: workers complain about
pipes that were closed on purpose, and Spark about a batch that was not begun.
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
        self._is_ending = False

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
        """Take what is said from here on for of no interest: Spark is about to be stopped."""
        self._is_ending = True

    def expect_no_end(self) -> None:
        """Take it seriously again."""
        self._is_ending = False

    def join(self) -> None:
        """Wait until the last line has been logged."""
        if self._thread:
            self._thread.join(timeout=10)

    def _log_lines(self) -> None:
        with self._reading:
            for line in self._reading:
                log_line(line.rstrip(), is_ending=self._is_ending)


def log_line(line: str, *, is_ending: bool = False) -> None:
    """Log one line of the JVM's output, at its level, unless all of it is about the end."""
    if not line or line.startswith(NOISE):
        return
    try:
        event = json.loads(line)
        logger = logging.getLogger(event["logger"])
        level = LEVELS[event["level"]]
        text = "\n".join(event[part] for part in ("message", "exception") if event.get(part))
    except (ValueError, KeyError, TypeError, RecursionError):
        level, logger, text = logging.WARNING, logging.getLogger(RAW_OUTPUT), line
    logger.log(logging.DEBUG if is_ending else level, "%s", text.rstrip())

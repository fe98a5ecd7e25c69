"""Logging that a person can read on a terminal and a machine elsewhere (a JSON object a line)."""

import json
import logging
import sys
from datetime import UTC, datetime

from xmlbroker.settings import LogSettings

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """A record as one JSON object: time, level, logger, message, and what `extra` brought."""

    def format(self, record: logging.LogRecord) -> str:
        """The line for a record."""
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry.update(
            {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        )
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


def configure_logging(settings: LogSettings) -> None:
    """Send the log of all packages to standard error in the form that the settings ask for."""
    as_text = settings.format == "text" or (settings.format == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler()
    if as_text:
        handler.setFormatter(
            logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
        )
    else:
        handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # What it says of errors in a batch, Spark says too, and so do we, in words.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    # It warns again and again of what is raised as an error, too, and then said once by us.
    # Below warnings it logs its configuration, passwords included.
    is_debugging = settings.level == "debug"
    logging.getLogger("kafka").setLevel(logging.WARNING if is_debugging else logging.CRITICAL)

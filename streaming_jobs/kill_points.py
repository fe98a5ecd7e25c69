"""Places at which fault tests kill the driver, or a worker: counted, not timed, so that a failure
comes again.

`XB_KILL_POINT=written:3` in the environment of a job kills it with -9 the third time that
a batch's output is written. In the environment of workers alone, `writing:3` kills the worker that
is the first to be there; `XB_KILL_ONCE` names a file that is made then, and while it is there
nobody else dies. Nothing else reads the variables; without them a place costs one look-up.
"""

import os
import signal
from collections import Counter
from collections.abc import MutableMapping
from enum import StrEnum

VARIABLE = "XB_KILL_POINT"
DRIVER = "XB_KILL_POINT_DRIVER"
ONCE = "XB_KILL_ONCE"


class KillPoint(StrEnum):
    """The places, in the order in which a batch passes them."""

    BETWEEN = "between"
    """No batch is under way: before an offset log entry is made."""
    BEGUN = "begun"
    """The offset log has the batch, nothing of it is pinned or written."""
    PINNED = "pinned"
    """Its version is written down."""
    WRITING = "writing"
    """A worker has made some of its output."""
    WRITTEN = "written"
    """All of its output is acknowledged, the commit log does not have it."""
    COMMITTED = "committed"
    """The commit log has it."""


_passed: Counter[str] = Counter()


def arm(of_workers: MutableMapping[str, str]) -> None:
    """Let workers know whom to kill, in their environment; called by the driver before they start.
    By then it is too late for that of the driver: the JVM that starts them has it.
    """
    if VARIABLE in os.environ:
        of_workers[DRIVER] = str(os.getpid())


def reach(point: KillPoint) -> None:
    """Pass a place, or die there."""
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    name, _, count = wanted.partition(":")
    if name != point.value:
        return
    _passed[name] += 1
    if _passed[name] == int(count or 1) and _is_first():
        os.kill(int(os.environ.get(DRIVER, os.getpid())), signal.SIGKILL)


def _is_first() -> bool:
    """Whether nobody died here before, if only one is to."""
    mark = os.environ.get(ONCE)
    if mark is None:
        return True
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

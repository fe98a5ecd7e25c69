"""One job on a checkpoint: a second one would deliver everything twice, and tear it."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from broker.errors import BrokerError


class CheckpointError(BrokerError):
    """A checkpoint that can't be used."""


class CheckpointLock:
    """Held as long as a job runs; the kernel lets go of it when the process ends in any way.

    For checkpoints on this machine. On a cluster's storage the scheduler of the cluster has to see
    to it that there is one driver.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._file = checkpoint / "xmlbroker.lock"
        self._stream: IO[str] | None = None

    def __enter__(self) -> Self:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            stream = self._file.open("a+")
        except OSError as error:
            raise CheckpointError(
                "checkpoint-not-made",
                f"{self._file.parent} can't be made or written to: {error.strerror}; let the user "
                "of the job write there, or name another directory with --checkpoint or the "
                "setting job.checkpoint",
            ) from None
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            owner = stream.read().strip() or "another one"
            stream.close()
            raise CheckpointError(
                "checkpoint-in-use",
                f"a job (process {owner}) runs on {self._file.parent}; stop it first, or give "
                "this one another checkpoint",
            ) from None
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        self._stream = stream
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

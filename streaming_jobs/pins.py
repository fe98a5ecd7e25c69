"""Which subscriptions a batch has: written down before its first output, read when it comes again.

A batch that is done again after a crash must have the set it had at first: else a message could be
judged under two versions. A pin says which version that was, with a digest to prove it, what time
it was, which decides about `expires`, and who had no topic.
"""

import errno
import json
import os
import threading
import uuid
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from broker.errors import BrokerError
from subscriptions.model import Status

_KEPT = 100
"""Spark keeps as many batches in its logs; none older comes again."""

_READY = ".ready-"
"""How the names of files begin that batches get links to."""

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
"""What file systems say that have no links to files."""


class PinError(BrokerError):
    """A pin that can't be read, or a version that can't be had again."""


@dataclass(frozen=True)
class Pin:
    """What a batch uses."""

    version: int
    digest: str
    time: str
    suspended: tuple[str, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()
    """Keys and statuses of refusals beside which an earlier record stays in force."""

    @property
    def moment(self) -> datetime:
        """The time as such."""
        return datetime.fromisoformat(self.time)

    @property
    def statuses(self) -> dict[bytes, Status]:
        """The refusals as the registry takes them."""
        return {key.encode(): Status.parse(status.encode()) for key, status in self.kept}

    def to_bytes(self) -> bytes:
        """As it is kept."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def parse(data: bytes, file: object) -> "Pin":
        """A pin that was kept in a file."""
        try:
            read = json.loads(data)
            return Pin(
                int(read["version"]),
                str(read["digest"]),
                str(read["time"]),
                tuple(read["suspended"]),
                tuple((str(key), str(status)) for key, status in read["kept"]),
            )
        except (ValueError, KeyError, TypeError):
            raise PinError(
                "torn-pin",
                f"{file} should say which subscriptions a batch had, and can't be read; restore "
                "the checkpoint from a copy, or start with another one, which delivers again what "
                "is still in the input topics",
            ) from None


class Pins(Protocol):
    """Where pins are kept."""

    def read(self, batch: int) -> Pin | None:
        """The pin of a batch, if it was begun before."""

    def prepare(self, pin: Pin) -> None:
        """Do for the batches to come what can be done before there is one; on any thread."""

    def write(self, batch: int, pin: Pin) -> None:
        """Keep a pin, so that it is there after a crash."""


class LocalPins:
    """Pins beside a checkpoint on this machine.

    To have bytes on the disk takes a millisecond, and now and then a tenth of a second, which no
    message should wait for. So a pin is written when it is known, and batches get links to it.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._directory = checkpoint / "xmlbroker-pins"
        self._directory.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._ready: tuple[Pin, Path] | None = None
        """The pin that is on the disk, and its file."""

    def read(self, batch: int) -> Pin | None:
        """The pin of a batch, if it was begun before."""
        try:
            return Pin.parse(self._file(batch).read_bytes(), self._file(batch))
        except FileNotFoundError:
            return None

    def prepare(self, pin: Pin) -> None:
        """Write a pin to the disk, for the batches to come."""
        if self._ready is not None and self._ready[0] == pin:
            return
        # Not over another one: batches have links to that.
        file = self._directory / f"{_READY}{uuid.uuid4().hex}"
        _write_out(file, pin)
        with self._lock:
            before, self._ready = self._ready, (pin, file)
        # Those that a job left behind which was killed; by no one who only reads.
        left = self._directory.glob(f"{_READY}*") if before is None else (before[1],)
        for each in left:
            if each != file:
                each.unlink(missing_ok=True)

    def write(self, batch: int, pin: Pin) -> None:
        """Keep a pin, so that it is there after a crash."""
        while not self._link(batch, pin):
            self.prepare(pin)
        self._file(batch - _KEPT).unlink(missing_ok=True)

    def _link(self, batch: int, pin: Pin) -> bool:
        """Give a batch the pin that is on the disk; False if that is another one."""
        file = self._file(batch)
        with self._lock:
            if self._ready is None or self._ready[0] != pin:
                return False
            try:
                os.link(self._ready[1], file)
            except FileNotFoundError:
                self._ready = None
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                unfinished = file.with_suffix(".tmp")
                _write_out(unfinished, pin)
                unfinished.replace(file)
        return True

    def _file(self, batch: int) -> Path:
        return self._directory / f"{batch}.json"


def _write_out(file: Path, pin: Pin) -> None:
    with file.open("wb") as stream:
        stream.write(pin.to_bytes())
        stream.flush()
        os.fsync(stream.fileno())


class HadoopPins:
    """Pins beside a checkpoint on whatever storage Spark can reach."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - there is no public way to Hadoop
        configuration = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        self._path = jvm.org.apache.hadoop.fs.Path
        self._directory = f"{checkpoint.rstrip('/')}/xmlbroker-pins"
        self._files = self._path(self._directory).getFileSystem(configuration)
        self._files.mkdirs(self._path(self._directory))

    def read(self, batch: int) -> Pin | None:
        """The pin of a batch, if it was begun before."""
        file = self._file(batch)
        if not self._files.exists(file):
            return None
        stream = self._files.open(file)
        try:
            return Pin.parse(bytes(stream.readAllBytes()), file.toString())
        finally:
            stream.close()

    def prepare(self, pin: Pin) -> None:
        """Nothing: most storage has no links."""

    def write(self, batch: int, pin: Pin) -> None:
        """Keep a pin, so that it is there after a crash."""
        unfinished = self._path(f"{self._directory}/{batch}.tmp")
        try:
            stream = self._files.create(unfinished, True)
            try:
                stream.write(pin.to_bytes())
            finally:
                stream.close()
            is_kept = self._files.rename(unfinished, self._file(batch))
        except Py4JJavaError as error:
            raise PinError("pin-not-kept", str(error.java_exception)) from None
        if not is_kept:
            raise PinError("pin-not-kept", f"the version of batch {batch} can't be written down")
        self._files.delete(self._file(batch - _KEPT), False)

    def _file(self, batch: int) -> Any:  # noqa: ANN401 - a Java object
        return self._path(f"{self._directory}/{batch}.json")


def pins_of(spark: SparkSession, checkpoint: Path | str) -> Pins:
    """The pins beside a checkpoint."""
    if isinstance(checkpoint, str) and "://" in checkpoint:
        return HadoopPins(spark, checkpoint)
    return LocalPins(Path(checkpoint))

"""Small files of ours beside a checkpoint, on this machine or on whatever storage Spark can reach.

A file is there whole or not at all, also after a crash.
"""

import errno
import os
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from broker.errors import BrokerError

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
"""What file systems say that have no links to files."""


class StorageError(BrokerError):
    """A file that can't be kept."""


class Storage(Protocol):
    """The files of a directory."""

    has_links: bool
    """Whether `link` is worth a try."""

    def read(self, name: str) -> bytes | None:
        """What a file holds; None if there is none."""

    def write(self, name: str, data: bytes) -> None:
        """Keep a file, in the place of one that is there."""

    def link(self, name: str, another: str) -> bool:
        """Give a file another name, too; False if this storage can't, or there is no such file."""

    def names(self) -> list[str]:
        """The files that there are."""

    def delete(self, name: str) -> None:
        """Let there be no such file."""

    def shown(self, name: str) -> str:
        """A file's name for people."""


class LocalStorage:
    """A directory of this machine."""

    has_links = True

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._directory.mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> bytes | None:
        """What a file holds; None if there is none."""
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Keep a file, in the place of one that is there: on the disk, not only on its way."""
        unfinished = self._directory / f"{name}.tmp"
        with unfinished.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(self._directory / name)

    def link(self, name: str, another: str) -> bool:
        """Give a file another name, too; False if this storage can't, or there is no such file."""
        try:
            os.link(self._directory / name, self._directory / another)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return False
        return True

    def names(self) -> list[str]:
        """The files that there are."""
        return [each.name for each in self._directory.iterdir()]

    def delete(self, name: str) -> None:
        """Let there be no such file."""
        (self._directory / name).unlink(missing_ok=True)

    def shown(self, name: str) -> str:
        """A file's name for people."""
        return str(self._directory / name)


class HadoopStorage:
    """A directory of any file system that Hadoop knows; most of them have no links."""

    has_links = False

    def __init__(self, spark: SparkSession, directory: str) -> None:
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - there is no public way to Hadoop
        configuration = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        self._path = jvm.org.apache.hadoop.fs.Path
        self._directory = directory
        self._files = self._path(directory).getFileSystem(configuration)
        self._files.mkdirs(self._path(directory))

    def read(self, name: str) -> bytes | None:
        """What a file holds; None if there is none."""
        file = self._path(self.shown(name))
        if not self._files.exists(file):
            return None
        stream = self._files.open(file)
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write(self, name: str, data: bytes) -> None:
        """Keep a file, in the place of one that is there. A rename may not go over that."""
        unfinished, file = self._path(self.shown(f"{name}.tmp")), self._path(self.shown(name))
        try:
            stream = self._files.create(unfinished, True)
            try:
                stream.write(data)
            finally:
                stream.close()
            is_kept = self._files.rename(unfinished, file)
            if not is_kept and self._files.delete(file, False):
                is_kept = self._files.rename(unfinished, file)
        except Py4JJavaError as error:
            raise StorageError("not-kept", str(error.java_exception)) from None
        if not is_kept:
            raise StorageError("not-kept", f"{self.shown(name)} can't be written")

    def link(self, name: str, another: str) -> bool:  # noqa: ARG002
        """It can't."""
        return False

    def names(self) -> list[str]:
        """The files that there are."""
        listed = self._files.listStatus(self._path(self._directory))
        return [each.getPath().getName() for each in listed]

    def delete(self, name: str) -> None:
        """Let there be no such file."""
        self._files.delete(self._path(self.shown(name)), False)

    def shown(self, name: str) -> str:
        """A file's name for people."""
        return f"{self._directory}/{name}"


def is_remote(checkpoint: Path | str) -> bool:
    """Whether a checkpoint is an address of some storage, not a directory of this machine."""
    return isinstance(checkpoint, str) and "://" in checkpoint


def storage_of(spark: SparkSession, checkpoint: Path | str, directory: str) -> Storage:
    """A directory of ours in a checkpoint."""
    if is_remote(checkpoint):
        return HadoopStorage(spark, f"{str(checkpoint).rstrip('/')}/{directory}")
    return LocalStorage(Path(checkpoint) / directory)

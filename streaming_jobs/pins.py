"""Which subscriptions a batch has: written down before its first output, read when it comes again.

A batch that is done again after a crash must have the set it had at first: else a message could be
judged under two versions. A pin says which version that was, with a digest to prove it, what time
it was, which decides about `expires`, and who had no topic.
"""

import json
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from broker.errors import BrokerError
from streaming_jobs.refusals import Refusals
from streaming_jobs.storage import Storage
from subscriptions.model import Status

DIRECTORY = "xmlbroker-pins"
"""Where pins are, in a checkpoint."""

_KEPT = 100
"""Spark keeps as many batches in its logs; none older comes again."""

_SPARE = 100
"""So many files of refusals may be there that no pin has any more."""

_SUFFIX = ".json"
_READY = ".ready-"
"""How the names of files begin that batches get links to."""


class PinError(BrokerError):
    """A pin that can't be read."""


@dataclass(frozen=True)
class Pin:
    """What a batch uses."""

    version: int
    digest: str
    time: str
    suspended: tuple[str, ...] = ()
    kept: Mapping[bytes, Status] = field(default_factory=dict)
    """The refusals, by their keys, beside which an earlier record stays in force."""

    @property
    def moment(self) -> datetime:
        """The time as such."""
        return datetime.fromisoformat(self.time)


class Pins:
    """Pins in a directory of a checkpoint.

    To have bytes on the disk takes a millisecond, and now and then a tenth of a second, which no
    message should wait for. So a pin is written when it is known, and batches get links to it,
    where there are links.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._refusals = Refusals(storage)
        self._lock = threading.Lock()
        self._ready: tuple[Pin, str] | None = None
        """The pin that is on the disk, and its file."""

    def read(self, batch: int) -> Pin | None:
        """The pin of a batch, if it was begun before."""
        file = _file(batch)
        data = self._storage.read(file)
        if data is None:
            return None
        try:
            read = json.loads(data)
            return Pin(
                int(read["version"]),
                str(read["digest"]),
                str(read["time"]),
                tuple(read["suspended"]),
                self._refusals.read(read["kept"]),
            )
        except (ValueError, KeyError, TypeError, BrokerError):
            raise PinError(
                "torn-pin",
                f"{self._storage.shown(file)} should say which subscriptions a batch had, and "
                "can't be read; restore the checkpoint from a copy, or start with another one, "
                "which delivers again what is still in the input topics",
            ) from None

    def prepare(self, pin: Pin) -> None:
        """Do for the batches to come what can be done before there is one."""
        if self._ready is not None and self._ready[0] == pin:
            return
        data = self._to_bytes(pin)
        if self._storage.has_links:
            self._make_ready(pin, data)
        if len(self._refusals) > 2 * len(pin.kept) + _SPARE:
            self._forget_refusals(pin)

    def _make_ready(self, pin: Pin, data: bytes) -> None:
        # Not over another one: batches have links to that.
        file = f"{_READY}{uuid.uuid4().hex}"
        self._storage.write(file, data)
        with self._lock:
            before, self._ready = self._ready, (pin, file)
        # Those that a job left behind which was killed; by no one who only reads.
        left = self._storage.names() if before is None else [before[1]]
        for each in left:
            if each.startswith(_READY) and each != file:
                self._storage.delete(each)

    def write(self, batch: int, pin: Pin) -> None:
        """Keep a pin, so that it is there after a crash."""
        file = _file(batch)
        with self._lock:
            ready = self._ready
            is_ready = ready is not None and ready[0] == pin
            if ready is None or not is_ready or not self._storage.link(ready[1], file):
                self._storage.write(file, self._to_bytes(pin))
        self._storage.delete(_file(batch - _KEPT))

    def _to_bytes(self, pin: Pin) -> bytes:
        """A pin as it is written; the refusals that it names are there then."""
        written = {
            "version": pin.version,
            "digest": pin.digest,
            "time": pin.time,
            "suspended": pin.suspended,
            "kept": self._refusals.keep(pin.kept),
        }
        return json.dumps(written).encode()

    def _forget_refusals(self, pin: Pin) -> None:
        """Let go of the refusals that neither this pin nor one of a batch has."""
        with self._lock:
            named = {name for _, name in self._refusals.keep(pin.kept)}
            for file in self._storage.names():
                data = self._storage.read(file) if file.endswith(_SUFFIX) else None
                with suppress(ValueError, KeyError, TypeError):  # a torn one
                    named.update(name for _, name in json.loads(data or b"")["kept"])
            self._refusals.forget_others(named)


def _file(batch: int) -> str:
    return f"{batch}{_SUFFIX}"

"""The refusals that pins name, each in a file of its own.

Where an update was refused and the record before it stays in force, who rebuilds the subscriptions
later needs that record, and the log may have lost it. A pin may have thousands of these, large
ones, and the next pin has nearly the same.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b

from broker.errors import BrokerError
from streaming_jobs.storage import Storage
from subscriptions.model import Status

_PREFIX = "refusal-"
_DIGEST_BYTES = 16


class RefusalError(BrokerError):
    """A refusal that a pin names, and that can't be read."""


class Refusals:
    """Statuses of refused records, in the directory of the pins."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self._names: dict[bytes, tuple[Status, str]] = {}
        """The file of a key's refusal, as of the last time it was kept."""
        self._stored: set[str] | None = None
        """The files that there are; None until something is kept."""

    def __len__(self) -> int:
        return len(self._stored or ())

    def keep(self, refusals: Mapping[bytes, Status]) -> list[tuple[str, str]]:
        """See to it that some are there: their keys, and the names that they have."""
        with self._lock:
            return list(self._keep(refusals))

    def _keep(self, refusals: Mapping[bytes, Status]) -> Iterator[tuple[str, str]]:
        if self._stored is None:
            self._stored = {each for each in self._storage.names() if each.startswith(_PREFIX)}
        names: dict[bytes, tuple[Status, str]] = {}
        for key, status in refusals.items():
            known = self._names.get(key)
            if known is None or known[0] is not status:
                known = (status, _name_of(status.to_bytes()))
            names[key] = known
            name = known[1]
            if name not in self._stored:
                self._storage.write(name, status.to_bytes())
                self._stored.add(name)
            yield key.decode(), name
        self._names = names

    def read(self, listed: Iterable[tuple[str, str]]) -> dict[bytes, Status]:
        """Those that were kept under some names."""
        return {key.encode(): self._read(name) for key, name in listed}

    def _read(self, name: str) -> Status:
        data = self._storage.read(name)
        if data is None or name != _name_of(data):
            raise RefusalError("torn-refusal", f"{self._storage.shown(name)} can't be read")
        return Status.parse(data)

    def forget_others(self, names: Iterable[str]) -> None:
        """Let there be none but those of these names."""
        assert self._stored is not None
        with self._lock:
            for each in self._stored.difference(names):
                self._storage.delete(each)
                self._stored.discard(each)


def _name_of(data: bytes) -> str:
    return f"{_PREFIX}{blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()}"

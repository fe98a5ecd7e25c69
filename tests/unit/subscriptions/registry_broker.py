"""What tests of the registry have in common: one with its logs, and some records."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from subscriptions.log import InMemoryLog, InMemoryStatusLog
from subscriptions.model import State, Status, SubscriptionKey
from subscriptions.records import RecordLimits
from subscriptions.registry import Change, Registry

GOOD = b'{"query": "//a"}'
OTHER = b'{"query": "//b"}'
BAD = b'{"query": "//a["}'
PAUSED = b'{"query": "//a", "paused": true}'
BOOKS = SubscriptionKey("acme", "books")
NEWS = SubscriptionKey("acme", "news")
FILMS = SubscriptionKey("zoo", "films")


class Broker:
    """A registry with its logs, a clock that can be set, and topics that can fail."""

    def __init__(self) -> None:
        self.now = datetime(2026, 6, 1, 12, tzinfo=UTC)
        self.log = InMemoryLog(self.seconds)
        self.status_log = InMemoryStatusLog()
        self.prepared: list[list[str]] = []
        self.failing: dict[str, str] = {}
        self.limits = RecordLimits()
        self.registry = self.start()

    def start(self) -> Registry:
        self.registry = Registry(
            self.log,
            self.status_log,
            prepare=self.prepare,
            clock=lambda: self.now,
            limits=self.limits,
        )
        self.registry.catch_up()
        return self.registry

    def seconds(self) -> float:
        return self.now.timestamp()

    def prepare(self, subscribers: Iterable[str]) -> dict[str, str]:
        asked = list(subscribers)
        self.prepared.append(asked)
        return {each: self.failing[each] for each in asked if each in self.failing}

    def write(self, key: SubscriptionKey | bytes, value: bytes | None) -> int:
        return self.log.append(key if isinstance(key, bytes) else key.to_bytes(), value)

    def take(self, key: SubscriptionKey | bytes, value: bytes | None) -> list[Change]:
        self.write(key, value)
        return self.registry.poll()

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def state(self, key: SubscriptionKey | bytes) -> State | None:
        status = self.status(key)
        return None if status is None else status.state

    def status(self, key: SubscriptionKey | bytes) -> Status | None:
        name = key if isinstance(key, bytes) else key.to_bytes()
        return self.status_log.read_all().get(name)

    def expiring(self, seconds: float) -> bytes:
        expires = (self.now + timedelta(seconds=seconds)).isoformat()
        return b'{"query": "//a", "expires": "%s"}' % expires.encode()

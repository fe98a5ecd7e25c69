"""What arrives, as it arrives: the output topics of all subscribers and the dead letters."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from subscriptions.kafka_client import KafkaConsumer, TopicPartition, open_client

_WINDOW_MS = 2000

Record = tuple[str, str]
"""The place of a message, and a subscription; an empty one for a dead letter."""


@dataclass(frozen=True)
class Letter:
    """A record that arrived."""

    topic: str
    value: bytes | None
    headers: dict[str, str]
    milliseconds: int
    """When the broker wrote it."""

    @property
    def source(self) -> str:
        """The message that it is of: `topic/partition/offset`."""
        return self.headers["xb-source"]

    @property
    def subscription(self) -> str:
        """Whose it is; nobody's if the message itself was refused."""
        return self.headers.get("xb-subscription", "")

    @property
    def record(self) -> Record:
        """What it is of."""
        return self.source, self.subscription

    @property
    def version(self) -> int:
        """By which version of the subscription it was made."""
        return int(self.headers["xb-version"])

    @property
    def identity(self) -> str:
        """What is equal if a batch is done again: its id, or what a dead letter says."""
        fault = f"{self.source} {self.subscription} {self.headers.get('xb-error')}"
        return self.headers.get("xb-id", fault)


@dataclass
class Inbox:
    """All records of some topics so far; repeated deliveries count once."""

    bootstrap_servers: str
    topics: list[str]
    letters: list[Letter] = field(default_factory=list)
    repeated: int = 0

    def __post_init__(self) -> None:
        self._consumer = open_client(
            KafkaConsumer, {"bootstrap_servers": self.bootstrap_servers}, enable_auto_commit=False
        )
        partitions = [TopicPartition(topic, 0) for topic in self.topics]
        self._consumer.assign(partitions)
        self._consumer.seek_to_beginning(*partitions)
        self._identities: set[str] = set()

    def poll(self, milliseconds: int = 100) -> Iterable[Letter]:
        """What came since the last look."""
        found = []
        for records in self._consumer.poll(timeout_ms=milliseconds).values():
            for record in records:
                headers = {name: value.decode() for name, value in record.headers}
                letter = Letter(record.topic, record.value, headers, record.timestamp)
                if letter.identity in self._identities:
                    self.repeated += 1
                    continue
                self._identities.add(letter.identity)
                found.append(letter)
        self.letters += found
        return found

    def of(self, topic: str) -> list[Letter]:
        """The records of one topic."""
        return [letter for letter in self.letters if letter.topic == topic]

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()


def rate(moments: Iterable[int]) -> float:
    """How many a second there were in the last two seconds in which there were any."""
    known = list(moments)
    newest = max(known, default=0)
    return sum(each > newest - _WINDOW_MS for each in known) / (_WINDOW_MS / 1000)


def latencies(letters: Iterable[Letter], published: Mapping[str, int]) -> tuple[float, float]:
    """The median and the 99th percentile from published to written, in milliseconds."""
    spent = sorted(
        letter.milliseconds - published[letter.source]
        for letter in letters
        if letter.source in published
    )
    if len(spent) < 2:
        return 0.0, 0.0
    return statistics.median(spent), statistics.quantiles(spent, n=100)[98]

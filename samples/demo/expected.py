"""What should arrive: of each message, what its subscriptions want of it by the oracle.

A subscription changes while messages are on their way, so one of these may be judged by the version
before or by the one after. Each result says which it was (`xb-version`) and has to be what that one
wants; and no message may be judged by an older version than one before it was.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from samples.demo.inbox import Letter, Record
from samples.demo.oracle import Oracle, Wanted
from subscriptions.topics import TopicNames


@dataclass(frozen=True)
class Published:
    """A message, and the versions of each subscription that it may be judged by."""

    data: bytes
    versions: Mapping[str, tuple[Wanted, ...]]


@dataclass
class Expected:
    """The messages by their places, and what has to come of them."""

    oracle: Oracle = field(default_factory=Oracle)
    messages: dict[str, Published] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    """The places of those that are dead letters."""
    wanting: dict[Record, dict[int, bool]] = field(default_factory=dict)
    """Of each subscription and message, which versions want something."""

    def add(self, place: str, data: bytes, versions: Mapping[str, tuple[Wanted, ...]]) -> None:
        """One more message."""
        self.messages[place] = Published(data, dict(versions))

    def allow(self, versions: Mapping[str, tuple[Wanted, ...]]) -> None:
        """Let the messages so far be judged by other versions, too."""
        for place, message in self.messages.items():
            self.messages[place] = replace(message, versions={**message.versions, **versions})

    def ask_oracle(self) -> None:
        """Find out what has to come of the messages."""
        for place, message in self.messages.items():
            if self.oracle.is_refused(message.data):
                self.refused.add(place)
                continue
            for name, versions in message.versions.items():
                self.wanting[place, name] = {
                    each.version: self.oracle.wants(each, message.data) for each in versions
                }

    def required(self, letters: Iterable[Letter]) -> set[Record]:
        """What has to arrive. What did says by which version some messages were judged, and so by
        which others before and after them were.
        """
        seen = Seen(letters)
        wanted = {
            record
            for record, wants in self.wanting.items()
            if all(wants[version] for version in seen.possible(record, wants))
        }
        return wanted | {(place, "") for place in self.refused}

    def missing(self, letters: list[Letter]) -> set[Record]:
        """What has to arrive, and has not."""
        return self.required(letters) - {each.record for each in letters}

    def faults(self, letters: list[Letter], names: TopicNames) -> dict[str, list[Record]]:
        """What of that which arrived is not as it should be."""
        count = Counter(each.record for each in letters)
        dead = {(place, "") for place in self.refused}
        return {
            "missing": sorted(self.missing(letters)),
            "not expected": sorted(count.keys() - self.wanting.keys() - dead),
            "not what is wanted": [each.record for each in letters if not self._agrees(each)],
            "of an older version": list(_older(letters)),
            "twice": [record for record, number in count.items() if number > 1],
            "in another topic": [
                each.record for each in letters if each.topic != _topic_of(each.record, names)
            ],
        }

    def _agrees(self, letter: Letter) -> bool:
        """Whether a record is what its version of the subscription wants."""
        if not letter.subscription:
            return letter.source in self.refused
        if not self.wanting.get(letter.record, {}).get(letter.version):
            return False
        message = self.messages[letter.source]
        (wanted,) = [
            each for each in message.versions[letter.subscription] if each.version == letter.version
        ]
        return self.oracle.agrees(wanted, message.data, letter.value or b"")


class Seen:
    """At which messages each version of a subscription was seen, partition by partition."""

    def __init__(self, letters: Iterable[Letter]) -> None:
        self._offsets: dict[tuple[str, str], dict[int, tuple[int, int]]] = {}
        """The first and the last."""
        for letter in letters:
            if letter.subscription:
                partition, offset = _place(letter.source)
                ranges = self._offsets.setdefault((letter.subscription, partition), {})
                first, last = ranges.get(letter.version, (offset, offset))
                ranges[letter.version] = (min(first, offset), max(last, offset))

    def possible(self, record: Record, versions: Iterable[int]) -> list[int]:
        """By which of some versions a message may have been judged: not by an older one than a
        message before it, nor by a newer one than a message after it.
        """
        partition, offset = _place(record[0])
        ranges = self._offsets.get((record[1], partition), {})
        oldest = max((each for each, (first, _) in ranges.items() if first <= offset), default=-1)
        newest = min((each for each, (_, last) in ranges.items() if last >= offset), default=None)
        return [each for each in versions if oldest <= each and (newest is None or each <= newest)]


def _older(letters: Iterable[Letter]) -> Iterator[Record]:
    """Those that were judged by an older version than a message before them."""
    newest: dict[tuple[str, str], int] = {}
    for letter in sorted(letters, key=lambda each: _place(each.source)):
        if letter.subscription:
            key = (letter.subscription, _place(letter.source)[0])
            if letter.version < newest.setdefault(key, letter.version):
                yield letter.record
            newest[key] = max(newest[key], letter.version)


def _place(source: str) -> tuple[str, int]:
    """A partition, and an offset in it."""
    partition, _, offset = source.rpartition("/")
    return partition, int(offset)


def _topic_of(record: Record, names: TopicNames) -> str:
    """Where results of a subscription belong, and messages that are refused."""
    _, subscription = record
    return names.output(subscription.partition("/")[0]) if subscription else names.dead_letters

"""The ledger checker: whether what came out is what had to come out of what was sent.

One program for every fault, over plain data: it knows nothing of Kafka or Spark, so it can itself
be tested on histories that were doctored. `Report.faults` is empty if all of these hold:

1. nothing lost: each result and each dead letter that is expected is there;
2. nothing that was not expected: no other subscription, version, message, bytes, key or header;
3. equal ids carry equal bytes, and raw duplicates are counted and bounded;
4. first occurrences per (subscriber, source partition) are in source order;
5. a record is in its owner's topic only;
6. inputs = matched + unmatched + dead letters, each message exactly one of them;
7. lag is 0;
8. a message is judged under no older version than its sender had seen to be in force.

The state of a send is ok, fail or unknown. One that is unknown may be stored or not; it is lost or
a phantom in neither case. But once it is stored, it is a message like any other.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from hashlib import blake2b
from typing import NamedTuple

from subscriptions.topic_names import TopicNames
from tests.oracles.engines import canonical

XML, JSON = "application/xml", "application/json"

SURELY_KEPT_BYTES = 900_000
"""Messages up to this size fit into the topic of dead letters, whatever Kafka it is."""


class SendState(Enum):
    """What the sender knows."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Place(NamedTuple):
    """Where a message is stored: what `xb-source` says."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> "Place":
        topic, partition, offset = text.rsplit("/", 2)
        return cls(topic, int(partition), int(offset))

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True)
class Sent:
    """A line of the producer's ledger."""

    id: str
    hash: str
    state: SendState
    place: Place | None = None
    """Of one that is ok."""
    seen_version: int = -1
    """The newest subscription record that the sender had seen a status for."""


class Envelope(NamedTuple):
    """What is around the value of a record."""

    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


_BARE = Envelope()


class Stored(NamedTuple):
    """A message as it is in an input topic."""

    id: str
    hash: str
    size: int = 0
    envelope: Envelope = _BARE

    @property
    def passed_on(self) -> Envelope:
        """What its results have of that, too."""
        kept = [
            each
            for each in self.envelope.headers
            if each[0].lower() != "content-type" and not each[0].lower().startswith("xb-")
        ]
        return Envelope(self.envelope.key, tuple(kept))


class Form(Enum):
    """In which way an expected result is equal to a delivered one."""

    BYTES = "bytes"
    XML = "xml"
    """Two processors write the same XML in different bytes: compared in canonical form."""


@dataclass(frozen=True)
class Wanted:
    """A result that is expected."""

    value: bytes
    form: Form = Form.BYTES
    content_type: str = XML

    def agrees(self, value: bytes | None) -> bool:
        if value is None or self.form is Form.BYTES:
            return value == self.value
        return any(
            canonical(value, exclusive=each) == canonical(self.value, exclusive=each)
            for each in (False, True)
        )


@dataclass(frozen=True)
class Expected:
    """What is to come of one message."""

    version: int
    """The set of subscriptions that it is judged under."""
    results: Mapping[tuple[str, int], Wanted] = field(default_factory=dict)
    """By subscription and the version of its record."""
    refusals: Mapping[str | None, frozenset[str]] = field(default_factory=dict)
    """The codes that a dead letter may have, by subscription; None: the whole message is one."""


@dataclass(frozen=True)
class Delivered:
    """A record of an output topic. Sequences of them are in the order of each topic."""

    topic: str
    id: str
    subscription: str
    version: int
    source: Place
    value: bytes | None
    envelope: Envelope = _BARE
    """Without the headers that are the broker's."""
    content_type: str = XML


@dataclass(frozen=True)
class DeadLetter:
    """A record of the dead-letter topic."""

    source: Place
    code: str
    subscription: str | None
    value: bytes | None
    omitted_bytes: int | None = None
    """The size of a message that was too large to be in it."""


@dataclass(frozen=True)
class History:
    """All that is known when everything has come to rest."""

    prefix: str
    shared_topics: int
    """How many topics all subscribers share; 0: each has its own."""
    sent: Sequence[Sent]
    stored: Mapping[Place, Stored]
    expected: Mapping[Place, Expected]
    delivered: Sequence[Delivered]
    dead_letters: Sequence[DeadLetter]
    lag: int = 0
    may_lack: frozenset[str] = frozenset()
    """Subscribers that may have lost records, such as those whose topic was deleted."""


class Check(IntEnum):
    """The checks, by their numbers above."""

    LOST = 1
    UNEXPECTED = 2
    BYTES = 3
    ORDER = 4
    OWNER = 5
    SUM = 6
    LAG = 7
    VERSION = 8


class Fault(NamedTuple):
    check: Check
    text: str


@dataclass(frozen=True)
class Report:
    """The outcome."""

    faults: tuple[Fault, ...]
    duplicates: Mapping[Place, int]
    """For each message that came again, how often at most a record of it is repeated."""
    raw_duplicates: int
    matched: int
    unmatched: int
    dead: int
    deliveries: int

    def checks(self) -> set[Check]:
        return {fault.check for fault in self.faults}


def hash_of(value: bytes | None) -> str:
    """The hash of a message in the ledger; a null value has one too."""
    return "null" if value is None else blake2b(value, digest_size=16).hexdigest()


def check(history: History, *, most_duplicates: int = 0) -> Report:
    """Run all checks."""
    faults = [
        *_lost_or_phantom_sends(history),
        *_lost(history),
        *_unexpected(history),
        *_other_bytes(history),
        *_out_of_order(history),
        *_foreign(history),
        *_old_versions(history),
    ]
    duplicates, raw = _duplicates(history)
    if raw > most_duplicates:
        faults.append(Fault(Check.BYTES, f"{raw} duplicates, at most {most_duplicates} are due"))
    if history.lag:
        faults.append(Fault(Check.LAG, f"{history.lag} messages are not read"))
    matched = {each.source for each in history.delivered} | {
        each.source for each in history.dead_letters if each.subscription is not None
    }
    dead = {each.source for each in history.dead_letters if each.subscription is None}
    unmatched = {
        place
        for place, expected in history.expected.items()
        if not expected.results and not expected.refusals
    }
    faults += _wrong_sum(history, matched, unmatched, dead)
    return Report(
        faults=tuple(faults),
        duplicates=duplicates,
        raw_duplicates=raw,
        matched=len(matched),
        unmatched=len(unmatched),
        dead=len(dead),
        deliveries=len(history.delivered),
    )


def _lost_or_phantom_sends(history: History) -> Iterator[Fault]:
    """What Kafka has acknowledged it has, and nothing has been written that nobody sent."""
    by_id = {each.id: each for each in history.sent}
    for each in history.sent:
        if each.state is SendState.OK:
            stored = None if each.place is None else history.stored.get(each.place)
            if stored is None or (stored.id, stored.hash) != (each.id, each.hash):
                yield Fault(Check.LOST, f"{each.id} was acknowledged at {each.place}, not stored")
    for place, stored in history.stored.items():
        line = by_id.get(stored.id)
        if line is None or line.state is SendState.FAIL or line.hash != stored.hash:
            yield Fault(Check.UNEXPECTED, f"{place} has {stored.id}, which was not sent so")
    for place in history.stored:
        if place not in history.expected:
            yield Fault(Check.LOST, f"{place} was read in no batch")


def _lost(history: History) -> Iterator[Fault]:
    delivered = {(each.source, each.subscription, each.version) for each in history.delivered}
    refused = {(each.source, each.subscription) for each in history.dead_letters}
    for place, expected in history.expected.items():
        for subscription, version in expected.results:
            if _subscriber(subscription) in history.may_lack:
                continue
            if (place, subscription, version) not in delivered:
                yield Fault(Check.LOST, f"{place} for {subscription} version {version}")
        for subscription_or_all in expected.refusals:
            if (place, subscription_or_all) not in refused:
                whom = subscription_or_all or "all"
                yield Fault(Check.LOST, f"the dead letter of {place} for {whom}")


def _unexpected(history: History) -> Iterator[Fault]:
    for each in history.delivered:
        expected = history.expected.get(each.source)
        wanted = expected and expected.results.get((each.subscription, each.version))
        name = f"{each.source} for {each.subscription} version {each.version}"
        if not wanted:
            yield Fault(Check.UNEXPECTED, name)
        elif not wanted.agrees(each.value):
            shown = f"{each.value!r:.500} in the place of {wanted.value!r:.500}"
            yield Fault(Check.UNEXPECTED, f"{name}: {shown}")
        elif wanted.content_type != each.content_type:
            yield Fault(Check.UNEXPECTED, f"{name} is {each.content_type}")
        stored = history.stored.get(each.source)
        if stored is not None:
            around = stored.passed_on
            if history.shared_topics:
                around = around._replace(key=_subscriber(each.subscription).encode())
            if around != each.envelope:
                yield Fault(Check.UNEXPECTED, f"{name}: {each.envelope} in the place of {around}")
    for letter in history.dead_letters:
        expected = history.expected.get(letter.source)
        codes = expected and expected.refusals.get(letter.subscription)
        if not codes or letter.code not in codes:
            whom = letter.subscription or "all"
            yield Fault(Check.UNEXPECTED, f"dead letter {letter.source} for {whom}: {letter.code}")
        stored = history.stored.get(letter.source)
        if stored is not None and not _is_message(letter, stored):
            yield Fault(Check.UNEXPECTED, f"dead letter {letter.source} is not the message")


def _is_message(letter: DeadLetter, stored: Stored) -> bool:
    if letter.omitted_bytes is None:
        return stored.hash == hash_of(letter.value)
    return letter.value is None and stored.size == letter.omitted_bytes > SURELY_KEPT_BYTES


def _other_bytes(history: History) -> Iterator[Fault]:
    """An id stands for one (message, subscription, version), and for one sequence of bytes."""
    values: dict[str, bytes | None] = {}
    meanings: dict[str, tuple[Place, str, int]] = {}
    ids: dict[tuple[Place, str, int], str] = {}
    for each in history.delivered:
        meaning = (each.source, each.subscription, each.version)
        if values.setdefault(each.id, each.value) != each.value:
            yield Fault(Check.BYTES, f"{each.id} ({each.source}) has two values")
        if meanings.setdefault(each.id, meaning) != meaning:
            yield Fault(Check.BYTES, f"{each.id} stands for {meanings[each.id]} and {meaning}")
        if ids.setdefault(meaning, each.id) != each.id:
            yield Fault(Check.BYTES, f"{meaning} has two ids")


def _duplicates(history: History) -> tuple[dict[Place, int], int]:
    delivered = Counter((each.source, each.id) for each in history.delivered)
    letters = Counter((each.source, each.subscription or "") for each in history.dead_letters)
    most: dict[Place, int] = {}
    raw = 0
    for (place, _), times in [*delivered.items(), *letters.items()]:
        if times > 1:
            raw += times - 1
            most[place] = max(most.get(place, 0), times - 1)
    return most, raw


def _out_of_order(history: History) -> Iterator[Fault]:
    last: dict[tuple[str, str, str, int], Place] = {}
    for each in _first_occurrences(history.delivered):
        source = each.source
        line = (each.topic, _subscriber(each.subscription), source.topic, source.partition)
        before = last.get(line, source)
        if before.offset > source.offset:
            yield Fault(Check.ORDER, f"{source} comes after {before} in {each.topic}")
        last[line] = source


def _first_occurrences(delivered: Iterable[Delivered]) -> Iterator[Delivered]:
    seen: set[tuple[str, str]] = set()
    for each in delivered:
        if (each.topic, each.id) not in seen:
            seen.add((each.topic, each.id))
            yield each


def _foreign(history: History) -> Iterator[Fault]:
    shared = TopicNames(history.prefix, history.shared_topics)
    for each in history.delivered:
        subscriber = _subscriber(each.subscription)
        own = f"{history.prefix}.out.{subscriber}"
        if each.topic != (shared.output(subscriber) if history.shared_topics else own):
            yield Fault(Check.OWNER, f"{each.topic} has a record for {each.subscription}")


def _old_versions(history: History) -> Iterator[Fault]:
    by_id = {each.id: each for each in history.sent}
    for place, stored in history.stored.items():
        line, expected = by_id.get(stored.id), history.expected.get(place)
        if line is not None and expected is not None and expected.version < line.seen_version:
            text = f"{place} was judged under {expected.version}, sent under {line.seen_version}"
            yield Fault(Check.VERSION, text)


def _wrong_sum(
    history: History, matched: set[Place], unmatched: set[Place], dead: set[Place]
) -> Iterator[Fault]:
    for one, other in ((matched, unmatched), (matched, dead), (unmatched, dead)):
        for place in one & other:
            yield Fault(Check.SUM, f"{place} is counted twice")
    silent = {
        place
        for place, expected in history.expected.items()
        if expected.results
        and all(_subscriber(name) in history.may_lack for name, _ in expected.results)
    }
    total = matched | unmatched | dead | silent
    if total != set(history.stored):
        difference = sorted(map(str, total ^ set(history.stored)))
        yield Fault(Check.SUM, f"{len(difference)} messages don't add up: {difference[:3]}")


def _subscriber(subscription: str) -> str:
    return subscription.partition("/")[0]

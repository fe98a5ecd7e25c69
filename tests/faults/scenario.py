"""A broker under test from the first message to the verdict: traffic, checkpoint, ledger.

Each run prints its seed, and `XB_SEED` gives it one, so that a failure can be replayed.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from random import Random, SystemRandom
from typing import Protocol

from broker.documents import parse_message
from broker.limits import ResultLimits
from broker.message_factory import OutputFormat
from subscriptions.errors import RecordError
from subscriptions.model import SubscriptionRecord
from subscriptions.records import check_record
from tests.faults.batches import Batches
from tests.faults.expectations import expect
from tests.faults.ledger import (
    DeadLetter,
    Delivered,
    Envelope,
    Expected,
    History,
    Place,
    Report,
    check,
)
from tests.faults.traffic import Message, Record, Traffic, wait_until
from tests.oracles.strategies import PROLOG, QueryMaker, random_message

SEED = int(os.environ.get("XB_SEED", SystemRandom().randrange(1_000_000)))
REST_SECONDS = 180.0

_OWN_HEADERS = 5
"""So many headers of a result are the broker's, the first ones."""


class Job(Protocol):
    """Whatever runs the broker."""

    @property
    def is_alive(self) -> bool: ...


class Scenario:
    """One prefix and one checkpoint."""

    def __init__(
        self, traffic: Traffic, checkpoint: Path, seed: int = SEED, *, shared_topics: int = 0
    ) -> None:
        self.traffic = traffic
        self.shared_topics = shared_topics
        self.batches = Batches(checkpoint)
        self.rng = Random(seed)
        self.largest_results: dict[str, int] = {}
        """What the topics of some subscribers take."""
        self.keyed: set[str] = set()
        """The subscribers whose topics take no record without a key."""
        print(f"seed {seed}")

    # Input

    def messages(self, count: int, distinct: int = 40) -> list[Message]:
        """Random messages over few names; many are equal, so that the oracle is asked once. Some
        have keys, and headers of which not all are passed on.
        """
        values = [random_message(self.rng) for _ in range(min(count, distinct))]
        keys = [None, b"", b"k\xff"]
        headers = [("tenant", b"t"), ("tenant", b""), ("xb-id", b"0"), ("Content-Type", b"text")]
        return [
            Message(
                self.rng.choice(values),
                key=self.rng.choice(keys),
                headers=self.rng.sample(headers, self.rng.choice([0, 0, 2])),
            )
            for _ in range(count)
        ]

    def queries(self, messages: Iterable[Message], count: int) -> list[dict[str, object]]:
        """Records of filters and transformations in both formats, made around these messages."""
        values = [each.value for each in messages if each.value is not None]
        records: list[dict[str, object]] = []
        while len(records) < count:
            maker = QueryMaker(parse_message(self.rng.choice(values)), self.rng)
            made = maker.filter() if self.rng.random() < 0.5 else maker.flwr()
            format = self.rng.choice(list(OutputFormat))
            record = SubscriptionRecord(query=PROLOG + made, format=format)
            try:
                check_record(record)
            except RecordError:
                continue
            records.append(json.loads(json.dumps(record.to_data())))
        return records

    # Rest and verdict

    def lag(self) -> int:
        """How many stored messages are in no committed batch."""
        committed = self.batches.committed()
        ends = self.traffic.ends([self.traffic.input])
        return sum(
            end - committed.get((each.topic, each.partition), 0) for each, end in ends.items()
        )

    def come_to_rest(self, job: Job, seconds: float = REST_SECONDS) -> None:
        """Wait until all that was sent is processed."""
        self.traffic.settle()

        def is_at_rest() -> bool:
            assert job.is_alive, "the job has ended"
            return self.lag() == 0

        wait_until(is_at_rest, "all messages are processed", seconds)

    def history(self, may_lack: frozenset[str] = frozenset()) -> History:
        """All that came out, and all that should have."""
        self.traffic.settle()
        lag = self.lag()
        topics = self.traffic.topics()
        starts = tuple(f"{self.traffic.prefix}.{each}" for each in ("out.", "shared-out."))
        outputs = [each for each in topics if each.startswith(starts)]
        stored = self.traffic.stored()
        return History(
            prefix=self.traffic.prefix,
            shared_topics=self.shared_topics,
            sent=self.traffic.sent,
            stored=stored,
            expected={
                place: expected
                for place, line in stored.items()
                if (expected := self._expected(place, line.id)) is not None
            },
            delivered=[delivered_of(each) for each in self.traffic.drain(outputs)],
            dead_letters=[
                dead_letter_of(each)
                for each in self.traffic.drain([f"{self.traffic.prefix}.dead-letters"])
            ],
            lag=lag,
            may_lack=may_lack,
        )

    def _expected(self, place: Place, identity: str) -> Expected | None:
        judgement = self.batches.judgement(place)
        if judgement is None:
            return None
        message = self.traffic.messages[identity]
        active = {
            name: each
            for name, each in self.traffic.book.in_force(
                judgement.version, judgement.moment
            ).items()
            if name.partition("/")[0] not in judgement.suspended
        }
        expected = expect(message.value, message.refused_with, judgement.version, active)
        return self._without_refused(expected, has_key=message.key is not None)

    def _without_refused(self, expected: Expected, *, has_key: bool) -> Expected:
        """Results that their topic does not take are dead letters."""
        refused: dict[tuple[str, int], frozenset[str]] = {}
        for (name, version), wanted in expected.results.items():
            subscriber, size = name.partition("/")[0], len(wanted.value)
            if subscriber in self.keyed and not has_key:
                refused[name, version] = frozenset({"no-key-for-topic"})
            elif size > self.largest_results.get(subscriber, 1_000_000):
                refused[name, version] = _codes(size)
        if not refused:
            return expected
        return Expected(
            expected.version,
            {key: each for key, each in expected.results.items() if key not in refused},
            {**expected.refusals, **{name: codes for (name, _), codes in refused.items()}},
        )

    def verify(
        self,
        *,
        repeated_batches: int = 0,
        attempts: int = 1,
        may_lack: frozenset[str] = frozenset(),
    ) -> Report:
        """The ledger's verdict; all duplicates must be of so many batches at most, each of which
        was tried again so often.
        """
        most = 10**9 if repeated_batches else 0
        report = check(self.history(may_lack), most_duplicates=most)
        shown = "\n".join(f"{each.check.name}: {each.text}" for each in report.faults[:20])
        assert not report.faults, f"{len(report.faults)} faults\n{shown}"
        repeated: dict[int | None, int] = {}
        for place, times in report.duplicates.items():
            batch = self.batches.of(place)
            repeated[batch] = max(times, repeated.get(batch, 0))
        assert len(repeated) <= repeated_batches, f"batches {set(repeated)} came again"
        too_often = {batch: times for batch, times in repeated.items() if times > attempts}
        assert not too_often, f"batches came again so often: {too_often}"
        versions = self.batches.versions()
        assert versions == sorted(versions), "a batch had an older version than the one before it"
        print(
            f"{len(self.batches)} batches, {report.matched} matched, {report.unmatched} unmatched, "
            f"{report.dead} dead letters, {report.deliveries} deliveries, "
            f"{report.raw_duplicates} duplicates"
        )
        return report


def _codes(size: int) -> frozenset[str]:
    """The reasons that a result of so many bytes may be refused for: a transformation's, if it is
    very large, is not even made.
    """
    code = "too-large-for-topic"
    return frozenset({code, "budget-exceeded"} if size > ResultLimits().max_output else {code})


def delivered_of(record: Record) -> Delivered:
    """A record of an output topic, by what the interface promises of it."""
    return Delivered(
        topic=record.place.topic,
        id=record.header("xb-id"),
        subscription=record.header("xb-subscription"),
        version=int(record.header("xb-version")),
        source=Place.parse(record.header("xb-source")),
        value=record.value,
        envelope=Envelope(record.key, tuple(record.headers[_OWN_HEADERS:])),
        content_type=record.header("content-type"),
    )


def dead_letter_of(record: Record) -> DeadLetter:
    """A record of the dead-letter topic."""
    assert record.header("xb-error-detail")
    omitted = record.header("xb-omitted-bytes") if record.has("xb-omitted-bytes") else None
    return DeadLetter(
        source=Place.parse(record.header("xb-source")),
        code=record.header("xb-error"),
        subscription=record.header("xb-subscription") if record.has("xb-subscription") else None,
        value=record.value,
        omitted_bytes=None if omitted is None else int(omitted),
    )

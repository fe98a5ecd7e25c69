"""The registry: starting, keeping up, output topics, expiry, statuses, older versions."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from broker.errors import BrokerError
from broker.limits import QueryLimits
from subscriptions.errors import KafkaUnreachableError, VersionLostError
from subscriptions.log import MOST_POLLED, InMemoryLog, InMemoryStatusLog
from subscriptions.model import State, Status, SubscriptionKey
from subscriptions.records import RecordLimits
from subscriptions.registry import Change, Registry
from subscriptions.subscription_set import SubscriptionSet, registry_at

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


@pytest.fixture
def broker() -> Broker:
    return Broker()


class TestKeepingUp:
    def test_an_empty_log(self, broker: Broker) -> None:
        assert broker.registry.version == -1
        assert broker.registry.subscriptions == {}
        assert broker.registry.poll() == []
        assert broker.registry.digest() == "0" * 32

    def test_a_subscription_comes_changes_and_goes(self, broker: Broker) -> None:
        [change] = broker.take(BOOKS, GOOD)
        assert change.subscription is not None
        assert (change.key, change.version, change.subscription.version) == (BOOKS, 0, 0)
        assert broker.state(BOOKS) is State.ACTIVE
        [change] = broker.take(BOOKS, OTHER)
        assert change.subscription is not None
        assert change.subscription.record.query == "//b"
        assert broker.registry.version == change.version == change.subscription.version == 1
        assert broker.take(BOOKS, None) == [Change(BOOKS, None, 2)]
        assert broker.state(BOOKS) is State.REMOVED
        assert broker.registry.subscriptions == broker.registry.active == {}

    def test_a_refused_update_leaves_what_was_there(self, broker: Broker) -> None:
        broker.take(BOOKS, GOOD)
        assert broker.take(BOOKS, BAD) == []
        status = broker.status(BOOKS)
        assert status is not None
        assert (status.state, status.version, status.active_version) == (State.REJECTED, 1, 0)
        assert broker.registry.version == 1
        assert broker.registry.active[BOOKS].version == 0

    def test_pausing_and_going_on(self, broker: Broker) -> None:
        broker.take(BOOKS, GOOD)
        assert broker.take(BOOKS, PAUSED) == [Change(BOOKS, None, 1)]
        assert broker.state(BOOKS) is State.PAUSED
        assert BOOKS in broker.registry.subscriptions
        [change] = broker.take(BOOKS, GOOD)
        assert change.subscription == broker.registry.active[BOOKS]
        assert broker.state(BOOKS) is State.ACTIVE

    def test_many_records_of_a_key_in_one_poll_are_one_change(self, broker: Broker) -> None:
        for value in (GOOD, PAUSED, None, OTHER, BAD):
            broker.write(BOOKS, value)
        broker.write(NEWS, GOOD)
        broker.write(NEWS, None)
        [change] = broker.registry.poll()
        assert change.subscription is not None
        assert (change.key, change.subscription.version) == (BOOKS, 3)
        assert (broker.state(BOOKS), broker.state(NEWS)) == (State.REJECTED, State.REMOVED)

    def test_removing_what_is_not_there_is_answered(self, broker: Broker) -> None:
        assert broker.take(BOOKS, None) == []
        assert broker.state(BOOKS) is State.REMOVED

    def test_wrong_keys_are_answered_or_counted(self, broker: Broker) -> None:
        assert broker.take(b"WRONG", GOOD) == []
        assert broker.state(b"WRONG") is State.REJECTED
        broker.log.append(None, GOOD)
        assert broker.registry.poll() == []
        assert broker.registry.unreported == 1
        assert len(broker.status_log.read_all()) == 1
        assert broker.registry.version == 1

    def test_an_error_of_the_status_log_loses_no_change(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail() -> None:
            raise KafkaUnreachableError("nowhere", "down")

        broker.write(BOOKS, GOOD)
        with monkeypatch.context() as patch:
            patch.setattr(broker.status_log, "flush", fail)
            with pytest.raises(KafkaUnreachableError):
                broker.registry.poll()
            with pytest.raises(KafkaUnreachableError):
                broker.take(NEWS, GOOD)
        assert [change.key for change in broker.registry.poll()] == [BOOKS, NEWS]
        assert broker.state(BOOKS) is broker.state(NEWS) is State.ACTIVE
        assert broker.registry.poll() == []


class TestStarting:
    def test_a_restart_publishes_nothing_again(self, broker: Broker) -> None:
        broker.write(BOOKS, GOOD)
        broker.write(NEWS, PAUSED)
        broker.write(FILMS, GOOD)
        broker.write(FILMS, None)
        broker.write(BOOKS, BAD)
        broker.write(b"WRONG", GOOD)
        broker.registry.poll()
        count = len(broker.status_log.published)
        broker.wait(1000)
        broker.start()
        assert broker.status_log.published[count:] == []
        broker.log.compact(keep_tombstones=True)
        broker.start()
        assert broker.status_log.published[count:] == []

    def test_what_was_missed_is_published(self, broker: Broker) -> None:
        broker.take(BOOKS, GOOD)
        broker.write(BOOKS, OTHER)
        broker.write(NEWS, GOOD)
        broker.start()
        assert [(key, status.version) for key, status in broker.status_log.published[1:]] == [
            (b"acme/books", 1),
            (b"acme/news", 2),
        ]
        assert broker.registry.poll() == []

    def test_what_was_removed_and_compacted_meanwhile_is_said_to_be_removed(
        self, broker: Broker
    ) -> None:
        broker.take(BOOKS, GOOD)
        broker.take(b"WRONG", GOOD)
        broker.write(BOOKS, None)
        broker.write(b"WRONG", None)
        broker.write(NEWS, GOOD)
        broker.log.compact()
        broker.start()
        assert broker.state(BOOKS) is broker.state(b"WRONG") is State.REMOVED
        count = len(broker.status_log.published)
        broker.start()
        assert len(broker.status_log.published) == count

    def test_polling_goes_on_after_the_replay(self, broker: Broker) -> None:
        broker.write(BOOKS, GOOD)
        broker.start()
        assert list(broker.registry.active) == [BOOKS]
        assert [change.key for change in broker.take(NEWS, GOOD)] == [NEWS]

    def test_progress_is_told(self, broker: Broker) -> None:
        broker.log.append_all((b"acme/s%d" % number, GOOD) for number in range(2500))
        told: list[tuple[int, int]] = []
        broker.registry.catch_up(lambda done, end: told.append((done, end)))
        assert told == [(1000, 2500), (2000, 2500), (2500, 2500)]

    def test_output_topics_are_prepared_at_once(self, broker: Broker) -> None:
        for number in range(30):
            broker.write(SubscriptionKey(f"s{number % 10}", f"n{number}"), GOOD)
        broker.write(SubscriptionKey("resting", "n"), PAUSED)
        broker.start()
        assert broker.prepared == [sorted(f"s{number}" for number in range(10))]

    def test_narrower_limits_refuse_what_was_accepted(self, broker: Broker) -> None:
        broker.take(BOOKS, b'{"query": "/a/b/c"}')
        broker.limits = RecordLimits(query=QueryLimits(max_steps=2))
        broker.start()
        assert broker.registry.active == {}
        assert broker.state(BOOKS) is State.REJECTED
        broker.limits = RecordLimits()
        broker.start()
        assert broker.state(BOOKS) is State.ACTIVE


class TestCompactionOfRefusedUpdates:
    """Compaction keeps the refused record and drops the one that stays in force."""

    def test_what_stays_in_force_outlives_compaction(self, broker: Broker) -> None:
        broker.take(BOOKS, GOOD)
        broker.take(BOOKS, BAD)
        active, digest = dict(broker.registry.active), broker.registry.digest()
        broker.log.compact()
        assert [record.value for record in broker.log.read()] == [BAD]
        for _ in range(2):
            broker.start()
            assert dict(broker.registry.active) == active
            assert broker.registry.digest() == digest
        assert broker.registry.rebuild(1, digest).subscriptions == active

    def test_it_can_be_had_again_after_a_later_update(self, broker: Broker) -> None:
        broker.take(BOOKS, GOOD)
        broker.take(BOOKS, BAD)
        digest = broker.registry.digest()
        broker.log.compact()
        broker.start()
        broker.take(BOOKS, OTHER)
        assert broker.registry.rebuild(1, digest).subscriptions[BOOKS].version == 0

    def test_a_second_refusal_keeps_it_too(self, broker: Broker) -> None:
        broker.take(BOOKS, GOOD)
        broker.take(BOOKS, BAD)
        broker.log.compact()
        broker.start()
        broker.take(BOOKS, b"")
        broker.log.compact()
        broker.start()
        assert broker.registry.active[BOOKS].version == 0

    def test_a_status_of_an_earlier_record_brings_nothing_back(self, broker: Broker) -> None:
        broker.take(BOOKS, GOOD)
        broker.take(BOOKS, BAD)
        broker.write(BOOKS, None)
        broker.write(BOOKS, BAD)
        broker.log.compact()
        broker.start()
        assert broker.registry.subscriptions == {}
        status = broker.status(BOOKS)
        assert status is not None
        assert (status.state, status.active_version) == (State.REJECTED, None)

    def test_it_is_checked_again(self, broker: Broker) -> None:
        broker.take(BOOKS, b'{"query": "/a/b/c"}')
        broker.take(BOOKS, BAD)
        broker.log.compact()
        broker.limits = RecordLimits(query=QueryLimits(max_steps=2))
        broker.start()
        assert broker.registry.subscriptions == {}


class TestOutputTopics:
    def test_without_a_topic_a_subscription_is_suspended(self, broker: Broker) -> None:
        broker.failing["acme"] = "not authorised"
        assert broker.take(BOOKS, GOOD) == []
        assert broker.registry.active == {}
        assert broker.registry.suspended == {"acme": "not authorised"}
        status = broker.status(BOOKS)
        assert status is not None
        assert status.state is State.SUSPENDED
        assert status.error == {"code": "no-output-topic", "detail": "not authorised"}
        assert BOOKS in broker.registry.subscriptions

    def test_it_is_tried_again_now_and_then(self, broker: Broker) -> None:
        broker.failing["acme"] = "not authorised"
        broker.take(BOOKS, GOOD)
        broker.take(NEWS, GOOD)
        assert broker.prepared == [["acme"]]
        broker.wait(11)
        assert broker.registry.poll() == []
        assert broker.prepared == [["acme"], ["acme"]]
        count = len(broker.status_log.published)
        broker.failing.clear()
        broker.wait(11)
        assert {change.key for change in broker.registry.poll()} == {BOOKS, NEWS}
        assert broker.state(BOOKS) is broker.state(NEWS) is State.ACTIVE
        assert len(broker.status_log.published) == count + 2
        assert broker.registry.suspended == {}
        broker.wait(11)
        assert broker.registry.poll() == []
        assert len(broker.prepared) == 3

    def test_others_are_not_held_up(self, broker: Broker) -> None:
        broker.failing["acme"] = "no"
        broker.write(BOOKS, GOOD)
        assert [change.key for change in broker.take(FILMS, GOOD)] == [FILMS]

    def test_a_topic_that_is_gone(self, broker: Broker) -> None:
        broker.take(BOOKS, GOOD)
        broker.take(FILMS, GOOD)
        broker.registry.suspend({"acme": "the topic is gone"})
        assert broker.state(BOOKS) is State.SUSPENDED
        assert list(broker.registry.active) == [FILMS]
        assert broker.registry.poll() == [Change(BOOKS, None, 1)]
        broker.wait(11)
        assert [change.key for change in broker.registry.poll()] == [BOOKS]
        assert broker.state(BOOKS) is State.ACTIVE

    def test_nobody_is_told_of_what_is_taken_before_it_is_in_force(self, broker: Broker) -> None:
        broker.write(BOOKS, GOOD)
        assert [change.key for change in broker.registry.take()] == [BOOKS]
        assert BOOKS.to_bytes() not in broker.status_log.read_all()
        broker.registry.publish()
        assert broker.state(BOOKS) is State.ACTIVE
        assert broker.registry.take() == []

    def test_the_last_word_is_published_after_a_failure(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail() -> None:
            raise KafkaUnreachableError("nowhere", "down")

        broker.failing["acme"] = "no"
        broker.write(BOOKS, GOOD)
        with monkeypatch.context() as patch:
            patch.setattr(broker.status_log, "flush", fail)
            with pytest.raises(KafkaUnreachableError):
                broker.registry.poll()
        broker.failing.clear()
        broker.wait(11)
        assert [change.key for change in broker.registry.poll()] == [BOOKS]
        assert broker.state(BOOKS) is State.ACTIVE

    def test_nobody_is_suspended_for_a_kafka_that_is_away(self, broker: Broker) -> None:
        """What suspended subscribers miss is lost to them; what waits for Kafka is not."""
        is_away = True

        def prepare(_subscribers: Iterable[str]) -> dict[str, str]:
            if is_away:
                raise BrokerError("kafka-unreachable", "down")
            return {}

        registry = Registry(
            broker.log, broker.status_log, prepare=prepare, clock=lambda: broker.now
        )
        registry.catch_up()
        broker.write(BOOKS, GOOD)
        for _ in range(2):
            with pytest.raises(BrokerError, match="down"):
                registry.poll()
        assert registry.suspended == {}
        is_away = False
        assert [change.key for change in registry.poll()] == [BOOKS]

    def test_a_subscriber_that_left_is_forgotten(self, broker: Broker) -> None:
        broker.failing["acme"] = "no"
        broker.take(BOOKS, GOOD)
        broker.take(BOOKS, None)
        assert broker.state(BOOKS) is State.REMOVED
        broker.wait(11)
        broker.registry.poll()
        assert broker.registry.suspended == {}
        assert broker.prepared == [["acme"]]

    def test_one_whose_topic_was_gone_is_prepared_anew_when_it_comes_back(
        self, broker: Broker
    ) -> None:
        broker.take(BOOKS, GOOD)
        broker.registry.suspend({"acme": "the topic is gone"})
        broker.take(BOOKS, None)
        broker.wait(11)
        broker.registry.poll()
        assert broker.prepared == [["acme"]]
        broker.take(BOOKS, GOOD)
        assert broker.prepared == [["acme"], ["acme"]]

    def test_one_who_left_is_prepared_anew_when_it_comes_back(self, broker: Broker) -> None:
        """The topic may have gone with it."""
        broker.take(BOOKS, GOOD)
        broker.take(NEWS, GOOD)
        assert broker.prepared == [["acme"]]
        broker.take(BOOKS, None)
        broker.take(NEWS, None)
        broker.take(BOOKS, GOOD)
        assert broker.prepared == [["acme"], ["acme"]]


class TestExpiry:
    def test_it_expires_at_its_time(self, broker: Broker) -> None:
        broker.take(BOOKS, broker.expiring(10))
        broker.wait(9.9)
        assert broker.registry.poll() == []
        broker.wait(0.1)
        assert broker.registry.poll() == [Change(BOOKS, None, 0)]
        assert broker.status(BOOKS) == Status(State.EXPIRED, 0, broker.now)
        assert broker.registry.poll() == []

    def test_an_update_counts_from_its_own_time(self, broker: Broker) -> None:
        broker.take(BOOKS, broker.expiring(10))
        broker.take(BOOKS, broker.expiring(20))
        broker.wait(15)
        assert broker.registry.poll() == []
        broker.wait(5)
        assert broker.registry.poll() == [Change(BOOKS, None, 1)]

    def test_one_that_comes_too_late_is_never_active(self, broker: Broker) -> None:
        assert broker.take(BOOKS, broker.expiring(-1)) == []
        assert broker.state(BOOKS) is State.EXPIRED
        assert broker.prepared == []

    def test_a_restart_says_nothing_again(self, broker: Broker) -> None:
        broker.take(BOOKS, broker.expiring(10))
        broker.wait(10)
        broker.registry.poll()
        count = len(broker.status_log.published)
        broker.start()
        assert broker.registry.poll() == []
        assert broker.registry.active == {}
        assert len(broker.status_log.published) == count

    def test_a_refusal_is_still_said_after_the_earlier_version_expired(
        self, broker: Broker
    ) -> None:
        broker.take(BOOKS, broker.expiring(10))
        broker.take(BOOKS, BAD)
        broker.wait(10)
        assert broker.registry.poll() == [Change(BOOKS, None, 1)]
        assert broker.state(BOOKS) is State.REJECTED

    def test_a_refusal_is_over_with_the_next_right_record(self, broker: Broker) -> None:
        broker.take(BOOKS, BAD)
        broker.take(BOOKS, broker.expiring(10))
        broker.wait(10)
        broker.registry.poll()
        assert broker.state(BOOKS) is State.EXPIRED

    def test_one_without_a_topic_expires_too(self, broker: Broker) -> None:
        broker.failing["acme"] = "no"
        broker.take(BOOKS, broker.expiring(10))
        assert broker.state(BOOKS) is State.SUSPENDED
        broker.wait(10)
        assert broker.registry.poll() == []
        assert broker.state(BOOKS) is State.EXPIRED

    def test_expiries_do_not_pile_up(self, broker: Broker) -> None:
        for _ in range(3000):
            broker.write(BOOKS, broker.expiring(1000))
        behind = []
        while broker.registry.version < 2999:
            broker.registry.poll()
            behind.append(broker.registry.is_behind)
            # Batches need not wait for all of them.
            assert broker.registry.version == len(behind) * MOST_POLLED - 1
        assert all(behind)
        broker.registry.poll()
        assert not broker.registry.is_behind
        assert len(broker.registry._expiries) < 1500
        broker.wait(1000)
        assert broker.registry.poll() == [Change(BOOKS, None, 2999)]


class TestOlderVersions:
    def test_each_version_can_be_had_again(self, broker: Broker) -> None:
        values = [GOOD, OTHER, BAD, PAUSED, None, GOOD]
        seen = [(-1, broker.registry.digest(), dict(broker.registry.subscriptions))]
        for value in values:
            broker.take(BOOKS, value)
            broker.take(FILMS, value)
            registry = broker.registry
            seen.append((registry.version, registry.digest(), dict(registry.subscriptions)))
        for version, digest, subscriptions in seen:
            for rebuilt in (
                broker.registry.rebuild(version, digest),
                registry_at(broker.log, version, digest=digest),
            ):
                assert (rebuilt.version, rebuilt.digest()) == (version, digest)
                assert rebuilt.subscriptions == subscriptions

    def test_rebuilding_disturbs_nothing(self, broker: Broker) -> None:
        broker.take(BOOKS, GOOD)
        broker.write(NEWS, GOOD)
        broker.registry.rebuild(0)
        assert [change.key for change in broker.registry.poll()] == [NEWS]

    def test_a_version_that_was_compacted_away_is_not_made_up(self, broker: Broker) -> None:
        broker.take(BOOKS, GOOD)
        digest = broker.registry.digest()
        broker.take(BOOKS, OTHER)
        assert broker.registry.rebuild(0, digest).digest() == digest
        broker.log.compact()
        with pytest.raises(VersionLostError) as caught:
            broker.registry.rebuild(0, digest)
        assert caught.value.code == "version-lost"

    def test_a_log_that_ends_before_the_version(self, broker: Broker) -> None:
        with pytest.raises(VersionLostError):
            registry_at(broker.log, 0)

    def test_those_that_were_active_at_a_time(self, broker: Broker) -> None:
        broker.take(BOOKS, broker.expiring(10))
        broker.take(NEWS, PAUSED)
        rebuilt = broker.registry.rebuild(1)
        assert list(rebuilt.active_at(broker.now)) == [BOOKS]
        assert rebuilt.active_at(broker.now + timedelta(seconds=10)) == {}


class TestDigest:
    def test_the_order_of_keys_does_not_matter_but_versions_do(self) -> None:
        log = InMemoryLog()
        log.append_all([(b"a/1", GOOD), (b"a/2", OTHER), (b"b/1", PAUSED)])
        records = list(log.read())
        digests = set()
        for order in permutations(records):
            made = SubscriptionSet()
            for record in order:
                made.version = -1  # so that they can be taken in any order
                made.take(record)
            digests.add(made.digest())
        assert len(digests) == 1
        shifted = SubscriptionSet()
        for record in records:
            shifted.take(record._replace(offset=record.offset + 1))
        assert shifted.digest() not in digests

    def test_another_query_at_the_same_offset_is_noticed(self) -> None:
        digests = set()
        for value in (GOOD, OTHER, PAUSED):
            log = InMemoryLog()
            log.append(b"a/1", value)
            digests.add(registry_at(log, 0).digest())
        assert len(digests) == 3

    def test_what_was_added_and_removed_leaves_no_trace(self, broker: Broker) -> None:
        broker.take(BOOKS, GOOD)
        before = broker.registry.digest()
        broker.take(NEWS, GOOD)
        assert broker.registry.digest() != before
        broker.take(NEWS, None)
        assert broker.registry.digest() == before

    def test_records_have_to_come_in_order(self) -> None:
        log = InMemoryLog()
        log.append(b"a/1", GOOD)
        made = registry_at(log, 0)
        with pytest.raises(ValueError, match="record 0 comes after record 0"):
            made.take(next(log.read()))

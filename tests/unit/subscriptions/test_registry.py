"""The registry: starting, keeping up, statuses, compaction."""

import pytest

from broker.limits import QueryLimits
from subscriptions.errors import KafkaUnreachableError
from subscriptions.model import State, SubscriptionKey
from subscriptions.records import RecordLimits
from subscriptions.registry import Change
from tests.unit.subscriptions.registry_broker import (
    BAD,
    BOOKS,
    FILMS,
    GOOD,
    NEWS,
    OTHER,
    PAUSED,
    Broker,
)


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

    def test_what_was_removed_a_month_ago_is_forgotten(self, broker: Broker) -> None:
        broker.take(BOOKS, GOOD)
        broker.take(BOOKS, None)
        broker.take(NEWS, GOOD)
        broker.wait(31 * 24 * 60 * 60)
        broker.start()
        assert broker.state(BOOKS) is State.REMOVED, "its record is still there"
        broker.log.compact()
        broker.start()
        assert broker.state(BOOKS) is None
        assert broker.state(NEWS) is State.ACTIVE

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

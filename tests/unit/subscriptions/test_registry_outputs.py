"""The registry: output topics that can't be had, and subscriptions whose time is over."""

from collections.abc import Iterable

import pytest

from broker.errors import BrokerError
from subscriptions.errors import KafkaUnreachableError
from subscriptions.log import MOST_POLLED
from subscriptions.model import State, Status
from subscriptions.registry import Change, Registry
from tests.unit.subscriptions.registry_broker import (
    BAD,
    BOOKS,
    FILMS,
    GOOD,
    NEWS,
    Broker,
)


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

    def test_a_clock_that_was_wrong_for_a_while(self, broker: Broker) -> None:
        broker.take(BOOKS, broker.expiring(10))
        broker.take(NEWS, broker.expiring(100))
        before = dict(broker.registry.active)
        broker.wait(50)
        assert broker.registry.poll() == [Change(BOOKS, None, 1)]
        broker.wait(-50)
        assert broker.registry.poll() == [Change(BOOKS, before[BOOKS], 1)]
        assert broker.registry.active == before
        assert broker.status(BOOKS) == Status(State.ACTIVE, 0, broker.now)
        # And it expires at its time.
        broker.wait(9.9)
        assert broker.registry.poll() == []
        broker.wait(0.1)
        assert broker.registry.poll() == [Change(BOOKS, None, 1)]
        assert broker.state(BOOKS) is State.EXPIRED

    def test_what_comes_while_the_clock_is_wrong(self, broker: Broker) -> None:
        broker.wait(50)
        broker.registry.poll()
        broker.wait(-50)
        broker.write(BOOKS, broker.expiring(10))
        assert [each.key for each in broker.registry.poll()] == [BOOKS]
        assert broker.state(BOOKS) is State.ACTIVE

    def test_a_clock_that_is_put_back_leaves_paused_and_refused_ones(self, broker: Broker) -> None:
        broker.take(BOOKS, broker.expiring(10))
        broker.take(BOOKS, BAD)
        paused = broker.expiring(10).replace(b"}", b', "paused": true}')
        broker.take(NEWS, paused)
        broker.wait(50)
        broker.registry.poll()
        broker.wait(-50)
        broker.registry.poll()
        assert broker.registry.active.keys() == {BOOKS}
        assert broker.state(BOOKS) is State.REJECTED
        assert broker.state(NEWS) is State.PAUSED

    def test_a_clock_that_is_put_back_holds_up_no_topic(self, broker: Broker) -> None:
        broker.failing["acme"] = "no"
        broker.wait(1000)
        broker.take(BOOKS, GOOD)
        assert broker.state(BOOKS) is State.SUSPENDED
        broker.failing.clear()
        broker.wait(-1000)
        broker.registry.poll()
        broker.wait(11)
        broker.registry.poll()
        assert broker.state(BOOKS) is State.ACTIVE

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

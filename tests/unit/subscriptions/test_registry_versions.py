"""The registry: older versions, and the digests that tell them apart."""

from datetime import timedelta
from itertools import permutations

import pytest

from subscriptions.errors import VersionLostError
from subscriptions.log import InMemoryLog
from subscriptions.subscription_set import SubscriptionSet, registry_at
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

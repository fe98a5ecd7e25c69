"""The registry against a plain dictionary, whatever comes in whatever order."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from subscriptions.log import InMemoryLog, InMemoryStatusLog
from subscriptions.model import State, Status, SubscriptionKey, SubscriptionRecord
from subscriptions.records import encode
from subscriptions.registry import Registry
from subscriptions.subscription_set import registry_at
from tests.unit.subscriptions.hostile_records import HOSTILE

KEYS = st.sampled_from([SubscriptionKey("a", "x"), SubscriptionKey("b", "y")])
QUERIES = st.sampled_from(["//a", "/a/b", "//a[b = 1]", "for $v in //a return <o>{$v/b}</o>"])
MALFORMED = st.sampled_from([case.value for case in HOSTILE if len(case.value) < 1000])
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


class Pinned(NamedTuple):
    """What a batch writes down, and what it should find again."""

    version: int
    digest: str
    kept: Mapping[bytes, Status]
    model: dict[SubscriptionKey, tuple[int, str, bool]]


class RegistryMachine(RuleBasedStateMachine):
    """`model` is what is registered; `states` what subscribers have been told."""

    @initialize()
    def start(self) -> None:
        self.log = InMemoryLog(NOON.timestamp)
        self.status_log = InMemoryStatusLog()
        self.model: dict[SubscriptionKey, tuple[int, str, bool]] = {}
        self.states: dict[bytes, State] = {}
        self.engine: dict[SubscriptionKey, tuple[int, str, bool]] = {}
        self.pinned: list[Pinned] = []
        self.is_behind = False
        self.restart()

    # What subscribers do

    def write(self, key: SubscriptionKey, value: bytes | None) -> int:
        self.is_behind = True
        return self.log.append(key.to_bytes(), value)

    @rule(key=KEYS, query=QUERIES, paused=st.booleans())
    def add_or_replace(self, key: SubscriptionKey, query: str, paused: bool) -> None:
        record = SubscriptionRecord(query=query, paused=paused)
        self.model[key] = (self.write(key, encode(record)), query, paused)
        self.states[key.to_bytes()] = State.PAUSED if paused else State.ACTIVE

    @rule(key=KEYS, value=MALFORMED)
    def write_nonsense(self, key: SubscriptionKey, value: bytes) -> None:
        self.write(key, value)
        self.states[key.to_bytes()] = State.REJECTED

    @rule(key=KEYS)
    def remove(self, key: SubscriptionKey) -> None:
        self.write(key, None)
        self.model.pop(key, None)
        self.states[key.to_bytes()] = State.REMOVED

    @rule(key=st.binary(max_size=5).filter(lambda key: b"/" not in key))
    def write_under_a_wrong_key(self, key: bytes) -> None:
        self.log.append(key, b'{"query": "//a"}')
        self.is_behind = True
        self.states[key] = State.REJECTED

    # What the broker does

    @rule()
    def poll(self) -> None:
        for change in self.registry.poll():
            if change.subscription is None:
                self.engine.pop(change.key, None)
            else:
                record = change.subscription.record
                found = (change.subscription.version, record.query, record.paused)
                self.engine[change.key] = found
        self.is_behind = False

    @rule()
    def restart(self) -> None:
        self.registry = Registry(
            self.log, self.status_log, prepare=lambda _: {}, clock=lambda: NOON
        )
        self.registry.catch_up()
        self.engine = {
            key: (each.version, each.record.query, each.record.paused)
            for key, each in self.registry.active.items()
        }
        self.is_behind = False

    @rule()
    def restart_without_need(self) -> None:
        self.restart()
        count = len(self.status_log.published)
        self.restart()
        assert len(self.status_log.published) == count

    @rule(keep_tombstones=st.booleans())
    def compact(self, keep_tombstones: bool) -> None:
        """Of what was taken: `min.compaction.lag.ms` is there to let the broker be first."""
        self.poll()
        self.log.compact(self.registry.version + 1, keep_tombstones=keep_tombstones)
        self.pinned.clear()

    @rule()
    def pin(self) -> None:
        self.poll()
        registry = self.registry
        self.pinned.append(
            Pinned(registry.version, registry.digest(), registry.kept, dict(self.model))
        )

    # What holds

    @precondition(lambda self: not self.is_behind)
    @invariant()
    def what_is_registered_is_what_was_accepted(self) -> None:
        found = {
            key: (each.version, each.record.query, each.record.paused)
            for key, each in self.registry.subscriptions.items()
        }
        assert found == self.model

    @precondition(lambda self: not self.is_behind)
    @invariant()
    def the_changes_add_up_to_what_is_active(self) -> None:
        active = {key: each for key, each in self.model.items() if not each[2]}
        assert self.engine == active
        assert set(self.registry.active) == set(active)

    @precondition(lambda self: not self.is_behind)
    @invariant()
    def subscribers_know(self) -> None:
        statuses = self.status_log.read_all()
        assert {key: each.state for key, each in statuses.items()} == self.states
        for key, each in self.model.items():
            status = statuses[key.to_bytes()]
            stays = status.active_version if status.state is State.REJECTED else status.version
            assert stays == each[0]

    @precondition(lambda self: not self.is_behind)
    @invariant()
    def a_cold_start_comes_to_the_same(self) -> None:
        cold = registry_at(self.log, self.registry.version, statuses=self.status_log.read_all())
        assert cold.digest() == self.registry.digest()
        assert cold.subscriptions == self.registry.subscriptions

    @invariant()
    def pinned_versions_can_be_had_again(self) -> None:
        for version, digest, kept, model in self.pinned:
            rebuilt = self.registry.rebuild(version, digest, kept)
            assert {key: each.version for key, each in rebuilt.subscriptions.items()} == {
                key: each[0] for key, each in model.items()
            }


TestRegistryMachine = RegistryMachine.TestCase
TestRegistryMachine.settings = settings(max_examples=100, stateful_step_count=30)

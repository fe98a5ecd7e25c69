"""All subscriptions as of one version: the reducer over the whole log.

A version is the offset of the last record that was taken. The set is a function of the log up to
there, so a batch that is done again can have the set that it had at first, and the digest tells
whether it is the same.
"""

from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from types import MappingProxyType

from subscriptions.apply import Outcome, accept, apply
from subscriptions.errors import RecordError, VersionLostError
from subscriptions.log import LogRecord, SubscriptionLog
from subscriptions.model import State, Status, Subscription, SubscriptionKey
from subscriptions.records import (
    DEFAULT_LIMITS,
    RecordLimits,
    check_record,
    decode_key,
    encode,
)

NO_VERSION = -1
"""The version of a log of which nothing was taken."""

_DIGEST_BITS = 128
_NO_STATUSES: Mapping[bytes, Status] = MappingProxyType({})
_NO_SUBSCRIPTIONS: Mapping[SubscriptionKey, Subscription] = MappingProxyType({})


class SubscriptionSet:
    """The registered subscriptions, and the refusals that stand."""

    def __init__(
        self,
        limits: RecordLimits = DEFAULT_LIMITS,
        *,
        statuses: Mapping[bytes, Status] = _NO_STATUSES,
        known: Mapping[SubscriptionKey, Subscription] = _NO_SUBSCRIPTIONS,
    ) -> None:
        """`statuses` are those of the status topic: what stays in force beside a refused record is
        there when compaction has dropped it. `known` are subscriptions of the same log that need
        no second check.
        """
        self.version = NO_VERSION
        self.refused: dict[bytes, Status] = {}
        """The refusals of keys whose last record was refused."""
        self._outlived: dict[bytes, Status] = {}
        self._shown: Mapping[bytes, Status] | None = None
        """A copy of the kept ones for others, as long as it is right."""
        self._limits = limits
        self._statuses = statuses
        self._known = known
        self._subscriptions: dict[SubscriptionKey, Subscription] = {}
        self._digest = 0

    @property
    def subscriptions(self) -> Mapping[SubscriptionKey, Subscription]:
        """All that are registered, the paused and the expired too."""
        return MappingProxyType(self._subscriptions)

    @property
    def kept(self) -> Mapping[bytes, Status]:
        """The refusals beside which an earlier record stays in force: another object when they
        change, and the same one as long as they don't.
        """
        if self._shown is None:
            self._shown = dict(self._outlived)
        return self._shown

    def active_at(self, now: datetime) -> dict[SubscriptionKey, Subscription]:
        """Those that want results at a time. To get the same again, keep the time too."""
        return {key: each for key, each in self._subscriptions.items() if each.is_active(now)}

    def digest(self) -> str:
        """A fingerprint of all keys, versions and records, in hexadecimal.

        It is the sum of a hash for each, so the order in which they came does not matter and a
        change costs one hash.
        """
        return f"{self._digest:0{_DIGEST_BITS // 4}x}"

    def take(self, record: LogRecord) -> Outcome:
        """Apply the next record of the log."""
        if record.offset <= self.version:
            raise ValueError(f"record {record.offset} comes after record {self.version}")
        outcome = self._apply(record)
        self.version = record.offset
        if outcome.status is not None and record.key is not None:
            self._note(record.key, outcome.status)
        if outcome.key is not None:
            self._register(outcome.key, outcome.subscription)
        return outcome

    def _note(self, key: bytes, status: Status) -> None:
        if status.state is State.REJECTED:
            self.refused[key] = status
        else:
            self.refused.pop(key, None)
        if status.active_record is not None:
            self._outlived[key] = status
            self._shown = None
        elif self._outlived.pop(key, None) is not None:
            self._shown = None

    def _apply(self, record: LogRecord) -> Outcome:
        try:
            key = decode_key(record.key)
        except RecordError:
            return apply(None, record, self._limits)
        known = self._known.get(key)
        if known is not None and known.version == record.offset:
            return accept(known, record)
        previous = self._subscriptions.get(key)
        outcome = apply(previous, record, self._limits)
        if previous is None and outcome.status is not None:
            kept = self._kept(key, outcome.status)
            if kept is not None:
                return apply(kept, record, self._limits)
        return outcome

    def _kept(self, key: SubscriptionKey, status: Status) -> Subscription | None:
        """What the status topic says stays in force beside this very refusal.

        A status about an earlier record does not count: the subscription may have been removed
        since, and what is deleted stays deleted.
        """
        published = self._statuses.get(key.to_bytes())
        if (
            status.state is not State.REJECTED
            or published is None
            or published.state is not State.REJECTED
            or published.version != status.version
        ):
            return None
        kept = published.kept(key)
        try:
            if kept is not None:
                check_record(kept.record, self._limits)
        except RecordError:
            return None
        return kept

    def _register(self, key: SubscriptionKey, subscription: Subscription | None) -> None:
        previous = self._subscriptions.get(key)
        if previous is subscription:
            return
        if previous is not None:
            self._add_to_digest(-_hash(previous))
        if subscription is None:
            del self._subscriptions[key]
        else:
            self._subscriptions[key] = subscription
            self._add_to_digest(_hash(subscription))

    def _add_to_digest(self, number: int) -> None:
        self._digest = (self._digest + number) % (1 << _DIGEST_BITS)


def _hash(subscription: Subscription) -> int:
    # The record is in it so that another topic of the same name, with the same offsets, is noticed.
    head = f"{subscription.key} {subscription.version} ".encode("ascii")
    hashed = blake2b(head + encode(subscription.record), digest_size=_DIGEST_BITS // 8)
    return int.from_bytes(hashed.digest(), "big")


def registry_at(
    log: SubscriptionLog,
    version: int,
    *,
    digest: str | None = None,
    limits: RecordLimits = DEFAULT_LIMITS,
    statuses: Mapping[bytes, Status] = _NO_STATUSES,
    known: Mapping[SubscriptionKey, Subscription] = _NO_SUBSCRIPTIONS,
) -> SubscriptionSet:
    """The subscriptions as of an older version, for a batch that is done again.

    Raises `VersionLostError` if the log ends before it, or if the set has not the digest that it
    had: then compaction has dropped a record that the batch used, or the limits are others.
    """
    if log.end() <= version:
        raise VersionLostError(
            "version-lost",
            f"the subscription log ends before version {version}: "
            "it was cut or made anew, or is another one; start with another checkpoint, or bring "
            "the old log back",
        )
    made = SubscriptionSet(limits, statuses=statuses, known=known)
    for record in log.read(0, version + 1):
        made.take(record)
    # Gaps are usual: the version is what was asked for even if its record is gone.
    made.version = version
    if digest is not None and made.digest() != digest:
        raise VersionLostError(
            "version-lost",
            f"the subscriptions of version {version} can't be rebuilt: the log has been compacted "
            "since (then start with another checkpoint), or the settings query.* or the version of "
            "xmlbroker are others than they were (then put them back until the batch is done)",
        )
    return made

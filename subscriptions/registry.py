"""The registry: the subscriptions that are in force, kept up with the log.

It replays the log at the start, takes what follows batch by batch, sees to it that there is a topic
to deliver to before a subscription becomes active, and tells subscribers what became of their
records. It belongs to one thread.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from broker.loading import uncollected
from subscriptions.census import Census
from subscriptions.expiries import Expiries
from subscriptions.log import MOST_POLLED, LogRecord, StatusLog, SubscriptionLog
from subscriptions.model import State, Status, Subscription, SubscriptionKey
from subscriptions.records import DEFAULT_LIMITS, RecordLimits
from subscriptions.subscription_set import SubscriptionSet, registry_at

_LOGGER = logging.getLogger(__name__)
_RECORDS_BETWEEN_PROGRESS = 1000
_RETRY_AFTER = timedelta(seconds=10)
_REMEMBERED = timedelta(days=30)

Prepare = Callable[[Iterable[str]], dict[str, str]]
"""Makes the output topics of subscribers; the reasons for those whose topic can't be had. Raises if
nothing can be found out about any."""

Progress = Callable[[int, int], None]
"""Is told how far a replay is: up to which offset, of which end."""


class Change(NamedTuple):
    """What is active under a key from here on."""

    key: SubscriptionKey
    subscription: Subscription | None
    """None if nothing is: it was removed, paused or suspended, or its time is over."""
    version: int
    """The version of the whole set that has this change."""


class _Suspension(NamedTuple):
    """Why a subscriber gets nothing, and since when."""

    reason: str
    since: datetime


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Registry:
    """All subscriptions of a log, and which of them are active."""

    def __init__(
        self,
        log: SubscriptionLog,
        status_log: StatusLog,
        *,
        prepare: Prepare,
        clock: Callable[[], datetime] = _utc_now,
        limits: RecordLimits = DEFAULT_LIMITS,
        retry_after: timedelta = _RETRY_AFTER,
    ) -> None:
        self._log = log
        self._status_log = status_log
        self._prepare = prepare
        self._clock = clock
        self._limits = limits
        self._retry_after = retry_after
        self._reset({})

    def _reset(self, published: Mapping[bytes, Status]) -> None:
        self._keeping = {key: each for key, each in published.items() if each.active_record}
        self._set = SubscriptionSet(self._limits, statuses=self._keeping)
        self._active: dict[SubscriptionKey, Subscription] = {}
        self._prepared: set[str] = set()
        self._suspended: dict[str, _Suspension] = {}
        self._retry_at = datetime.max.replace(tzinfo=UTC)
        self._expiries = Expiries(self._set.subscriptions)
        # What follows outlives an error in the middle of `poll`: the next one goes on with it.
        self._touched: dict[SubscriptionKey, None] = {}
        self._statuses: dict[bytes, Status] = {}
        self._changes: dict[SubscriptionKey, Change] = {}
        self.is_behind = False
        """Whether the last `poll` left records behind, as far as it knows."""
        self.census = Census()
        self.unreported = 0
        """How many records were refused without a key to say it under."""

    # What there is

    @property
    def version(self) -> int:
        """The offset of the last record taken, -1 if there is none."""
        return self._set.version

    @property
    def subscriptions(self) -> Mapping[SubscriptionKey, Subscription]:
        """All that are registered, whether active or not: a function of the log alone."""
        return self._set.subscriptions

    @property
    def active(self) -> Mapping[SubscriptionKey, Subscription]:
        """Those that messages are matched with: all changes since the start, summed up."""
        return MappingProxyType(self._active)

    @property
    def suspended(self) -> dict[str, str]:
        """The subscribers that have no topic to deliver to, each with the reason."""
        return {subscriber: each.reason for subscriber, each in self._suspended.items()}

    @property
    def refused(self) -> int:
        """How many keys have a refused record as their last one."""
        return len(self._set.refused)

    def digest(self) -> str:
        """The fingerprint of all that are registered; see `SubscriptionSet.digest`."""
        return self._set.digest()

    @property
    def kept(self) -> Mapping[bytes, Status]:
        """The refusals beside which an earlier record stays in force: another object when they
        change.

        Who wants to rebuild this version later has to keep them: the log may have lost the record,
        and the status topic has only the last status of a key.
        """
        return self._set.kept

    def rebuild(
        self, version: int, digest: str | None = None, kept: Mapping[bytes, Status] | None = None
    ) -> SubscriptionSet:
        """The subscriptions as of an older version; see `registry_at`. What has not changed since
        is not checked again.
        """
        return registry_at(
            self._log,
            version,
            digest=digest,
            limits=self._limits,
            statuses={**self._keeping, **self._set.refused, **(kept or {})},
            known=self._set.subscriptions,
        )

    # Keeping up

    def catch_up(self, progress: Progress | None = None) -> None:
        """Replay the log to its end as it is now. After that `active` is what is in force.

        Only statuses that say something else than those on the status topic are published: a
        restart with many subscriptions writes nothing.
        """
        end = self._log.end()
        published = self._status_log.read_all()
        self._reset(published)
        with uncollected():
            for count, record in enumerate(self._log.read(0, end), start=1):
                self._take(record)
                if progress is not None and count % _RECORDS_BETWEEN_PROGRESS == 0:
                    progress(record.offset + 1, end)
        if progress is not None:
            progress(end, end)
        self._log.follow(end)
        now = self._now()
        self._settle(now)
        self._report_vanished(published, now)
        self._statuses = {
            key: status
            for key, status in self._statuses.items()
            if not status.says_same_as(published.get(key))
        }
        self.publish()
        self._changes.clear()
        self.census.refused_records = 0

    def poll(self, timeout: float = 0.0) -> list[Change]:
        """Take some of the records that came since, and what time has brought about; waits up to
        so many seconds for a record.

        If Kafka fails in the middle nothing is forgotten: the next call goes on.
        """
        self._gather(timeout)
        self.publish()
        return self._hand_on()

    def take(self, timeout: float = 0.0) -> list[Change]:
        """As `poll`, but nobody is told yet: whoever reads that a subscription is active, and sends
        a message, has to get the result. So it has to be in force first, and then `publish`.
        """
        self._gather(timeout)
        return self._hand_on()

    def _gather(self, timeout: float) -> None:
        records = self._log.poll(timeout)
        self.is_behind = len(records) >= MOST_POLLED
        for record in records:
            self._take(record)
        self._settle(self._now())

    def _hand_on(self) -> list[Change]:
        changes = list(self._changes.values())
        self._changes.clear()
        return changes

    def suspend(self, reasons: Mapping[str, str]) -> None:
        """Take all of some subscribers out of force, for example since their topic is gone.

        The next `poll` has the changes; later ones try to prepare their topics again.
        """
        now = self._now()
        self._mark_suspended(reasons, now)
        self._settle(now)
        self.publish()

    # One record

    def _take(self, record: LogRecord) -> None:
        outcome = self._set.take(record)
        if outcome.status is None or record.key is None:
            self.unreported += 1
            _LOGGER.warning("record %d of the subscription log has no usable key", record.offset)
        else:
            self._statuses[record.key] = outcome.status
            if outcome.status.state is State.REJECTED:
                self.census.refuse(record.key, outcome.status)
        if outcome.key is None:
            return
        self._touched[outcome.key] = None
        if outcome.subscription is not None:
            self._expiries.add(outcome.subscription)

    # What follows from the records, the time and the topics

    def _settle(self, now: datetime) -> None:
        """Bring `active` and the statuses in line with what has changed."""
        self._prepare_outputs(now)
        for key in self._touched:
            subscription = self._set.subscriptions.get(key)
            state = None if subscription is None else self._state(subscription, now)
            self.census.note(key, state)
            if subscription is not None and not self._is_in_force(subscription, now):
                subscription = None
            if subscription != self._active.get(key):
                if subscription is None:
                    del self._active[key]
                else:
                    self._active[key] = subscription
                self._changes[key] = Change(key, subscription, self.version)
            self._refine_status(key, now)
        self._touched.clear()

    def _is_in_force(self, subscription: Subscription, now: datetime) -> bool:
        return subscription.is_active(now) and subscription.key.subscriber not in self._suspended

    def _state(self, subscription: Subscription, now: datetime) -> State:
        if subscription.record.paused:
            return State.PAUSED
        if subscription.is_expired(now):
            return State.EXPIRED
        is_in_force = self._is_in_force(subscription, now)
        return State.ACTIVE if is_in_force else State.SUSPENDED

    def _refine_status(self, key: SubscriptionKey, now: datetime) -> None:
        """The record was accepted; whether it is in force is up to the time and the topics."""
        name = key.to_bytes()
        status = self._statuses.get(name)
        subscription = self._set.subscriptions.get(key)
        if status is None or status.state is not State.ACTIVE or subscription is None:
            return
        suspension = self._suspended.get(key.subscriber)
        if subscription.is_expired(now):
            self._statuses[name] = _expired(subscription, now)
        elif suspension is not None:
            error = {"code": "no-output-topic", "detail": suspension.reason}
            self._statuses[name] = Status(
                State.SUSPENDED, status.version, suspension.since, error=error
            )

    def _now(self) -> datetime:
        """What time it is. Marks those that this makes a difference to."""
        now = self._clock()
        for subscription in self._expiries.pass_to(now):
            self._touched[subscription.key] = None
            name = subscription.key.to_bytes()
            # Where that is wrong, as for those whose time has come, it is refined.
            status = Status(State.ACTIVE, subscription.version, now)
            self._statuses[name] = self._set.refused.get(name, status)
        # Put back, the clock would have them wait until it is as late again.
        self._retry_at = min(self._retry_at, now + self._retry_after)
        return now

    def _prepare_outputs(self, now: datetime) -> None:
        """See to the output topics of those that are to become active."""
        for key in self._touched:
            if key not in self._set.subscriptions:
                # Who leaves may take the topic along; who comes back needs it again.
                self._prepared.discard(key.subscriber)
        wanted = {
            key.subscriber
            for key in self._touched
            if key.subscriber not in self._prepared
            and (subscription := self._set.subscriptions.get(key)) is not None
            and subscription.is_active(now)
        }
        if now < self._retry_at:
            wanted -= self._suspended.keys()
        elif self._suspended:
            remaining = {key.subscriber for key in self._set.subscriptions}
            for subscriber in self._suspended.keys() - remaining:
                del self._suspended[subscriber]
            wanted |= self._suspended.keys()
            self._retry_at = now + self._retry_after
        if not wanted:
            return
        # If Kafka can't be asked that is nobody's fault: the next poll goes on from here.
        reasons = self._prepare(sorted(wanted))
        self._prepared |= wanted - reasons.keys()
        resumed = {each for each in self._suspended if each in wanted and each not in reasons}
        for subscriber in resumed:
            del self._suspended[subscriber]
        self._retouch(resumed, now)
        self._mark_suspended({each: reasons[each] for each in wanted if each in reasons}, now)

    def _mark_suspended(self, reasons: Mapping[str, str], now: datetime) -> None:
        if not reasons:
            return
        self._retry_at = now + self._retry_after
        changed = {
            subscriber
            for subscriber, reason in reasons.items()
            if subscriber not in self._suspended or self._suspended[subscriber].reason != reason
        }
        for subscriber in changed:
            since = self._suspended[subscriber].since if subscriber in self._suspended else now
            self._suspended[subscriber] = _Suspension(reasons[subscriber], since)
            _LOGGER.warning("%s is suspended: %s", subscriber, reasons[subscriber])
        self._prepared -= changed
        self._retouch(changed, now)

    def _retouch(self, subscribers: set[str], now: datetime) -> None:
        """Look at all subscriptions of some subscribers again, and say what became of them."""
        if not subscribers:
            return
        for key, subscription in self._set.subscriptions.items():
            if key.subscriber in subscribers and subscription.is_active(now):
                self._touched[key] = None
                name = key.to_bytes()
                waiting = self._statuses.get(name)
                if name not in self._set.refused and (
                    waiting is None or waiting.state is State.SUSPENDED
                ):
                    self._statuses[name] = Status(State.ACTIVE, subscription.version, now)

    # Statuses

    def _report_vanished(self, published: Mapping[bytes, Status], now: datetime) -> None:
        """Keys with a status but no record were removed while nobody looked, and compacted. What
        was removed long ago is of no interest any more.
        """
        vanished = 0
        for key, status in published.items():
            if key in self._statuses:
                continue
            if status.state is not State.REMOVED:
                vanished += 1
                self._statuses[key] = Status(State.REMOVED, self.version, now)
            elif now - status.since > _REMEMBERED:
                self._status_log.forget(key)
        if vanished:
            _LOGGER.warning("%d subscriptions were removed while no broker ran", vanished)

    def publish(self) -> None:
        """Tell subscribers what became of their records, as far as they have not been told."""
        for key, status in self._statuses.items():
            self._status_log.publish(key, status)
        self._status_log.flush()
        self._statuses.clear()


def _expired(subscription: Subscription, now: datetime) -> Status:
    return Status(State.EXPIRED, subscription.version, subscription.record.expires or now)

"""The reducer: what one record of the log does to the subscription of its key.

It is pure. What became of a key depends on its records alone, never on when or how often they are
read, so every reader of the log comes to the same subscriptions.
"""

from typing import NamedTuple

from subscriptions.errors import RecordError
from subscriptions.log import LogRecord
from subscriptions.model import State, Status, Subscription, SubscriptionKey, moment_of
from subscriptions.records import DEFAULT_LIMITS, RecordLimits, decode_key, decode_value

_LONGEST_REPORTED_KEY = 256
"""Twice as long as any right key. Longer ones are not repeated on the status topic."""


class Outcome(NamedTuple):
    """What a record did."""

    key: SubscriptionKey | None
    """None if the record's key is none of a subscription."""
    subscription: Subscription | None
    """What is registered under the key from here on."""
    status: Status | None
    """What to say under the record's key; None where there is no key to say it under."""
    changed: bool
    """Whether what is registered is another than before."""


def apply(
    previous: Subscription | None, record: LogRecord, limits: RecordLimits = DEFAULT_LIMITS
) -> Outcome:
    """What is registered after a record, where `previous` was before it.

    A record that is refused changes nothing, and the status says which version stays in force.
    """
    key: SubscriptionKey | None = None
    try:
        key = decode_key(record.key)
        if record.value is None:
            status = Status(State.REMOVED, record.offset, moment_of(record.timestamp_ms))
            return Outcome(key, None, status, changed=previous is not None)
        accepted = decode_value(record.value, limits)
    except RecordError as error:
        return _refuse(key, previous, record, error)
    return accept(Subscription(key, record.offset, accepted), record)


def accept(subscription: Subscription, record: LogRecord) -> Outcome:
    """The outcome of a record that is known to be right."""
    state = State.PAUSED if subscription.record.paused else State.ACTIVE
    status = Status(state, record.offset, moment_of(record.timestamp_ms))
    return Outcome(subscription.key, subscription, status, changed=True)


def _refuse(
    key: SubscriptionKey | None,
    previous: Subscription | None,
    record: LogRecord,
    error: RecordError,
) -> Outcome:
    if record.key is None or len(record.key) > _LONGEST_REPORTED_KEY:
        return Outcome(key, previous, None, changed=False)
    status = Status(
        State.REJECTED,
        record.offset,
        moment_of(record.timestamp_ms),
        error=error.as_record(),
        active_version=None if previous is None else previous.version,
        active_record=None if previous is None else previous.record,
    )
    return Outcome(key, previous, status, changed=False)

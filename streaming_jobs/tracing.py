"""What became of one message: the engine is asked again, with the subscriptions that it had.

Results are a function of the message and the set of subscriptions, and ids of the source record and
the subscription, so what must have been delivered can be told without having kept it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from broker.engine import Engine
from broker.errors import BrokerError, MessageError, QueryError
from broker.message_factory import OutputFormat
from broker.query import parse
from streaming_jobs.delivery_ids import id_of_source, id_of_subscription
from streaming_jobs.snapshot import Entry, entry_of
from streaming_jobs.worker import EngineLimits
from subscriptions.model import Subscription


@dataclass(frozen=True)
class Expected:
    """A result that one subscription has of a message, or why it has none."""

    subscription: str
    version: int
    id: str
    bytes: int | None
    error: BrokerError | None = None


@dataclass(frozen=True)
class Outcome:
    """What a message comes to."""

    refused: MessageError | None
    """Why nobody gets anything."""
    results: tuple[Expected, ...] = ()


def outcome_of(
    place: str,
    value: bytes | None,
    subscriptions: Iterable[Subscription],
    limits: EngineLimits,
) -> Outcome:
    """What a message comes to with some subscriptions in force."""
    if value is None:
        return Outcome(MessageError("no-value", "the record has no value"))
    engine = Engine(message_limits=limits.message, result_limits=limits.result)
    entries: dict[str, Entry] = {}
    for subscription in subscriptions:
        entry = entry_of(subscription)
        try:
            query = parse(entry.query, limits.query)
            engine.add(entry.name, query, OutputFormat(entry.format))
        except QueryError:
            continue  # limits may have become tighter; then workers pass it over, too
        entries[entry.name] = entry
    try:
        deliveries = engine.process(value)
    except MessageError as error:
        return Outcome(error)
    results = []
    for delivery in deliveries:
        entry = entries[delivery.subscription]
        results.append(
            Expected(
                delivery.subscription,
                entry.version,
                (id_of_source(place.encode()) + id_of_subscription(entry)).decode(),
                None if delivery.payload is None else len(delivery.payload),
                delivery.error,
            )
        )
    return Outcome(None, tuple(sorted(results, key=lambda each: each.subscription)))

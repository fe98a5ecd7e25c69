"""What the subscribers of a transformation get of its result: each form of it is made once."""

from dataclasses import dataclass, field
from typing import NamedTuple

from broker.documents import Message
from broker.errors import ResultError
from broker.limits import ResultLimits
from broker.message_factory import MessageFactory, OutputFormat
from broker.metrics import EngineMetrics
from broker.plan.group_plan import GroupPlan
from broker.query import Flwr
from broker.results import Result
from broker.runtime.planned import Planned


class Delivery(NamedTuple):
    """What one subscription gets of a message: a payload, or why there is none."""

    subscription: str
    payload: bytes | None
    error: ResultError | None = None


@dataclass(slots=True, eq=False)
class Transformation:
    """A distinct transformation, and who subscribes to it."""

    query: Flwr
    plan: GroupPlan | Planned | None = None
    """None if it is walked, or has its plan together with others."""
    factory: MessageFactory | None = None
    """Made when there is a first result."""
    subscribers: dict[str, OutputFormat] = field(default_factory=dict)


def deliver(
    transformation: Transformation,
    result: Result | ResultError,
    message: Message,
    limits: ResultLimits,
    metrics: EngineMetrics,
) -> list[Delivery]:
    """What each subscriber of a transformation gets; nothing if there is no group."""
    subscribers = transformation.subscribers
    if isinstance(result, ResultError):
        _count_error(result, metrics)
        return [Delivery(subscription, None, result) for subscription in subscribers]
    if not result.groups:
        return []
    metrics.matches += 1
    metrics.bindings += len(result.groups)
    factory = transformation.factory
    if factory is None:
        factory = transformation.factory = MessageFactory(transformation.query)
    made: dict[OutputFormat, tuple[bytes | None, ResultError | None]] = {}
    deliveries = []
    for subscription, format in subscribers.items():
        outcome = made.get(format)
        if outcome is None:
            metrics.serialise_runs += 1
            try:
                outcome = factory.make(result.groups, message, format, limits), None
            except ResultError as error:
                _count_error(error, metrics)
                outcome = None, error
            made[format] = outcome
        deliveries.append(Delivery(subscription, *outcome))
    return deliveries


def _count_error(error: ResultError, metrics: EngineMetrics) -> None:
    if error.code == "budget-exceeded":
        metrics.budget_overruns += 1

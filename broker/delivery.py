"""What the subscribers of a transformation get of its result: each form of it is made once."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.documents import Message
from broker.errors import ResultError
from broker.limits import ResultLimits
from broker.message_factory import MessageFactory, OutputFormat
from broker.metrics import EngineMetrics
from broker.plan.group_plan import GroupPlan
from broker.query import Flwr
from broker.query.shapes import Shape
from broker.query.syntax import Literal
from broker.results import Result, too_much_to_look_at
from broker.runtime.group_writer import GroupWriter, most_lists
from broker.runtime.groups import Groups

_MOST_KEPT = 10_000


class Delivery(NamedTuple):
    """What one subscription gets of a message: a payload, or why there is none."""

    subscription: str
    payload: bytes | None
    error: ResultError | None = None


@dataclass(slots=True, eq=False)
class Transformation:
    """A distinct transformation, and who subscribes to it."""

    query: Flwr
    plan: GroupPlan | None = None
    """None if it has a plan together with others, or none: then it is walked."""
    constants: tuple[Literal, ...] = ()
    """Those of the plan's keys."""
    maker: "ResultMaker | None" = None
    """Found when there is a first result."""
    subscribers: dict[str, OutputFormat] = field(default_factory=dict)
    is_filter: bool = False
    """Whether they get the whole message: it is a filter, in the form that the index has."""


class ResultMaker(NamedTuple):
    """Who makes bytes of the results of a query."""

    factory: MessageFactory
    writer: GroupWriter | None
    """Makes them at once, if it can."""


class ResultMakers:
    """Those of all transformations of an engine; queries of one shape share theirs."""

    def __init__(self, limits: ResultLimits) -> None:
        self.limits = limits
        self._makers: dict[Shape, ResultMaker] = {}

    def of(self, transformation: Transformation) -> ResultMaker:
        """The one of a transformation."""
        maker = transformation.maker
        if maker is None:
            shape = transformation.query.shape
            maker = None if shape is None else self._makers.get(shape)
            if maker is None:
                maker = self._make(transformation)
                if shape is not None:
                    if len(self._makers) >= _MOST_KEPT:
                        self._makers.clear()
                    self._makers[shape] = maker
            transformation.maker = maker
        return maker

    def _make(self, transformation: Transformation) -> ResultMaker:
        query, plan = transformation.query, transformation.plan
        writer = None
        if isinstance(plan, GroupPlan):
            writer = GroupWriter.of(query, plan.lists)
        return ResultMaker(MessageFactory(query), writer)


class Deliveries:
    """What subscribers get of one message."""

    def __init__(self, message: Message, makers: ResultMakers, metrics: EngineMetrics) -> None:
        self.made: list[Delivery] = []
        self._message = message
        self._makers = makers
        self._most = makers.limits.max_output_bytes(len(message.data))
        """The bytes that a result may have."""
        self._most_lists = most_lists(makers.limits, self._most)
        self._metrics = metrics

    def add_filter(self, subscribers: Iterable[str]) -> None:
        """The message itself, for those whose filter takes it."""
        self._metrics.matches += 1
        data = self._message.data
        self.made += [Delivery(subscription, data) for subscription in subscribers]

    def write(
        self, transformation: Transformation, groups: Groups, bound: list[int] | None
    ) -> bool:
        """The result of a transformation, written at once; its bound elements may be known.

        False if that can't be: then `add_result` has to get it, or the error.
        """
        subscribers = transformation.subscribers
        if transformation.is_filter:
            self.add_filter(subscribers)
            return True
        writer = (transformation.maker or self._makers.of(transformation)).writer
        if writer is None or OutputFormat.GROUPS in subscribers.values():
            return False
        if bound is None or len(bound) > 1:
            plan, limits = transformation.plan, self._makers.limits
            assert isinstance(plan, GroupPlan)
            try:
                if bound is None:
                    bound = groups.bound(plan, transformation.constants, limits)
                bound = groups.ordered(plan, bound, limits)
            except ResultError:
                return False
            if not bound:
                return True
        if len(bound) * writer.lists > self._most_lists:
            return False
        payload = writer.write(groups, bound, self._most)
        if payload is None:
            return False
        metrics = self._metrics
        metrics.matches += 1
        metrics.serialise_runs += 1
        metrics.bindings += len(bound)
        for subscription in subscribers:
            self.made.append(Delivery(subscription, payload))
        return True

    def add_result(self, transformation: Transformation, result: Result | ResultError) -> None:
        """A transformation's result, for its subscribers; nothing if there is no group."""
        if isinstance(result, ResultError):
            self._add_error(transformation.subscribers, result)
            return
        if not result.groups:
            return
        if transformation.is_filter:
            self.add_filter(transformation.subscribers)
            return
        metrics = self._metrics
        metrics.matches += 1
        metrics.bindings += len(result.groups)
        factory = self._makers.of(transformation).factory
        made: dict[OutputFormat, tuple[bytes | None, ResultError | None]] = {}
        for subscription, format in transformation.subscribers.items():
            outcome = made.get(format)
            if outcome is None:
                metrics.serialise_runs += 1
                try:
                    payload = factory.make(result.groups, self._message, format, self._most)
                    outcome = (payload, None)
                except ResultError as error:
                    self._count(error)
                    outcome = (None, error.with_traceback(None))
                made[format] = outcome
            self.made.append(Delivery(subscription, *outcome))

    def add_undecided(self, subscribers: Iterable[str]) -> None:
        """An error for those of whom it was not found out whether the message is theirs."""
        self._add_error(subscribers, too_much_to_look_at())

    def _add_error(self, subscribers: Iterable[str], error: ResultError) -> None:
        self._count(error)
        error.__traceback__ = None  # it would keep the message, and itself
        self.made += [Delivery(each, None, error) for each in subscribers]

    def _count(self, error: ResultError) -> None:
        if error.code == "budget-exceeded":
            self._metrics.budget_overruns += 1

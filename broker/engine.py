"""The engine: subscriptions of both kinds in, messages in, each subscriber's results out.

Filters and transformations are matched by one matcher: a transformation is there as the filter
without which it has no result (`plan/candidates.py`). Those that a message matches are answered by
their plans, equal ones once, whoever subscribes to them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from broker import reference
from broker.documents import LabelPaths, Message
from broker.errors import ResultError
from broker.limits import MessageLimits, ResultLimits
from broker.matching import Description, YFilter
from broker.matching import Engine as Matcher
from broker.message_factory import OutputFormat, check_template, make_output
from broker.plan.candidates import candidates_of
from broker.plan.group_plan import GroupPlan, NotGroupedError, PathTable, group_plan
from broker.query import Filter, Flwr, Query
from broker.results import Result
from broker.runtime.groups import Groups

_DEFAULT_MESSAGE_LIMITS = MessageLimits()
_DEFAULT_RESULT_LIMITS = ResultLimits()


class Delivery(NamedTuple):
    """What one subscription gets of a message: a payload, or why there is none."""

    subscription: str
    payload: bytes | None
    error: ResultError | None = None


@dataclass(slots=True)
class _Transformation:
    """A distinct transformation, and who subscribes to it."""

    query: Flwr
    plan: GroupPlan | None
    """None if it is walked."""
    subscribers: dict[str, OutputFormat] = field(default_factory=dict)


@dataclass(slots=True)
class _Members:
    """Who asks for one of the matcher's filters."""

    subscribers: dict[str, None] = field(default_factory=dict)
    """Those who get the whole message."""
    transformations: dict[Flwr, _Transformation] = field(default_factory=dict)


class _Place(NamedTuple):
    """Where a subscription is."""

    number: int
    query: Flwr | None


class Engine:
    """All subscriptions of a broker. It belongs to one thread."""

    def __init__(
        self,
        *,
        matcher: Matcher | None = None,
        message_limits: MessageLimits = _DEFAULT_MESSAGE_LIMITS,
        result_limits: ResultLimits = _DEFAULT_RESULT_LIMITS,
    ) -> None:
        self.matcher = matcher if matcher is not None else YFilter()
        self.message_limits = message_limits
        self.result_limits = result_limits
        self.paths = PathTable()
        self._labels = LabelPaths()
        self._members: dict[int, _Members] = {}
        self._places: dict[str, _Place] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, subscription: str) -> bool:
        return subscription in self._places

    # Subscriptions

    def add(self, subscription: str, query: Query, format: OutputFormat = OutputFormat.XML) -> None:
        """Take a subscription, in the place of one of the same name; effective at once.

        A transformation whose XML can never be built is refused with a `QueryError`, and what was
        there before stays.
        """
        if isinstance(query, Flwr) and format is OutputFormat.XML:
            check_template(query)
        self.remove(subscription)
        if isinstance(query, Filter):
            number = self.matcher.add(query)
            self._members.setdefault(number, _Members()).subscribers[subscription] = None
            self._places[subscription] = _Place(number, None)
            return
        number = self.matcher.add(candidates_of(query).filter)
        transformations = self._members.setdefault(number, _Members()).transformations
        transformation = transformations.get(query)
        if transformation is None:
            transformation = transformations[query] = _Transformation(query, self._plan(query))
        transformation.subscribers[subscription] = format
        self._places[subscription] = _Place(number, transformation.query)

    def remove(self, subscription: str) -> bool:
        """Drop a subscription; False if there is none of this name."""
        place = self._places.pop(subscription, None)
        if place is None:
            return False
        members = self._members[place.number]
        if place.query is None:
            del members.subscribers[subscription]
        else:
            transformation = members.transformations[place.query]
            del transformation.subscribers[subscription]
            if not transformation.subscribers:
                del members.transformations[place.query]
        if not members.subscribers and not members.transformations:
            del self._members[place.number]
        self.matcher.remove(place.number)
        return True

    def _plan(self, query: Flwr) -> GroupPlan | None:
        try:
            return group_plan(query, self.paths)
        except NotGroupedError:
            return None

    # Messages

    def process(self, data: bytes) -> list[Delivery]:
        """What each subscription gets of a message, or a `MessageError` if it is refused."""
        self._labels = self._labels.renewed()
        message = Message.parse(data, self.message_limits, self._labels)
        return list(self.deliveries(message))

    def deliveries(self, message: Message) -> Iterator[Delivery]:
        """What each subscription gets of a parsed message. Nothing, for most of them."""
        groups: Groups | None = None
        for number in self.matcher.match(message):
            members = self._members[number]
            for subscription in members.subscribers:
                yield Delivery(subscription, message.data)
            for transformation in members.transformations.values():
                if transformation.plan is not None and groups is None:
                    groups = Groups(message)
                yield from self._transform(transformation, message, groups)

    def results(self, message: Message) -> Iterator[Result]:
        """The groups of all distinct transformations that a message has a result for."""
        groups: Groups | None = None
        for number in self.matcher.match(message):
            for transformation in self._members[number].transformations.values():
                if transformation.plan is not None and groups is None:
                    groups = Groups(message)
                result = self._result(transformation, message, groups)
                if result.groups:
                    yield result

    def _transform(
        self, transformation: _Transformation, message: Message, groups: Groups | None
    ) -> Iterator[Delivery]:
        try:
            result = self._result(transformation, message, groups)
        except ResultError as error:
            for subscription in transformation.subscribers:
                yield Delivery(subscription, None, error)
            return
        if not result.groups:
            return
        made: dict[OutputFormat, bytes | ResultError | None] = {}
        for subscription, format in transformation.subscribers.items():
            if format not in made:
                try:
                    made[format] = make_output(result, message, format, self.result_limits)
                except ResultError as error:
                    made[format] = error
            output = made[format]
            if isinstance(output, ResultError):
                yield Delivery(subscription, None, output)
            elif output is not None:
                yield Delivery(subscription, output)

    def _result(
        self, transformation: _Transformation, message: Message, groups: Groups | None
    ) -> Result:
        if transformation.plan is None or groups is None:
            return reference.transform(transformation.query, message, self.result_limits)
        return groups.run(transformation.plan, self.result_limits)

    def describe(self) -> Description:
        """The size and shape of the matcher now."""
        return self.matcher.describe()

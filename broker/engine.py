"""The engine: subscriptions of both kinds in, messages in, each subscriber's results out.

Transformations that compare with a constant are found by it (`runtime/where_index.py`). All other
subscriptions are matched by one matcher, a transformation as the filter without which it has no
result (`plan/candidates.py`). Those that a message matches are answered by their plans, equal ones
once, whoever subscribes to them.
"""

from collections.abc import Iterable, Iterator
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
from broker.runtime.where_index import WhereIndex

_DEFAULT_MESSAGE_LIMITS = MessageLimits()
_DEFAULT_RESULT_LIMITS = ResultLimits()


class Delivery(NamedTuple):
    """What one subscription gets of a message: a payload, or why there is none."""

    subscription: str
    payload: bytes | None
    error: ResultError | None = None


@dataclass(slots=True, eq=False)
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


class Found(NamedTuple):
    """Transformations that a message may have a result for."""

    transformations: Iterable[_Transformation]
    groups: Groups
    bound: list[int] | None
    """The elements that they bind and that pass `where`; None if those are yet to be found."""


class _Place(NamedTuple):
    """Where a subscription is."""

    number: int | None
    """That of the filter in the matcher; None if it is in the index."""
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
        self._index: WhereIndex[_Transformation] = WhereIndex()
        self._indexed: dict[Flwr, _Transformation] = {}
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
        transformation = self._indexed.get(query)
        if transformation is None:
            plan = self._plan(query)
            made = _Transformation(query, plan)
            if plan is None or not self._index.add(made, plan):
                self._add_to_matcher(subscription, made, format)
                return
            transformation = self._indexed[query] = made
        transformation.subscribers[subscription] = format
        self._places[subscription] = _Place(None, transformation.query)

    def _add_to_matcher(
        self, subscription: str, made: _Transformation, format: OutputFormat
    ) -> None:
        number = self.matcher.add(candidates_of(made.query).filter)
        transformations = self._members.setdefault(number, _Members()).transformations
        transformation = transformations.setdefault(made.query, made)
        transformation.subscribers[subscription] = format
        self._places[subscription] = _Place(number, transformation.query)

    def remove(self, subscription: str) -> bool:
        """Drop a subscription; False if there is none of this name."""
        place = self._places.pop(subscription, None)
        if place is None:
            return False
        if place.number is None:
            assert place.query is not None
            transformation = self._indexed[place.query]
            del transformation.subscribers[subscription]
            if not transformation.subscribers:
                assert transformation.plan is not None
                self._index.remove(transformation, transformation.plan)
                del self._indexed[place.query]
            return True
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
        numbers = self.matcher.match(message) if self._members else ()
        for number in numbers:
            for subscription in self._members[number].subscribers:
                yield Delivery(subscription, message.data)
        for found in self._found(message, numbers):
            for transformation in found.transformations:
                yield from self._deliver(transformation, found, message)

    def bindings(self, message: Message) -> Iterator[Found]:
        """The distinct transformations that may have a result, before their groups are made."""
        numbers = self.matcher.match(message) if self._members else ()
        return self._found(message, numbers)

    def results(self, message: Message) -> Iterator[Result]:
        """The groups of all distinct transformations that a message has a result for."""
        for found in self.bindings(message):
            for transformation in found.transformations:
                result = self._result(transformation, found, message)
                if result.groups:
                    yield result

    def _found(self, message: Message, numbers: Iterable[int]) -> Iterator[Found]:
        groups: Groups | None = None
        if self._indexed:
            groups = Groups(message)
            for transformations, bound in self._index.match(groups):
                yield Found(transformations, groups, bound)
        for number in numbers:
            asked = self._members[number].transformations
            if asked:
                groups = groups or Groups(message)
                yield Found(asked.values(), groups, None)

    def _result(self, transformation: _Transformation, found: Found, message: Message) -> Result:
        plan = transformation.plan
        if plan is None:
            return reference.transform(transformation.query, message, self.result_limits)
        if found.bound is None:
            return found.groups.run(plan, self.result_limits)
        return found.groups.make(plan, found.bound, self.result_limits)

    def _deliver(
        self, transformation: _Transformation, found: Found, message: Message
    ) -> Iterator[Delivery]:
        subscribers = transformation.subscribers
        try:
            result = self._result(transformation, found, message)
        except ResultError as error:
            for subscription in subscribers:
                yield Delivery(subscription, None, error)
            return
        if not result.groups:
            return
        made: dict[OutputFormat, bytes | ResultError | None] = {}
        for subscription, format in subscribers.items():
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

    def describe(self) -> Description:
        """The size and shape of the matcher now."""
        return self.matcher.describe()

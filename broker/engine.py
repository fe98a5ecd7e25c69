"""The engine: subscriptions of both kinds in, messages in, each subscriber's results out.

Those that compare with a constant are found by it (`runtime/where_index.py`). All other
subscriptions are matched by one matcher, a transformation as the filter without which it has no
result (`plan/candidates.py`). Those that a message matches are answered by their plans, equal ones
once, whoever subscribes to them.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from time import perf_counter
from typing import NamedTuple

from broker import reference
from broker.costs import Costs
from broker.delivery import Deliveries, Delivery, ResultMakers, Transformation
from broker.documents import LabelPaths, Message, parse_message
from broker.documents.dtd import ElementGraph
from broker.errors import ResultError
from broker.limits import MessageLimits, ResultLimits
from broker.matching import Description, YFilter
from broker.matching import Engine as Matcher
from broker.matching.match_set import MatchSet
from broker.message_factory import OutputFormat, check_template
from broker.metrics import EngineMetrics
from broker.plan.candidates import candidates_of
from broker.plan.filter_plan import NotIndexedError, as_transformation
from broker.plan.optimise import Optimisation
from broker.query import Filter, Flwr, Query, unparse
from broker.results import Result
from broker.runtime.groups import Groups
from broker.runtime.planner import Planner
from broker.runtime.transformer import Choice
from broker.runtime.where_index import WhereIndex

_DEFAULT_MESSAGE_LIMITS = MessageLimits()
_DEFAULT_RESULT_LIMITS = ResultLimits()
_NO_MATCHES = MatchSet([])


@dataclass(slots=True)
class _Members:
    """Who asks for one of the matcher's filters."""

    subscribers: dict[str, None] = field(default_factory=dict)
    """Those who get the whole message."""
    transformations: dict[Flwr, Transformation] = field(default_factory=dict)


Found = tuple[Collection[Transformation], Groups, list[int] | None]
"""Transformations that a message may have a result for, and the elements that they bind and that
pass `where`: None if those are yet to be found."""


class _Place(NamedTuple):
    """Where a subscription is."""

    number: int | None
    """That of the filter in the matcher; None if it is not matched there."""
    query: Flwr | None


class Engine:
    """All subscriptions of a broker. It belongs to one thread."""

    def __init__(
        self,
        *,
        matcher: Matcher | None = None,
        message_limits: MessageLimits = _DEFAULT_MESSAGE_LIMITS,
        result_limits: ResultLimits = _DEFAULT_RESULT_LIMITS,
        choice: Choice = Choice.AUTO,
        optimisation: Optimisation = Optimisation.Q_DTD,
        graph: ElementGraph | None = None,
    ) -> None:
        self.matcher = matcher if matcher is not None else YFilter()
        self.message_limits = message_limits
        self.result_limits = result_limits
        self.planner: Planner[Transformation] = Planner(choice, optimisation, graph)
        self.metrics = EngineMetrics()
        self.transformations: Counter[str] = Counter()
        """How many distinct ones there are, by how they are answered."""
        self._costs = Costs()
        self._makers = ResultMakers(result_limits)
        self._labels = LabelPaths()
        self._members: dict[int, _Members] = {}
        self._index: WhereIndex[Transformation] = WhereIndex()
        self._unmatched: dict[Flwr, Transformation] = {}
        """Those in the index, or found by the shared plan: they need no filter in the matcher."""
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
        if subscription in self._places:
            self.remove(subscription)
        if isinstance(query, Filter):
            self._add_filter(subscription, query)
            return
        transformation = self._unmatched.get(query)
        if transformation is None:
            transformation = Transformation(query)
            if not self._add_unmatched(transformation):
                self._add_to_matcher(subscription, transformation, format)
                return
        transformation.subscribers[subscription] = format
        self._places[subscription] = _Place(None, transformation.query)

    def _add_filter(self, subscription: str, query: Filter) -> None:
        """Take a filter, into the index if it can be found by a constant."""
        transformation = self._indexed_filter(query)
        if transformation is not None:
            transformation.subscribers[subscription] = OutputFormat.XML
            self._places[subscription] = _Place(None, transformation.query)
            return
        number = self.matcher.add(query)
        self._members.setdefault(number, _Members()).subscribers[subscription] = None
        self._places[subscription] = _Place(number, None)

    def _indexed_filter(self, query: Filter) -> Transformation | None:
        """The one for a filter; None if it has to be matched."""
        try:
            made = as_transformation(query)
        except NotIndexedError:
            return None
        known = self._unmatched.get(made)
        if known is not None:
            return known
        grouped = self.planner.group(made)
        if grouped is None:
            return None
        transformation = Transformation(made, *grouped, is_filter=True)
        if not self._index.add(transformation, *grouped):
            return None
        self._unmatched[made] = transformation
        self.transformations[self._way(transformation)] += 1
        return transformation

    def _add_unmatched(self, transformation: Transformation) -> bool:
        """Plan a transformation; False if it needs a filter in the matcher."""
        query = transformation.query
        if self.planner.finds_by_plan:
            if not self.planner.share(transformation, query):
                return False
        else:
            grouped = self.planner.group(query)
            if grouped is None:
                return False
            transformation.plan, transformation.constants = grouped
            if not self._index.add(transformation, *grouped):
                return False
        self._unmatched[query] = transformation
        self.transformations[self._way(transformation)] += 1
        return True

    def _add_to_matcher(
        self, subscription: str, made: Transformation, format: OutputFormat
    ) -> None:
        number = self.matcher.add(candidates_of(made.query).filter)
        transformations = self._members.setdefault(number, _Members()).transformations
        transformation = transformations.setdefault(made.query, made)
        if transformation is made:
            if made.plan is None:
                self.planner.share(made, made.query)
            self.transformations[self._way(made)] += 1
        transformation.subscribers[subscription] = format
        self._places[subscription] = _Place(number, transformation.query)

    def remove(self, subscription: str) -> bool:
        """Drop a subscription; False if there is none of this name."""
        place = self._places.pop(subscription, None)
        if place is None:
            return False
        if place.number is None:
            assert place.query is not None
            transformation = self._unmatched[place.query]
            del transformation.subscribers[subscription]
            if not transformation.subscribers:
                self._forget(transformation)
                del self._unmatched[place.query]
                plan = transformation.plan
                if plan is not None:
                    self._index.remove(transformation, plan, transformation.constants)
            return True
        members = self._members[place.number]
        if place.query is None:
            del members.subscribers[subscription]
        else:
            transformation = members.transformations[place.query]
            del transformation.subscribers[subscription]
            if not transformation.subscribers:
                self._forget(transformation)
                del members.transformations[place.query]
        if not members.subscribers and not members.transformations:
            del self._members[place.number]
        self.matcher.remove(place.number)
        return True

    def _way(self, transformation: Transformation) -> str:
        """How a transformation is found and answered."""
        if transformation.is_filter:
            return "indexed filter"
        is_indexed = transformation.query in self._unmatched
        if transformation.plan is not None:
            return "indexed" if is_indexed else "grouped"
        return "planned" if transformation in self.planner.together else "walked"

    def _forget(self, transformation: Transformation) -> None:
        """Nobody subscribes to a transformation any more."""
        self.transformations[self._way(transformation)] -= 1
        self._costs.forget(transformation)
        if transformation in self.planner.together:
            self.planner.together.remove(transformation)

    # Messages

    @property
    def renewals(self) -> int:
        """How often something was let go that only the collector can free."""
        return self._labels.renewals

    def process(self, data: bytes) -> list[Delivery]:
        """What each subscription gets of a message, or a `MessageError` if it is refused."""
        self._labels = self._labels.renewed()
        started = perf_counter()
        self.metrics.parse_runs += 1
        try:
            message = parse_message(data, self.message_limits, self._labels)
        finally:
            self.metrics.parse_seconds += perf_counter() - started
        return self.deliveries(message)

    def deliveries(self, message: Message) -> list[Delivery]:
        """What each subscription gets of a parsed message. Nothing, for most of them."""
        metrics = self.metrics
        started = perf_counter()
        numbers = self._matched(message)
        found = list(self._found(message, numbers))
        matched = perf_counter()
        metrics.match_runs += 1
        metrics.match_seconds += matched - started
        deliveries = Deliveries(message, self._makers, metrics)
        for number in numbers:
            subscribers = self._members[number].subscribers
            if subscribers:
                deliveries.add_filter(subscribers)
        for number in numbers.undecided:
            members = self._members[number]
            asked = (each.subscribers for each in members.transformations.values())
            deliveries.add_undecided(chain(members.subscribers, *asked))
        if self._costs.begin():
            outcomes = self._outcomes(message, found)
            metrics.transform_runs += self._costs.sample(outcomes, deliveries)
        else:
            metrics.transform_runs += self._deliver(message, found, deliveries)
        spent = perf_counter() - matched
        serialising = spent * self._costs.share_of_serialising
        metrics.serialise_seconds += serialising
        metrics.transform_seconds += spent - serialising
        return deliveries.made

    def _deliver(self, message: Message, found: list[Found], deliveries: Deliveries) -> int:
        """Make all results of a message, most of them at once; how many transformations it were."""
        count = 0
        others: list[Found] = []
        write = deliveries.write
        for transformations, groups, bound in found:
            for each in transformations:
                count += 1
                if not write(each, groups, bound):
                    others.append(((each,), groups, bound))
        for transformation, result in self._outcomes(message, others):
            deliveries.add_result(transformation, result)
        return count

    def costs(self, most: int) -> dict[str, float]:
        """The seconds of the subscriptions that took most by themselves since this was last asked,
        by samples.
        """
        return self._costs.tell(most)

    def results(self, message: Message) -> Iterator[Result]:
        """The groups of all distinct transformations that a message has a result for."""
        found = self.bindings(message)
        for transformation, result in self._outcomes(message, found):
            if isinstance(result, ResultError):
                raise result
            if result.groups and not transformation.is_filter:
                yield result

    def bindings(self, message: Message) -> Iterator[Found]:
        """The distinct transformations that may have a result, before their groups are made."""
        return self._found(message, self._matched(message))

    def _matched(self, message: Message) -> MatchSet:
        """The matcher's filters that a message matches."""
        return self.matcher.match(message) if self._members else _NO_MATCHES

    def _outcomes(
        self, message: Message, candidates: Iterable[Found]
    ) -> Iterator[tuple[Transformation, Result | ResultError]]:
        together = self.planner.together
        fallbacks = together.fallbacks
        if self.planner.finds_by_plan:
            yield from together.run(message, self.result_limits)
        answer: Callable[[Transformation], Result] | None = None
        for transformations, groups, bound in candidates:
            for transformation in transformations:
                if transformation.is_filter:
                    yield transformation, Result(transformation.query, [()])
                    continue
                try:
                    if transformation.plan is not None:
                        yield transformation, self._grouped(transformation, groups, bound)
                    elif transformation in together:
                        answer = answer or together.answering(message, self.result_limits)
                        yield transformation, answer(transformation)
                    else:
                        query, limits = transformation.query, self.result_limits
                        yield transformation, reference.transform(query, message, limits)
                except ResultError as error:
                    yield transformation, error
        self.metrics.dtd_fallbacks += together.fallbacks - fallbacks

    def _found(self, message: Message, numbers: Iterable[int]) -> Iterator[Found]:
        groups: Groups | None = None
        if len(self._index):
            groups = Groups(message)
            for transformations, bound in self._index.match(groups):
                yield transformations, groups, bound
        for number in numbers:
            asked = self._members[number].transformations
            if asked:
                groups = groups or Groups(message)
                yield asked.values(), groups, None

    def _grouped(
        self, transformation: Transformation, groups: Groups, bound: list[int] | None
    ) -> Result:
        """What label paths make of a transformation, whose elements may have been found already."""
        plan, limits = transformation.plan, self.result_limits
        assert plan is not None
        if bound is None:
            bound = groups.bound(plan, transformation.constants, limits)
        return Result(transformation.query, groups.make(plan, bound, limits))

    def explain(self, subscription: str) -> list[str]:
        """How a subscription is answered, a line for each thing to know; KeyError if unknown."""
        place = self._places[subscription]
        if place.query is None:
            return ["a filter, matched by the shared automaton"]
        if not place.query.template:
            return ["a filter, found by the constants that its predicates compare with"]
        lines = list(self.planner.alone(place.query).explain())
        if place.number is not None:
            lines.append(f"matched as the filter {unparse(candidates_of(place.query).filter)}")
        elif not self.planner.finds_by_plan:
            lines.append("found by the constants that its where clause compares with")
        known = (
            self._unmatched if place.number is None else self._members[place.number].transformations
        )
        if known[place.query] in self.planner.together:
            others = len(self.planner.together) - 1
            lines.append(f"in one plan with {others} other transformations")
        return lines

    def describe(self) -> Description:
        """The size and shape of the matcher now."""
        return self.matcher.describe()

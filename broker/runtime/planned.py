"""Transformations with their plans, and those for messages that don't conform to the DTD."""

from collections.abc import Callable, Iterator
from typing import Generic

from broker.documents import Message
from broker.documents.dtd import ElementGraph
from broker.errors import ResultError
from broker.limits import ResultLimits
from broker.plan.build import build
from broker.plan.operators import Plan, Strategy
from broker.plan.optimise import Optimisation, RuleCounts, optimise
from broker.query import Flwr
from broker.results import Result
from broker.runtime.executor import Executor
from broker.runtime.shared_plan import Member, SharedPlan


class Planned:
    """Answers one query by one strategy of BROKER 3, right for all messages."""

    def __init__(
        self,
        query: Flwr,
        strategy: Strategy,
        optimisation: Optimisation,
        graph: ElementGraph | None = None,
        *,
        sharing: bool = False,
    ) -> None:
        self.graph = graph if optimisation is Optimisation.Q_DTD else None
        built = build(query, strategy)
        self.plan, self.report = optimise(built, optimisation, self.graph, sharing=sharing)
        self.fallback = self.plan
        """The plan that needs no DTD."""
        if self.graph is not None:
            self.fallback, _ = optimise(built, Optimisation.Q, None, sharing=sharing)
        self.fallbacks = 0
        """How many messages it answered."""

    def run(
        self, message: Message, limits: ResultLimits, executor: Executor | None = None
    ) -> Result:
        """The groups that the query makes of a message. Queries share an executor's streams."""
        plan = self.plan
        executor = executor or Executor(message, limits)
        if not self.is_conforming(executor):
            plan = self.fallback
            self.fallbacks += 1
        return executor.run(plan)

    def explain(self) -> Iterator[str]:
        """The rules that fired, with the claims that they used, and why others did not."""
        yield from self.report.lines()
        if self.graph is not None:
            yield "messages that don't conform to the DTD are answered by the plan without it"

    def is_conforming(self, executor: Executor) -> bool:
        """Whether an executor's message may be answered by the plan that leans on the DTD."""
        return self.graph is None or executor.conforms(self.graph)


class PlannedTogether(Generic[Member]):
    """Answers many queries by one strategy and one shared plan (BROKER 5)."""

    def __init__(
        self,
        strategy: Strategy,
        optimisation: Optimisation = Optimisation.Q_DTD,
        graph: ElementGraph | None = None,
        rules: RuleCounts | None = None,
    ) -> None:
        self.strategy = strategy
        self.optimisation = optimisation
        self.graph = graph if optimisation is Optimisation.Q_DTD else None
        self.shared: SharedPlan[Member] = SharedPlan()
        self.fallback: SharedPlan[Member] = SharedPlan() if self.graph else self.shared
        """The plan that needs no DTD."""
        self.fallbacks = 0
        """How many messages it answered."""
        self.rules = RuleCounts() if rules is None else rules
        """What the rules did, for all queries so far."""

    def __len__(self) -> int:
        return len(self.shared)

    def __contains__(self, member: Member) -> bool:
        return member in self.shared

    def add(self, member: Member, query: Flwr) -> None:
        """Take a query, or raise `NotPlannedError`."""
        planned = Planned(query, self.strategy, self.optimisation, self.graph, sharing=True)
        self.rules.add(planned.report.counts)
        self.shared.add(member, planned.plan)
        if self.fallback is not self.shared:
            self.fallback.add(member, planned.fallback)

    def remove(self, member: Member) -> None:
        """Drop a query."""
        self.shared.remove(member)
        if self.fallback is not self.shared:
            self.fallback.remove(member)

    def run(
        self, message: Message, limits: ResultLimits
    ) -> Iterator[tuple[Member, Result | ResultError]]:
        """What the queries that have a result make of a message, or why they can't."""
        return self._plan_for(message).run(message, limits)

    def answering(self, message: Message, limits: ResultLimits) -> Callable[[Member], Result]:
        """What answers single queries, where it is known which of them have a result."""
        return self._plan_for(message).answering(message, limits)

    def _plan_for(self, message: Message) -> SharedPlan[Member]:
        if self.graph is None or self.graph.conforms(message):
            return self.shared
        self.fallbacks += 1
        return self.fallback

    def plans(self) -> Iterator[Plan]:
        """The plans of the queries, as they are shared."""
        return self.shared.plans()

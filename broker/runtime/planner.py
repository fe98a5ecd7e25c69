"""How an engine's transformations are answered: by the best plan that its settings allow."""

from typing import Generic

from broker.documents.dtd import ElementGraph
from broker.plan.build import NotPlannedError
from broker.plan.group_plan import GroupPlan, PathTable
from broker.plan.operators import Strategy
from broker.plan.optimise import Optimisation, RuleCounts
from broker.plan.prepared import PreparedPlans
from broker.query import Flwr
from broker.query.syntax import Literal
from broker.runtime.planned import PlannedTogether
from broker.runtime.shared_plan import Member
from broker.runtime.transformer import Choice, Transformer


class Planner(Generic[Member]):
    """Makes the plans of queries, and counts what the rules did."""

    def __init__(
        self, choice: Choice, optimisation: Optimisation, graph: ElementGraph | None
    ) -> None:
        self.choice = choice
        self.optimisation = optimisation
        self.graph = graph
        self.paths = PathTable()
        self.rules = RuleCounts()
        """What the rules did, for all queries so far."""
        self._prepared = PreparedPlans(self.paths, self.rules)
        self._groups = choice in {Choice.AUTO, Choice.GROUP}
        self.finds_by_plan = choice in {Choice.F, Choice.FW, Choice.FWR}
        """Whether the shared plan itself says which of its queries have a result."""
        strategy = Strategy(choice.value) if self.finds_by_plan else Strategy.FWR
        self.together: PlannedTogether[Member]
        self.together = PlannedTogether(strategy, optimisation, graph, self.rules)
        """The one plan of all queries that have path streams."""

    def group(self, query: Flwr) -> tuple[GroupPlan, tuple[Literal, ...]] | None:
        """The plan without path streams of a query, if it may and can have one."""
        return self._prepared.plan(query) if self._groups else None

    def share(self, member: Member, query: Flwr) -> bool:
        """Make a query a part of the shared plan, if it may and can be one."""
        if self.choice in {Choice.GROUP, Choice.REFERENCE}:
            return False
        try:
            self.together.add(member, query)
        except NotPlannedError:
            return False
        return True

    def alone(self, query: Flwr) -> Transformer:
        """A query with the plan that it has among others by itself, which can explain it."""
        return Transformer(query, self.choice, self.optimisation, self.graph, sharing=True)

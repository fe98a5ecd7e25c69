"""The group plans of queries of one shape (`query/shapes.py`): made once.

A shape has one binding, one return clause and one order; its queries differ in the constants that
they are found by. They have one plan if

1. every literal of `where` is one of those constants: what else there is in `where` has none, and
   is the same for all.
"""

from broker.plan.group_plan import GroupPlan, PathTable
from broker.plan.optimise import GROUP_IN_MATCHER, Report, RuleCounts, group
from broker.query import Flwr
from broker.query.shapes import Shape
from broker.query.syntax import Literal

_MOST_KEPT = 10_000


class PreparedPlans:
    """Plans of queries; those of one shape share theirs."""

    def __init__(self, paths: PathTable, counts: RuleCounts) -> None:
        self._paths = paths
        self._counts = counts
        self._count = counts[GROUP_IN_MATCHER.name]
        self._plans: dict[Shape, GroupPlan] = {}

    def plan(self, query: Flwr) -> tuple[GroupPlan, tuple[Literal, ...]] | None:
        """The plan of a query and the constants of its keys; None if the rule stays."""
        shape = query.shape
        if shape is not None:
            known = self._plans.get(shape)
            if known is not None:
                self._count.fired += 1
                return known, query.literals
        report = Report()
        answer = group(query, self._paths, report)
        self._counts.add(report.counts)
        if answer is None:
            return None
        plan, constants = answer
        if shape is not None and len(constants) == len(query.literals):
            if len(self._plans) >= _MOST_KEPT:
                self._plans.clear()
            self._plans[shape] = plan
        return plan, constants

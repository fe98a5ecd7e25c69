"""The group plans of queries of one shape (`query/shapes.py`): made once.

A shape has one binding, one return clause and one order; its queries differ in the constants that
they are found by. They have one plan if

1. every literal of `where` is one of those constants: what else there is in `where` has none, and
   is the same for all.
"""

from broker.plan.group_plan import GroupPlan, PathTable, group_plan
from broker.query import Flwr
from broker.query.shapes import Shape
from broker.query.syntax import Literal

_MOST_KEPT = 10_000


class PreparedPlans:
    """Plans of queries; those of one shape share theirs."""

    def __init__(self, paths: PathTable) -> None:
        self._paths = paths
        self._plans: dict[Shape, GroupPlan] = {}

    def plan(self, query: Flwr) -> tuple[GroupPlan, tuple[Literal, ...]]:
        """The plan of a query and the constants of its keys, or `NotGroupedError`."""
        shape = query.shape
        if shape is not None:
            known = self._plans.get(shape)
            if known is not None:
                return known, query.literals
        plan, constants = group_plan(query, self._paths)
        if shape is not None and len(constants) == len(query.literals):
            if len(self._plans) >= _MOST_KEPT:
                self._plans.clear()
            self._plans[shape] = plan
        return plan, constants

"""The group plans of queries of one shape (`query/shapes.py`): made once, then given constants.

A shape has one binding, one return clause and one order; its queries differ in the constants that
they are found by. This holds if

1. every literal of `where` is one of those constants: what else there is in `where` has none, and
   is the same for all.
"""

from broker.plan.group_plan import GroupPlan, PathTable, WhereKey, group_plan
from broker.query import Flwr
from broker.query.shapes import Shape

_MOST_KEPT = 10_000


class PreparedPlans:
    """Plans of queries, for less where others of their shape came before."""

    def __init__(self, paths: PathTable) -> None:
        self._paths = paths
        self._plans: dict[Shape, GroupPlan] = {}
        """That of the first query of each shape."""

    def plan(self, query: Flwr) -> GroupPlan:
        """The plan of a query, or `NotGroupedError`."""
        shape = query.shape
        if shape is not None:
            known = self._plans.get(shape)
            if known is not None:
                keys = tuple(
                    [
                        WhereKey(key.path, key.operator, literal)
                        for key, literal in zip(known.keys, query.literals, strict=True)
                    ]
                )
                return GroupPlan(
                    query, known.binding, keys, known.rest, known.lists, known.order_by
                )
        plan = group_plan(query, self._paths)
        if shape is not None and len(plan.keys) == len(query.literals):
            if len(self._plans) >= _MOST_KEPT:
                self._plans.clear()
            self._plans[shape] = plan
        return plan

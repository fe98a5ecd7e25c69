"""Answer a query by label paths and arithmetic, without tuples, joins or duplicates.

Which elements a path reaches below a bound element is decided by label paths, and which of those
are its own by the interval of its ids. Tried on the query itself, before it has a plan with path
streams; it may fire if

1. the binding path ends with elements, not with attributes or text;
2. every other path starts at the `for` variable, directly or through a `let`;
3. those have no predicates and no `..`: their nodes are below the bound one, wherever it is;
4. what they take at their end, `@a`, `text()` or `position()`, is that of the elements themselves.

Safe: the elements below a bound one that have the label paths which a path leads to are just those
that it selects, and their ids are in document order (`broker/runtime/groups.py`). Binding paths may
have predicates; the nodes that they bind are found by walking then.
"""

from broker.plan.group_plan import GroupPlan, NotGroupedError, PathTable, group_plan
from broker.query import Flwr
from broker.query.syntax import Literal

Answer = tuple[GroupPlan, tuple[Literal, ...]]
"""A plan, and the constants of its keys, which other queries with the plan have their own of."""


def apply(query: Flwr, paths: PathTable) -> tuple[Answer, str] | str:
    """The plan, and why it is one; or the condition that is not met."""
    try:
        answer = group_plan(query, paths)
    except NotGroupedError as error:
        return f"condition {error}"
    return answer, "lists are slices of the elements of label paths"

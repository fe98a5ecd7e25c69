"""Join by merging instead of hashing (BROKER 3.2, 4.2).

Condition: claim 4 or 5 says that the right stream is ordered by the binding field.

Safe: the left stream is ordered by the binding field in any case, it being its last.
"""

from dataclasses import replace

from broker.plan.claims import ordered_by
from broker.plan.operators import Method, Operator, SemiJoin
from broker.plan.rules import Given, steps_of


def apply(operator: Operator, given: Given) -> tuple[Operator, str] | str | None:
    """The same semijoin, merging."""
    if not isinstance(operator, SemiJoin) or operator.method is Method.MERGE:
        return None
    claim = ordered_by(steps_of(operator.right), operator.field, given.graph)
    if claim is None:
        return f"the predicate path's stream may not be ordered by field {operator.field}"
    return replace(operator, method=Method.MERGE), f"claim {claim.number}: {claim.reason}"

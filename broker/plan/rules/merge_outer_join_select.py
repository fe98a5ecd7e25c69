"""Make groups by merging instead of hashing (BROKER 3.3, 4.2).

Condition: claim 4 or 5 says of each return path's stream that it is ordered by the binding field.

Safe: the left stream is ordered by the binding field, and an element's tuples follow each other in
each of the others, in document order of their last field.
"""

from dataclasses import replace

from broker.plan.claims import Claim, ordered_by
from broker.plan.operators import Method, Operator, OuterJoinSelect, Streamed
from broker.plan.rules import Given, steps_of


def apply(operator: Operator, given: Given) -> tuple[Operator, str] | str | None:
    """The same operator, merging."""
    if not isinstance(operator, OuterJoinSelect) or operator.method is Method.MERGE:
        return None
    claims: list[Claim] = []
    for each in operator.lists:
        if isinstance(each, Streamed):
            claim = ordered_by(steps_of(each.source), operator.field, given.graph)
            if claim is None:
                return f"a return path's stream may not be ordered by field {operator.field}"
            claims.append(claim)
    reasons = sorted({f"claim {claim.number}: {claim.reason}" for claim in claims})
    return replace(operator, method=Method.MERGE), "; ".join(
        reasons
    ) or "no return path has a stream"

"""Eliminate duplicates by scanning instead of hashing (BROKER 3.3, 4.2).

Conditions:
1. The DupElim eliminates by the binding field and the last field, by hashing;
2. claim 4 or 5 says that the stream is ordered by the binding field.

Safe: the stream is ordered by the last field, and by the binding field too, so tuples that agree in
both are neighbours.
"""

from dataclasses import replace

from broker.plan.claims import ordered_by
from broker.plan.operators import DupElim, Method, Operator
from broker.plan.rules import Given, steps_of


def apply(operator: Operator, given: Given) -> tuple[Operator, str] | str | None:
    """The same DupElim, scanning."""
    if not isinstance(operator, DupElim) or operator.method is Method.SCAN:
        return None
    claim = ordered_by(steps_of(operator), operator.fields[0], given.graph)
    if claim is None:
        return f"the stream may not be ordered by field {operator.fields[0]}"
    return replace(operator, method=Method.SCAN), f"claim {claim.number}: {claim.reason}"

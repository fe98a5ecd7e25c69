"""Drop a DupElim that has nothing to do (BROKER 4.2).

Conditions:
1. It eliminates by the last field, and claim 1 or 2 holds for the path; or
2. it eliminates by the binding field and the last, and claim 3 holds for them.

Safe: the claims say that no two tuples of the path's stream agree in those fields, and a selection
between the stream and the DupElim only takes tuples away.
"""

from broker.plan.claims import no_duplicate_pairs, no_duplicates
from broker.plan.operators import DupElim, Operator
from broker.plan.rules import Given, steps_of


def apply(operator: Operator, given: Given) -> tuple[Operator, str] | str | None:
    """What is below the DupElim."""
    if not isinstance(operator, DupElim):
        return None
    steps = steps_of(operator)
    if len(operator.fields) == 1:
        claim = no_duplicates(steps, given.graph)
    else:
        claim = no_duplicate_pairs(steps, operator.fields[0], given.graph)
    if claim is None:
        fields = " and ".join(map(str, operator.fields))
        return f"several tuples may have the same field {fields}"
    return operator.source, f"claim {claim.number}: {claim.reason}"

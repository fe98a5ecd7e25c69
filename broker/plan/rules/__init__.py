"""One rule a file: the conditions under which it may fire, and why that is safe.

`broker/plan/optimise.py` has the list of them, in the order in which they are tried.
"""

from typing import NamedTuple

from broker.documents.dtd import ElementGraph
from broker.plan.operators import (
    Bound,
    DupElim,
    Output,
    PathStream,
    Plan,
    Selection,
    SemiJoin,
    SharedJoin,
    WhereFilter,
)
from broker.query.syntax import Step


class Given(NamedTuple):
    """What a rule may look at besides the operator that it is tried on."""

    plan: Plan
    """The plan as it was when the rule's turn came."""
    graph: ElementGraph | None
    """The DTD, if one may be used."""


def steps_of(operator: Bound) -> tuple[Step, ...]:
    """The steps of the path whose tuples an operator gives on."""
    match operator:
        case PathStream(steps):
            return steps
        case SemiJoin(left=left):
            return steps_of(left)
        case Output(source=selection):
            source = selection.source
            return steps_of(source.left if isinstance(source, SharedJoin) else source)
        case Selection(source=source) | DupElim(source=source) | WhereFilter(source=source):
            return steps_of(source)

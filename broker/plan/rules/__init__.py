"""One rule a file: the conditions under which it may fire, and why that is safe."""

from broker.plan.operators import (
    Bound,
    DupElim,
    Output,
    PathStream,
    Selection,
    SemiJoin,
    SharedJoin,
    WhereFilter,
)
from broker.query.syntax import Step


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

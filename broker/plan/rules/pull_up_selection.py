"""Join first and select afterwards, once for all queries (BROKER 5.2, "Selection-DupElim pull up").

Conditions:
1. The right side of a semijoin is a path's stream, or a selection of it that compares what the last
   field has with a constant;
2. below the left side there is the binding path's stream.

Safe: a semijoin keeps the left tuples with a right one that passes; so does joining all, and then
keeping the left tuples of the pairs that pass, each once. A query with several predicate paths has
a shared join for each, and keeps the tuples that all of them keep: both sides are ordered by the
binding field then, and a merging semijoin does that. The paper stops at one predicate path.
"""

from broker.plan.operators import (
    Bound,
    DupElim,
    Method,
    Operator,
    Output,
    PathStream,
    Selection,
    SemiJoin,
    SharedJoin,
    SharedSelection,
    WhereFilter,
)
from broker.plan.rules import Given
from broker.plan.rules.share_selection import comparison_of
from broker.query.syntax import End
from broker.query.syntax import Operator as Comparator


def apply(operator: Operator, _given: Given) -> tuple[Operator, str] | str | None:
    """An output of a shared selection above a shared join."""
    if not isinstance(operator, SemiJoin) or isinstance(operator.right, Output):
        return None
    asked = _asked(operator.right)
    if asked is None:
        return "the predicate path's selection doesn't compare its last field with a constant"
    stream, end, comparator, constant = asked
    base = _base(operator.left)
    join = SharedJoin(base, stream, operator.field, operator.method)
    output = Output(SharedSelection(join, len(stream.steps), end, comparator), constant)
    reason = "its join is shared by all queries with these two paths"
    if operator.left == base:
        return output, reason
    return SemiJoin(operator.left, output, operator.field, Method.MERGE), reason


def _asked(
    right: PathStream | Selection | Output,
) -> tuple[PathStream, End | None, Comparator | None, str | float | None] | None:
    if isinstance(right, PathStream):
        return right, None, None, None
    if not isinstance(right, Selection) or len(right.tests) != 1:
        return None
    test = right.tests[0]
    compared = comparison_of(test.condition)
    if compared is None or test.field != len(right.source.steps):
        return None
    return right.source, *compared


def _base(left: Bound) -> PathStream | DupElim:
    """The binding path's stream below the left side, each node once, without selections."""
    match left:
        case PathStream():
            return left
        case DupElim(source=PathStream()):
            return left
        case DupElim(source=Selection(source=stream)):
            return DupElim(stream, left.fields, left.method)
        case DupElim(source=Output(source=selection)):
            assert isinstance(selection.source, PathStream)
            return DupElim(selection.source, left.fields, left.method)
        case Selection(source=stream):
            return stream
        case Output(source=selection):
            source = selection.source
            return source.left if isinstance(source, SharedJoin) else source
        case SemiJoin(left=inner):
            return _base(inner)
        case WhereFilter(source=inner) | DupElim(source=inner):
            return _base(inner)

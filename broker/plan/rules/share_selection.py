"""Select once for all queries whose selections have one signature (BROKER 5.2, "Shared selection").

Conditions:
1. A selection of the binding path's stream has one test, of one step's predicates;
2. that step has one predicate, which compares the step's own value, text or attribute with a
   constant.

Safe: the index over the constants gives each tuple to the outputs for whose constants the
comparison holds, which is what the selections did one by one.
"""

from broker.plan.operators import Operator, Output, Selection, SharedSelection
from broker.plan.rules import Given
from broker.query.syntax import (
    CONTEXT,
    Axis,
    Comparison,
    End,
    EndKind,
    Exists,
    LastTest,
    Path,
    PositionTest,
    Predicate,
)
from broker.query.syntax import Operator as Comparator


def apply(operator: Operator, _given: Given) -> tuple[Operator, str] | str | None:
    """An output of a shared selection."""
    if not isinstance(operator, Selection):
        return None
    test = operator.tests[0]
    if test.step is None:
        return None
    if len(operator.tests) > 1 or len(test.step.predicates) > 1:
        return "the binding path has several predicates"
    compared = comparison_of(test.step.predicates[0])
    if compared is None:
        return "the binding path's predicate doesn't compare a step's own value with a constant"
    end, comparator, constant = compared
    selection = SharedSelection(operator.source, test.field, end, comparator)
    return Output(selection, constant), "its selection is shared by all with this signature"


def comparison_of(
    condition: Predicate | None,
) -> tuple[End | None, Comparator | None, str | float | None] | None:
    """What a condition compares of the context node, how, and with what; None if it does more."""
    match condition:
        case PositionTest() | LastTest():
            return None
        case Comparison(Path(start, (), end), operator, literal) if start == CONTEXT:
            if end is None or (end.axis is Axis.CHILD and end.kind is not EndKind.POSITION):
                return end, operator, literal
        case Exists(Path(start, (), End(axis=Axis.CHILD) as end)) if start == CONTEXT:
            if end.kind is not EndKind.POSITION:
                return end, None, None
    return None

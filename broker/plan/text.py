"""Plans as text: an operator a line, its inputs below it."""

from collections.abc import Iterator

from broker.plan.operators import (
    DupElim,
    FieldTest,
    Operator,
    OuterJoinSelect,
    PathStream,
    Plan,
    ReturnSelect,
    Searched,
    Selection,
    SemiJoin,
    Streamed,
    WhereFilter,
)
from broker.query.syntax import ROOT, Path
from broker.query.unparse import fragment, value_text


def plan_text(plan: Plan) -> str:
    """The plan of a query, from its root down."""
    return "\n".join(_lines(plan.root, 0))


def _lines(operator: Operator, depth: int) -> Iterator[str]:
    yield "  " * depth + _head(operator)
    for each in _inputs(operator):
        yield from _lines(each, depth + 1)


def _inputs(operator: Operator) -> tuple[Operator, ...]:
    match operator:
        case Selection() | DupElim() | WhereFilter() | Streamed():
            return (operator.source,)
        case ReturnSelect(source, lists):
            return (source, *lists)
        case SemiJoin(left, right):
            return (left, right)
        case OuterJoinSelect(left, lists):
            return (left, *lists)
    return ()


def _head(operator: Operator) -> str:
    match operator:
        case PathStream(steps):
            return f"PathStream {fragment(Path(ROOT, steps, None))}"
        case Selection(_, tests):
            return "Selection " + ", ".join(_test(test) for test in tests)
        case DupElim(_, fields, method):
            return f"DupElim({method}) on {', '.join(map(str, fields))}"
        case WhereFilter(_, condition):
            return f"WhereFilter {fragment(condition)}"
        case SemiJoin(_, _, field, method):
            return f"SemiJoin({method}) on {field}"
        case ReturnSelect():
            return "ReturnSelect"
        case OuterJoinSelect(_, _, field, method):
            return f"OuterJoinSelect({method}) on {field}"
        case Searched(value):
            return f"Searched {value_text(value)}"
        case Streamed(_, end):
            return "Streamed" if end is None else f"Streamed, {fragment(Path(ROOT, (), end))}"


def _test(test: FieldTest) -> str:
    if test.step is not None:
        predicates = "".join(f"[{fragment(each)}]" for each in test.step.predicates)
        return f"{test.field}{predicates}"
    assert test.condition is not None
    return f"{test.field}[{fragment(test.condition)}]"

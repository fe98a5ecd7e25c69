"""Plans as text: an operator a line. One that is used more than once has a name and one place."""

from collections.abc import Iterable, Iterator

from broker.plan.operators import (
    DupElim,
    FieldTest,
    GroupBy,
    Grouped,
    Operator,
    OuterJoinSelect,
    Output,
    PathStream,
    Plan,
    ReturnSelect,
    Searched,
    Selection,
    SemiJoin,
    SharedJoin,
    SharedSelection,
    Streamed,
    WhereFilter,
    inputs,
)
from broker.query.syntax import CONTEXT, ROOT, End, Path
from broker.query.unparse import fragment, value_text


def plan_text(plan: Plan) -> str:
    """The plan of a query, from its root down."""
    return "\n".join(_lines(plan.root, 0))


def _lines(operator: Operator, depth: int) -> Iterator[str]:
    yield "  " * depth + head(operator)
    for each in inputs(operator):
        yield from _lines(each, depth + 1)


def shared_plan_text(plans: Iterable[Plan]) -> str:
    """The plans of several queries, every operator once: `r1 := …`, and then by its name."""
    names: dict[Operator, str] = {}
    lines: list[str] = []

    def name(operator: Operator) -> str:
        known = names.get(operator)
        if known is None:
            below = [name(each) for each in inputs(operator)]
            known = names[operator] = f"r{len(names) + 1}"
            lines.append(f"{known} := {head(operator)}" + "".join(f" {each}" for each in below))
        return known

    for number, plan in enumerate(plans, start=1):
        lines.append(f"query {number} := {name(plan.root)}")
    return "\n".join(lines)


def head(operator: Operator) -> str:
    """An operator in words, without what it reads from."""
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
        case SharedJoin(_, _, field, method):
            return f"SharedJoin({method}) on {field}"
        case SharedSelection(_, field, end, operator_):
            asked = "is there" if operator_ is None else f"{operator_.value} …"
            return f"SharedSelection {field}[{_end(end)} {asked}]"
        case Output(_, constant):
            return "Output" if constant is None else f"Output {constant!r}"
        case GroupBy(_, field, method, eliminates):
            return f"GroupBy({method}) on {field}" + (", each pair once" if eliminates else "")
        case ReturnSelect():
            return "ReturnSelect"
        case OuterJoinSelect(_, _, field, method):
            return f"OuterJoinSelect({method}) on {field}"
        case Searched(value):
            return f"Searched {value_text(value)}"
        case Streamed(_, end):
            return "Streamed" if end is None else f"Streamed, {_end(end)}"
        case Grouped(_, end):
            return "Grouped" if end is None else f"Grouped, {_end(end)}"


def _end(end: End | None) -> str:
    return "." if end is None else fragment(Path(CONTEXT, (), end))


def _test(test: FieldTest) -> str:
    if test.step is not None:
        predicates = "".join(f"[{fragment(each)}]" for each in test.step.predicates)
        return f"{test.field}{predicates}"
    assert test.condition is not None
    return f"{test.field}[{fragment(test.condition)}]"

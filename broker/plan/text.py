"""Plans as text: an operator a line. One that is used more than once has a name and one place."""

from collections.abc import Iterable, Iterator

from broker.plan.group_plan import keys_and_rest
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
from broker.query import Flwr
from broker.query.syntax import CONTEXT, ROOT, End, Path, Variable
from broker.query.unparse import (
    fragment,
    literal_text,
    order_key_text,
    value_text,
    variable_name,
)


def plan_text(plan: Plan) -> str:
    """The plan of a query, from its root down."""
    above = _order_by(plan.query)
    return "\n".join([*_lets(plan.query), *above, *_lines(plan.root, len(above))])


def group_plan_text(query: Flwr) -> str:
    """The plan of a query that is grouped in the matcher (`rules/group_in_matcher.py`)."""
    keys, rest = keys_and_rest(query.where)
    lines = [f"GroupInMatcher {fragment(query.binding)}"]
    lines += [f"  Key {fragment(key)}" for key in keys]
    if rest is not None:
        lines.append(f"  WhereFilter {fragment(rest)}")
    lines += [f"  Sliced {value_text(each.value)}" for each in query.embedded()]
    above = _order_by(query)
    return "\n".join([*_lets(query), *above, *("  " * len(above) + line for line in lines)])


def _order_by(query: Flwr) -> list[str]:
    """What is done to the groups of a plan, if anything."""
    if not query.order_by:
        return []
    return ["OrderBy " + ", ".join(map(order_key_text, query.order_by))]


def _lets(query: Flwr) -> list[str]:
    """What the other variables stand for; streams have their paths in their place."""
    return [
        f"let {variable_name(Variable(number))} := {fragment(let.path)}"
        for number, let in enumerate(query.lets, start=1)
    ]


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
        lines += [f"query {number}: {let}" for let in _lets(plan.query)]
        top = " ".join([*_order_by(plan.query), name(plan.root)])
        lines.append(f"query {number} := {top}")
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
            return "Output" if constant is None else f"Output {literal_text(constant)}"
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

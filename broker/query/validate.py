"""What a query costs, and whether that is within the limits.

Scopes and the subset are checked while parsing, at the first place that is wrong. What is left
needs the whole query: the number of its steps, predicates and active states.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from broker.errors import QueryCostError
from broker.limits import QueryLimits
from broker.query.parser import DEFAULT_LIMITS, parse
from broker.query.syntax import (
    And,
    Axis,
    Comparison,
    Condition,
    Exists,
    Filter,
    LastTest,
    Not,
    Operand,
    Or,
    Path,
    PositionTest,
    Predicate,
    Query,
    Span,
    StringTest,
)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a subscription is charged for."""

    steps: int
    predicates: int
    active_states: int


def check(source: str | bytes, limits: QueryLimits = DEFAULT_LIMITS) -> Query:
    """Parse a query and refuse it if it costs too much: what registering it would do."""
    query = parse(source, limits)
    validate(query, limits)
    return query


def cost(query: Query) -> Cost:
    """The charge for a query.

    >>> cost(parse("//a[@b]//c"))
    Cost(steps=3, predicates=1, active_states=4)
    """
    paths = list(_paths(query))
    return Cost(
        steps=sum(_length(path) for path in paths),
        predicates=sum(1 for _ in _conditions(query)),
        active_states=sum(_active_states(path) for path in paths),
    )


def validate(query: Query, limits: QueryLimits = DEFAULT_LIMITS) -> None:
    """Raise `QueryCostError` if the query costs more than the limits allow."""
    steps = states = 0
    for path in _paths(query):
        length = _length(path)
        if steps + length > limits.max_steps:
            detail = f"the query has more than {limits.max_steps} steps"
            _refuse(query, "query-too-many-steps", detail, path.span, "max_steps")
        steps += length
        states += _active_states(path)
        if states > limits.max_active_states:
            detail = (
                f"the query can keep more than {limits.max_active_states} states of the automaton "
                "active at once: each step after a // adds one, and each // another"
            )
            _refuse(query, "query-too-many-states", detail, path.span, "max_active_states")
    for count, span in enumerate(_conditions(query), start=1):
        if count > limits.max_predicates:
            detail = f"the query has more than {limits.max_predicates} predicates and conditions"
            _refuse(query, "query-too-many-predicates", detail, span, "max_predicates")


def _refuse(query: Query, code: str, detail: str, span: Span, setting: str) -> None:
    help = f"the limit is the setting query.{setting}"
    raise QueryCostError(code, detail, source=query.source, span=span, help=help)


def _length(path: Path) -> int:
    return len(path.steps) + (path.end is not None)


def _active_states(path: Path) -> int:
    """A bound on the states of the path's automaton that can be active after one element.

    Before the first `//` there is one. From it on, a state waits at each `//` for as long as its
    element is open, and every later step may have been reached by another way down.
    """
    axes = [step.axis for step in path.steps]
    if Axis.DESCENDANT not in axes:
        return min(1, len(axes))
    first = axes.index(Axis.DESCENDANT)
    return len(axes) - first + axes.count(Axis.DESCENDANT)


def _paths(query: Query) -> Iterator[Path]:
    """All paths of a query, those nested in predicates after the one they stand in."""
    if isinstance(query, Filter):
        yield from _paths_in_condition(query.condition)
        return
    yield from _with_nested(query.binding)
    for let in query.lets:
        yield from _with_nested(let.path)
    if query.where is not None:
        yield from _paths_in_condition(query.where)
    for key in query.order_by:
        yield from _with_nested(_path_of(key.operand))
    for embedded in query.embedded():
        value = embedded.value
        yield from _with_nested(value if isinstance(value, Path) else value.path)


def _with_nested(path: Path) -> Iterator[Path]:
    yield path
    for step in path.steps:
        for predicate in step.predicates:
            if not isinstance(predicate, PositionTest | LastTest):
                yield from _paths_in_condition(predicate)


def _paths_in_condition(condition: Condition) -> Iterator[Path]:
    match condition:
        case And(operands) | Or(operands):
            for operand in operands:
                yield from _paths_in_condition(operand)
        case Not(operand):
            yield from _paths_in_condition(operand)
        case Exists(path) | StringTest(path=path):
            yield from _with_nested(path)
        case Comparison(operand=compared):
            yield from _with_nested(_path_of(compared))


def _path_of(operand: Operand) -> Path:
    return operand if isinstance(operand, Path) else operand.path


def _conditions(query: Query) -> Iterator[Span]:
    """The places of all predicates and of the single conditions in `where`."""
    if not isinstance(query, Filter) and query.where is not None:
        yield from _leaves(query.where)
    for path in _paths(query):
        for step in path.steps:
            for predicate in step.predicates:
                yield from _leaves(predicate)


def _leaves(condition: Predicate) -> Iterator[Span]:
    match condition:
        case And(operands) | Or(operands):
            for operand in operands:
                yield from _leaves(operand)
        case Not(operand):
            yield from _leaves(operand)
        case _:
            yield condition.span

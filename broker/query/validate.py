"""What a query costs, and whether that is within the limits.

Scopes and the subset are checked while parsing, at the first place that is wrong. What is left
needs the whole query: the number of its steps, predicates and active states.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from broker.errors import QueryCostError
from broker.limits import QueryLimits
from broker.query.parser import DEFAULT_LIMITS, parse_whole
from broker.query.shapes import parse
from broker.query.syntax import (
    And,
    Axis,
    Comparison,
    Condition,
    Exists,
    Filter,
    Flwr,
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

_STATE_BYTES = 8
_OPEN_ELEMENTS = 32
"""So many elements that a path branches off from are thought to be open at once after a `//`."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a subscription is charged for."""

    steps: int
    predicates: int
    active_states: int
    """How many states of the automaton it can keep active at once."""
    cache_bytes: int
    """How much of the matcher's cache it can demand for one label path of a message."""


def check(source: str | bytes, limits: QueryLimits = DEFAULT_LIMITS) -> Query:
    """Parse a query and refuse it if it costs too much: what registering it would do."""
    query = parse(source, limits)
    shape = query.shape if isinstance(query, Flwr) else None
    if shape is None:
        validate(query, limits)
    elif not shape.is_valid:
        validate(parse_whole(query.source, limits), limits)  # an error has to be at its place
        shape.is_valid = True
    return query


def cost(query: Query) -> Cost:
    """The charge for a query.

    >>> cost(parse("//a[@b]//c"))
    Cost(steps=3, predicates=1, active_states=4, cache_bytes=544)
    """
    paths = list(_paths(query))
    return Cost(
        steps=sum(_length(path) for path in paths),
        predicates=sum(1 for _ in _conditions(query)),
        active_states=sum(_active_states(path) for path in paths),
        cache_bytes=_STATE_BYTES * sum(_kept_states(path) for path in outer_paths(query)),
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
    kept = 0
    for path in outer_paths(query):
        kept += _STATE_BYTES * _kept_states(path)
        if kept > limits.max_cache_bytes:
            detail = (
                f"the query can demand more than {limits.max_cache_bytes} bytes of the cache for a "
                f"label path: paths that branch off after a // are followed up to {_OPEN_ELEMENTS} "
                "times at once"
            )
            _refuse(query, "query-too-much-cache", detail, path.span, "max_cache_bytes")
    for count, span in enumerate(_conditions(query), start=1):
        if count > limits.max_predicates:
            detail = f"the query has more than {limits.max_predicates} predicates and conditions"
            _refuse(query, "query-too-many-predicates", detail, span, "max_predicates")
    if isinstance(query, Flwr) and len(query.order_by) > limits.max_order_keys:
        # Each is made for every binding, also if it is a variable alone, which is no step.
        detail = f"the query is ordered by more than {limits.max_order_keys} keys"
        place = _path_of(query.order_by[limits.max_order_keys].operand).span
        _refuse(query, "query-too-many-keys", detail, place, "max_order_keys")


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


def _kept_states(path: Path, copies: int = 1) -> int:
    """A bound on the states that are kept for a path at one label path, with its branches.

    Paths that branch off at a step with predicates are followed for each element that is open there
    at once: after a `//` there may be several.
    """
    kept = copies * _active_states(path)
    for index, step in enumerate(path.steps):
        if step.axis is Axis.DESCENDANT:
            copies = _OPEN_ELEMENTS
        if step.predicates:
            kept += copies * _active_states(Path(path.start, path.steps[index + 1 :], None))
            for predicate in step.predicates:
                if not isinstance(predicate, PositionTest | LastTest):
                    for nested in _direct_paths(predicate):
                        kept += _kept_states(nested, copies)
    return kept


def _paths(query: Query) -> Iterator[Path]:
    """All paths of a query, those nested in predicates after the one they stand in."""
    for path in outer_paths(query):
        yield from _with_nested(path)


def outer_paths(query: Query) -> Iterator[Path]:
    """The paths of a query that are not nested in predicates."""
    if isinstance(query, Filter):
        yield from _direct_paths(query.condition)
        return
    yield query.binding
    for let in query.lets:
        yield let.path
    if query.where is not None:
        yield from _direct_paths(query.where)
    for key in query.order_by:
        yield _path_of(key.operand)
    for embedded in query.embedded():
        value = embedded.value
        yield value if isinstance(value, Path) else value.path


def _with_nested(path: Path) -> Iterator[Path]:
    yield path
    for step in path.steps:
        for predicate in step.predicates:
            if not isinstance(predicate, PositionTest | LastTest):
                for nested in _direct_paths(predicate):
                    yield from _with_nested(nested)


def _direct_paths(condition: Condition) -> Iterator[Path]:
    """The paths of a condition, without those in their predicates."""
    match condition:
        case And(operands) | Or(operands):
            for operand in operands:
                yield from _direct_paths(operand)
        case Not(operand):
            yield from _direct_paths(operand)
        case Exists(path) | StringTest(path=path):
            yield path
        case Comparison(operand=compared):
            yield _path_of(compared)


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

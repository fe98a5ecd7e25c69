"""A filter as a transformation that makes nothing: the index over constants finds it.

`//a[b = "x"]/c` takes the messages for which `for $v in //a where $v/b = "x" and $v/c` binds
something. The shared automaton would decide it too, but has to follow each such predicate for each
element that it may be of; the index looks each value of a message up once. It may be so if

1. the filter is one path, and one step of it has predicates;
2. none of those is about a position, or has a path from the root;
3. one of them compares with a constant that the index can find it by.

The paths in them, and the steps that follow, have to be as a group plan wants them (`group_plan`),
which says so itself.
"""

from broker.query import Filter, Flwr
from broker.query.syntax import (
    CONTEXT,
    ROOT,
    And,
    Comparison,
    Condition,
    Count,
    Exists,
    LastTest,
    Not,
    Operand,
    Or,
    Path,
    PositionTest,
    Predicate,
    Step,
    StringLength,
    StringTest,
    Variable,
    conditions_with_literals,
)

_BOUND = Variable(0)


class NotIndexedError(Exception):
    """A filter that is none of these; says which condition isn't met."""


def as_transformation(query: Filter) -> Flwr:
    """The transformation, whose template is empty; or `NotIndexedError`."""
    if not isinstance(query.condition, Exists) or query.condition.path.start is not ROOT:
        raise NotIndexedError("1: it is not one path")
    path = query.condition.path
    places = [place for place, step in enumerate(path.steps) if step.predicates]
    if len(places) != 1:
        raise NotIndexedError("1: not one step has predicates")
    (place,) = places
    step = path.steps[place]
    conditions = [_of_bound(predicate) for predicate in step.predicates]
    rest = path.steps[place + 1 :]
    if rest or path.end is not None:
        conditions.append(Exists(Path(_BOUND, rest, path.end)))
    parts = [
        part
        for each in conditions
        for part in (each.operands if isinstance(each, And) else (each,))
    ]
    where = parts[0] if len(parts) == 1 else And(tuple(parts))
    steps = (*path.steps[:place], Step(step.axis, step.test))
    literals = tuple([each.literal for each in conditions_with_literals(where)])
    return Flwr(Path(ROOT, steps, None), (), where, (), (), None, query.source, literals=literals)


def _of_bound(predicate: Predicate) -> Condition:
    """The same condition of the bound element."""
    match predicate:
        case And(operands):
            return And(tuple([_of_bound(each) for each in operands]))
        case Or(operands):
            return Or(tuple([_of_bound(each) for each in operands]))
        case Not(operand):
            return Not(_of_bound(operand))
        case Exists(path):
            return Exists(_from_bound(path))
        case StringTest(function, path, literal):
            return StringTest(function, _from_bound(path), literal)
        case Comparison(operand, operator, literal):
            return Comparison(_operand(operand), operator, literal)
        case PositionTest() | LastTest():
            raise NotIndexedError("2: a predicate is about a position")


def _operand(operand: Operand) -> Operand:
    match operand:
        case Path():
            return _from_bound(operand)
        case Count(path):
            return Count(_from_bound(path))
        case StringLength(path):
            return StringLength(_from_bound(path))


def _from_bound(path: Path) -> Path:
    if path.start is not CONTEXT:
        raise NotIndexedError("2: a path in a predicate begins at the root")
    return Path(_BOUND, path.steps, path.end)

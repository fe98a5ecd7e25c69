"""The operators of post-processing plans (BROKER 3), as immutable trees that check themselves.

Streams are of tuples with one field for each step of a path, numbered from 1. A plan's leaves are
path streams, its root makes the groups. What an operator does is in the file of its name in
`broker/runtime`.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from broker.query.syntax import Condition, Count, End, Flwr, Path, Step, StringOf
from broker.query.syntax import Operator as Comparator

Value = Path | Count | StringOf


class Method(StrEnum):
    """How an operator works."""

    SCAN = "scan"
    MERGE = "merge"
    HASH = "hash"


class Strategy(StrEnum):
    """How much of a query the matching engine has (BROKER 3)."""

    F = "f"
    FW = "fw"
    FWR = "fwr"


class PlanError(Exception):
    """A plan that makes no sense: a defect of what built it."""


@dataclass(frozen=True, slots=True)
class PathStream:
    """The tuples of a path from the root, without its predicates, ordered by the last field."""

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        if any(step.predicates for step in self.steps):
            raise PlanError("a path stream has no predicates")


@dataclass(frozen=True, slots=True)
class FieldTest:
    """What a field of a tuple has to pass: the predicates of its step, or a part of `where`."""

    field: int
    step: Step | None
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """The tuples that pass all tests (BROKER 3.1)."""

    source: PathStream
    tests: tuple[FieldTest, ...]

    def __post_init__(self) -> None:
        if any(not 1 <= test.field <= len(self.source.steps) for test in self.tests):
            raise PlanError("a selection tests a field that there is not")


@dataclass(frozen=True, slots=True)
class DupElim:
    """The first of the tuples that agree in some fields (BROKER 3.1, 3.3)."""

    source: "PathStream | Selection | Output"
    fields: tuple[int, ...]
    method: Method

    def __post_init__(self) -> None:
        _check_method(self, self.method, Method.SCAN, Method.HASH)
        _check_fields(self, self.fields, self.source)


@dataclass(frozen=True, slots=True)
class WhereFilter:
    """The tuples whose bound node passes a condition, by tree search (BROKER 3.1)."""

    source: "Bound"
    condition: Condition


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """The left tuples with a right tuple that has the same binding field (BROKER 3.2)."""

    left: "Bound"
    right: "PathStream | Selection | Output"
    field: int
    method: Method

    def __post_init__(self) -> None:
        _check_method(self, self.method, Method.MERGE, Method.HASH)
        _check_fields(self, (self.field,), self.left, self.right)


@dataclass(frozen=True, slots=True)
class SharedJoin:
    """Pairs of a left and a right tuple with the same binding field, for all queries with these

    two paths (BROKER 5.2). It keeps the order of the left.
    """

    left: "PathStream | DupElim"
    right: PathStream
    field: int
    method: Method

    def __post_init__(self) -> None:
        if isinstance(self.left, DupElim) and not isinstance(self.left.source, PathStream):
            raise PlanError("selections are above a shared join")
        _check_method(self, self.method, Method.MERGE, Method.HASH)
        _check_fields(self, (self.field,), self.left, self.right)


@dataclass(frozen=True, slots=True)
class SharedSelection:
    """All selections with one signature (BROKER 5.2): an output for each of their constants.

    What is compared is what `end` takes of a field: of the right tuples of a join, or of a stream's
    own. Without an operator all tuples pass.
    """

    source: SharedJoin | PathStream
    field: int
    end: End | None
    operator: Comparator | None

    def __post_init__(self) -> None:
        stream = self.source.right if isinstance(self.source, SharedJoin) else self.source
        if not 1 <= self.field <= len(stream.steps):
            raise PlanError("a shared selection tests a field that there is not")


@dataclass(frozen=True, slots=True)
class Output:
    """The tuples, of the left if it is above a join, that pass for one constant: a tpList."""

    source: SharedSelection
    constant: str | float | None


@dataclass(frozen=True, slots=True)
class GroupBy:
    """The last fields of a return path's tuples by the binding field, for all queries that have

    the path (BROKER 5.2).
    """

    source: PathStream
    field: int
    method: Method
    eliminates: bool
    """Whether a pair may come twice."""

    def __post_init__(self) -> None:
        _check_method(self, self.method, Method.SCAN, Method.HASH)
        _check_fields(self, (self.field,), self.source)


@dataclass(frozen=True, slots=True)
class Grouped:
    """A list that is looked up in a GroupBy, and what the path takes at its end."""

    source: GroupBy
    end: End | None


@dataclass(frozen=True, slots=True)
class Searched:
    """A list that is made by tree search from the bound node."""

    value: Value


@dataclass(frozen=True, slots=True)
class Streamed:
    """A list that is made of a stream's last fields, and what the path takes at its end."""

    source: "PathStream | DupElim"
    end: End | None


@dataclass(frozen=True, slots=True)
class ReturnSelect:
    """A group for each bound node, its lists by tree search (BROKER 3.1)."""

    source: "Bound"
    lists: tuple[Searched, ...]


@dataclass(frozen=True, slots=True)
class OuterJoinSelect:
    """A group for each bound node, its lists by outer joins on the binding field (BROKER 3.3)."""

    left: "Bound"
    lists: tuple[Searched | Streamed | Grouped, ...]
    field: int
    method: Method

    def __post_init__(self) -> None:
        _check_method(self, self.method, Method.MERGE, Method.HASH)
        streams = [each.source for each in self.lists if isinstance(each, Streamed)]
        _check_fields(self, (self.field,), self.left, *streams)


Bound = PathStream | Selection | DupElim | WhereFilter | SemiJoin | Output
"""What makes a stream whose last field is the bound node."""

Root = ReturnSelect | OuterJoinSelect
Shared = SharedJoin | SharedSelection | GroupBy
Operator = Bound | Root | Shared | Searched | Streamed | Grouped


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one query; `order by` comes after its root."""

    query: Flwr
    strategy: Strategy
    root: Root


def width(operator: Bound) -> int:
    """How many fields the tuples have that an operator gives on."""
    match operator:
        case PathStream(steps):
            return len(steps)
        case SemiJoin(left=left):
            return width(left)
        case Output(SharedSelection(source=source)):
            return width(source.left if isinstance(source, SharedJoin) else source)
        case _:
            return width(operator.source)


def _check_method(operator: Operator, method: Method, *known: Method) -> None:
    if method not in known:
        raise PlanError(f"there is no {type(operator).__name__}({method})")


def _check_fields(operator: Operator, fields: tuple[int, ...], *sources: Bound) -> None:
    for source in sources:
        if not fields or not all(1 <= field <= width(source) for field in fields):
            raise PlanError(f"{type(operator).__name__} asks for a field that there is not")


def inputs(operator: Operator) -> tuple[Operator, ...]:
    """The operators that one reads from."""
    match operator:
        case PathStream() | Searched():
            return ()
        case SemiJoin(left, right) | SharedJoin(left, right):
            return (left, right)
        case OuterJoinSelect(left, lists):
            return (left, *lists)
        case ReturnSelect(source, lists):
            return (source, *lists)
        case _:
            return (operator.source,)


def with_inputs(operator: Operator, new: tuple[Operator, ...]) -> Operator:
    """The same operator, reading from others."""
    if all(one is other for one, other in zip(new, inputs(operator), strict=True)):
        return operator
    match operator:
        case SemiJoin() | SharedJoin():
            return replace(operator, left=new[0], right=new[1])  # type: ignore[arg-type]
        case OuterJoinSelect():
            return replace(operator, left=new[0], lists=new[1:])  # type: ignore[arg-type]
        case ReturnSelect():
            return replace(operator, source=new[0], lists=new[1:])  # type: ignore[arg-type]
        case PathStream() | Searched():
            return operator
        case _:
            return replace(operator, source=new[0])  # type: ignore[arg-type]

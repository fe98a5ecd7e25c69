"""The operators of post-processing plans (BROKER 3), as immutable trees that check themselves.

Streams are of tuples with one field for each step of a path, numbered from 1. A plan's leaves are
path streams, its root makes the groups. What an operator does is in the file of its name in
`broker/runtime`.
"""

from dataclasses import dataclass
from enum import StrEnum

from broker.query.syntax import Condition, Count, End, Flwr, Path, Step, StringOf

Value = Path | Count | StringOf


class Method(StrEnum):
    """How an operator works."""

    SCAN = "scan"
    MERGE = "merge"
    HASH = "hash"


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

    source: "PathStream | Selection"
    fields: tuple[int, ...]
    method: Method


@dataclass(frozen=True, slots=True)
class WhereFilter:
    """The tuples whose bound node passes a condition, by tree search (BROKER 3.1)."""

    source: "Bound"
    condition: Condition


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """The left tuples with a right tuple that has the same binding field (BROKER 3.2)."""

    left: "Bound"
    right: "PathStream | Selection"
    field: int
    method: Method


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
    lists: tuple[Searched | Streamed, ...]
    field: int
    method: Method


Bound = PathStream | Selection | DupElim | WhereFilter | SemiJoin
"""What makes a stream whose last field is the bound node."""

Root = ReturnSelect | OuterJoinSelect
Operator = Bound | Root | Searched | Streamed


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one query; `order by` comes after its root."""

    query: Flwr
    root: Root

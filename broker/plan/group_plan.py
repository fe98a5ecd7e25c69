"""The plan that `rules/group_in_matcher.py` makes of a query; that file says when, and why."""

from collections.abc import Callable
from math import isnan
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from broker.documents.labels import LabelPaths
from broker.matching.nfa import only_name
from broker.plan.candidates import without_let
from broker.query import Flwr
from broker.query.syntax import (
    PARENT,
    And,
    Axis,
    Comparison,
    Condition,
    Count,
    End,
    EndKind,
    Exists,
    Literal,
    NameTest,
    Not,
    Operand,
    Operator,
    Or,
    OrderKey,
    Path,
    Step,
    StringFunction,
    StringOf,
    StringTest,
    Variable,
)
from broker.results import GroupList
from broker.values import compare, to_number

if TYPE_CHECKING:
    from broker.runtime.groups import Groups

Test = Callable[["Groups", int], bool]
"""Whether a bound element passes."""

MakeList = Callable[["Groups", int], GroupList]
"""One list of the group of a bound element."""

Key = tuple[int, str | float]
"""An `order by` key: its class (missing, no number, value), and the value."""

MakeKey = Callable[["Groups", int], Key]


class PlanStep:
    """A step of a plain path: its axis, and the one name that it accepts, if it is one."""

    __slots__ = ("is_descendant", "name", "test")

    def __init__(self, step: Step) -> None:
        assert isinstance(step.test, NameTest)
        self.is_descendant = step.axis is Axis.DESCENDANT
        self.name = only_name(step)
        self.test = step.test


class Reached(NamedTuple):
    """The label paths that a path leads to, by the one it starts from, as of a size of a table."""

    table: LabelPaths | None
    size: int
    labels: dict[int, frozenset[int]]


NOTHING_REACHED = Reached(None, 0, {})


class PlainPath:
    """A path without predicates. There is one object for all that are equal: it is a key."""

    __slots__ = ("__weakref__", "attribute", "end", "reached", "steps")

    def __init__(self, steps: tuple[Step, ...], end: End | None) -> None:
        self.steps = tuple(PlanStep(step) for step in steps)
        self.end = end
        self.attribute = end.name.clark() if end is not None and end.name is not None else None
        """The name of the attribute that it takes, as messages know it."""
        self.reached = NOTHING_REACHED
        """Which label paths it leads to from others; `runtime/reached.py` keeps it."""


ListPart = tuple[str, PlainPath]
"""What is made of the nodes of a path: `nodes`, their `count` or the first one's `string`."""


class Lists:
    """What the return clause of a plan makes of a bound element. Equal ones are one object, too:

    the groups that they make are shared by all queries that differ in their tags or their `where`.
    """

    __slots__ = ("__weakref__", "make", "parts")

    def __init__(self, parts: tuple[ListPart, ...]) -> None:
        self.parts = parts
        self.make = tuple([_make_list(kind, path) for kind, path in parts])


class PathTable:
    """The plain paths and the return clauses of all plans, each once."""

    def __init__(self) -> None:
        # Weak, so that what no plan has any more is gone with it.
        self._paths: WeakValueDictionary[tuple[tuple[Step, ...], End | None], PlainPath]
        self._paths = WeakValueDictionary()
        self._lists: WeakValueDictionary[tuple[ListPart, ...], Lists] = WeakValueDictionary()

    def __len__(self) -> int:
        """The number of distinct paths."""
        return len(self._paths)

    def intern_lists(self, parts: tuple[ListPart, ...]) -> Lists:
        """The one object for a return clause: what it makes of which path, in turn."""
        lists = self._lists.get(parts)
        if lists is None:
            lists = self._lists[parts] = Lists(parts)
        return lists

    def intern(self, steps: tuple[Step, ...], end: End | None) -> PlainPath:
        """The one object for a path."""
        key = (steps, end)
        path = self._paths.get(key)
        if path is None:
            path = PlainPath(steps, end)
            self._paths[key] = path
        return path


class WhereKey(NamedTuple):
    """A comparison of a path's values with a constant, which each query has its own of."""

    path: PlainPath
    operator: Operator

    def holds(self, groups: "Groups", node: int, constant: Literal) -> bool:
        """Whether a bound element passes."""
        values = groups.values(self.path, node)
        if self.operator is Operator.EQ and isinstance(constant, str):
            return constant in values
        return any(compare(value, self.operator, constant) for value in values)


class GroupPlan(NamedTuple):
    """What to do for a query, and for others that differ only in the constants of its keys."""

    binding: PlainPath | Path
    """Plain if it has no predicates; else it is walked."""
    keys: tuple[WhereKey, ...]
    """The parts of `where` that queries are found by, among all queries (BROKER 5.2)."""
    rest: Test | None
    """The rest of `where`."""
    lists: Lists
    order_by: tuple[tuple[MakeKey, bool], ...]
    """Keys, and whether they are descending."""


class NotGroupedError(Exception):
    """There is no such plan; says which condition of the rule isn't met."""


def group_plan(query: Flwr, paths: PathTable) -> tuple[GroupPlan, tuple[Literal, ...]]:
    """The plan of a query and the constants of its keys, or `NotGroupedError`."""
    return _Planner(query, paths).plan()


class _Planner:
    def __init__(self, query: Flwr, paths: PathTable) -> None:
        self.query = query
        self.paths = paths

    def plan(self) -> tuple[GroupPlan, tuple[Literal, ...]]:
        query = self.query
        if query.binding.end is not None:
            raise NotGroupedError("1: the binding path ends with attributes or text")
        binding: PlainPath | Path = query.binding
        if _is_plain(query.binding.steps):
            binding = self.paths.intern(query.binding.steps, None)
        keys, rest = keys_and_rest(query.where)
        plan = GroupPlan(
            binding,
            tuple([self.where_key(key) for key in keys]),
            None if rest is None else self.test(rest),
            self.paths.intern_lists(tuple([self.part(each.value) for each in query.embedded()])),
            tuple([(self.make_key(key), key.descending) for key in query.order_by]),
        )
        return plan, tuple([key.literal for key in keys])

    def where_key(self, key: Comparison) -> WhereKey:
        assert isinstance(key.operand, Path)
        return WhereKey(self.path(key.operand), key.operator)

    def path(self, path: Path) -> PlainPath:
        flat = without_let(path, self.query)
        if flat is None or not isinstance(flat.start, Variable):
            raise NotGroupedError("2: a path doesn't start at the for variable")
        if not _is_plain(flat.steps):
            raise NotGroupedError("3: a path has predicates or ..")
        if flat.end is not None and flat.end.axis is Axis.DESCENDANT:
            raise NotGroupedError("4: a path takes what elements below its own have")
        return self.paths.intern(flat.steps, flat.end)

    def test(self, condition: Condition) -> Test:
        match condition:
            case And(operands):
                tests = [self.test(operand) for operand in operands]
                return lambda groups, node: all(test(groups, node) for test in tests)
            case Or(operands):
                tests = [self.test(operand) for operand in operands]
                return lambda groups, node: any(test(groups, node) for test in tests)
            case Not(operand):
                negated = self.test(operand)
                return lambda groups, node: not negated(groups, node)
            case Exists(path):
                plain = self.path(path)
                return lambda groups, node: bool(groups.items(plain, node))
            case StringTest(function, path, literal):
                plain = self.path(path)
                if function is StringFunction.CONTAINS:
                    return lambda groups, node: literal in groups.first_string(plain, node)
                return lambda groups, node: groups.first_string(plain, node).startswith(literal)
            case Comparison(operand, Operator.EQ, str() as literal) if isinstance(operand, Path):
                plain = self.path(operand)
                return lambda groups, node: literal in groups.values(plain, node)
            case Comparison(operand, operator, constant):
                values = self.values(operand)
                return lambda groups, node: any(
                    compare(value, operator, constant) for value in values(groups, node)
                )

    def values(self, operand: Operand) -> Callable[["Groups", int], list[str | float]]:
        if isinstance(operand, Path):
            plain = self.path(operand)
            return lambda groups, node: groups.values(plain, node)
        plain = self.path(operand.path)
        if isinstance(operand, Count):
            return lambda groups, node: [float(len(groups.items(plain, node)))]
        return lambda groups, node: [float(len(groups.first_string(plain, node)))]

    def part(self, value: Path | Count | StringOf) -> ListPart:
        """What an embedded expression makes of which path."""
        if isinstance(value, Path):
            return "nodes", self.path(value)
        return ("count" if isinstance(value, Count) else "string"), self.path(value.path)

    def make_key(self, key: OrderKey) -> MakeKey:
        values = self.values(key.operand)
        if key.numeric:
            return lambda groups, node: _number_key(values(groups, node))
        return lambda groups, node: _string_key(values(groups, node))


def _make_list(kind: str, path: PlainPath) -> MakeList:
    if kind == "nodes" and path.end is None:
        return lambda groups, node: groups.elements(path, node)
    if kind == "nodes":
        return lambda groups, node: groups.items(path, node)
    if kind == "count":
        return lambda groups, node: [len(groups.items(path, node))]
    return lambda groups, node: [groups.first_string(path, node)]


def _string_key(values: list[str | float]) -> Key:
    return (2, values[0]) if values else (0, "")


def _number_key(values: list[str | float]) -> Key:
    # number() of nothing is NaN, as in XQuery.
    value = values[0] if values else "NaN"
    number = to_number(value) if isinstance(value, str) else value
    return (1, 0.0) if number is None or isnan(number) else (2, number)


def keys_and_rest(where: Condition | None) -> tuple[tuple[Comparison, ...], Condition | None]:
    """The parts of `where` that an index over constants finds, and what there is besides.

    Those are all equalities, or else one other comparison.
    """
    if where is None:
        return (), None
    parts = where.operands if isinstance(where, And) else (where,)
    comparisons = [
        part
        for part in parts
        if isinstance(part, Comparison) and isinstance(part.operand, Path)
        # A position is no value of an element, and `!=` finds nearly all.
        if not _is_position(part.operand) and part.operator is not Operator.NE
    ]
    equalities = tuple(part for part in comparisons if part.operator is Operator.EQ)
    keys = equalities or tuple(comparisons[:1])
    rest = tuple([part for part in parts if part not in keys])
    if len(rest) < 2:
        return keys, rest[0] if rest else None
    return keys, And(rest)


def _is_position(path: Path) -> bool:
    return path.end is not None and path.end.kind is EndKind.POSITION


def _is_plain(steps: tuple[Step, ...]) -> bool:
    return not any(step.predicates or step.test is PARENT for step in steps)

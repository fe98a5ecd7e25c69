"""Guards: the value predicates of all paths, found by the value and not one by one.

A guard leads from a state of the automaton to another that is active only for elements that pass
it. Guards are indexed by what they look at (an attribute, text, string value) and by how: equality
by hash, order by sorted arrays. So ten thousand constants on one path cost one probe, and a value
that no query asks for costs a look-up that finds nothing.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

from broker.documents import Message
from broker.matching.decompose import Guard, Nested
from broker.matching.nfa import State
from broker.query.syntax import (
    Comparison,
    EndKind,
    Exists,
    LastTest,
    NameTest,
    Operator,
    PositionTest,
    Step,
    StringFunction,
    StringTest,
)
from broker.values import compare, to_number

Edge = tuple[State, State]
"""The state that a guard stands on, and the one it leads to."""

STRING_VALUE = "."
TEXT = "text()"
POSITION = "position()"
BELOW = "/"
NOT_ATTRIBUTES = frozenset((STRING_VALUE, TEXT, POSITION, BELOW))


def looked_at(guard: Comparison | Exists | StringTest) -> str:
    """What a guard looks at: an attribute by its name, `text()` or `.`."""
    path = guard.operand if isinstance(guard, Comparison) else guard.path
    end = path.end  # type: ignore[union-attr]  # guards have paths as operands
    if end is None:
        return STRING_VALUE
    if end.kind is EndKind.TEXT:
        return TEXT
    assert end.name is not None
    return end.name.clark()


class ValueIndex:
    """The guards on one thing that elements have, by value."""

    def __init__(self) -> None:
        self.equal: dict[str | float, list[Edge]] = {}
        self.ordered: dict[tuple[Operator, type], _Ordered] = {}
        self.unequal: list[tuple[str | float, Edge]] = []
        self.present: list[Edge] = []
        self.text_tests: list[tuple[StringTest, Edge]] = []

    def add(self, guard: Guard, edge: Edge) -> None:
        """Take a guard."""
        match guard:
            case Exists():
                self.present.append(edge)
            case StringTest():
                self.text_tests.append((guard, edge))
            case Comparison(_, Operator.EQ, literal):
                self.equal.setdefault(literal, []).append(edge)
            case Comparison(_, Operator.NE, literal):
                self.unequal.append((literal, edge))
            case Comparison(_, operator, literal):
                key = (operator, type(literal))
                if key not in self.ordered:
                    self.ordered[key] = _Ordered(operator)
                self.ordered[key].add(literal, edge)

    def passed(self, value: str) -> Iterator[Edge]:
        """The guards that a value passes."""
        if value in self.equal:
            yield from self.equal[value]
        yield from self.present
        for test, edge in self.text_tests:
            if (
                test.literal in value
                if test.function is StringFunction.CONTAINS
                else (value.startswith(test.literal))
            ):
                yield edge
        number = to_number(value)
        if number is not None and number in self.equal:
            yield from self.equal[number]
        for (_, kind), ordered in self.ordered.items():
            compared = value if kind is str else number
            if compared is not None:
                yield from ordered.passed(compared)
        for literal, edge in self.unequal:
            compared = value if isinstance(literal, str) else number
            if compared is not None and compared != literal:
                yield edge


class _Ordered:
    """The guards with one order comparison, sorted by their constants."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.constants: list[str | float] = []
        self.edges: dict[str | float, list[Edge]] = {}

    def add(self, literal: str | float, edge: Edge) -> None:
        if literal not in self.edges:
            self.edges[literal] = []
            insort(self.constants, literal)
        self.edges[literal].append(edge)

    def passed(self, value: str | float) -> Iterator[Edge]:
        if value != value:  # noqa: PLR0124 - NaN, which is in no order
            return
        constants: list[str | float] = self.constants
        match self.operator:
            case Operator.LT:  # value < constant
                held = constants[bisect_right(constants, value) :]
            case Operator.LE:
                held = constants[bisect_left(constants, value) :]
            case Operator.GT:  # value > constant
                held = constants[: bisect_left(constants, value)]
            case _:
                held = constants[: bisect_right(constants, value)]
        for constant in held:
            yield from self.edges[constant]


class Guards:
    """All guards of an automaton."""

    def __init__(self) -> None:
        self.by_value: dict[str, ValueIndex] = {}
        self.positions: dict[int, list[tuple[NameTest, PositionTest | LastTest, State]]] = {}
        self.by_mark: dict[int, list[Edge]] = {}
        self.marks_on: dict[int, list[tuple[int, State]]] = {}
        """The marks that guards on a state wait for, by the number of the state."""
        self.looked_at: dict[int, set[str]] = {}
        """What the guards on a state look at, by the number of the state."""
        self._targets: dict[tuple[int, Guard], State] = {}

    def target(self, state: State, guard: Guard) -> State | None:
        """Where a guard on a state leads, if it is there."""
        return self._targets.get((state.number, guard))

    def add(self, state: State, step: Step, guard: Guard, target: State) -> None:
        """Put a guard on the state that a step leads to."""
        self._targets[state.number, guard] = target
        if isinstance(guard, PositionTest | LastTest):
            assert isinstance(step.test, NameTest)
            self.positions.setdefault(state.number, []).append((step.test, guard, target))
            self.looked_at.setdefault(state.number, set()).add(POSITION)
            return
        assert not isinstance(guard, Nested)
        where = looked_at(guard)
        self.looked_at.setdefault(state.number, set()).add(where)
        self.by_value.setdefault(where, ValueIndex()).add(guard, (state, target))

    def add_mark(self, state: State, nested: Nested, mark: int, target: State) -> None:
        """Put a guard on a state that a mark on the element passes."""
        self._targets[state.number, nested] = target
        self.by_mark.setdefault(mark, []).append((state, target))
        self.marks_on.setdefault(state.number, []).append((mark, target))
        self.looked_at.setdefault(state.number, set()).add(BELOW)


def values_at(message: Message, node: int, where: str) -> Iterable[str]:
    """The values of an element that guards may look at."""
    if where == STRING_VALUE:
        return (message.string_value(node),)
    if where == TEXT:
        return message.text_values(node)
    value = message.elements[node].get(where)
    return () if value is None else (value,)


def position_holds(
    message: Message, node: int, test: NameTest, guard: PositionTest | LastTest
) -> bool:
    """Whether an element stands where a position test wants it, among those the step reaches."""
    name = message.name
    siblings = message.children(message.parents[node])
    candidates = [each for each in siblings if test.accepts(name(each))]
    if isinstance(guard, LastTest):
        return candidates[-1] == node
    return compare(float(candidates.index(node) + 1), guard.operator, guard.number)


def value_holds(message: Message, node: int, guard: Comparison | Exists) -> bool:
    """Whether an element passes a guard that looks at it alone."""
    values = values_at(message, node, looked_at(guard))
    if isinstance(guard, Exists):
        return any(True for _ in values)
    return any(compare(value, guard.operator, guard.literal) for value in values)

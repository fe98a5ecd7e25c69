"""Tests of an element's own values, found by the value and not one by one.

Tests are indexed by what they look at (an attribute, text, string value) and by how: equality by
hash, order by sorted arrays. So ten thousand constants on one path cost one probe, and a value that
no query asks for costs a look-up that finds nothing.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

from broker.documents import Message
from broker.query.syntax import (
    Comparison,
    EndKind,
    Exists,
    LastTest,
    NameTest,
    Operator,
    PositionTest,
    StringFunction,
    StringTest,
)
from broker.values import compare, to_number

ValueTest = Comparison | Exists | StringTest
Test = ValueTest | PositionTest | LastTest
"""A predicate that is decided by the element that it stands on."""

Shown = tuple[int, int]
"""The number of the state that a test stands on, and the mark that passing it shows."""

STRING_VALUE = "."
TEXT = "text()"
POSITION = "position()"
NOT_ATTRIBUTES = frozenset((STRING_VALUE, TEXT, POSITION))


def looked_at(test: ValueTest) -> str:
    """What a test looks at: an attribute by its name, `text()` or `.`."""
    path = test.operand if isinstance(test, Comparison) else test.path
    end = path.end  # type: ignore[union-attr]  # tests have paths as operands
    if end is None:
        return STRING_VALUE
    if end.kind is EndKind.TEXT:
        return TEXT
    assert end.name is not None
    return end.name.clark()


class ValueIndex:
    """The tests of one thing that elements have, by value."""

    def __init__(self) -> None:
        self.equal: dict[str | float, dict[int, list[int]]] = {}
        """For each constant, the marks of its tests by the state that they stand on."""
        self.ordered: dict[tuple[Operator, type], _Ordered] = {}
        self.unequal: list[tuple[str | float, Shown]] = []
        self.present: list[Shown] = []
        self.text_tests: list[tuple[StringTest, Shown]] = []
        self.has_numbers = False
        """Whether a value has to be tried as a number."""

    def add(self, test: ValueTest, shown: Shown) -> None:
        """Take a test."""
        if isinstance(test, Comparison) and not isinstance(test.literal, str):
            self.has_numbers = True
        match test:
            case Exists():
                self.present.append(shown)
            case StringTest():
                self.text_tests.append((test, shown))
            case Comparison(_, Operator.EQ, literal):
                state, mark = shown
                self.equal.setdefault(literal, {}).setdefault(state, []).append(mark)
            case Comparison(_, Operator.NE, literal):
                self.unequal.append((literal, shown))
            case Comparison(_, operator, literal):
                key = (operator, type(literal))
                if key not in self.ordered:
                    self.ordered[key] = _Ordered(operator)
                self.ordered[key].add(literal, shown)

    def size(self) -> tuple[int, int, int]:
        """How many tests are found by hash, how many by sorted arrays, how many one by one."""
        equal = (len(marks) for states in self.equal.values() for marks in states.values())
        ordered = (len(shown) for each in self.ordered.values() for shown in each.showns.values())
        others = len(self.unequal) + len(self.present) + len(self.text_tests)
        return sum(equal), sum(ordered), others

    def shown(self, value: str, states: frozenset[int]) -> list[int]:
        """The marks that a value shows for tests on these states."""
        found: list[int] = []
        if value in self.equal:
            found += _of_states(self.equal[value], states)
        number = None
        if self.has_numbers:
            number = to_number(value)
            if number is not None and number in self.equal:
                found += _of_states(self.equal[number], states)
        if self.ordered or self.present or self.unequal or self.text_tests:
            found += [mark for state, mark in self._others(value, number) if state in states]
        return found

    def _others(self, value: str, number: float | None) -> Iterator[Shown]:
        """What a value shows beside equality."""
        yield from self.present
        for test, shown in self.text_tests:
            if (
                test.literal in value
                if test.function is StringFunction.CONTAINS
                else (value.startswith(test.literal))
            ):
                yield shown
        for (_, kind), ordered in self.ordered.items():
            compared = value if kind is str else number
            if compared is not None:
                yield from ordered.passed(compared)
        for literal, shown in self.unequal:
            compared = value if isinstance(literal, str) else number
            if compared is not None and compared != literal:
                yield shown


def _of_states(marks: dict[int, list[int]], states: frozenset[int]) -> list[int]:
    """The marks of those states that are among the given, whichever are fewer."""
    if len(marks) <= len(states):
        return [mark for state, each in marks.items() if state in states for mark in each]
    return [mark for state in states if state in marks for mark in marks[state]]


class _Ordered:
    """The tests with one order comparison, sorted by their constants."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.constants: list[str | float] = []
        self.showns: dict[str | float, list[Shown]] = {}

    def add(self, literal: str | float, shown: Shown) -> None:
        if literal not in self.showns:
            self.showns[literal] = []
            insort(self.constants, literal)
        self.showns[literal].append(shown)

    def passed(self, value: str | float) -> Iterator[Shown]:
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
            yield from self.showns[constant]


class Tests:
    """All tests of an automaton's anchors."""

    def __init__(self) -> None:
        self.by_value: dict[str, ValueIndex] = {}
        self.positions: dict[int, list[tuple[NameTest, PositionTest | LastTest, int]]] = {}
        self.looked_at: dict[int, set[str]] = {}
        """What the tests on a state look at, by the number of the state."""
        self._marks: dict[tuple[int, Test], int] = {}

    def mark(self, state: int, test: Test) -> int | None:
        """The mark of a test on a state, if it is there."""
        return self._marks.get((state, test))

    def add(self, state: int, name: NameTest, test: Test, mark: int) -> None:
        """Put a test on the state that a step with this name test leads to."""
        self._marks[state, test] = mark
        looked_at_here = self.looked_at.setdefault(state, set())
        if isinstance(test, PositionTest | LastTest):
            self.positions.setdefault(state, []).append((name, test, mark))
            looked_at_here.add(POSITION)
            return
        where = looked_at(test)
        looked_at_here.add(where)
        self.by_value.setdefault(where, ValueIndex()).add(test, (state, mark))

    def shown(self, where: str, value: str, states: frozenset[int]) -> tuple[int, ...]:
        """The marks that a value shows for tests on these states."""
        return tuple(self.by_value[where].shown(value, states))

    def positions_shown(self, message: Message, node: int, states: frozenset[int]) -> list[int]:
        """The marks that an element's position shows for tests on these states."""
        return [
            mark
            for state in states
            for name, test, mark in self.positions.get(state, ())
            if position_holds(message, node, name, test)
        ]


def values_at(message: Message, node: int, where: str) -> Iterable[str]:
    """The values of an element that tests may look at."""
    if where == STRING_VALUE:
        return (message.string_value(node),)
    if where == TEXT:
        return message.text_values(node)
    value = message.elements[node].get(where)
    return () if value is None else (value,)


def position_holds(
    message: Message, node: int, test: NameTest, position: PositionTest | LastTest
) -> bool:
    """Whether an element stands where a position test wants it, among those the step reaches."""
    name = message.name
    siblings = message.children(message.parents[node])
    candidates = [each for each in siblings if test.accepts(name(each))]
    if isinstance(position, LastTest):
        return candidates[-1] == node
    return compare(float(candidates.index(node) + 1), position.operator, position.number)

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
        self.others: dict[int, _OtherTests] = {}
        """The tests beside equality, by the state that they stand on."""
        self.is_hash_alone = True
        """Whether all tests are equalities with texts: what isn't there shows nothing."""
        self.has_numbers = False
        """Whether a value has to be tried as a number."""

    def add(self, state: int, test: ValueTest, mark: int) -> None:
        """Take a test on a state; passing it shows the mark."""
        if isinstance(test, Comparison) and not isinstance(test.literal, str):
            self.has_numbers = True
            self.is_hash_alone = False
        if isinstance(test, Comparison) and test.operator is Operator.EQ:
            self.equal.setdefault(test.literal, {}).setdefault(state, []).append(mark)
            return
        self.is_hash_alone = False
        if state not in self.others:
            self.others[state] = _OtherTests()
        self.others[state].add(test, mark)

    def size(self) -> tuple[int, int, int]:
        """How many tests are found by hash, how many by sorted arrays, how many one by one."""
        equal = sum(len(marks) for states in self.equal.values() for marks in states.values())
        sizes = [each.size() for each in self.others.values()]
        return equal, sum(ordered for ordered, _ in sizes), sum(others for _, others in sizes)

    def shown(self, value: str, states: frozenset[int]) -> list[int]:
        """The marks that a value shows for tests on these states."""
        found: list[int] = []
        if value in self.equal:
            found += _of_states(self.equal[value], states)
        number = to_number(value) if self.has_numbers else None
        if number is not None and number in self.equal:
            found += _of_states(self.equal[number], states)
        if self.others:
            for state in states:
                if state in self.others:
                    found += self.others[state].passed(value, number)
        return found


class _OtherTests:
    """The tests on one state that are not found by hash."""

    __slots__ = ("ordered", "present", "text_tests", "unequal")

    def __init__(self) -> None:
        self.ordered: dict[tuple[Operator, type], _Ordered] = {}
        self.unequal: list[tuple[str | float, int]] = []
        self.present: list[int] = []
        self.text_tests: list[tuple[StringTest, int]] = []

    def add(self, test: ValueTest, mark: int) -> None:
        match test:
            case Exists():
                self.present.append(mark)
            case StringTest():
                self.text_tests.append((test, mark))
            case Comparison(_, Operator.NE, literal):
                self.unequal.append((literal, mark))
            case Comparison(_, operator, literal):
                key = (operator, type(literal))
                if key not in self.ordered:
                    self.ordered[key] = _Ordered(operator)
                self.ordered[key].add(literal, mark)

    def size(self) -> tuple[int, int]:
        ordered = (len(marks) for each in self.ordered.values() for marks in each.marks.values())
        return sum(ordered), len(self.unequal) + len(self.present) + len(self.text_tests)

    def passed(self, value: str, number: float | None) -> Iterator[int]:
        yield from self.present
        for test, mark in self.text_tests:
            if test.function is StringFunction.CONTAINS:
                if test.literal in value:
                    yield mark
            elif value.startswith(test.literal):
                yield mark
        for (_, kind), ordered in self.ordered.items():
            compared = value if kind is str else number
            if compared is not None:
                yield from ordered.passed(compared)
        for literal, mark in self.unequal:
            compared = value if isinstance(literal, str) else number
            if compared is not None and compared != literal:
                yield mark


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
        self.marks: dict[str | float, list[int]] = {}

    def add(self, literal: str | float, mark: int) -> None:
        if literal not in self.marks:
            self.marks[literal] = []
            insort(self.constants, literal)
        self.marks[literal].append(mark)

    def passed(self, value: str | float) -> Iterator[int]:
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
            yield from self.marks[constant]


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
        self.by_value.setdefault(where, ValueIndex()).add(state, test, mark)

    def shown(self, where: str, value: str, states: frozenset[int]) -> tuple[int, ...]:
        """The marks that a value shows for tests on these states."""
        return tuple(self.by_value[where].shown(value, states))

    def positions_shown(
        self, positions: "Positions", node: int, states: frozenset[int]
    ) -> list[int]:
        """The marks that an element's position shows for tests on these states."""
        return [
            mark
            for state in states
            for name, test, mark in self.positions.get(state, ())
            if positions.hold(node, name, test)
        ]


def values_at(message: Message, node: int, where: str) -> Iterable[str]:
    """The values of an element that tests may look at."""
    if where == STRING_VALUE:
        return (message.string_value(node),)
    if where == TEXT:
        return message.text_values(node)
    value = message.attribute_value(node, where)
    return () if value is None else (value,)


class Positions:
    """Where the elements of one message stand among those that a step reaches from their parent."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self._places: dict[tuple[int, NameTest], dict[int, int]] = {}

    def hold(self, node: int, test: NameTest, position: PositionTest | LastTest) -> bool:
        """Whether an element stands where a position test wants it."""
        parent = self.message.parents[node]
        places = self._places.get((parent, test))
        if places is None:
            name = self.message.name
            reached = [each for each in self.message.children(parent) if test.accepts(name(each))]
            places = {each: place for place, each in enumerate(reached, start=1)}
            self._places[parent, test] = places
        if isinstance(position, LastTest):
            return places[node] == len(places)
        return compare(float(places[node]), position.operator, position.number)

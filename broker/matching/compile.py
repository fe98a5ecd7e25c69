"""A filter to states, marks and patterns: what the automaton decides by itself.

What it can't decide has *needed paths*: paths from the root without which the filter can't hold,
with such predicates as can be decided (`weaken.py`). When a message has one of those, the reference
engine verifies the filter.
"""

from broker.matching.marks import FIRST_PATH_RANK, Marks
from broker.matching.nfa import Nfa, State
from broker.matching.patterns import Formula, Pattern, Patterns, conjunction
from broker.matching.value_index import Test, Tests
from broker.matching.weaken import weaker_steps
from broker.query.syntax import (
    CONTEXT,
    PARENT,
    And,
    Axis,
    Comparison,
    Condition,
    End,
    EndKind,
    Exists,
    LastTest,
    NameTest,
    Not,
    Operator,
    Or,
    Path,
    PositionTest,
    Predicate,
    Step,
    StringTest,
)


class NotDecidedError(Exception):
    """The automaton can't decide this; the filter has to be verified on the message."""


class Compiler:
    """Builds states, marks and patterns in the parts of one automaton."""

    def __init__(self, nfa: Nfa, tests: Tests, marks: Marks, patterns: Patterns) -> None:
        self.nfa = nfa
        self.tests = tests
        self.marks = marks
        self.patterns = patterns

    def add_path(self, path: Path, outcome: int) -> None:
        """Add a path from the root; a message that has it gives the outcome."""
        if not path.steps or (path.end is not None and path.end.axis is Axis.DESCENDANT):
            raise NotDecidedError
        anchor, rest = self._to_first_anchor(self.nfa.initial, path.steps, path.end)
        if rest is None:
            self.nfa.accept(anchor, outcome)
        else:
            self._pattern(anchor, rest, path.end, None).outcomes.append(outcome)

    def _to_first_anchor(
        self, state: State, steps: tuple[Step, ...], end: End | None
    ) -> tuple[State, tuple[Step, ...] | None]:
        """Follow steps up to the first that needs a pattern; it and those after it are left."""
        for index, step in enumerate(steps):
            if step.test is PARENT:
                raise NotDecidedError
            state = self.nfa.extend(state, step)
            is_last = index == len(steps) - 1
            if step.predicates or (is_last and end is not None):
                return state, steps[index:]
        return state, None

    def _pattern(
        self, anchor: State, steps: tuple[Step, ...], end: End | None, last: Test | None
    ) -> Pattern:
        """The pattern of an anchor: the predicates of the first step, and the steps after it."""
        step = steps[0]
        assert isinstance(step.test, NameTest)
        formulas = [
            self._predicate(anchor, step.test, predicate, is_first=index == 0)
            for index, predicate in enumerate(step.predicates)
        ]
        if len(steps) > 1:
            formulas.append(self._path_mark(anchor, steps[1:], end, last))
        else:
            if end is not None:
                formulas.append(self._test_mark(anchor, step.test, _has(end)))
            if last is not None:
                formulas.append(self._test_mark(anchor, step.test, last))
        return self.patterns.add(anchor, conjunction(formulas))

    def _path_mark(
        self, anchor: State, steps: tuple[Step, ...], end: End | None, last: Test | None
    ) -> int:
        """The mark that a path leads on from an anchor, to an element that passes `last`."""
        below = anchor
        state = self.marks.start(anchor)
        for index, step in enumerate(steps):
            if step.test is PARENT:
                raise NotDecidedError
            state = self.nfa.extend(state, step)
            below = self.nfa.extend(below, step)
            is_last = index == len(steps) - 1
            if step.predicates or (is_last and (end is not None or last is not None)):
                pattern = self._pattern(below, steps[index:], end, last)
                pattern.has_consequences = True
                return self.marks.path(state, step, pattern.number, _CONDITIONAL_RANK)
        return self.marks.path(state, steps[-1], None, _path_rank(steps))

    def _test_mark(self, anchor: State, name: NameTest, test: Test) -> int:
        mark = self.tests.mark(anchor.number, test)
        if mark is None:
            mark = self.marks.new(_rank(test))
            self.tests.add(anchor.number, name, test, mark)
        return mark

    def _predicate(
        self, anchor: State, name: NameTest, predicate: Predicate, *, is_first: bool
    ) -> Formula:
        if isinstance(predicate, PositionTest | LastTest):
            if not is_first:
                raise NotDecidedError  # counts only what passed the predicates before it
            return self._test_mark(anchor, name, predicate)
        return self._condition(anchor, name, predicate)

    def _condition(self, anchor: State, name: NameTest, condition: Condition) -> Formula:
        match condition:
            case And(operands):
                return conjunction([self._condition(anchor, name, each) for each in operands])
            case Or(operands):
                return ("or", *(self._condition(anchor, name, each) for each in operands))
            case Not(operand):
                return ("not", self._condition(anchor, name, operand))
            case Exists(path):
                if not path.steps:
                    return self._test_mark(anchor, name, _own(condition, path))
                return self._nested(anchor, path, None)
            case Comparison(operand=Path() as path, operator=operator, literal=literal):
                if not path.steps:
                    return self._test_mark(anchor, name, _own(condition, path))
                last = Comparison(Path(CONTEXT, (), path.end), operator, literal)
                return self._nested(anchor, path, last)
            case StringTest(path=path, literal=literal):
                # Of several nodes only the first counts, and nothing contains nothing.
                is_text = path.end is not None and path.end.kind is EndKind.TEXT
                if path.steps or is_text or not literal:
                    raise NotDecidedError
                return self._test_mark(anchor, name, _own(condition, path))
        raise NotDecidedError

    def _nested(self, anchor: State, path: Path, last: Test | None) -> int:
        if path.start is not CONTEXT:
            raise NotDecidedError
        if path.end is not None and path.end.axis is Axis.DESCENDANT:
            raise NotDecidedError
        return self._path_mark(anchor, path.steps, path.end if last is None else None, last)


def _own(test: Test, path: Path) -> Test:
    """A test of the element itself, if it is one."""
    if path.start is not CONTEXT or (path.end is not None and path.end.axis is Axis.DESCENDANT):
        raise NotDecidedError
    return test


def _has(end: End) -> Exists:
    return Exists(Path(CONTEXT, (), End(Axis.CHILD, end.kind, end.name)))


_CONDITIONAL_RANK = 10


def _rank(test: Test) -> int:
    """Predicate sorting (YFILTER 5.2): what rarely holds, and is cheap to look up, is the key."""
    if isinstance(test, Comparison):
        return 0 if test.operator is Operator.EQ else 20
    if isinstance(test, PositionTest | LastTest):
        return 60
    return 21 if isinstance(test, StringTest) else 22


def _path_rank(steps: tuple[Step, ...]) -> int:
    """Paths with more names are rarer, those with more `*` and `//` are not."""
    names = sum(1 for step in steps if isinstance(step.test, NameTest) and step.test.local)
    loose = sum(1 for step in steps if step.axis is Axis.DESCENDANT)
    return FIRST_PATH_RANK + 50 - 4 * min(names, 8) + min(loose, 8)


def needed_paths(condition: Condition) -> list[tuple[Step, ...]] | None:
    """Paths that are decided, of which one is in every message that the condition takes.

    None if there may be messages without any: such a condition is verified on all messages.
    """
    match condition:
        case Exists(path):
            steps = weaker_steps(path)
            return [steps] if steps else None
        case And(operands):
            # One operand's paths are enough; the longest says most.
            needed = [paths for each in operands if (paths := needed_paths(each)) is not None]
            return max(needed, key=lambda paths: min(map(len, paths)), default=None)
        case Or(operands):
            union: list[tuple[Step, ...]] = []
            for each in operands:
                paths = needed_paths(each)
                if paths is None:
                    return None
                union += paths
            return union
    return None


def bare_steps(path: Path) -> tuple[Step, ...]:
    """The steps of a path up to the first `..`, without predicates."""
    steps: list[Step] = []
    for step in path.steps:
        if step.test is PARENT:
            break
        steps.append(Step(step.axis, step.test))
    return tuple(steps)

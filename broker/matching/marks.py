"""Marks: what elements show, by which patterns are decided.

A *path mark* is completed by an element below the anchor. Which elements complete which marks for
which ancestors is decided by label paths: the paths of marks go on from the state that leads to
their anchor, in tries of their own, and an element completes a mark for its ancestor at a certain
depth. If the path ends at an element that needs a pattern, the mark is *conditional*.
A *test mark* is shown by the element itself; tests are found by value (`value_index.py`).
"""

from collections.abc import Iterable
from typing import NamedTuple

from broker.matching.nfa import Active, Nfa, State, activate, only_name
from broker.query.syntax import Step

FIRST_PATH_RANK = 100
"""Marks of paths without conditions have this rank or more, all others have less."""


class Completed(NamedTuple):
    """The path marks that elements with one label path complete for their ancestor at one depth."""

    paths: frozenset[int]
    """Those that are complete by the element's being there."""
    conditional: dict[int, tuple[int, ...]]
    """Those that are complete if the element has a pattern, by its number."""


class Marks:
    """All marks of an automaton."""

    def __init__(self, nfa: Nfa) -> None:
        self.nfa = nfa
        self.ranks = bytearray()
        """How rare each mark is thought to be: the key of a clause is its rarest mark."""
        self.last_names: list[str | None] = []
        """For marks of paths that end with one name, that name as lxml spells it."""
        self.starts: dict[int, State] = {}
        """Where the paths of marks begin, by the number of the state of their anchor."""
        self._paths: dict[tuple[int, int | None], int] = {}
        self._patterns: dict[int, int] = {}

    def new(self, rank: int, last_name: str | None = None) -> int:
        """A mark that nothing shows so far."""
        self.ranks.append(rank)
        self.last_names.append(last_name)
        return len(self.ranks) - 1

    def start(self, anchor: State) -> State:
        """Where the paths of an anchor's marks begin."""
        state = self.starts.get(anchor.number)
        if state is None:
            state = self.starts[anchor.number] = self.nfa.new_state()
        return state

    def path(self, end: State, last: Step, pattern: int | None, rank: int) -> int:
        """The mark of a path whose last step ends in a state, at an element with a pattern."""
        key = (end.number, pattern)
        mark = self._paths.get(key)
        if mark is None:
            mark = self._paths[key] = self.new(rank, only_name(last))
            if pattern is not None:
                self._patterns[mark] = pattern
            self.nfa.accept(end, mark)
        return mark

    def begin(self, reached: Iterable[State]) -> Active | None:
        """The states in which the paths of marks begin at an element that leads to these states."""
        starts = self.starts
        found = [starts[state.number] for state in reached if state.number in starts]
        return activate(found) if found else None

    def completed(self, reached: Iterable[State]) -> Completed | None:
        """The marks that these states of marks' paths accept."""
        marks = [mark for state in reached if state.accepts for mark in state.accepts]
        if not marks:
            return None
        patterns = self._patterns
        conditional: dict[int, tuple[int, ...]] = {}
        for mark in marks:
            if mark in patterns:
                pattern = patterns[mark]
                conditional[pattern] = (*conditional.get(pattern, ()), mark)
        return Completed(frozenset(mark for mark in marks if mark not in patterns), conditional)

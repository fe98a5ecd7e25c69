"""Nested paths: an element passes a guard because of what is below it (YFILTER 6).

A filter `/a/b[c//d]/e` is decomposed into its main path and, for the nested one, a *mark*: "from an
element that /a/b leads to, c//d leads to something". The path of a mark goes on from the state that
its bare prefix leads to, in a trie of its own. Which elements a mark is for, the *anchors*, is
decided by label paths alone: an element completes a mark for its ancestor at a certain depth.
So a first pass over a message collects the marks for each anchor, and a second one finds them there
as it finds attributes. Since an anchor is one element, the branches of a filter meet in it, which
is what NP-Filter checks.
"""

from broker.matching.beyond import Beyond
from broker.matching.decompose import Nested
from broker.matching.nfa import Nfa, State, with_descendants
from broker.query.syntax import Comparison, Exists


class MarksAt:
    """The marks that elements with one label path complete for their ancestor at one depth."""

    __slots__ = ("beyond", "conditional", "depth", "marks")

    def __init__(self, depth: int, marks: tuple[int, ...], conditional: tuple[int, ...]) -> None:
        self.depth = depth
        self.marks = marks
        """Those that are complete by being there."""
        self.conditional = conditional
        """Those that depend on the element's values."""
        self.beyond: Beyond | bool | None = False
        """Where they lead from the states of the anchor's label path; False: not looked up yet."""


class Marks:
    """All marks of an automaton."""

    def __init__(self, nfa: Nfa) -> None:
        self.nfa = nfa
        self.last: list[Comparison | Exists | None] = []
        self.starts: dict[int, State] = {}
        """Where the nested paths begin, by the number of the state of their prefix."""
        self._numbers: dict[Nested, int] = {}

    def __len__(self) -> int:
        return len(self.last)

    def number(self, nested: Nested) -> int:
        """The mark of a nested path; it is made if it isn't there."""
        number = self._numbers.get(nested)
        if number is None:
            number = self._numbers[nested] = len(self.last)
            self.last.append(nested.last)
            anchor = self.nfa.initial
            for step in nested.prefix:
                anchor = self.nfa.extend(anchor, step)
            state = self.starts.get(anchor.number)
            if state is None:
                state = self.starts[anchor.number] = self.nfa.new_state()
            for step in nested.steps:
                state = self.nfa.extend(state, step)
            self.nfa.accept(state, number)
        return number

    def begin(self, active: tuple[State, ...]) -> tuple[State, ...]:
        """The states in which the nested paths begin at an element with these states active."""
        starts = self.starts
        found = [starts[state.number] for state in active if state.number in starts]
        return tuple(with_descendants(found)) if found else ()

    def completed(self, depth: int, active: tuple[State, ...]) -> MarksAt | None:
        """The marks that these states of nested paths accept, for the anchor at a depth."""
        marks = [mark for state in active if state.accepts for mark in state.accepts]
        if not marks:
            return None
        return MarksAt(
            depth,
            tuple(mark for mark in marks if self.last[mark] is None),
            tuple(mark for mark in marks if self.last[mark] is not None),
        )

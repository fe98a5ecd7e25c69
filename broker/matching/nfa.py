"""YFilter's combined NFA: one automaton for the paths of all queries (YFILTER 3.2).

The transitions of the machine form a trie over location steps, so common prefixes are there once.
A step `//a` is an ε-transition to a state with a self-loop, the //-child, and a transition from
it. The run-time stack of the paper is the path from the root of the document: the states that are
active after an element depend on those of its parent and on its name alone, so an engine keeps
them by label path.
"""

from collections.abc import Iterable

from broker.query.syntax import PARENT, Axis, NameTest, Step

ANY = "*"


class State:
    """A state: its transitions, its //-child, and the ids that it accepts.

    Transitions are by an element's name as lxml spells it, or `*`; those by a part of the name,
    `p:*` and `*:a`, are kept under `{namespace}*` and `*:local`.
    """

    __slots__ = ("accepts", "descendant", "is_descendant", "number", "transitions")

    def __init__(self, number: int, *, is_descendant: bool = False) -> None:
        self.number = number
        self.is_descendant = is_descendant
        self.transitions: dict[str, State] | None = None
        self.descendant: State | None = None
        self.accepts: list[int] | None = None


class Nfa:
    """The combined NFA. It grows as steps are added at its states."""

    def __init__(self) -> None:
        self.initial = State(0)
        self.states = 1
        self.has_partial_names = False

    def extend(self, state: State, step: Step) -> State:
        """The state that a step leads to from another; it is made if it isn't there."""
        if step.axis is Axis.DESCENDANT:
            if state.descendant is None:
                state.descendant = self.new_state(is_descendant=True)
            state = state.descendant
        symbol = symbol_of(step)
        if state.transitions is None:
            state.transitions = {}
        following = state.transitions.get(symbol)
        if following is None:
            following = state.transitions[symbol] = self.new_state()
            if symbol is not ANY and (symbol.endswith("*") or symbol.startswith("*:")):
                self.has_partial_names = True
        return following

    def accept(self, state: State, accepted: int) -> None:
        """Make a state accept something: a query, or a watch."""
        if state.accepts is None:
            state.accepts = []
        state.accepts.append(accepted)

    def start(self) -> list[State]:
        """The active states before the root element: the initial state and its //-child."""
        return with_descendants([self.initial])

    def step(self, active: Iterable[State], tag: str) -> list[State]:
        """The states that are active after an element with this name (YFILTER 3.2.4)."""
        symbols = [tag, ANY]
        if self.has_partial_names:
            namespace, brace, local = tag.rpartition("}")
            symbols += [f"{namespace}}}*" if brace else "{}*", f"*:{local}"]
        targets: dict[int, State] = {}
        for state in active:
            transitions = state.transitions
            if transitions is not None:
                for symbol in symbols:
                    target = transitions.get(symbol)
                    if target is not None:
                        targets[target.number] = target
            if state.is_descendant:
                targets[state.number] = state
        return with_descendants(targets.values())

    def new_state(self, *, is_descendant: bool = False) -> State:
        """A state that nothing leads to so far."""
        self.states += 1
        return State(self.states, is_descendant=is_descendant)


def symbol_of(step: Step) -> str:
    """The label of the transition for a step."""
    assert step.test is not PARENT
    assert isinstance(step.test, NameTest)
    namespace, local = step.test
    if namespace is None:
        return ANY if local is None else f"*:{local}"
    if local is None:
        return f"{{{namespace}}}*"
    return f"{{{namespace}}}{local}" if namespace else local


def only_name(step: Step) -> str | None:
    """The one name, as lxml spells it, that a step accepts; None if it accepts several."""
    symbol = symbol_of(step)
    return None if symbol.endswith("*") or symbol.startswith("*:") else symbol


def with_descendants(states: Iterable[State]) -> list[State]:
    """States and the //-children that they lead to without input."""
    found = list(states)
    seen = {state.number for state in found}
    for state in tuple(found):
        below = state.descendant
        if below is not None and below.number not in seen:
            seen.add(below.number)
            found.append(below)
    return found

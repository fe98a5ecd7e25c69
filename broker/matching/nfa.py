"""YFilter's combined NFA: one automaton for the paths of all queries (YFILTER 3.2).

The transitions of the machine form a trie over location steps, so common prefixes are there once.
A step `//a` is an ε-transition to a state with a self-loop, the //-child, and a transition from
it. The run-time stack of the paper is the path from the root of the document: the states that are
active after an element depend on those of its parent and on its name alone, so an engine keeps
them by label path.

Where the paper has a hash table for each state, there is one for each symbol here, from states to
states: most states have one transition, and of the many that are active at an element few have one
for its name. An element costs the shorter of the two, the table of its name and the active states.
"""

from typing import NamedTuple

from broker.query.syntax import PARENT, Axis, NameTest, Step

ANY = "*"


class State:
    """A state: its //-child, and what it accepts."""

    __slots__ = ("accepts", "descendant", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.descendant: State | None = None
        """The state with a self-loop that is active whenever this one was reached above."""
        self.accepts: list[int] | None = None


class Active(NamedTuple):
    """The states that are active after an element."""

    reached: frozenset[State]
    """Those that the element itself leads to. They alone can accept."""
    waiting: frozenset[State]
    """The //-children, active from where they were reached down to the leaves."""


NOTHING_ACTIVE = Active(frozenset(), frozenset())


class Nfa:
    """The combined NFA. It grows as steps are added at its states."""

    def __init__(self) -> None:
        self.initial = State(0)
        self.states = 1
        self.transitions: dict[str, dict[State, State]] = {}
        """By an element's name as lxml spells it or `*`; those by a part of the name, `p:*` and
        `*:a`, are under `{namespace}*` and `*:local`."""
        self._has_partial_names = False

    def extend(self, state: State, step: Step) -> State:
        """The state that a step leads to from another; it is made if it isn't there."""
        if step.axis is Axis.DESCENDANT:
            if state.descendant is None:
                state.descendant = self.new_state()
            state = state.descendant
        namespace, local = step.test  # type: ignore[misc]  # no step up leads here
        symbol = local if namespace == "" and local is not None else symbol_of(step)
        table = self.transitions.get(symbol)
        if table is None:
            table = self.transitions[symbol] = {}
            if symbol is not ANY and (symbol.endswith("*") or symbol.startswith("*:")):
                self._has_partial_names = True
        following = table.get(state)
        if following is None:
            following = table[state] = self.new_state()
        return following

    def accept(self, state: State, accepted: int) -> None:
        """Make a state accept something: a query, a signal or a mark."""
        if state.accepts is None:
            state.accepts = [accepted]
        else:
            state.accepts.append(accepted)

    def start(self) -> Active:
        """The active states before the root element."""
        return activate([self.initial])

    def step(self, active: Active, tag: str) -> Active:
        """The states that are active after an element with this name (YFILTER 3.2.4)."""
        symbols = symbols_of(tag) if self._has_partial_names else (tag, ANY)
        reached: list[State] = []
        for symbol in symbols:
            table = self.transitions.get(symbol)
            if table is None:
                continue
            for states in active:
                if len(states) <= len(table):
                    reached += [table[state] for state in states if state in table]
                else:
                    reached += [table[state] for state in table if state in states]
        return activate(reached, active.waiting)

    def new_state(self) -> State:
        """A state that nothing leads to so far."""
        self.states += 1
        return State(self.states)


def activate(reached: list[State], waiting: frozenset[State] = frozenset()) -> Active:
    """Add the //-children that states lead to without input."""
    begun = [state.descendant for state in reached if state.descendant is not None]
    if begun:
        waiting = waiting.union(begun)
    if not reached and not waiting:
        return NOTHING_ACTIVE
    return Active(frozenset(reached), waiting)


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


def symbols_of(tag: str) -> tuple[str, ...]:
    """The labels of the transitions for an element with this name."""
    namespace, brace, local = tag.rpartition("}")
    return (tag, ANY, f"{namespace}}}*" if brace else "{}*", f"*:{local}")


def only_name(step: Step) -> str | None:
    """The one name, as lxml spells it, that a step accepts; None if it accepts several."""
    symbol = symbol_of(step)
    return None if symbol.endswith("*") or symbol.startswith("*:") else symbol

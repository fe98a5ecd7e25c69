"""States beyond a guard: active for one element and what is below it, not for a label path.

A *beyond* is a set of such states that came about together, from one value at one label path.
Values repeat, so a beyond is kept where the value was found, and where it leads for the names
below is kept in it: the second element with the same value costs a look-up.
"""

from collections.abc import Iterable

from broker.matching.guards import Guards
from broker.matching.nfa import Nfa, State, with_descendants


class Beyond:
    """A set of states beyond guards, what they accept, and what follows."""

    __slots__ = ("accepts", "following", "is_guarded", "states")

    def __init__(self, states: tuple[State, ...], guards: Guards) -> None:
        self.states = states
        self.accepts = tuple(
            number for state in states if state.accepts for number in state.accepts
        )
        self.is_guarded = any(state.number in guards.looked_at for state in states)
        self.following: dict[str, Beyond | None] = {}

    def step(self, tag: str, nfa: Nfa, guards: Guards) -> "Beyond | None":
        """What is left of it for a child with this name; kept in `following`."""
        following = self.following[tag] = make_beyond(nfa.step(self.states, tag), guards)
        return following


def make_beyond(states: Iterable[State], guards: Guards) -> Beyond | None:
    """A beyond of these states and their //-children; None if there are none."""
    distinct = {state.number: state for state in states}
    if not distinct:
        return None
    return Beyond(tuple(with_descendants(distinct.values())), guards)

"""One automaton for many filters: NFA, guards, what is determinised of them, and watches.

A filter that is one guarded path is decided here. For another, the automaton *watches* its needed
paths; when a message has one of them, or if it needs none, the filter is verified by the reference
engine on the node table.
"""

from collections.abc import Iterable, Iterator

from broker import reference
from broker.documents import DOCUMENT, Message
from broker.matching.beyond import Beyond, make_beyond
from broker.matching.decompose import GuardedStep, Nested, guarded_path, needed_paths
from broker.matching.determinised import Determinised, Entry
from broker.matching.guards import (
    BELOW,
    POSITION,
    Guards,
    position_holds,
    value_holds,
    values_at,
)
from broker.matching.nested import Marks, MarksAt
from broker.matching.nfa import Nfa, State
from broker.query import Filter
from broker.query.syntax import Step

_MOST_VALUES_KEPT = 256
"""At each label path; values beyond that are looked up in the index each time."""


class Automaton:
    """The filters of one automaton, by number."""

    def __init__(self, max_cache_bytes: int) -> None:
        self.nfa = Nfa()
        self.guards = Guards()
        self.marks = Marks(self.nfa)
        self.universe = 0
        self.queries: dict[int, Filter] = {}
        self.watchers: dict[int, list[int]] = {}
        self.watch_of: dict[tuple[Step, ...], int] = {}
        self.unconditional: set[int] = set()
        self.determinised = Determinised(
            self.nfa, self.guards, self.marks, lambda: self.universe, max_cache_bytes
        )

    def __len__(self) -> int:
        return len(self.queries)

    def add(self, number: int, query: Filter) -> None:
        """Take a filter. What was determinised is forgotten."""
        self.queries[number] = query
        self.universe = max(self.universe, number + 1)
        steps = guarded_path(query.condition)
        if steps is not None:
            self._insert_guarded(steps, number)
        else:
            self._watch(query, number)
        if self.determinised.young or self.determinised.old:
            self.determinised.clear()

    def _insert_guarded(self, steps: tuple[GuardedStep, ...], number: int) -> None:
        state = self.nfa.initial
        for step, guards in steps:
            state = self.nfa.extend(state, step)
            for guard in guards:
                target = self.guards.target(state, guard)
                if target is None:
                    target = self.nfa.new_state()
                    if isinstance(guard, Nested):
                        mark = self.marks.number(guard)
                        self.guards.add_mark(state, guard, mark, target)
                    else:
                        self.guards.add(state, step, guard, target)
                state = target
        self.nfa.accept(state, number)

    def _watch(self, query: Filter, number: int) -> None:
        paths = needed_paths(query.condition)
        if paths is None:
            self.unconditional.add(number)
            return
        for steps in set(paths):
            watch = self.watch_of.get(steps)
            if watch is None:
                watch = self.watch_of[steps] = -1 - len(self.watch_of)
                state = self.nfa.initial
                for step in steps:
                    state = self.nfa.extend(state, step)
                self.nfa.accept(state, watch)
                self.watchers[watch] = []
            self.watchers[watch].append(number)

    # Matching

    def match(self, message: Message, dead: set[int]) -> tuple[int, set[int]]:
        """The filters that take a message: as bits, and as numbers. Dead ones aren't verified."""
        labels = message.labels
        present = message.distinct_label_paths
        parents = labels.parents
        leaves = present.difference([parents[label] for label in present])
        at_hand = self.determinised.use(labels)
        transient: dict[int, Entry] = {}
        bits = 0
        numbers: set[int] = set()
        watches: set[int] = set()
        for leaf in leaves:
            entry = at_hand.get(leaf) or self.determinised.find(leaf, transient)
            bits |= entry.bits
            if entry.numbers:
                numbers.update(entry.numbers)
            if entry.watched:
                watches.update(entry.watched)
        if self.guards.looked_at:
            find = self.determinised.find
            entries = {each: at_hand.get(each) or find(each, transient) for each in present}
            self._match_guarded(message, entries, numbers)
        if watches or self.unconditional:
            self._verify(message, watches, dead, numbers)
        return bits, numbers

    def _verify(
        self, message: Message, watches: Iterable[int], dead: set[int], numbers: set[int]
    ) -> None:
        candidates = set(self.unconditional)
        for watch in watches:
            candidates.update(self.watchers[watch])
        candidates -= dead
        queries = self.queries
        numbers.update(n for n in candidates if reference.matches(queries[n], message))

    def _match_guarded(
        self, message: Message, entries: dict[int, Entry], numbers: set[int]
    ) -> None:
        """Follow the paths that have passed a guard, element by element.

        Such states are active for one element and what is below it, not for a label path, so they
        are kept by node. There are few: only where a value was found that some query asks for.
        """
        if not any(entry.guarded for entry in entries.values()):
            return
        elements = message.elements
        parents = message.parents
        tags = message.labels.tags
        nfa, guards = self.nfa, self.guards
        marked = self._collect_marks(message, entries) if len(self.marks) else _Marked()
        at: dict[int, list[Beyond]] = {}
        for node, label in enumerate(message.label_paths):
            entry = entries[label]
            above = at.get(parents[node])
            if above is None and not entry.guarded:
                continue
            here: list[Beyond] = []
            if above is not None:
                tag = tags[label]
                for each in above:
                    below = each.following.get(tag, each)
                    if below is each:
                        below = each.step(tag, nfa, guards)
                    if below is not None:
                        here.append(below)
            if entry.attributes:
                attributes, passed = entry.attributes, entry.passed
                for pair in elements[node].items():
                    if pair[0] in attributes:
                        found = passed[pair] if pair in passed else self._pass(entry, pair)
                        if found is not None:
                            here.append(found)
            if entry.others:
                here += self._pass_others(message, node, entry)
                if BELOW in entry.others:
                    here += self._pass_marks(node, entry, marked)
            if not here:
                continue
            at[node] = here
            for each in here:
                if each.is_guarded:
                    here = at[node] = self._pass_more_guards(message, node, here, marked)
                    break
            for each in here:
                if each.accepts:
                    numbers.update(each.accepts)

    def _pass(self, entry: Entry, pair: tuple[str, str]) -> Beyond | None:
        """Where a value leads that was not seen at this label path; kept while there is room."""
        found = make_beyond(self._targets(*pair, entry.guarded), self.guards)
        if len(entry.passed) < _MOST_VALUES_KEPT:
            entry.passed[pair] = found
        return found

    def _pass_others(self, message: Message, node: int, entry: Entry) -> list[Beyond]:
        """Where an element's text, string value and position lead."""
        here: list[Beyond] = []
        for where in entry.others:
            if where == BELOW:
                continue
            if where == POSITION:
                states = self._passed_positions(message, node, entry.guarded)
                if (found := make_beyond(states, self.guards)) is not None:
                    here.append(found)
                continue
            for value in values_at(message, node, where):
                pair = (where, value)
                found = entry.passed[pair] if pair in entry.passed else self._pass(entry, pair)
                if found is not None:
                    here.append(found)
        return here

    def _collect_marks(self, message: Message, entries: dict[int, Entry]) -> "_Marked":
        """The marks of all anchors: each element gives those it completes to its ancestors."""
        marked = _Marked()
        depths = message.labels.depths
        open_nodes = [DOCUMENT] * (message.labels.deepest + 1)
        for node, label in enumerate(message.label_paths):
            open_nodes[depths[label]] = node
            for each in entries[label].marks:
                anchor = open_nodes[each.depth]
                if each.marks:
                    marked.structural.setdefault(anchor, set()).add(each)
                for mark in each.conditional:
                    last = self.marks.last[mark]
                    assert last is not None
                    if value_holds(message, node, last):
                        marked.conditional.setdefault(anchor, set()).add(mark)
        return marked

    def _pass_marks(self, node: int, entry: Entry, marked: "_Marked") -> list[Beyond]:
        """Where the marks of an element lead from the states of its label path."""
        here: list[Beyond] = []
        for each in marked.structural.get(node, ()):
            if each.beyond is False:
                each.beyond = make_beyond(self._mark_targets(each.marks, entry), self.guards)
            if isinstance(each.beyond, Beyond):
                here.append(each.beyond)
        conditional = marked.conditional.get(node)
        if conditional:
            found = make_beyond(self._mark_targets(conditional, entry), self.guards)
            if found is not None:
                here.append(found)
        return here

    def _mark_targets(self, marks: Iterable[int], entry: Entry) -> Iterator[State]:
        for mark in marks:
            for source, target in self.guards.by_mark.get(mark, ()):
                if source.number in entry.guarded:
                    yield target

    def _targets(
        self, where: str, value: str, sources: frozenset[int] | set[int]
    ) -> Iterator[State]:
        edges = self.guards.by_value[where].passed(value)
        return (target for source, target in edges if source.number in sources)

    def _passed_positions(
        self, message: Message, node: int, sources: frozenset[int] | set[int]
    ) -> list[State]:
        positions = self.guards.positions
        return [
            target
            for source in sources
            if source in positions
            for test, guard, target in positions[source]
            if position_holds(message, node, test, guard)
        ]

    def _pass_more_guards(
        self, message: Message, node: int, here: list[Beyond], marked: "_Marked"
    ) -> list[Beyond]:
        """With what further guards lead to at the same element."""
        known = {state.number for each in here for state in each.states}
        pending = known
        while pending:
            found: list[State] = []
            wheres = {w for number in pending for w in self.guards.looked_at.get(number, ())}
            for where in wheres:
                if where == POSITION:
                    found += self._passed_positions(message, node, pending)
                    continue
                if where == BELOW:
                    present = marked.at(node)
                    waiting = self.guards.marks_on
                    found += [
                        target
                        for number in pending
                        for mark, target in waiting.get(number, ())
                        if mark in present
                    ]
                    continue
                for value in values_at(message, node, where):
                    found += self._targets(where, value, pending)
            new = make_beyond((state for state in found if state.number not in known), self.guards)
            pending = {state.number for state in new.states} - known if new else set()
            known |= pending
            if new is not None:
                here = [*here, new]
        return here


class _Marked:
    """The marks of one message, by the element that they are for."""

    __slots__ = ("conditional", "structural")

    def __init__(self) -> None:
        self.structural: dict[int, set[MarksAt]] = {}
        self.conditional: dict[int, set[int]] = {}

    def at(self, node: int) -> set[int]:
        """All marks of an element."""
        marks = set(self.conditional.get(node, ()))
        for each in self.structural.get(node, ()):
            marks.update(each.marks)
        return marks

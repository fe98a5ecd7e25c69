"""Which patterns hold in a message, decided from its last element to its first.

When an element's turn comes, all elements below it have been decided and have given it the
conditional marks that they complete for it. What an element was given is dropped with it: there is
nothing to undo when elements of the same name are nested (YFILTER 5.1.1).
"""

from collections.abc import Iterable

from broker.documents import Message
from broker.matching.determinised import Entry
from broker.matching.patterns import Clause, Formula, Pattern, Patterns
from broker.matching.value_index import POSITION, Tests, values_at

_MOST_VALUES_KEPT = 256
_LONGEST_VALUE_KEPT = 200
"""At each label path; other values are looked up in the index each time."""


class Decision:
    """Decides the patterns of one message."""

    def __init__(
        self,
        tests: Tests,
        patterns: Patterns,
        message: Message,
        entries: dict[int, Entry],
        outcomes: set[int],
    ) -> None:
        self.tests = tests
        self.patterns = patterns
        self.message = message
        self.entries = entries
        self.outcomes = outcomes
        """What the patterns decide that hold."""
        self.proven: dict[int, set[int]] = {}
        """Conditional path marks that elements below have completed, by element."""

    def run(self) -> None:
        """Add the outcomes of all patterns that hold."""
        entries, proven = self.entries, self.proven
        label_paths = self.message.label_paths
        if not any(entry.is_anchor for entry in entries.values()):
            return
        for node in range(self.message.last, 0, -1):
            entry = entries[label_paths[node]]
            if entry.is_anchor or node in proven:
                held = self._decide(node, entry)
                if held and entry.conditional:
                    self._give(node, entry, held)

    def _give(self, node: int, entry: Entry, held: Iterable[Pattern]) -> None:
        """Give its ancestors the marks that an element completes because of its patterns."""
        path = self._path_to(node)
        for pattern in held:
            for depth, marks in entry.conditional.get(pattern.number, ()):
                self.proven.setdefault(path[depth], set()).update(marks)

    def _decide(self, node: int, entry: Entry) -> list[Pattern]:
        """The patterns with consequences that hold for an element."""
        held: list[Pattern] = []
        marks = self.proven.pop(node, None)
        if entry.keyed_by_value and (shown := self._shown(node, entry)):
            marks = marks.union(shown) if marks else set(shown)
        candidates: list[Clause] = []
        if marks:
            by_key = self.patterns.by_key
            for mark in marks:
                if mark in by_key:
                    candidates += by_key[mark]
        if entry.unkeyed:
            for state in entry.unkeyed:
                candidates += self.patterns.without_key[state]
        if entry.table is not None:
            ends = self.message.ends
            if node < ends[node]:
                found = entry.table.held(
                    set(self.message.label_paths[node + 1 : ends[node] + 1]), self.entries
                )
                self.outcomes.update(found.outcomes)
                held += found.consequences
                if found.open:
                    if marks is None or not entry.keyed_by_value:
                        marks = (marks or set()).union(self._shown(node, entry))
                    for group in found.open:
                        candidates += group.others
                        for mark in _common(group.by_key, marks):
                            candidates += group.by_key[mark]
        if candidates:
            self._check(node, entry, candidates, marks or set(), held)
        return held

    def _check(
        self,
        node: int,
        entry: Entry,
        candidates: list[Clause],
        marks: set[int],
        held: list[Pattern],
    ) -> None:
        """Take the candidates of an element that hold; add those with consequences to `held`."""
        element = _Marked(self, node, entry, marks)
        has = element.has
        for clause in candidates:
            for mark in clause.needs:
                if mark not in marks and not has(mark):
                    break
            else:
                if all(element.holds(formula) for formula in clause.rest):
                    pattern = clause.pattern
                    self.outcomes.update(pattern.outcomes)
                    if pattern.has_consequences:
                        held.append(pattern)

    def _path_to(self, node: int) -> list[int]:
        """The element and its ancestors, by depth."""
        parents = self.message.parents
        path = []
        while node >= 0:
            path.append(node)
            node = parents[node]
        return path[::-1]

    def _shown(self, node: int, entry: Entry) -> list[int]:
        """The marks that an element shows by itself."""
        found: list[int] = []
        shown = entry.shown
        attributes = entry.attributes
        if attributes:
            for pair in self.message.elements[node].items():
                marks = shown.get(pair)
                if marks is not None:
                    found += marks
                elif pair[0] in attributes:
                    found += self._look_up_value(entry, pair)
        for where in entry.others:
            if where == POSITION:
                found += self.tests.positions_shown(self.message, node, entry.tested)
                continue
            for value in values_at(self.message, node, where):
                pair = (where, value)
                marks = shown.get(pair)
                found += marks if marks is not None else self._look_up_value(entry, pair)
        return found

    def _look_up_value(self, entry: Entry, pair: tuple[str, str]) -> tuple[int, ...]:
        found = self.tests.shown(*pair, entry.tested)
        if len(entry.shown) < _MOST_VALUES_KEPT and len(pair[1]) <= _LONGEST_VALUE_KEPT:
            entry.remember(pair, found)
        return found


class _Marked:
    """The marks of one element, path marks looked for below it when they are asked for."""

    __slots__ = ("below", "decision", "entry", "marks", "node")

    def __init__(self, decision: Decision, node: int, entry: Entry, marks: set[int]) -> None:
        self.decision = decision
        self.node = node
        self.entry = entry
        self.marks = marks
        self.below: list[frozenset[int]] | None = None

    def has(self, mark: int) -> bool:
        """Whether the element has a mark, of its own or by a path below it."""
        if mark in self.marks:
            return True
        if self.below is None:
            message, entries = self.decision.message, self.decision.entries
            depth = self.entry.depth
            labels = set(message.label_paths[self.node + 1 : message.ends[self.node] + 1])
            found = [entries[label].paths.get(depth) for label in labels]
            self.below = [marks for marks in found if marks]
        return any(mark in marks for marks in self.below)

    def holds(self, formula: Formula) -> bool:
        """Whether a formula over marks holds for the element."""
        if isinstance(formula, int):
            return self.has(formula)
        kind, *parts = formula
        if kind == "and":
            return all(self.holds(part) for part in parts)  # type: ignore[arg-type]
        if kind == "or":
            return any(self.holds(part) for part in parts)  # type: ignore[arg-type]
        return not self.holds(parts[0])  # type: ignore[arg-type]


def _common(by_key: dict[int, list[Clause]], marks: set[int]) -> set[int]:
    return marks & by_key.keys() if len(by_key) > len(marks) else by_key.keys() & marks

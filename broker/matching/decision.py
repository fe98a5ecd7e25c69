"""Which patterns hold in a message, decided from its last element to its first.

When an element's turn comes, all elements below it have been decided and have given it the
conditional marks that they complete for it. What an element was given is dropped with it: there is
nothing to undo when elements of the same name are nested (YFILTER 5.1.1).
"""

from collections.abc import Iterable

from broker.documents import Message
from broker.matching.determinised import Entry
from broker.matching.patterns import Clause, Formula, Pattern, Patterns
from broker.matching.value_index import POSITION, Positions, Tests, values_at

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
        self.positions = Positions(message)
        self.label_paths = message.label_paths
        self.ends = message.ends
        self.entries = entries
        self.outcomes = outcomes
        """What the patterns decide that hold."""
        self.proven: dict[int, set[int]] = {}
        """Conditional path marks that elements below have completed, by element."""

    def run(self) -> None:
        """Add the outcomes of all patterns that hold."""
        entries, proven = self.entries, self.proven
        label_paths, ends = self.label_paths, self.ends
        if not any(entry.is_anchor for entry in entries.values()):
            return
        for node in range(self.message.last, 0, -1):
            entry = entries[label_paths[node]]
            marks = proven.pop(node, None) if proven else None
            if entry.keyed_by_value:
                shown = self._shown(node, entry)
                if shown:
                    marks = marks.union(shown) if marks else set(shown)
            if marks or entry.unkeyed or (entry.table is not None and node < ends[node]):
                held = self._decide(node, entry, marks or set())
                if held and entry.conditional:
                    self._give(node, entry, held)

    def _give(self, node: int, entry: Entry, held: Iterable[Pattern]) -> None:
        """Give its ancestors the marks that an element completes because of its patterns."""
        path: list[int] | None = None
        for pattern in held:
            for depth, marks in entry.conditional.get(pattern.number, ()):
                if path is None:
                    path = self._path_to(node)
                anchor = path[depth]
                if anchor in self.proven:
                    self.proven[anchor].update(marks)
                else:
                    self.proven[anchor] = set(marks)

    def _decide(self, node: int, entry: Entry, marks: set[int]) -> list[Pattern]:
        """The patterns with consequences that hold for an element with these marks of its own."""
        held: list[Pattern] = []
        candidates: list[Clause] = []
        by_key, alone = self.patterns.by_key, self.patterns.alone
        for mark in marks:
            if mark in alone:
                for pattern in alone[mark]:
                    if pattern.outcomes:
                        self.outcomes.update(pattern.outcomes)
                    if pattern.has_consequences:
                        held.append(pattern)
            if mark in by_key:
                candidates += by_key[mark]
            if mark in self.patterns.crowded:
                element = _Marked(self, node, entry, marks)
                candidates += element.of_crowd(self.patterns.crowded[mark])
        if entry.unkeyed:
            marks = self._with_shown(node, entry, marks)
            for state in entry.unkeyed:
                candidates += self.patterns.without_key[state]
        if entry.table is not None:
            found = entry.table.held(self.labels_below(node), self.entries)
            self.outcomes.update(found.outcomes)
            held += found.consequences
            if found.open:
                marks = self._with_shown(node, entry, marks)
                for group in found.open:
                    candidates += group.others
                    for mark in group.by_key.keys() & marks:
                        candidates += group.by_key[mark]
        if candidates:
            self._check(node, entry, candidates, marks, held)
        return held

    def labels_below(self, node: int) -> frozenset[int]:
        """The label paths of the elements below one."""
        return frozenset(self.label_paths[node + 1 : self.ends[node] + 1])

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
            outcomes = clause.pattern.outcomes
            if outcomes and outcomes[0] in self.outcomes and not clause.pattern.has_consequences:
                continue  # decided by another element
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

    def _with_shown(self, node: int, entry: Entry, marks: set[int]) -> set[int]:
        """The marks, with those that the element shows by itself."""
        if entry.keyed_by_value:
            return marks  # they are among them
        return marks.union(self._shown(node, entry))

    def _shown(self, node: int, entry: Entry) -> list[int]:
        """The marks that an element shows by itself."""
        found: list[int] = []
        shown = entry.shown
        attributes = entry.attributes
        if attributes:
            for pair in self.message.attribute_items(node):
                index = attributes.get(pair[0])
                if index is None or (index.is_hash_alone and pair[1] not in index.equal):
                    continue
                marks = shown.get(pair)
                found += marks if marks is not None else self._look_up_value(entry, pair)
        for where in entry.others:
            if where == POSITION:
                found += self.tests.positions_shown(self.positions, node, entry.tested)
                continue
            index = self.tests.by_value[where]
            for value in values_at(self.message, node, where):
                if index.is_hash_alone and value not in index.equal:
                    continue
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

    def __init__(self, decision: "Decision", node: int, entry: Entry, marks: set[int]) -> None:
        self.decision = decision
        self.node = node
        self.entry = entry
        self.marks = marks
        self.below: dict[str, list[frozenset[int]]] | None = None
        """The marks that elements below complete for this one, by the names of those elements."""

    def has(self, mark: int) -> bool:
        """Whether the element has a mark, of its own or by a path below it."""
        if mark in self.marks:
            return True
        below = self.below
        if below is None:
            below = self.below = self._look_below()
        name = self.decision.patterns.last_names[mark]
        if name is not None:
            for marks in below.get(name, ()):  # noqa: SIM110 - any() takes twice as long
                if mark in marks:
                    return True
            return False
        return any(mark in marks for each in below.values() for marks in each)

    def of_crowd(self, by_path: dict[int, list[Clause]]) -> list[Clause]:
        """The clauses, by a path that they need, whose path leads on from the element."""
        if self.below is None:
            self.below = self._look_below()
        found: set[int] = set()
        for each in self.below.values():
            for marks in each:
                if len(marks) < len(by_path):
                    found.update([mark for mark in marks if mark in by_path])
                else:
                    found.update([mark for mark in by_path if mark in marks])
        return [clause for mark in found for clause in by_path[mark]]

    def _look_below(self) -> dict[str, list[frozenset[int]]]:
        message, entries = self.decision.message, self.decision.entries
        tags, depth = message.labels.tags, self.entry.depth
        below: dict[str, list[frozenset[int]]] = {}
        for label in self.decision.labels_below(self.node):
            marks = entries[label].paths.get(depth)
            if marks is not None:
                tag = tags[label]
                if tag in below:
                    below[tag].append(marks)
                else:
                    below[tag] = [marks]
        return below

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

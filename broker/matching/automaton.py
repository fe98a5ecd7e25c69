"""One automaton for many filters: NFA, marks and patterns, and what is determinised of them.

A filter is one path or a condition over several. Paths give *outcomes*: the number of the filter
that is just this path, or a *signal*, a number below zero. Filters that need more than one path are
decided from the signals; those that the automaton can't decide are verified by the reference engine
when a message has a signal that they need.
"""

from collections.abc import Iterable

from broker import reference
from broker.documents import Message
from broker.matching.compile import Compiler, NotDecidedError, needed_paths
from broker.matching.determinised import Determinised, Entry
from broker.matching.marks import Marks, MarksAt
from broker.matching.nfa import Nfa
from broker.matching.patterns import Formula, Pattern, Patterns, evaluate, needed_marks
from broker.matching.value_index import POSITION, Tests, values_at
from broker.query import Filter
from broker.query.syntax import And, Condition, Exists, Not, Or, Path, Step

_FEW_PATTERNS = 12

_MOST_VALUES_KEPT = 256
_LONGEST_VALUE_KEPT = 200
"""At each label path; other values are looked up in the index each time."""


class Automaton:
    """The filters of one automaton, by number."""

    def __init__(self, max_cache_bytes: int) -> None:
        self.nfa = Nfa()
        self.tests = Tests()
        self.marks = Marks(self.nfa)
        self.patterns = Patterns()
        self.compiler = Compiler(self.nfa, self.tests, self.marks, self.patterns)
        self.universe = 0
        self.queries: dict[int, Filter] = {}
        self.formulas: dict[int, Formula] = {}
        """Filters over several paths, as formulas over signals."""
        self.by_signal: dict[int, list[int]] = {}
        self.unconditional: set[int] = set()
        """Filters that are looked at whatever signals there are."""
        self.signal_of: dict[Path | tuple[Step, ...], int] = {}
        self.determinised = Determinised(
            nfa=self.nfa,
            tests=self.tests,
            marks=self.marks,
            patterns=self.patterns,
            universe=lambda: self.universe,
            max_bytes=max_cache_bytes,
        )

    def __len__(self) -> int:
        return len(self.queries)

    def add(self, number: int, query: Filter) -> None:
        """Take a filter. What was determinised is forgotten."""
        self.queries[number] = query
        self.universe = max(self.universe, number + 1)
        condition = query.condition
        try:
            if isinstance(condition, Exists):
                self.compiler.add_path(condition.path, number)
            else:
                formula = self._formula(condition)
                self.formulas[number] = formula
                self._wait(number, needed_marks(formula))
        except NotDecidedError:
            self._verify_when_needed(number, condition)
        self.determinised.clear()

    def _formula(self, condition: Condition) -> Formula:
        match condition:
            case And(operands):
                return ("and", *(self._formula(each) for each in operands))
            case Or(operands):
                return ("or", *(self._formula(each) for each in operands))
            case Not(operand):
                return ("not", self._formula(operand))
            case Exists(path):
                signal = self.signal_of.get(path)
                if signal is None:
                    signal = -1 - len(self.signal_of)
                    self.compiler.add_path(path, signal)
                    self.signal_of[path] = signal
                return signal
        raise NotDecidedError

    def _verify_when_needed(self, number: int, condition: Condition) -> None:
        paths = needed_paths(condition)
        if paths is None:
            self.unconditional.add(number)
            return
        for steps in set(paths):
            signal = self.signal_of.get(steps)
            if signal is None:
                signal = self.signal_of[steps] = -1 - len(self.signal_of)
                state = self.nfa.initial
                for step in steps:
                    state = self.nfa.extend(state, step)
                self.nfa.accept(state, signal)
            self.by_signal.setdefault(signal, []).append(number)

    def _wait(self, number: int, needed: set[int]) -> None:
        if needed:
            self.by_signal.setdefault(min(needed), []).append(number)
        else:
            self.unconditional.add(number)

    # Matching

    def match(self, message: Message, dead: set[int]) -> tuple[int, set[int]]:
        """The filters that take a message: as bits, and as numbers. Dead ones aren't verified."""
        labels = message.labels
        present = message.distinct_label_paths
        parents = labels.parents
        leaves = present.difference([parents[label] for label in present])
        at_hand = self.determinised.use(labels)
        find = self.determinised.find
        transient: dict[int, Entry] = {}
        bits = 0
        numbers: set[int] = set()
        for leaf in leaves:
            entry = at_hand.get(leaf) or find(leaf, transient)
            bits |= entry.bits
            if entry.numbers:
                numbers.update(entry.numbers)
            if entry.signals:
                numbers.update(entry.signals)
        if len(self.patterns):
            entries = {each: at_hand.get(each) or find(each, transient) for each in present}
            _Pass(self, message, entries).run(numbers)
        if self.by_signal or self.unconditional:
            self._decide(message, numbers, dead)
        return bits, numbers

    def _decide(self, message: Message, numbers: set[int], dead: set[int]) -> None:
        """Decide the filters that wait for signals, and drop those from the numbers."""
        signals = {number for number in numbers if number < 0}
        numbers -= signals
        candidates = set(self.unconditional)
        for signal in signals:
            candidates.update(self.by_signal.get(signal, ()))
        for number in candidates - dead:
            formula = self.formulas.get(number)
            if formula is not None:
                if evaluate(formula, signals):
                    numbers.add(number)
            elif reference.matches(self.queries[number], message):
                numbers.add(number)


class _Pass:
    """Decides the patterns of one message, from its last element to its first.

    When an element's turn comes, all below it have given it their marks.
    """

    def __init__(self, automaton: Automaton, message: Message, entries: dict[int, Entry]) -> None:
        self.tests = automaton.tests
        self.patterns = automaton.patterns
        self.message = message
        self.entries = entries
        self.given: dict[int, set[MarksAt]] = {}
        """Path marks that hold because elements are there, by the element that they are for."""
        self.proven: dict[int, set[int]] = {}
        """Path marks that hold because an element has a pattern, likewise."""

    def run(self, outcomes: set[int]) -> None:
        """Add the outcomes of all patterns that hold."""
        message, entries, patterns = self.message, self.entries, self.patterns
        given, proven = self.given, self.proven
        has_keys: set[int] = set()
        label_paths, parents, depths = message.label_paths, message.parents, message.labels.depths
        path = [-1] * (message.labels.deepest + 1)
        nothing: set[int] = set()
        for node in range(message.last, 0, -1):
            entry = entries[label_paths[node]]
            held = nothing
            if entry.is_anchor or node in has_keys or node in proven:
                held = self._decide(node, entry, outcomes)
            if not entry.marks:
                continue
            # The ancestors of the node by depth; most are those of the node before.
            each = node
            while each >= 0 and path[depth := depths[label_paths[each]]] != each:
                path[depth] = each
                each = parents[each]
            for at in entry.marks:
                anchor = path[at.depth]
                if at.marks:
                    known = given.get(anchor)
                    if known is None:
                        given[anchor] = {at}
                    else:
                        known.add(at)
                    if at.has_keys or (at.has_keys is None and at.look_up(patterns)):
                        has_keys.add(anchor)
                if held and at.conditional:
                    for pattern in held:
                        marks = at.conditional.get(pattern)
                        if marks is not None:
                            proven.setdefault(anchor, set()).update(marks)

    def _decide(self, node: int, entry: Entry, outcomes: set[int]) -> set[int]:
        """The numbers of the patterns that hold for an element."""
        given = self.given.get(node, ())
        decided: list[Pattern] = []
        undecided: list[Pattern] = []
        for at in given:
            if at.has_keys:
                decided += at.decided
                undecided += at.others
        marks = set(self._shown(node, entry)) if entry.tested else set()
        if node in self.proven:
            marks |= self.proven[node]
        by_key = self.patterns.by_key
        for mark in marks:
            if mark in by_key:
                undecided += by_key[mark]
        for state in entry.unkeyed:
            undecided += self.patterns.without_key[state]
        if undecided:
            decided += self._holding(undecided, marks, given)
        for pattern in decided:
            if pattern.outcomes:
                outcomes.update(pattern.outcomes)
        return {pattern.number for pattern in decided}

    def _holding(
        self, patterns: list[Pattern], marks: set[int], given: Iterable[MarksAt]
    ) -> list[Pattern]:
        """The patterns that hold for an element with these marks and those it was given."""
        if len(patterns) <= _FEW_PATTERNS:
            # Asking for single marks is cheaper than uniting them all.
            holding = []
            for pattern in patterns:
                others = pattern.others
                if others is None:
                    break
                for mark in others:
                    if mark not in marks and not any(mark in at.marks for at in given):
                        break
                else:
                    holding.append(pattern)
            else:
                return holding
        marks.update(*[at.marks for at in given])
        return [
            pattern
            for pattern in patterns
            if (pattern.others <= marks if pattern.others is not None else pattern.holds(marks))
        ]

    def _shown(self, node: int, entry: Entry) -> list[int]:
        """The marks that an element shows by itself."""
        found: list[int] = []
        shown = entry.shown
        if entry.attributes:
            for pair in self.message.elements[node].items():
                if pair[0] in entry.attributes:
                    found += shown[pair] if pair in shown else self._look_up_value(entry, pair)
        for where in entry.others:
            if where == POSITION:
                found += self.tests.positions_shown(self.message, node, entry.tested)
                continue
            for value in values_at(self.message, node, where):
                pair = (where, value)
                found += shown[pair] if pair in shown else self._look_up_value(entry, pair)
        return found

    def _look_up_value(self, entry: Entry, pair: tuple[str, str]) -> tuple[int, ...]:
        found = self.tests.shown(*pair, entry.tested)
        if len(entry.shown) < _MOST_VALUES_KEPT and len(pair[1]) <= _LONGEST_VALUE_KEPT:
            entry.shown[pair] = found
        return found

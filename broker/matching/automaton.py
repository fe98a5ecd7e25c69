"""One automaton for many filters: NFA, marks and patterns, and what is determinised of them.

A filter is one path or a condition over several. Paths give *outcomes*: the number of the filter
that is just this path, or a *signal*, a number below zero. Filters that need more than one path are
decided from the signals; those that the automaton can't decide are verified by the reference engine
when a message has a signal that they need.
"""

from broker import reference
from broker.documents import LabelPaths, Message
from broker.matching.compile import Compiler, NotDecidedError, needed_paths
from broker.matching.decision import Decision
from broker.matching.determinised import Determinised, Entry
from broker.matching.marks import Marks
from broker.matching.nfa import Nfa
from broker.matching.patterns import Formula, Patterns, Predicates, evaluate, needed_marks
from broker.matching.value_index import Tests
from broker.query import Filter
from broker.query.syntax import And, Condition, Exists, Not, Or, Path, Step


class Automaton:
    """The filters of one automaton, by number."""

    def __init__(self, predicates: Predicates, max_cache_bytes: int) -> None:
        self.nfa = Nfa()
        self.tests = Tests()
        self.marks = Marks(self.nfa)
        self.patterns = Patterns(predicates, self.marks)
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

    def match(
        self,
        message: Message,
        present: set[int],
        leaves: set[int],
        numbers: set[int],
        dead: set[int],
    ) -> int:
        """The filters that take a message: some are added to `numbers`, some returned as bits.

        `present` are the label paths of the message and `leaves` those without others below. Dead
        filters may be among the answers, but no work is done for them that can be spared.
        """
        at_hand = self.determinised.use(message.labels)
        find = self.determinised.find
        transient: dict[int, Entry] = {}
        bits = 0
        signals: set[int] = set()
        for leaf in leaves:
            entry = at_hand.get(leaf) or find(leaf, transient)
            bits |= entry.bits
            if entry.numbers:
                numbers.update(entry.numbers)
            if entry.signals:
                signals.update(entry.signals)
        if len(self.patterns):
            entries = {each: at_hand.get(each) or find(each, transient) for each in present}
            outcomes: set[int] = set()
            Decision(self.tests, self.patterns, message, entries, outcomes).run()
            if self.signal_of:
                signals.update(each for each in outcomes if each < 0)
                outcomes -= signals
            numbers |= outcomes
        if signals or self.unconditional:
            self._decide(message, signals, numbers, dead)
        return bits

    def _decide(
        self, message: Message, signals: set[int], numbers: set[int], dead: set[int]
    ) -> None:
        """Add the filters that wait for signals and take the message."""
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

    def warm(self, labels: LabelPaths, label: int) -> None:
        """Have at hand what elements with a label path need, before one comes."""
        self.determinised.use(labels)
        self.determinised.warm(label)

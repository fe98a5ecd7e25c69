"""One automaton for many filters: NFA, marks and patterns, and what is determinised of them.

A filter is one path or a condition over several. Paths give *outcomes*: the number of the filter
that is just this path, or a *signal*, a number below zero. Filters that need more than one path are
decided from the signals; those that the automaton can't decide are verified by the reference engine
when a message has a signal that they need.
"""

from array import array
from bisect import bisect_left

from broker import reference
from broker.documents import LabelPaths, Message
from broker.errors import ResultError
from broker.matching.compile import Compiler, NotDecidedError, needed_paths
from broker.matching.decision import Decision
from broker.matching.determinised import Determinised, Entry
from broker.matching.marks import Marks
from broker.matching.match_set import Part, to_bits
from broker.matching.nfa import Nfa
from broker.matching.patterns import Formula, Patterns, Predicates, clauses, evaluate
from broker.matching.value_index import Tests
from broker.metrics import CacheUse
from broker.query import Filter
from broker.query.syntax import ROOT, And, Condition, Exists, Not, Or, Path, Step


class Automaton:
    """The filters of one automaton."""

    def __init__(
        self, predicates: Predicates, max_cache_bytes: int, cache_use: CacheUse | None = None
    ) -> None:
        self.cache_use = cache_use if cache_use is not None else CacheUse()
        self.nfa = Nfa()
        self.tests = Tests()
        self.marks = Marks(self.nfa)
        self.patterns = Patterns(predicates, self.marks)
        self.compiler = Compiler(self.nfa, self.tests, self.marks, self.patterns)
        self.queries: list[Filter] = []
        self.numbers = array("q")
        """The number of each filter. Within the automaton filters go by their place in here."""
        self.dead: set[int] = set()
        """The places of removed filters."""
        self._dead_bits = 0
        self._newly_dead: list[int] = []
        """Those that are not in the bits yet."""
        self.formulas: dict[int, Formula] = {}
        """Filters over several paths, as formulas over signals."""
        self.by_signal: dict[int, list[int]] = {}
        self.unconditional: set[int] = set()
        """Filters that are looked at whatever signals there are."""
        self.verified: set[int] = set()
        """Filters that the reference engine decides, when they are looked at."""
        self.undecided: list[int] = []
        """The numbers of those that it could not decide for the last message, within its budget."""
        self.signal_of: dict[Path | tuple[Step, ...], int] = {}
        self.determinised = Determinised(
            nfa=self.nfa,
            tests=self.tests,
            marks=self.marks,
            patterns=self.patterns,
            universe=self.__len__,
            max_bytes=max_cache_bytes,
        )

    def __len__(self) -> int:
        """The number of filters, dead ones among them."""
        return len(self.queries)

    def add(self, number: int, query: Filter) -> None:
        """Take a filter; its number is higher than those before. What was determinised is gone."""
        place = len(self.queries)
        self.queries.append(query)
        self.numbers.append(number)
        condition = query.condition
        try:
            if isinstance(condition, Exists):
                self.compiler.add_path(condition.path, place)
            else:
                formula = self._formula(condition)
                self.formulas[place] = formula
                self._wait(place, formula)
        except NotDecidedError:
            self.verified.add(place)
            self._verify_when_needed(place, condition)
        self.determinised.clear()

    def remove(self, number: int) -> bool:
        """Mask a filter; False if it isn't here."""
        place = bisect_left(self.numbers, number)
        if place == len(self.numbers) or self.numbers[place] != number:
            return False
        self.dead.add(place)
        self._newly_dead.append(place)
        return True

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

    def _verify_when_needed(self, place: int, condition: Condition) -> None:
        paths = needed_paths(condition)
        if paths is None:
            self.unconditional.add(place)
            return
        for steps in set(paths):
            signal = self.signal_of.get(steps)
            if signal is None:
                signal = self.signal_of[steps] = -1 - len(self.signal_of)
                self.compiler.add_path(Path(ROOT, steps, None), signal)
            self.by_signal.setdefault(signal, []).append(place)

    def _wait(self, place: int, formula: Formula) -> None:
        for needs, _ in clauses(formula):
            if needs:
                self.by_signal.setdefault(min(needs), []).append(place)
            else:
                self.unconditional.add(place)

    # Matching

    def match(self, message: Message, present: set[int], leaves: set[int]) -> Part:
        """The filters that take a message.

        `present` are the label paths of the message, `leaves` those of them without others below.
        """
        self.undecided.clear()
        at_hand = self.determinised.use(message.labels)
        find = self.determinised.find
        asked = present if len(self.patterns) else leaves
        self.cache_use.looked_up += len(asked)
        self.cache_use.missed += len(asked.difference(at_hand))
        transient: dict[int, Entry] = {}
        bits = 0
        places: set[int] = set()
        signals: set[int] = set()
        for leaf in leaves:
            entry = at_hand.get(leaf) or find(leaf, transient)
            bits |= entry.bits
            if entry.places:
                places.update(entry.places)
            if entry.signals:
                signals.update(entry.signals)
        if len(self.patterns):
            entries = {each: at_hand.get(each) or find(each, transient) for each in present}
            Decision(self.tests, self.patterns, message, entries, places).run()
            if self.signal_of:
                signals.update(each for each in places if each < 0)
                places -= signals
        if signals or self.unconditional:
            self._decide(message, signals, places)
        if self.dead:
            if bits:
                if self._newly_dead:
                    self._dead_bits |= to_bits(self._newly_dead)
                    self._newly_dead.clear()
                bits &= ~self._dead_bits
            places = places - self.dead  # not -=, which goes through the dead ones
        return Part(bits, places, self.numbers)

    def _decide(self, message: Message, signals: set[int], places: set[int]) -> None:
        """Add the filters that wait for signals and take the message."""
        candidates = set(self.unconditional)
        for signal in signals:
            candidates.update(self.by_signal.get(signal, ()))
        for place in candidates - self.dead:
            formula = self.formulas.get(place)
            if formula is not None:
                if evaluate(formula, signals):
                    places.add(place)
            elif self._is_verified(place, message):
                places.add(place)

    def _is_verified(self, place: int, message: Message) -> bool:
        try:
            return reference.matches(self.queries[place], message)
        except ResultError:
            self.undecided.append(self.numbers[place])
            return False

    @property
    def labels(self) -> LabelPaths | None:
        """The table of the label paths that it knows."""
        return self.determinised.labels

    @property
    def at_hand(self) -> list[int]:
        """The label paths whose entries are at hand."""
        return list(self.determinised.young)

    def retire(self) -> None:
        """Let go of what was determinised, at once: it refers to itself."""
        self.determinised.clear()
        self.determinised.universe = int

    def warm(self, labels: LabelPaths, label: int) -> None:
        """Have at hand what elements with a label path need, before one comes."""
        self.determinised.use(labels)
        self.determinised.warm(label)

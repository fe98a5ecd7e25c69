"""YFilter: all filters in a few automata, changed while messages are matched.

New filters are followed apart, plain paths as bits (`fresh.py`) and others by a young automaton, so
that what is determinised of the large ones stays. Automata that are small beside each other are
folded into one, a little with each message, and the new one takes their place when it is complete
and warm: no message waits for it. Filters that are removed are masked until they are folded.
"""

from dataclasses import replace

from broker.documents import Message
from broker.matching.automaton import Automaton
from broker.matching.folding import Filters, Folding, choose, is_due
from broker.matching.fresh import MOST_FRESH, Fresh
from broker.matching.match_set import MatchSet
from broker.matching.numbering import Numbering
from broker.matching.patterns import Predicates
from broker.matching.port import Description
from broker.matching.score import Charges
from broker.metrics import CacheUse
from broker.query import Filter

_CACHE_BYTES = 512 * 1024 * 1024

_FEW = 256
"""The young automaton is left alone by folding up to this size."""

_FEW_AUTOMATA = 4
"""With more, folding does twice as much for each further one."""


class YFilter:
    """The engine. `determinise=False` steps the NFA for every message, to the same answers."""

    def __init__(
        self,
        *,
        determinise: bool = True,
        predicates: Predicates = Predicates.INLINE,
        max_cache_bytes: int = _CACHE_BYTES,
        settle_above: int = _FEW,
    ) -> None:
        self.predicates = predicates
        self.cache_bytes = max_cache_bytes if determinise else 0
        self.settle_above = settle_above
        self.cache_use = CacheUse()
        self.numbering = Numbering()
        self.settled: list[Filters] = []
        """The automata that take no further filters, the largest first."""
        self.young = self._new_automaton()
        """The automaton that takes filters."""
        self.fresh = Fresh()
        """What takes filters that are plain paths, from the first message on."""
        self.has_matched = False
        self.folding: Folding | None = None
        self.charges = Charges()

    def _new_automaton(self) -> Automaton:
        return Automaton(self.predicates, self.cache_bytes, self.cache_use)

    def add(self, query: Filter) -> int:
        """Take a filter; effective with the next message."""
        number, is_new = self.numbering.add(query)
        if is_new:
            self.charges.add(query)
            is_fresh = self.has_matched and self.cache_bytes and len(self.fresh) < MOST_FRESH
            if not (is_fresh and self.fresh.add(number, query)):
                self.young.add(number, query)
        return number

    def remove(self, number: int) -> None:
        """Drop a filter; effective with the next message."""
        query = self.numbering.queries[number]
        if self.numbering.remove(number):
            self.charges.remove(query)
            for automaton in (self.fresh, self.young, *self.settled):
                if automaton.remove(number):
                    break
            if self.folding is not None:
                self.folding.made.remove(number)
            elif is_due(automaton) and automaton in self.settled:
                self._begin_folding()

    def match(self, message: Message) -> MatchSet:
        """The numbers of the filters that take a message."""
        present = message.distinct_label_paths
        parents = message.labels.parents
        leaves = present.difference([parents[label] for label in present])
        self.has_matched = True
        parts = [each.match(message, present, leaves) for each in self.settled]
        undecided = [number for each in self.settled for number in each.undecided]
        if self.fresh.queries:
            parts.append(self.fresh.match(message, present, leaves))
            if len(self.fresh) > self.settle_above:
                self._settle(self.fresh)
                self.fresh = Fresh()
        if self.young.queries:
            parts.append(self.young.match(message, present, leaves))
            undecided += self.young.undecided
            if len(self.young) > self.settle_above:
                self._settle(self.young)
                self.young = self._new_automaton()
        if self.folding is not None:
            self._advance()
        return MatchSet(parts, undecided)

    def _settle(self, filters: Filters) -> None:
        """Let an automaton take no more filters, and see what is to be folded."""
        self.settled.append(filters)
        self.settled.sort(key=len, reverse=True)
        if self.folding is None:
            self._begin_folding()

    def _begin_folding(self) -> None:
        chosen = choose(self.settled)
        if chosen:
            self.folding = Folding(chosen, self._new_automaton(), self.numbering.queries)

    def _advance(self) -> None:
        """Do a little of the folding, more if many automata wait."""
        assert self.folding is not None
        for _ in range(2 ** max(0, len(self.settled) - _FEW_AUTOMATA)):
            if self.folding.advance():
                self._take_over(self.folding)
                self._begin_folding()
                return

    def _take_over(self, folding: Folding) -> None:
        """Put the automaton that folding made in the place of those that it was made of."""
        self.settled = [each for each in self.settled if each not in folding.folded]
        for each in folding.folded:
            if isinstance(each, Automaton):
                each.retire()
        if folding.made.queries:
            self.settled.append(folding.made)
        else:
            folding.made.retire()
        self.settled.sort(key=len, reverse=True)
        self.folding = None

    def fold(self) -> None:
        """Make one automaton of all at once: for those who would rather wait."""
        self.settled += [self.young, self.fresh]
        self.young, self.fresh = self._new_automaton(), Fresh()
        folding = Folding(list(self.settled), self._new_automaton(), self.numbering.queries)
        while not folding.advance():
            pass
        self._take_over(folding)

    def describe(self) -> Description:
        """Its size and shape now."""
        everything = [*self.settled, self.young, self.fresh]
        automata = [each for each in everything if isinstance(each, Automaton)]
        cached = [automaton.determinised.cached for automaton in automata]
        fresh_steps = sum(each.steps for each in everything if isinstance(each, Fresh))
        return Description(
            engine="yfilter",
            queries=len(self.numbering.queries),
            states=sum(automaton.nfa.states for automaton in automata) + fresh_steps,
            cached_states=sum(count for count, _ in cached),
            cached_bytes=sum(size for _, size in cached),
            active_states=self.charges.active_states,
            cache_demand=self.charges.cache_bytes,
            cache_use=replace(self.cache_use),
        )

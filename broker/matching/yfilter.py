"""YFilter: all filters in one automaton, changed while messages are matched.

New filters go into a small automaton beside the large one, so that what is determinised of the
large one stays; `fold` moves them over. Filters that are removed are masked until then.
"""

from broker.documents import Message
from broker.matching.automaton import Automaton
from broker.matching.match_set import MatchSet, to_bits
from broker.matching.numbering import Numbering
from broker.matching.patterns import Predicates
from broker.matching.port import Description
from broker.query import Filter, cost

_CACHE_BYTES = 512 * 1024 * 1024
_FEW = 4096


class YFilter:
    """The engine. `determinise=False` steps the NFA for every message, to the same answers."""

    def __init__(
        self,
        *,
        determinise: bool = True,
        predicates: Predicates = Predicates.INLINE,
        max_cache_bytes: int = _CACHE_BYTES,
    ) -> None:
        self.predicates = predicates
        self.cache_bytes = max_cache_bytes if determinise else 0
        self.numbering = Numbering()
        self.large = Automaton(predicates, self.cache_bytes)
        self.small = Automaton(predicates, self.cache_bytes // 8)
        self.dead: set[int] = set()
        self.dead_bits = 0
        self.has_matched = False
        self.score = 0

    def add(self, query: Filter) -> int:
        """Take a filter; effective with the next message."""
        number, is_new = self.numbering.add(query)
        if is_new:
            self.score += cost(query).active_states
            (self.small if self.has_matched else self.large).add(number, query)
            if len(self.small) > max(_FEW, len(self.large) // 4):
                self.fold()
        return number

    def remove(self, number: int) -> None:
        """Drop a filter; effective with the next message."""
        query = self.numbering.queries[number]
        if self.numbering.remove(number):
            self.score -= cost(query).active_states
            self.dead.add(number)
            self.dead_bits = 0

    def match(self, message: Message) -> MatchSet:
        """The numbers of the filters that take a message."""
        self.has_matched = True
        bits, numbers = self.large.match(message, self.dead)
        if len(self.small):
            more_bits, more_numbers = self.small.match(message, self.dead)
            bits |= more_bits
            numbers |= more_numbers
        if self.dead:
            if bits:
                self.dead_bits = self.dead_bits or to_bits(self.dead)
                bits &= ~self.dead_bits
            numbers -= self.dead
        return MatchSet(bits, numbers)

    def fold(self) -> None:
        """Build one automaton of the filters that are there, and let dropped numbers go."""
        rebuilt = Automaton(self.predicates, self.cache_bytes)
        for number, query in self.numbering.queries.items():
            rebuilt.add(number, query)
        self.large = rebuilt
        self.small = Automaton(self.predicates, self.cache_bytes // 8)
        for number in self.dead:
            self.numbering.release(number)
        self.dead = set()
        self.dead_bits = 0

    def describe(self) -> Description:
        """Its size and shape now."""
        cached = [each.determinised.cached for each in (self.large, self.small)]
        return Description(
            "yfilter",
            len(self.numbering.queries),
            self.large.nfa.states + self.small.nfa.states,
            sum(count for count, _ in cached),
            sum(size for _, size in cached),
            self.score,
        )

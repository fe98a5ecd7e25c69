"""Fresh filters: plain paths that have just come, matched as the bits of one integer.

An automaton has to be determinised anew when a filter is added, one label path after the other. For
some thousand filters that are plain paths it is cheaper to follow all of them at once: each step of
each path is a bit, the steps of a path one after the other, and an element takes half a dozen
operations on integers (the Shift-And method of string matching, on the path from the root). Adding
a filter notes the places of its bits, no more. Folding makes automata of fresh filters in time.
"""

from array import array
from bisect import bisect_left

from broker.documents import LabelPaths, Message
from broker.documents.labels import ROOT_LABEL
from broker.matching.match_set import Part, from_bits, to_bits
from broker.matching.nfa import symbol_of, symbols_of
from broker.query import Filter
from broker.query.syntax import PARENT, Axis, Exists, Step

MOST_FRESH = 2048
"""More would make the integers so long that an automaton is as good."""

_MOST_KNOWN = 4096
"""Label paths whose bits are kept."""


class _Bits:
    """The bits of a label path."""

    __slots__ = ("accepted", "first", "reached", "waiting")

    def __init__(self, reached: int, waiting: int, accepted: int, first: int = 0) -> None:
        self.reached = reached
        """The steps that the element itself completes."""
        self.waiting = waiting
        """The steps after a `//` that any element below may complete."""
        self.accepted = accepted
        """The last steps that this element or one above it completes."""
        self.first = first
        """The first steps that an element directly below may complete: those of the document."""


class Fresh:
    """Filters that are plain paths, up to some thousand."""

    undecided: tuple[int, ...] = ()
    """Plain paths are always decided."""

    def __init__(self) -> None:
        self.queries: list[Filter] = []
        self.numbers = array("q")
        """The number of each filter. In here filters go by their place."""
        self.dead: set[int] = set()
        self.labels: LabelPaths | None = None
        self._width = 0
        self._places_of_symbols: dict[str, array[int]] = {}
        self._after_child = array("i")
        self._after_descendant = array("i")
        self._first_child = array("i")
        self._first_descendant = array("i")
        self._last = array("i")
        """The bit of each filter's last step."""
        self._known: dict[int, _Bits] = {}
        self._masks: dict[str, int] = {}
        self._bits_of_symbols: dict[str, int] = {}
        self._is_changed = True
        self._child = self._descendant = self._ends = 0
        self._document = _Bits(0, 0, 0)

    def __len__(self) -> int:
        """The number of filters, dead ones among them."""
        return len(self.queries)

    @property
    def steps(self) -> int:
        """The number of steps, which are the bits."""
        return self._width

    @property
    def at_hand(self) -> list[int]:
        """The label paths whose bits are kept."""
        return list(self._known)

    def add(self, number: int, query: Filter) -> bool:
        """Take a filter, whose number is higher than those before; False if it is no plain path."""
        steps = plain_steps(query)
        if steps is None:
            return False
        bit = self._width
        child, descendant = self._first_child, self._first_descendant
        places = self._places_of_symbols
        for step in steps:
            (descendant if step.axis is Axis.DESCENDANT else child).append(bit)
            child, descendant = self._after_child, self._after_descendant
            namespace, local = step.test  # type: ignore[misc]  # no step up is plain
            symbol = local if namespace == "" and local is not None else symbol_of(step)
            if symbol in places:
                places[symbol].append(bit)
            else:
                places[symbol] = array("i", (bit,))
            bit += 1
        self._width = bit
        self._last.append(bit - 1)
        self.queries.append(query)
        self.numbers.append(number)
        self._is_changed = True
        return True

    def remove(self, number: int) -> bool:
        """Mask a filter; False if it isn't here."""
        place = bisect_left(self.numbers, number)
        if place == len(self.numbers) or self.numbers[place] != number:
            return False
        self.dead.add(place)
        return True

    def match(self, message: Message, present: set[int], leaves: set[int]) -> Part:
        """The filters that take a message; `leaves` are its label paths without others below."""
        labels = message.labels
        if self._is_changed or self.labels is not labels or len(self._known) > _MOST_KNOWN:
            self._begin(labels)
        known = self._known
        if not known.keys() >= present:
            # Parents have smaller numbers than their children.
            for label in sorted(present - known.keys()):
                known[label] = self._step(known[labels.parents[label]], labels.tags[label])
        accepted = 0
        for leaf in leaves:
            accepted |= known[leaf].accepted
        places = {bisect_left(self._last, bit) for bit in from_bits(accepted)}
        return Part(0, places - self.dead, self.numbers)

    def _begin(self, labels: LabelPaths) -> None:
        """Make the bits anew that filters or another table have changed."""
        if self._is_changed:
            self._child = to_bits(self._after_child)
            self._descendant = to_bits(self._after_descendant)
            self._ends = to_bits(self._last)
            self._document = _Bits(
                0, to_bits(self._first_descendant), 0, to_bits(self._first_child)
            )
            self._masks, self._bits_of_symbols = {}, {}
            self._is_changed = False
        self.labels = labels
        self._known = {ROOT_LABEL: self._document}

    def _step(self, above: _Bits, tag: str) -> _Bits:
        mask = self._masks.get(tag)
        if mask is None:
            mask = self._masks[tag] = self._mask(tag)
        reached = (((above.reached << 1) & self._child) | above.first | above.waiting) & mask
        waiting = above.waiting | ((reached << 1) & self._descendant)
        return _Bits(reached, waiting, above.accepted | (reached & self._ends))

    def _mask(self, tag: str) -> int:
        """The steps that accept an element with this name."""
        mask = 0
        for symbol in symbols_of(tag):
            places = self._places_of_symbols.get(symbol)
            if places is not None:
                bits = self._bits_of_symbols.get(symbol)
                if bits is None:
                    bits = self._bits_of_symbols[symbol] = to_bits(places)
                mask |= bits
        return mask


def plain_steps(query: Filter) -> tuple[Step, ...] | None:
    """The steps of a filter that is a path of names alone, or None."""
    condition = query.condition
    if not isinstance(condition, Exists) or condition.path.end is not None:
        return None
    steps = condition.path.steps
    for step in steps:
        if step.predicates or step.test is PARENT:
            return None
    return steps

"""The NFA determinised on demand: what is active and accepted after a label path, kept.

After a label path the same NFA states are active in every message, so the set is computed once and
found again by one look-up. What a label path accepts is kept together with what the label paths
above it accept, so that a message needs only the leaves among its label paths.

The cache is bounded by memory. It has two halves: what is used is in the young half; when that is
full it becomes the old half, and what was in the old one and not asked for since is gone. So the
cache follows the traffic, and a hostile set of paths costs the stepping of the NFA, not memory.
"""

from collections.abc import Callable

from broker.documents.labels import ROOT_LABEL, LabelPaths
from broker.matching.marks import Marks
from broker.matching.match_set import NOTHING, Accept, accept_of, union
from broker.matching.nfa import NOTHING_ACTIVE, Active, Nfa
from broker.matching.path_groups import GroupTable
from broker.matching.patterns import Patterns
from broker.matching.value_index import NOT_ATTRIBUTES, Tests, ValueIndex

_ENTRY_BYTES = 300
_STATE_BYTES = 40
"""In a frozen set."""


class Account:
    """How many bytes the values and the table of an entry take that messages have brought.

    Apart from the entry, since its table charges it, too: so the two don't hold each other, and go
    when the cache lets go of them.
    """

    __slots__ = ("_charge_cache", "size")

    def __init__(self, charge_cache: Callable[[int], None]) -> None:
        self._charge_cache = charge_cache
        self.size = 0

    def charge(self, size: int) -> None:
        """Count some more."""
        self.size += size
        self._charge_cache(size)


class Entry:
    """What is known of a label path."""

    __slots__ = (
        "account",
        "active",
        "attributes",
        "bits",
        "conditional",
        "depth",
        "is_anchor",
        "keyed_by_value",
        "nesting",
        "others",
        "paths",
        "places",
        "shown",
        "signals",
        "table",
        "tested",
        "unkeyed",
    )

    def __init__(
        self,
        *,
        depth: int,
        active: Active,
        reached: Accept,
        signals: tuple[int, ...],
        nesting: dict[int, Active],
        account: Account,
    ) -> None:
        self.account = account
        self.depth = depth
        self.active = active
        self.bits, self.places = reached
        """The queries accepted here or at a label path above, in the two forms of `Accept`."""
        self.signals = signals
        """The signals accepted here or above."""
        self.nesting = nesting
        """The active states of marks' paths, by the depth of the element they began at."""
        self.paths: dict[int, frozenset[int]] = {}
        """The path marks that elements here complete for their ancestors, by depth."""
        self.conditional: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        """Depths and marks that elements here complete if they have a pattern, by its number."""
        self.is_anchor = False
        """Whether there are clauses for the elements here, beside those of conditional marks."""
        self.tested: frozenset[int] = frozenset()
        """The active states that have tests."""
        self.attributes: dict[str, ValueIndex] = {}
        """The attributes that those tests look at, and their indexes."""
        self.others: tuple[str, ...] = ()
        """What else they look at."""
        self.keyed_by_value = False
        """Whether values are to be looked up for every element here (Inline)."""
        self.unkeyed: tuple[int, ...] = ()
        """The active states with clauses that need no single mark."""
        self.table: GroupTable | None = None
        """The groups of clauses that are found by the paths that they need."""
        self.shown: dict[tuple[str, str], tuple[int, ...]] = {}
        """The marks that values show which were seen at this label path."""

    def remember(self, value: tuple[str, str], marks: tuple[int, ...]) -> None:
        """Keep the marks that a value shows."""
        self.shown[value] = marks
        self.account.charge(300 + len(value[1]) + 8 * len(marks))

    def size_in_bytes(self) -> int:
        """About what it takes in memory."""
        states = len(self.active.reached) + len(self.active.waiting) + len(self.tested)
        if self.nesting:
            states += sum(len(r) + len(w) + 10 for r, w in self.nesting.values())
            states += sum(len(each) + 8 for each in self.paths.values())
            states += sum(4 * len(each) for each in self.conditional.values())
        accepted = self.bits.bit_length() // 7 + 8 * (len(self.places) + len(self.signals))
        return _ENTRY_BYTES + _STATE_BYTES * states + accepted + self.account.size


class Determinised:
    """Entries for the label paths of one table, made on demand.

    With `max_bytes` 0 nothing is kept between messages: the NFA is stepped for each.
    """

    def __init__(
        self,
        *,
        nfa: Nfa,
        tests: Tests,
        marks: Marks,
        patterns: Patterns,
        universe: Callable[[], int],
        max_bytes: int,
    ) -> None:
        self.nfa = nfa
        self.tests = tests
        self.marks = marks
        self.patterns = patterns
        self.universe = universe
        self.max_bytes = max_bytes
        self.labels: LabelPaths | None = None
        self.young: dict[int, Entry] = {}
        self.old: dict[int, Entry] = {}
        self.young_bytes = 0
        self.old_bytes = 0

    def clear(self) -> None:
        """Forget everything: the NFA has changed."""
        if not self.young and not self.old:
            return
        self.young, self.old = {}, {}
        self.young_bytes = self.old_bytes = 0

    def use(self, labels: LabelPaths) -> dict[int, Entry]:
        """The entries at hand for a table's label paths; `find` gives those that are not."""
        if labels is not self.labels:
            self.labels = labels
            self.clear()
        return self.young

    def find(self, label: int, transient: dict[int, Entry]) -> Entry:
        """An entry that is not at hand: take it over, or make it from that of the parent.

        What doesn't fit into the cache is left in `transient`, for as long as its owner likes.
        """
        entry = self.young.get(label) or transient.get(label)
        if entry is not None:
            return entry
        entry = self.old.pop(label, None)
        if entry is None:
            entry = self._make(label, transient)
            size = entry.size_in_bytes()
        else:
            size = entry.size_in_bytes()
            self.old_bytes -= size
        if size > self.max_bytes // 8:
            transient[label] = entry
            return entry
        self.young[label] = entry
        self._charge(size)
        return entry

    def warm(self, label: int) -> None:
        """Make the entry of a label path, and let those above it learn from it."""
        assert self.labels is not None
        transient: dict[int, Entry] = {}
        entry = self.find(label, transient)
        above = self.labels.parents[label]
        while entry.paths and above > ROOT_LABEL:
            anchor = self.find(above, transient)
            if anchor.table is not None:
                anchor.table.learn(label, entry)
            above = self.labels.parents[above]

    def _make(self, label: int, transient: dict[int, Entry]) -> Entry:
        assert self.labels is not None
        if label == ROOT_LABEL:
            active = self.nfa.start()
            reached: Accept = NOTHING
            signals: tuple[int, ...] = ()
            nesting: dict[int, Active] = {}
        else:
            above = self.find(self.labels.parents[label], transient)
            active = self.nfa.step(above.active, self.labels.tags[label])
            reached, signals = Accept(above.bits, above.places), above.signals
            nesting = {}
            for depth, states in above.nesting.items():
                stepped = self.nfa.step(states, self.labels.tags[label])
                if stepped is not NOTHING_ACTIVE:
                    nesting[depth] = stepped
        decided: list[int] = []
        signalled: list[int] = []
        for state in active.reached:
            if state.accepts:
                for accepted in state.accepts:
                    (decided if accepted >= 0 else signalled).append(accepted)
        if decided:
            universe = self.universe()
            reached = union(reached, accept_of(decided, universe), universe)
        if signalled:
            signals = (*signals, *signalled)
        entry = Entry(
            depth=self.labels.depths[label],
            active=active,
            reached=reached,
            signals=signals,
            nesting=nesting,
            account=Account(self._charge),
        )
        if len(self.patterns):
            self._add_patterns(entry)
        return entry

    def _add_patterns(self, entry: Entry) -> None:
        """What patterns need to know of the elements with a label path."""
        for depth, states in entry.nesting.items():
            completed = self.marks.completed(states.reached)
            if completed is not None:
                if completed.paths:
                    entry.paths[depth] = completed.paths
                for pattern, marks in completed.conditional.items():
                    entry.conditional.setdefault(pattern, []).append((depth, marks))
        if begun := self.marks.begin(entry.active.reached):
            entry.nesting[entry.depth] = begun
        numbers = [state.number for state in entry.active.reached]
        if not self.patterns.with_groups.isdisjoint(numbers):
            entry.table = GroupTable(
                self.patterns.groups_by_path, entry.depth, entry.account.charge
            )
        entry.tested = frozenset(n for n in numbers if n in self.tests.looked_at)
        entry.unkeyed = tuple(n for n in numbers if n in self.patterns.without_key)
        if entry.tested:
            looked_at = {each for n in entry.tested for each in self.tests.looked_at[n]}
            entry.others = tuple(sorted(looked_at & NOT_ATTRIBUTES))
            by_value = self.tests.by_value
            entry.attributes = {name: by_value[name] for name in looked_at - NOT_ATTRIBUTES}
            entry.keyed_by_value = not self.patterns.keyed_by_value.isdisjoint(entry.tested)
        entry.is_anchor = bool(entry.keyed_by_value or entry.unkeyed or entry.table)

    def _charge(self, size: int) -> None:
        """Count what the young half has come to take. When it is full, it is the old one."""
        self.young_bytes += size
        if self.young_bytes > self.max_bytes // 2:
            self.old, self.old_bytes = self.young, self.young_bytes
            self.young, self.young_bytes = {}, 0

    @property
    def cached(self) -> tuple[int, int]:
        """How many entries are kept, and about how many bytes they take."""
        return len(self.young) + len(self.old), self.young_bytes + self.old_bytes

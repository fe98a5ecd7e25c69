"""Groups of clauses that need the same paths, found by the label paths below their anchor.

Which paths lead on from an element is decided by the label paths below it. So for each label path
of an anchor a table remembers, for each label path below it, which groups get which of their paths
from it, as bits over the groups that were ever seen there: the first path of each group in the
first column, the second in the second, and so on. A column's bits are united over the label paths
that a message has below the element; the groups whose bit is set in all columns have all paths.

The answer is remembered for the set of label paths, since messages repeat the shapes of their
parts. What a table remembers is charged to the cache that the table is in.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from broker.matching.match_set import from_bits, to_bits

if TYPE_CHECKING:
    from broker.matching.determinised import Entry
    from broker.matching.patterns import Clause, Pattern

_MOST_COLUMNS = 4
"""Groups that need more paths verify the further ones one by one."""

_MOST_REMEMBERED = 512
"""Answers of one table; when there are more, all are forgotten."""


class PathGroup:
    """Clauses of one anchor that need the same paths."""

    __slots__ = ("by_key", "decided", "others", "paths")

    def __init__(self, paths: Iterable[int]) -> None:
        self.paths = tuple(paths)
        """The marks of the paths, the rarest first."""
        self.decided: list[Pattern] = []
        """Patterns that need nothing else."""
        self.by_key: dict[int, list[Clause]] = {}
        """Clauses that need another mark, by that mark."""
        self.others: list[Clause] = []
        """Clauses that need other things."""


class Held:
    """What the groups decide that have all their paths."""

    __slots__ = ("consequences", "open", "outcomes")

    def __init__(self, groups: list[PathGroup]) -> None:
        decided = [pattern for group in groups for pattern in group.decided]
        self.outcomes = tuple({each for pattern in decided for each in pattern.outcomes})
        self.consequences = tuple(pattern for pattern in decided if pattern.has_consequences)
        self.open = tuple(group for group in groups if group.by_key or group.others)
        """The groups with clauses that need more than paths."""

    def size_in_bytes(self) -> int:
        """About what it takes in memory."""
        return 200 + 8 * (len(self.outcomes) + len(self.consequences) + len(self.open))


NOTHING_HELD = Held([])


class GroupTable:
    """The groups of one label path's elements, by what is below the element."""

    __slots__ = (
        "_base",
        "_charge",
        "_columns",
        "_depth",
        "_groups",
        "_ids",
        "_is_wide",
        "_known",
        "_members",
        "_memo",
        "_width",
    )

    def __init__(
        self,
        groups_by_path: Mapping[int, list[PathGroup]],
        depth: int,
        charge: Callable[[int], None],
    ) -> None:
        self._groups = groups_by_path
        self._depth = depth
        """How deep the elements of the table are."""
        self._charge = charge
        self._ids: dict[PathGroup, int] = {}
        self._members: list[PathGroup] = []
        self._width = 0
        """The most columns that a group of the table needs."""
        self._is_wide = False
        """Whether there are groups with more paths than columns."""
        self._base: list[int] = [0] * _MOST_COLUMNS
        """In each column the groups that have no path there."""
        self._known: set[int] = set()
        self._columns: dict[int, tuple[int, ...]] = {}
        """For each label path that completes a path of some group, its bits."""
        self._memo: dict[frozenset[int], Held] = {}

    def held(self, below: frozenset[int], entries: Mapping[int, "Entry"]) -> Held:
        """The groups that have all their paths, for an element with these label paths below."""
        held = self._memo.get(below)
        if held is not None:
            return held
        if not below <= self._known:
            for label in below - self._known:
                self.learn(label, entries[label])
        # Of the label paths below, those that don't tell anything make no difference.
        telling = frozenset(self._columns.keys() & below)
        held = self._memo.get(telling)
        if held is None:
            held = self._find(telling, entries) if telling else NOTHING_HELD
            self._remember(telling, held)
        if telling != below:
            self._remember(below, held)
        return held

    def _remember(self, below: frozenset[int], held: Held) -> None:
        if len(self._memo) >= _MOST_REMEMBERED:
            self._memo.clear()
        self._memo[below] = held
        self._charge(held.size_in_bytes() + 60 * len(below))

    def _find(self, telling: Iterable[int], entries: Mapping[int, "Entry"]) -> Held:
        bits = -1
        for index in range(self._width):
            column = self._base[index]
            for label in telling:
                column |= self._columns[label][index]
            bits &= column
        if not bits:
            return NOTHING_HELD
        held = [self._members[number] for number in from_bits(bits)]
        if self._is_wide:
            marks = frozenset().union(*(entries[label].paths[self._depth] for label in telling))
            held = [group for group in held if marks.issuperset(group.paths)]
        return Held(held)

    def learn(self, label: int, entry: "Entry") -> None:
        """Take in what elements with a label path complete."""
        if label in self._known:
            return
        self._known.add(label)
        columns: list[list[int]] = [[] for _ in range(_MOST_COLUMNS)]
        tells = False
        for mark in entry.paths.get(self._depth, ()):
            for group in self._groups.get(mark, ()):
                tells = True
                number = self._ids.get(group)
                if number is None:
                    number = self._add(group)
                index = group.paths.index(mark)
                if index < _MOST_COLUMNS:
                    columns[index].append(number)
        if tells:
            bits = tuple(map(to_bits, columns))
            self._columns[label] = bits
            self._charge(200 + sum(each.bit_length() // 7 for each in bits))

    def _add(self, group: PathGroup) -> int:
        number = self._ids[group] = len(self._ids)
        self._members.append(group)
        self._width = max(self._width, min(len(group.paths), _MOST_COLUMNS))
        self._is_wide = self._is_wide or len(group.paths) > _MOST_COLUMNS
        for index in range(len(group.paths), _MOST_COLUMNS):
            self._base[index] |= 1 << number
        self._charge(100)
        return number

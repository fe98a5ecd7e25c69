"""The index over the constants of `where`: who has a result, and of which elements.

An element's label path decides for which bindings it is on a `where` path, and how many levels
above it the bound element is. So the values of a message's elements and attributes are looked up,
once each, and what is found are the transformations whose `where` holds, and the elements that they
bind. It is the shared selection of BROKER 5.2, above a shared join that is arithmetic; its cost
grows with what matches.

A transformation is found by one of its keys, and has a result of the elements that all of them
found and that pass the rest of its `where`. One with a constant that very many signatures ask for
is refused: then the matcher, which shares their paths, decides.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable
from itertools import chain, compress, repeat
from math import isnan
from typing import Generic

from broker.documents.labels import LabelPaths
from broker.documents.message import Kind
from broker.plan.group_plan import GroupPlan, PlainPath, WhereKey
from broker.query.syntax import End, Literal
from broker.runtime.asked import Asked, Probe
from broker.runtime.bound_above import bound_above
from broker.runtime.constants import (
    Constants,
    Entry,
    Member,
    Orders,
    Signature,
    with_member,
    without_member,
)
from broker.runtime.groups import Groups
from broker.values import to_number

_MOST_KEPT = 1_000_000
"""So many answers on label paths are kept."""

_GET = dict.get

_MOST_KINDS = 20_000
"""What is asked of so many kinds of elements is kept."""

_FEW = 4
"""So many nodes are looked through as quickly as they are looked up."""


class WhereIndex(Generic[Member]):
    """Transformations by the constants of their `where` clauses."""

    def __init__(self) -> None:
        self._probes: dict[str, dict[End | None, Probe[Member]]] = {}
        """By the names of elements, and what is taken of them."""
        self._signatures: dict[tuple[PlainPath, PlainPath], Signature[Member]] = {}
        self._size = 0
        self._labels: LabelPaths | None = None
        """The table of the label paths that signatures know the bound ones of."""
        self._known_labels = 0
        """How many it had when it was last asked."""
        self._kept = 0
        self.asked: Asked[Member] = Asked(self._ask)

    def __len__(self) -> int:
        """The number of members."""
        return self._size

    @property
    def signatures(self) -> int:
        """The number of pairs of a binding path and a predicate path."""
        return len(self._signatures)

    # Members

    def add(self, member: Member, plan: GroupPlan, constants: tuple[Literal, ...]) -> bool:
        """Take a member; False if it can't be found by its constants."""
        binding, keys = plan.binding, plan.keys
        if not keys or not isinstance(binding, PlainPath):
            return False
        entries: list[Entry[Member]] = []
        for key, constant in zip(keys, constants, strict=True):
            entry = self._take(binding, key, constant)
            if entry is None:
                for taken in zip(keys[: len(entries)], constants, strict=False):
                    self._release(binding, *taken)
                return False
            entries.append(entry)
        first = entries[0]
        if len(entries) == 1 and plan.rest is None:
            first.untested = with_member(first.untested, member)
        else:
            first.tested = first.tested or {}
            first.tested[member] = (tuple(entries[1:]), plan)
        self._size += 1
        return True

    def remove(self, member: Member, plan: GroupPlan, constants: tuple[Literal, ...]) -> None:
        """Drop a member that was taken, and all that only it asked for."""
        binding, first = plan.binding, plan.keys[0]
        assert isinstance(binding, PlainPath)
        signature = self._signatures[binding, first.path]
        entry = signature.constants.entry(signature, first.operator, constants[0])
        assert entry is not None
        if entry.tested is None or entry.tested.pop(member, None) is None:
            entry.untested = without_member(entry.untested, member)
        for key, constant in zip(plan.keys, constants, strict=True):
            self._release(binding, key, constant)
        self._size -= 1

    def _take(self, binding: PlainPath, key: WhereKey, constant: Literal) -> Entry[Member] | None:
        """One more user of the entry of a key and a constant."""
        signature = self._signatures.get((binding, key.path))
        if signature is None:
            made = self._make_signature(binding, key.path)
            if made is None:
                return None
            signature = made
        constants = signature.constants
        was_texts_alone = constants.is_texts_alone
        entry = constants.entry(signature, key.operator, constant)
        if was_texts_alone and not constants.is_texts_alone:
            self.asked.clear()
        if entry is None:
            return None
        if not signature.users:
            self._signatures[binding, key.path] = signature
        signature.users += 1
        entry.users += 1
        return entry

    def _make_signature(self, binding: PlainPath, path: PlainPath) -> Signature[Member] | None:
        """None if elements of any name may be asked."""
        name = _name(binding, path)
        if name is None:
            return None
        asked = self._probes.setdefault(name, {})
        probe = asked.get(path.end)
        if probe is None:
            probe = asked[path.end] = Probe(path.end)
            self.asked.clear()
        return Signature(binding, path, probe.constants)

    def _release(self, binding: PlainPath, key: WhereKey, constant: Literal) -> None:
        """One user less."""
        signature = self._signatures[binding, key.path]
        constants = signature.constants
        entry = constants.entry(signature, key.operator, constant)
        assert entry is not None
        entry.users -= 1
        if not entry.users:
            constants.drop(signature, key.operator, constant)
        signature.users -= 1
        if not signature.users:
            del self._signatures[binding, key.path]
            self._kept -= len(signature.bound)
        if constants.is_empty():
            name = _name(binding, key.path)
            assert name is not None
            del self._probes[name][key.path.end]
            if not self._probes[name]:
                del self._probes[name]

    # Messages

    def match(self, groups: Groups) -> list[tuple[Collection[Member], list[int]]]:
        """Members whose `where` holds, and the elements that it holds for, rising."""
        message = groups.message
        self._use(message.labels)
        look_up = _LookUp(self, groups)
        look_up.find()
        return look_up.found()

    def _use(self, table: LabelPaths) -> None:
        """See to it that what is kept is that of a table of label paths."""
        if table is not self._labels or self._kept > _MOST_KEPT:
            self._labels = table
            self._kept = 0
            for signature in self._signatures.values():
                signature.bound.clear()
            self.asked.clear()
        # New label paths may be below those that had none.
        if len(table) != self._known_labels or len(self.asked) > _MOST_KINDS:
            self._known_labels = len(table)
            self.asked.clear()

    def _ask(self, kind: Kind) -> tuple[Iterable[Probe[Member]], bool]:
        """What to take of the elements of a kind, and whether they are known as leaves."""
        assert self._labels is not None
        probes = self._probes.get(self._labels.tags[kind.label], {})
        return probes.values(), not (kind.is_empty or self._labels.children[kind.label])

    def find_bound(self, signature: Signature[Member], label: int) -> tuple[int, ...]:
        """The label paths of those that a signature binds, above elements with a label path."""
        assert self._labels is not None
        bound = bound_above(self._labels, label, signature.binding, signature.path)
        signature.bound[label] = bound
        self._kept += 1
        return bound


class _LookUp(Generic[Member]):
    """What is found by the values of one message."""

    __slots__ = ("_found", "_groups", "_hits", "_index", "_message", "_several", "_tested")

    def __init__(self, index: WhereIndex[Member], groups: Groups) -> None:
        self._index = index
        self._groups = groups
        self._message = groups.message
        self._hits: dict[Entry[Member], list[int]] = {}
        """The elements that are bound, by what found them."""
        self._several: list[list[int]] = []
        """Those lists of them that have more than one, which may be the same."""
        self._found: list[tuple[Collection[Member], list[int]]] = []
        self._tested: list[Entry[Member]] = []
        """Those that were hit and have members which need more than that."""

    def find(self) -> None:
        """Look up what is asked of each node."""
        message, asked = self._message, self._index.asked
        kinds, values = message.kinds, message.values
        # Most look-ups find nothing, so there is no loop of Python's around them.
        entries = list(map(_GET, map(asked.__getitem__, kinds), message.leaf_texts))
        self._bind(compress(range(len(entries)), entries), filter(None, entries))
        if values:
            tables = chain.from_iterable(map(asked.attributes.__getitem__, kinds))
            entries = list(map(_GET, tables, values))
            numbers = list(compress(range(len(entries)), entries))
            if numbers:
                ends = message.value_ends
                owners = [bisect_right(ends, number) for number in numbers]
                self._bind(owners, filter(None, entries))
        if asked.more:
            for node, kind in enumerate(kinds):
                for probe in asked.more.get(kind, ()):
                    for value in probe.values(message, node):
                        self._compare_value(node, value, probe.constants)

    def _compare_value(self, node: int, value: str, constants: Constants[Member]) -> None:
        """Look up a value as it is, as a number, and among constants that it is compared with by
        order.
        """
        entry = constants.texts.get(value)
        if entry is not None:
            self._bind((node,), (entry,))
        self._compare_order(node, value, constants.text_orders)
        number = to_number(value)
        if number is not None and not isnan(number):
            entry = constants.numbers.get(number)
            if entry is not None:
                self._bind((node,), (entry,))
            self._compare_order(node, number, constants.number_orders)

    def _compare_order(self, node: int, value: str | float, orders: Orders[Member]) -> None:
        for (_, operator), ordered in orders.items():
            self._bind(repeat(node), ordered.holding(operator, value))

    def _bind(self, nodes: Iterable[int], entries: Iterable[Entry[Member]]) -> None:
        """The elements above nodes, or themselves, that the signatures of the entries bind, and of
        those for the same constants, are found for them.
        """
        hits, several, found = self._hits, self._several, self._found
        label_paths, line = self._groups.label_paths, self._groups.line
        for first, node in zip(entries, nodes, strict=False):
            label = label_paths[node]
            entry: Entry[Member] | None = first
            while entry is not None:
                try:
                    bound = entry.bound[label]
                except KeyError:
                    bound = self._index.find_bound(entry.signature, label)
                for each in bound:
                    # The last that begins before it: no other of its label path contains it.
                    if line is not None:
                        bearer = line.rfind(each, 0, node + 1)
                    else:
                        bearers = self._groups.nodes[each]
                        bearer = bearers[bisect_right(bearers, node) - 1]
                    if entry in hits:
                        known = hits[entry]
                        known.append(bearer)
                        if len(known) == 2:
                            several.append(known)
                        continue
                    hits[entry] = known = [bearer]
                    if entry.untested is not None:
                        found.append((entry.untested, known))
                    if entry.tested is not None:
                        self._tested.append(entry)
                entry = entry.next

    def found(self) -> list[tuple[Collection[Member], list[int]]]:
        """Members with the elements that all their keys found, and that pass the rest."""
        hits, found = self._hits, self._found
        for bound in self._several:
            bound[:] = sorted(set(bound))
        for entry in self._tested:
            assert entry.tested is not None
            for member, (others, plan) in entry.tested.items():
                # Most have another key, and that was not found.
                if others and others[0] not in hits:
                    continue
                passing = self._passing(hits[entry], others, plan)
                if passing:
                    found.append(((member,), passing))
        return found

    def _passing(
        self, nodes: list[int], others: tuple[Entry[Member], ...], plan: GroupPlan
    ) -> list[int]:
        """Those of some elements that other keys have found, too, and that pass the rest."""
        for other in others:
            also = self._hits.get(other)
            if also is None:
                return []
            known = also if len(also) <= _FEW else set(also)
            nodes = [node for node in nodes if node in known]
        rest = plan.rest
        return nodes if rest is None else [node for node in nodes if rest(self._groups, node)]


def _name(binding: PlainPath, path: PlainPath) -> str | None:
    """The name of the elements that a predicate path leads to; None if they may have any."""
    steps = path.steps or binding.steps
    return steps[-1].name if steps else None

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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import isnan
from types import MappingProxyType
from typing import Any, Generic

from broker.documents.labels import LabelPaths
from broker.plan.group_plan import GroupPlan, PlainPath, WhereKey
from broker.query.syntax import End, EndKind
from broker.runtime.bound_above import bound_above
from broker.runtime.constants import Constants, Entry, Member, Orders, Signature
from broker.runtime.groups import Groups
from broker.values import to_number

_MOST_KEPT = 1_000_000
"""So many answers on label paths are kept."""

_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class WhereIndex(Generic[Member]):
    """Transformations by the constants of their `where` clauses."""

    def __init__(self) -> None:
        self._probes: dict[str, dict[End | None, _Probe[Member]]] = {}
        """By the names of elements, and what is taken of them."""
        self._signatures: dict[tuple[PlainPath, PlainPath], Signature] = {}
        self._size = 0
        self._labels: LabelPaths | None = None
        """The table of the label paths that signatures know the bound ones of."""
        self._kept = 0

    def __len__(self) -> int:
        """The number of members."""
        return self._size

    @property
    def signatures(self) -> int:
        """The number of pairs of a binding path and a predicate path."""
        return len(self._signatures)

    # Members

    def add(self, member: Member, plan: GroupPlan) -> bool:
        """Take a member; False if it can't be found by its constants."""
        binding = plan.binding
        if not plan.keys or not isinstance(binding, PlainPath):
            return False
        entries: list[Entry[Member]] = []
        for key in plan.keys:
            entry = self._take(binding, key)
            if entry is None:
                for taken in plan.keys[: len(entries)]:
                    self._release(binding, taken)
                return False
            entries.append(entry)
        if len(entries) == 1 and plan.rest is None:
            entries[0].untested[member] = None
        else:
            entries[0].tested[member] = (tuple(entries[1:]), plan)
        self._size += 1
        return True

    def remove(self, member: Member, plan: GroupPlan) -> None:
        """Drop a member that was taken, and all that only it asked for."""
        binding = plan.binding
        assert isinstance(binding, PlainPath)
        entry = self._take(binding, plan.keys[0])
        assert entry is not None
        entry.users -= 1
        self._signatures[binding, plan.keys[0].path].users -= 1
        if entry.tested.pop(member, None) is None:
            del entry.untested[member]
        for key in plan.keys:
            self._release(binding, key)
        self._size -= 1

    def _take(self, binding: PlainPath, key: WhereKey) -> Entry[Member] | None:
        """One more user of a key's entry."""
        name = _name(binding, key)
        if name is None:
            return None
        asked = self._probes.setdefault(name, {})
        probe = asked.get(key.path.end)
        if probe is None:
            probe = asked[key.path.end] = _Probe(key.path.end)
        signature = self._signatures.get((binding, key.path))
        if signature is None:
            signature = Signature(binding, key.path)
        entry = probe.constants.entry(signature, key)
        if entry is not None:
            self._signatures[binding, key.path] = signature
            signature.users += 1
            entry.users += 1
        return entry

    def _release(self, binding: PlainPath, key: WhereKey) -> None:
        """One user less."""
        name = _name(binding, key)
        assert name is not None
        constants = self._probes[name][key.path.end].constants
        signature = self._signatures[binding, key.path]
        entry = constants.entry(signature, key)
        assert entry is not None
        entry.users -= 1
        if not entry.users:
            constants.drop(signature, key)
            if constants.is_empty():
                del self._probes[name][key.path.end]
                if not self._probes[name]:
                    del self._probes[name]
        signature.users -= 1
        if not signature.users:
            del self._signatures[binding, key.path]
            self._kept -= len(signature.bound)

    # Messages

    def match(self, groups: Groups) -> Iterator[tuple[Collection[Member], list[int]]]:
        """Members whose `where` holds, and the elements that it holds for, rising."""
        table = groups.message.labels
        if table is not self._labels or self._kept > _MOST_KEPT:
            self._labels = table
            self._kept = 0
            for signature in self._signatures.values():
                signature.bound.clear()
        probes, tags = self._probes, table.tags
        by_name: dict[str, list[int]] = {}
        for label in groups.nodes:
            name = tags[label]
            if name in by_name:
                by_name[name].append(label)
            elif name in probes:
                by_name[name] = [label]
        look_up = _LookUp(self, groups)
        for name, labels in by_name.items():
            look_up.elements_named(labels, probes[name].values())
        return look_up.found()

    def find_bound(self, signature: Signature, label: int) -> tuple[int, ...]:
        """The label paths of those that a signature binds, above elements with a label path."""
        assert self._labels is not None
        bound = bound_above(self._labels, label, signature.binding, signature.path)
        signature.bound[label] = bound
        self._kept += 1
        return bound


class _Probe(Generic[Member]):
    """What to take of the elements of a name, and what to compare it with."""

    __slots__ = ("attribute", "constants", "is_text")

    def __init__(self, end: End | None) -> None:
        self.constants: Constants[Member] = Constants()
        self.is_text = end is not None and end.kind is EndKind.TEXT
        self.attribute = end.name.clark() if end is not None and end.name is not None else None


class _LookUp(Generic[Member]):
    """What is found by the values of one message."""

    __slots__ = ("_elements", "_groups", "_hits", "_index", "_message")

    def __init__(self, index: WhereIndex[Member], groups: Groups) -> None:
        self._index = index
        self._groups = groups
        self._message = groups.message
        self._elements = groups.message.elements
        self._hits: dict[Entry[Member], list[int]] = {}

    def elements_named(self, labels: list[int], probes: Iterable[_Probe[Member]]) -> None:
        """Look up what the elements of a name have, which are those with some label paths."""
        by_label = self._groups.nodes
        if len(labels) == 1:
            nodes = by_label[labels[0]]
        else:
            nodes = [node for label in labels for node in by_label[label]]
        elements = self._elements
        for probe in probes:
            values: Sequence[str | None]
            if probe.attribute is not None:
                name = probe.attribute
                values = [elements[node].get(name) for node in nodes]
                self._compare(nodes, values, probe.constants)
            elif probe.is_text:
                texts_of = self._message.text_values
                texts = [(node, text) for node in nodes for text in texts_of(node)]
                found, values = [node for node, _ in texts], [text for _, text in texts]
                self._compare(found, values, probe.constants)
            else:
                self._compare(nodes, self._values(labels, nodes), probe.constants)

    def _values(self, labels: list[int], nodes: list[int]) -> list[str]:
        """The string values of elements: their texts, if they have only that."""
        elements, children = self._elements, self._message.labels.children
        if not self._message.has_comments and not any(children[label] for label in labels):
            return [elements[node].text or "" for node in nodes]
        string_value = self._message.string_value
        return [string_value(node) for node in nodes]

    def _compare(
        self, nodes: list[int], values: Sequence[str | None], constants: Constants[Member]
    ) -> None:
        # The innermost loop of all: what it does for a hit is not in a function of its own.
        hits, by_label, label_of = self._hits, self._groups.nodes, self._groups.label_paths
        for node, bucket in zip(nodes, map(constants.texts.get, values), strict=True):  # type: ignore[arg-type]
            if bucket is None:
                continue
            label = label_of[node]
            for signature, entry in bucket.items():
                bound = signature.bound.get(label)
                if bound is None:
                    bound = self._index.find_bound(signature, label)
                if bound:
                    found = hits.get(entry)
                    if found is None:
                        found = hits[entry] = []
                    for each in bound:
                        # The last that begins before it: no other of its label path contains it.
                        above = by_label[each]
                        found.append(
                            above[0] if len(above) == 1 else above[bisect_right(above, node) - 1]
                        )
        if constants.numbers or constants.text_orders or constants.number_orders:
            for node, value in zip(nodes, values, strict=True):
                if value is not None:
                    self._compare_value(node, value, constants)

    def _compare_value(self, node: int, value: str, constants: Constants[Member]) -> None:
        """Look up a value as a number, and among constants that it is compared with by order."""
        self._compare_order(node, value, constants.text_orders)
        number = to_number(value)
        if number is not None and not isnan(number):
            for signature, entry in constants.numbers.get(number, _NOTHING).items():
                self._bind(node, signature, (entry,))
            self._compare_order(node, number, constants.number_orders)

    def _compare_order(self, node: int, value: str | float, orders: Orders[Member]) -> None:
        for (signature, operator), ordered in orders.items():
            holding = ordered.holding(operator, value)
            if holding:
                self._bind(node, signature, holding)

    def _bind(self, node: int, signature: Signature, entries: Iterable[Entry[Member]]) -> None:
        """The elements above one, or itself, that a signature binds, are found for some entries."""
        label = self._groups.label_paths[node]
        bound = signature.bound.get(label)
        if bound is None:
            bound = self._index.find_bound(signature, label)
        for each in bound:
            above = self._groups.nodes[each]
            place = above[bisect_right(above, node) - 1]
            for entry in entries:
                self._hits.setdefault(entry, []).append(place)

    def found(self) -> Iterator[tuple[Collection[Member], list[int]]]:
        """Members with the elements that all their keys found, and that pass the rest."""
        hits, groups = self._hits, self._groups
        for found in hits.values():
            if len(found) > 1:
                found[:] = sorted(set(found))
        for entry, nodes in hits.items():
            if entry.untested:
                yield entry.untested, nodes
            for member, (others, plan) in entry.tested.items():
                passing = nodes
                for other in others:
                    also = hits.get(other)
                    if also is None:
                        break
                    passing = [node for node in passing if node in also]
                else:
                    rest = plan.rest
                    if rest is not None:
                        passing = [node for node in passing if rest(groups, node)]
                    if passing:
                        yield (member,), passing


def _name(binding: PlainPath, key: WhereKey) -> str | None:
    """The name of the elements that a key looks at; None if they may have any."""
    steps = key.path.steps or binding.steps
    return steps[-1].name if steps else None

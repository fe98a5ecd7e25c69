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
from collections.abc import Collection, Iterator, Sequence, Sized
from math import isnan
from typing import Generic

from broker.documents.labels import LabelPaths
from broker.plan.group_plan import GroupPlan, PlainPath, WhereKey
from broker.query.syntax import End, EndKind
from broker.runtime.bound_above import bound_above
from broker.runtime.constants import Bucket, Constants, Entry, Member, Orders, Signature
from broker.runtime.groups import Groups
from broker.values import to_number

_Names = tuple[str | None, str]
"""The name of the parent, if it has to have one, and of the element; the document's is empty."""

_MOST_KEPT = 1_000_000
"""So many answers on label paths are kept."""


class WhereIndex(Generic[Member]):
    """Transformations by the constants of their `where` clauses."""

    def __init__(self) -> None:
        self._constants: dict[_Names, dict[End | None, Constants[Member]]] = {}
        """By the names of elements, and what is taken of them."""
        self._signatures: dict[tuple[PlainPath, PlainPath], Signature] = {}
        self._size = 0
        self._labels: LabelPaths | None = None
        """The table of the label paths that the rest is known of."""
        self._probes: dict[int, list[_Probe[Member]]] = {}
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
        names = _names(binding, key)
        if names is None:
            return None
        asked = self._constants.setdefault(names, {})
        constants = asked.get(key.path.end)
        if constants is None:
            constants = asked[key.path.end] = Constants()
            self._probes = {}
        signature = self._signatures.get((binding, key.path))
        if signature is None:
            signature = Signature(binding, key.path)
        entry = constants.entry(signature, key)
        if entry is not None:
            self._signatures[binding, key.path] = signature
            signature.users += 1
            entry.users += 1
        return entry

    def _release(self, binding: PlainPath, key: WhereKey) -> None:
        """One user less."""
        names = _names(binding, key)
        assert names is not None
        constants = self._constants[names][key.path.end]
        signature = self._signatures[binding, key.path]
        entry = constants.entry(signature, key)
        assert entry is not None
        entry.users -= 1
        if not entry.users:
            constants.drop(signature, key)
            if constants.is_empty():
                del self._constants[names][key.path.end]
                self._probes = {}
                if not self._constants[names]:
                    del self._constants[names]
        signature.users -= 1
        if not signature.users:
            del self._signatures[binding, key.path]
            self._kept -= len(signature.bound)

    # Messages

    def match(self, groups: Groups) -> Iterator[tuple[Collection[Member], list[int]]]:
        """Members whose `where` holds, and the elements that it holds for, rising."""
        labels = groups.message.labels
        if labels is not self._labels or self._kept > _MOST_KEPT:
            self._labels = labels
            self._kept = 0
            self._probes = {}
            for signature in self._signatures.values():
                signature.bound.clear()
        look_up = _LookUp(self, groups)
        probes = self._probes
        for label, nodes in groups.nodes.items():
            known = probes.get(label)
            if known is None:
                known = self._find_probes(labels, label)
            for probe in known:
                look_up.values(label, nodes, probe)
        yield from look_up.found()

    def _find_probes(self, labels: LabelPaths, label: int) -> list["_Probe[Member]"]:
        """What is asked of the elements with a label path."""
        tag = labels.tags[label]
        asked: dict[End | None, list[Constants[Member]]] = {}
        for names in ((labels.tags[labels.parents[label]], tag), (None, tag)):
            for end, constants in self._constants.get(names, {}).items():
                asked.setdefault(end, []).append(constants)
        children = labels.children[label]
        found = [_Probe(end, constants, children) for end, constants in asked.items()]
        self._probes[label] = found
        self._kept += 1
        return found

    def find_bound(self, signature: Signature, label: int) -> tuple[int, ...]:
        """The label paths of those that a signature binds, above elements with a label path."""
        assert self._labels is not None
        bound = bound_above(self._labels, label, signature.binding, signature.path)
        signature.bound[label] = bound
        self._kept += 1
        return bound


class _Probe(Generic[Member]):
    """What to take of the elements with a label path, and what to compare it with."""

    __slots__ = ("attribute", "children", "constants", "is_text")

    def __init__(
        self, end: End | None, constants: list[Constants[Member]], children: Sized
    ) -> None:
        self.constants = constants
        self.children = children
        """The label paths below; none if they are leaves in all messages so far."""
        self.is_text = end is not None and end.kind is EndKind.TEXT
        self.attribute = end.name.clark() if end is not None and end.name is not None else None


class _LookUp(Generic[Member]):
    """What is found by the values of one message."""

    __slots__ = ("_elements", "_groups", "_has_comments", "_hits", "_index", "_nodes")

    def __init__(self, index: WhereIndex[Member], groups: Groups) -> None:
        self._index = index
        self._groups = groups
        self._nodes = groups.nodes
        self._elements = groups.message.elements
        self._has_comments = groups.message.has_comments
        self._hits: dict[Entry[Member], list[int]] = {}

    def values(self, label: int, nodes: list[int], probe: _Probe[Member]) -> None:
        """Look up what the elements with a label path have."""
        elements = self._elements
        values: Sequence[str | None]
        if probe.attribute is not None:
            name = probe.attribute
            values = [elements[node].get(name) for node in nodes]
        elif probe.is_text:
            texts_of = self._groups.message.text_values
            texts = [(node, text) for node in nodes for text in texts_of(node)]
            nodes, values = [node for node, _ in texts], [text for _, text in texts]
        elif not (probe.children or self._has_comments):
            values = [elements[node].text or "" for node in nodes]
        else:
            string_value = self._groups.message.string_value
            values = [string_value(node) for node in nodes]
        for constants in probe.constants:
            texts_get = constants.texts.get
            for node, value in zip(nodes, values, strict=True):
                bucket = texts_get(value)  # type: ignore[arg-type]
                if bucket is not None:
                    self._hit(label, node, bucket)
            if constants.numbers or constants.text_orders or constants.number_orders:
                for node, value in zip(nodes, values, strict=True):
                    if value is not None:
                        self._compare_value(label, node, value, constants)

    def _compare_value(
        self, label: int, node: int, value: str, constants: Constants[Member]
    ) -> None:
        self._compare(label, node, value, constants.text_orders)
        number = to_number(value)
        if number is not None and not isnan(number):
            bucket = constants.numbers.get(number)
            if bucket is not None:
                self._hit(label, node, bucket)
            self._compare(label, node, number, constants.number_orders)

    def _hit(self, label: int, node: int, bucket: Bucket[Member]) -> None:
        for signature, entry in bucket.items():
            bound = signature.bound.get(label)
            if bound is None:
                bound = self._index.find_bound(signature, label)
            if bound:
                self._bind(node, bound, entry)

    def _compare(self, label: int, node: int, value: str | float, orders: Orders[Member]) -> None:
        for (signature, operator), ordered in orders.items():
            bound = signature.bound.get(label)
            if bound is None:
                bound = self._index.find_bound(signature, label)
            if bound:
                for entry in ordered.holding(operator, value):
                    self._bind(node, bound, entry)

    def _bind(self, node: int, bound: tuple[int, ...], entry: Entry[Member]) -> None:
        """The elements with some label paths above one, or itself, are bound."""
        hits, nodes = self._hits, self._nodes
        found = hits.get(entry)
        if found is None:
            found = hits[entry] = []
        for label in bound:
            # The last that begins before it: no other with this label path can contain it.
            above = nodes[label]
            found.append(above[0] if len(above) == 1 else above[bisect_right(above, node) - 1])

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


def _names(binding: PlainPath, key: WhereKey) -> _Names | None:
    """The names of the elements that a key looks at; None if they may have any."""
    *above, last = (*binding.steps, *key.path.steps)
    if last.name is None:
        return None
    if last.is_descendant:
        return None, last.name
    return (above[-1].name if above else ""), last.name

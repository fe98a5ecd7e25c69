"""Groups by arithmetic: the nodes that a path reaches below a bound element, as slices.

For one message: the ids of the elements with each label path, in document order. A path reaches,
from an element with a certain label path, certain label paths below it; the elements it reaches are
the ids of those up to the next element with its own label path. Found when they are asked for, and
kept for all plans that ask for the same.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import chain

from broker import reference
from broker.documents import DOCUMENT, Message
from broker.documents.labels import ROOT_LABEL
from broker.documents.made_once import made_once
from broker.limits import ResultLimits
from broker.list_budget import ListBudget
from broker.plan.group_plan import GroupPlan, Key, Lists, PlainPath, PlanStep
from broker.query.syntax import EndKind, Literal, Path
from broker.results import AttributeNode, Group, GroupList, Node, refuse_bindings
from broker.runtime.reached import LARGEST_TABLE, reached_labels

_NO_NODES: list[int] = []

_FEW_LABELS = 32
"""So many label paths of one name are looked at one by one."""

_BYTES = 256
_LONGEST_LINE = 10_000
"""In messages with more nodes, to look for one after another would go through too many."""


class Groups:
    """What group plans ask of one message."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.label_paths = message.label_paths
        self._table = message.labels
        self._table_size = len(message.labels)
        self._reached: dict[tuple[PlainPath, int], frozenset[int]] = {}
        self._elements: dict[PlainPath, dict[int, list[int]]] = {}
        self._items: dict[tuple[PlainPath, int], list[Node]] = {}
        self._values: dict[tuple[PlainPath, int], list[str | float]] = {}
        self._groups: dict[Lists, dict[int, Group]] = {}
        self._copied: dict[PlainPath, dict[int, bytes]] = {}
        self._walked: dict[Path, list[int]] = {}

    @made_once
    def line(self) -> bytes | None:
        """The label path of each node as a byte, if they are as few as that: what is looked for in
        it is found sooner than all nodes are sorted by their label paths.
        """
        if len(self.label_paths) > _LONGEST_LINE:
            return None
        try:
            return bytes(self.label_paths)
        except ValueError:
            return None

    @made_once
    def nodes(self) -> defaultdict[int, list[int]]:
        """The elements with each label path, rising."""
        nodes: defaultdict[int, list[int]] = defaultdict(list)
        for node, label in enumerate(self.label_paths):
            nodes[label].append(node)
        return nodes

    @made_once
    def _by_name(self) -> dict[str, list[int]]:
        """The label paths of the message, by their last name."""
        by_name: dict[str, list[int]] = {}
        for label in self.nodes:
            by_name.setdefault(self.message.labels.tags[label], []).append(label)
        return by_name

    @made_once
    def _children(self) -> dict[int, list[int]]:
        """The label paths of the message, by the one above."""
        children: dict[int, list[int]] = {}
        for label in self.nodes:
            children.setdefault(self.message.labels.parents[label], []).append(label)
        return children

    def make(self, plan: GroupPlan, bound: list[int], limits: ResultLimits) -> list[Group]:
        """The groups of a plan, of the elements that pass `where`."""
        made = self._groups.get(plan.lists)
        if made is None:
            made = self._groups[plan.lists] = {}
        groups: list[Group] = []
        budget = ListBudget(limits, self.message)
        for node in self.ordered(plan, bound, limits):
            group = made.get(node)
            if group is None:
                group = made[node] = self._make(plan.lists, node, budget)
            else:
                budget.take_all(group)
            groups.append(group)
        return groups

    def _make(self, lists: Lists, node: int, budget: ListBudget) -> Group:
        group: list[GroupList] = []
        for make in lists.make:
            group.append(make(self, node))
            budget.take(group[-1])
        return tuple(group)

    def ordered(self, plan: GroupPlan, bound: list[int], limits: ResultLimits) -> list[int]:
        """The bound elements of a plan in the order that it has them in."""
        refuse_bindings(len(bound), limits)
        if not plan.order_by:
            return bound
        budget = ListBudget(limits, self.message)
        for make_key, is_descending in reversed(plan.order_by):
            keys: dict[int, Key] = {}
            for node in bound:
                keys[node] = make_key(self, node)
                budget.take_key(keys[node][1])
            bound = sorted(bound, key=keys.__getitem__, reverse=is_descending)
        return bound

    def bound(
        self, plan: GroupPlan, constants: tuple[Literal, ...], limits: ResultLimits
    ) -> list[int]:
        """The elements that pass `where`, rising."""
        known = self.bindings(plan.binding)
        refuse_bindings(len(known), limits)
        for key, constant in zip(plan.keys, constants, strict=True):
            known = [node for node in known if key.holds(self, node, constant)]
        rest = plan.rest
        return known if rest is None else [node for node in known if rest(self, node)]

    def bindings(self, binding: PlainPath | Path) -> list[int]:
        """The elements that a binding path selects, in document order."""
        if isinstance(binding, PlainPath):
            return self.elements(binding, DOCUMENT)
        known = self._walked.get(binding)
        if known is None:
            selected = reference.select(binding, self.message)
            known = self._walked[binding] = [node for node in selected if isinstance(node, int)]
        return known

    def elements(self, path: PlainPath, node: int) -> list[int]:
        """The elements that a path reaches from one, in document order."""
        if not path.steps:
            return [node]
        known = self._elements.get(path)
        if known is None:
            known = self._elements[path] = {}
        found = known.get(node)
        if found is None:
            found = known[node] = self._reach(path, node)
        return found

    def copied(self, path: PlainPath, node: int, most: int) -> bytes:
        """The XML of the elements that a path reaches from one; not all of it if it has more than
        so many bytes. All who ask for it share it.
        """
        known = self._copied.get(path)
        if known is None:
            known = self._copied[path] = {}
        copied = known.get(node)
        if copied is None:
            nodes = self._reach(path, node) if path.steps else [node]
            copied = b"".join(self.message.copies(nodes, most)) if nodes else b""
            known[node] = copied
        return copied

    def attribute_values(self, path: PlainPath, node: int) -> list[str]:
        """The values of the attributes that a path takes, from an element."""
        name, value_of = path.attribute, self.message.attribute_value
        assert name is not None
        if not path.steps:
            value = value_of(node, name)
            return [] if value is None else [value]
        values = [value_of(each, name) for each in self.elements(path, node)]
        return [value for value in values if value is not None]

    def _reach(self, path: PlainPath, node: int) -> list[int]:
        """The elements that a path with steps reaches from one.

        They have certain label paths, which are all below that of the element. And of the elements
        with its own label path, it is the one above those that come between it and the next: no
        intervals are needed.
        """
        label, size = self.label_paths[node], self._table_size
        if size <= LARGEST_TABLE:
            labels = reached_labels(path, self._table, size, label)
        else:
            labels = self._labels(path, label)
        if size > _BYTES or len(labels) > _FEW_LABELS or self.line is None:
            return self._slices(labels, node, label)
        line, first = self.line, node + 1
        following = line.find(label, first)
        end = len(line) if following < 0 else following
        found: list[int] = []
        for each in labels:
            place = line.find(each, first, end)
            while place >= 0:
                found.append(place)
                place = line.find(each, place + 1, end)
        if len(labels) > 1:
            found.sort()
        return found

    def _slices(self, labels: frozenset[int], node: int, label: int) -> list[int]:
        """The elements of some label paths below one, whose own is given."""
        by_label = self.nodes
        if len(labels) > _FEW_LABELS:
            labels = labels & by_label.keys()
        own = by_label[label]
        following = None if own[-1] == node else own[bisect_right(own, node)]
        slices = []
        for each in labels:
            nodes = by_label.get(each)
            if nodes is None:
                continue
            first = 0 if nodes[0] > node else bisect_right(nodes, node)
            if following is None or nodes[-1] < following:
                part = nodes[first:] if first else nodes
            else:
                part = nodes[first : bisect_left(nodes, following, first)]
            if part:
                slices.append(part)
        if len(slices) == 1:
            return slices[0]
        return sorted(chain.from_iterable(slices)) if slices else _NO_NODES

    def _labels(self, path: PlainPath, label: int) -> frozenset[int]:
        """The label paths of the message that a path reaches from one of them."""
        key = (path, label)
        found = self._reached.get(key)
        if found is None:
            reached = {label}
            for step in path.steps:
                reached = self._step(step, reached)
                if not reached:
                    break
            found = self._reached[key] = frozenset(reached)
        return found

    def _step(self, step: PlanStep, labels: set[int]) -> set[int]:
        table = self._table
        named = self._by_name.get(step.name, ()) if step.name is not None else None
        if named is not None and len(named) <= _FEW_LABELS:
            if step.is_descendant:
                return {label for label in named if self._is_below(label, labels)}
            return {label for label in named if table.parents[label] in labels}
        # Down from the labels, not through all of the message's: there may be very many.
        found = {child for label in labels for child in self._children.get(label, ())}
        if step.is_descendant:
            waiting = list(found)
            while waiting:
                children = self._children.get(waiting.pop(), ())
                waiting += [child for child in children if child not in found]
                found.update(children)
        accepts, name = step.test.accepts, table.name
        return {label for label in found if accepts(name(label))}

    def _is_below(self, label: int, labels: set[int]) -> bool:
        parents = self.message.labels.parents
        label = parents[label]
        while label >= ROOT_LABEL:
            if label in labels:
                return True
            label = parents[label]
        return False

    def items(self, path: PlainPath, node: int) -> list[Node] | list[int]:
        """What a path takes, from an element: elements, attributes, text nodes or positions."""
        end = path.end
        if end is None:
            return self.elements(path, node)
        key = (path, node)
        found = self._items.get(key)
        if found is not None:
            return found
        message = self.message
        found = []
        for element in self.elements(path, node):
            if end.kind is EndKind.TEXT:
                found += message.texts(element)
            elif end.kind is EndKind.POSITION:
                found.append(message.position(element))
            elif end.name is not None:
                value = message.attribute(element, end.name)
                if value is not None:
                    found.append(AttributeNode(element, end.name, value))
        if end.kind is EndKind.TEXT and len(found) > 1:
            found.sort(key=self._text_order)
        self._items[key] = found
        return found

    def _text_order(self, node: Node) -> tuple[int, int, int]:
        assert not isinstance(node, int | AttributeNode)
        return (node.before, -self.message.depth(node.owner), node.number)

    def values(self, path: PlainPath, node: int) -> list[str | float]:
        """The values that a path's nodes compare by."""
        key = (path, node)
        found = self._values.get(key)
        if found is None:
            found = [self._value(path, item) for item in self.items(path, node)]
            self._values[key] = found
        return found

    def _value(self, path: PlainPath, item: Node) -> str | float:
        if not isinstance(item, int):
            return item.value
        if path.end is not None:
            return float(item)
        return self.message.string_value(item)

    def first_string(self, path: PlainPath, node: int) -> str:
        """The string value of a path's first node, or nothing."""
        items = self.items(path, node)
        if not items:
            return ""
        first = items[0]
        return self.message.string_value(first) if isinstance(first, int) else first.value

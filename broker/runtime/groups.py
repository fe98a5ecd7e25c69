"""Groups by arithmetic: the nodes that a path reaches below a bound element, as slices.

For one message: the ids of the elements with each label path, in document order. A path reaches,
from an element with a certain label path, certain label paths below it; the elements it reaches are
the ids of those up to the next element with its own label path. Found when they are asked for, and
kept for all plans that ask for the same.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from functools import cached_property

from broker import reference
from broker.documents import DOCUMENT, Message
from broker.documents.labels import ROOT_LABEL
from broker.errors import ResultError
from broker.limits import ResultLimits
from broker.plan.group_plan import GroupPlan, Lists, PlainPath, PlanStep
from broker.query.syntax import EndKind, Path
from broker.results import AttributeNode, Group, Node, Result, too_many_items
from broker.runtime.reached import LARGEST_TABLE, reached_labels

_NO_NODES: list[int] = []

_FEW_LABELS = 32
"""So many label paths of one name are looked at one by one."""


class Groups:
    """What group plans ask of one message."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.label_paths = message.label_paths
        self.nodes: defaultdict[int, list[int]] = defaultdict(list)
        """The elements with each label path, rising."""
        nodes = self.nodes
        for node, label in enumerate(self.label_paths):
            nodes[label].append(node)
        self._is_small_table = len(message.labels) <= LARGEST_TABLE
        self._reached: dict[tuple[PlainPath, int], list[int]] = {}
        self._elements: dict[tuple[PlainPath, int], list[int]] = {}
        self._items: dict[tuple[PlainPath, int], list[Node]] = {}
        self._values: dict[tuple[PlainPath, int], list[str | float]] = {}
        self._groups: dict[Lists, dict[int, Group]] = {}
        self._walked: dict[Path, list[int]] = {}

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        """The label paths of the message, by their last name."""
        by_name: dict[str, list[int]] = {}
        for label in self.nodes:
            by_name.setdefault(self.message.labels.tags[label], []).append(label)
        return by_name

    @cached_property
    def _children(self) -> dict[int, list[int]]:
        """The label paths of the message, by the one above."""
        children: dict[int, list[int]] = {}
        for label in self.nodes:
            children.setdefault(self.message.labels.parents[label], []).append(label)
        return children

    def run(self, plan: GroupPlan, limits: ResultLimits) -> Result:
        """The groups of a plan."""
        return self.make(plan, self._bound(plan, limits), limits)

    def make(self, plan: GroupPlan, bound: list[int], limits: ResultLimits) -> Result:
        """The groups of a plan whose bound elements are known."""
        _refuse_bindings(len(bound), limits)
        if plan.order_by:
            bound = self._ordered(bound, plan)
        made = self._groups.get(plan.lists)
        if made is None:
            made = self._groups[plan.lists] = {}
        groups: list[Group] = []
        items = 0
        for node in bound:
            group = made.get(node)
            if group is None:
                group = made[node] = tuple([make(self, node) for make in plan.lists.make])
            for each in group:
                items += len(each)
            if items > limits.max_items:
                raise too_many_items(limits.max_items)
            groups.append(group)
        return Result(plan.query, groups)

    def _bound(self, plan: GroupPlan, limits: ResultLimits) -> list[int]:
        """The elements that a plan's groups are of."""
        known = self.bindings(plan.binding)
        _refuse_bindings(len(known), limits)
        for key in plan.keys:
            known = [node for node in known if key.holds(self, node)]
        rest = plan.rest
        return known if rest is None else [node for node in known if rest(self, node)]

    def _ordered(self, bound: list[int], plan: GroupPlan) -> list[int]:
        for make_key, is_descending in reversed(plan.order_by):
            keys = {node: make_key(self, node) for node in bound}
            bound = sorted(bound, key=keys.__getitem__, reverse=is_descending)
        return bound

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
        key = (path, node)
        found = self._elements.get(key)
        if found is None:
            label = self.label_paths[node]
            if self._is_small_table:
                labels = reached_labels(path, self.message.labels, label)
            else:
                labels = self._labels(path, label)
            found = self._elements[key] = self._below(node, label, labels)
        return found

    def _below(self, node: int, label: int, labels: list[int]) -> list[int]:
        """The elements below one with some label paths, which are all below its own.

        Of the elements with its label path, it is the one above those that come between it and the
        next: no intervals are needed.
        """
        by_label = self.nodes
        own = by_label[label]
        place = bisect_right(own, node)
        following = own[place] if place < len(own) else None
        slices = []
        for each in labels:
            nodes = by_label.get(each)
            if nodes is None:
                continue
            first = bisect_right(nodes, node)
            end = len(nodes) if following is None else bisect_left(nodes, following, first)
            if first < end:
                slices.append(nodes[first:end])
        if not slices:
            return _NO_NODES
        if len(slices) == 1:
            return slices[0]
        return sorted(each for nodes in slices for each in nodes)

    def _labels(self, path: PlainPath, label: int) -> list[int]:
        """The label paths of the message that a path reaches from one of them."""
        key = (path, label)
        found = self._reached.get(key)
        if found is None:
            reached = {label}
            for step in path.steps:
                reached = self._step(step, reached)
                if not reached:
                    break
            found = self._reached[key] = list(reached)
        return found

    def _step(self, step: PlanStep, labels: set[int]) -> set[int]:
        table = self.message.labels
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


def _refuse_bindings(count: int, limits: ResultLimits) -> None:
    if count > limits.max_bindings:
        raise ResultError(
            "budget-exceeded",
            f"{count} bindings of the for variable, more than {limits.max_bindings}",
        )

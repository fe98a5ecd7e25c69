"""The reference engine: a tree walk over syntax tree and node table, one query at a time.

It is as simple as the semantics allow and shares nothing, so that it can be read beside
`language.md` and serve as an oracle for the engines that do share. It is also the tree search of
PathSharing-F (BROKER 3.1).

Every step makes a set of nodes from a set of nodes, so nothing is enumerated twice: a path without
predicates costs at most steps x nodes, whatever its `//` and `*`. A predicate is tried once on each
node, however many ways lead there: tried on each of them, a few predicates in each other would take
hours on sixty elements in each other. Paths from the root are walked once for a message, and those
that begin with `..` once for all children of an element. What is left that multiplies has a budget.
"""

from collections.abc import Iterable
from math import isnan

from broker.documents.message import DOCUMENT, Message
from broker.limits import ResultLimits
from broker.list_budget import ListBudget
from broker.query.syntax import (
    PARENT,
    ROOT,
    And,
    Axis,
    Comparison,
    Condition,
    Count,
    End,
    EndKind,
    Exists,
    Filter,
    Flwr,
    LastTest,
    NameTest,
    Not,
    Operand,
    Or,
    OrderKey,
    Path,
    PositionTest,
    Predicate,
    Step,
    StringFunction,
    StringLength,
    StringOf,
    StringTest,
    Variable,
)
from broker.results import (
    AttributeNode,
    Group,
    GroupList,
    Node,
    Result,
    refuse_bindings,
    too_much_to_look_at,
)
from broker.values import compare, to_number

_DEFAULT_LIMITS = ResultLimits()

_PASSES, _FAILS = 1, 2
_UP = Step(Axis.CHILD, PARENT, ())

_MOST_VISITED = 500_000
_MOST_FOR_EACH_NODE = 16
"""So many nodes, and for each node of the message so many more, may be looked at for one query.
With parents of all that is below nested elements that took 0.2 s, and eight times as long as to
read the message."""


def matches(query: Filter, message: Message) -> bool:
    """Whether a filter takes a message, or a `ResultError`."""
    return Evaluation(message).holds(query.condition, DOCUMENT)


def select(path: Path, message: Message) -> list[Node]:
    """The nodes that a path from the root selects, in document order, or a `ResultError`."""
    return Evaluation(message).select(path, DOCUMENT)


def transform(query: Flwr, message: Message, limits: ResultLimits = _DEFAULT_LIMITS) -> Result:
    """The groups that a query makes of a message; none if nothing is bound."""
    evaluation = Evaluation(message)
    bindings = evaluation.select(query.binding, DOCUMENT)
    refuse_bindings(len(bindings), limits)
    budget = ListBudget(limits, message)
    groups: list[Group] = []
    keys: list[list[Key]] = []
    for binding in bindings:
        evaluation.bind(query, binding)
        if query.where is None or evaluation.holds(query.where, binding):
            group: list[GroupList] = []
            for each in query.embedded():
                group.append(evaluation.make_list(each.value))
                budget.take(group[-1])
            groups.append(tuple(group))
            keys.append(evaluation.order_keys(query, budget))
    order = list(range(len(groups)))
    for index, key in reversed(list(enumerate(query.order_by))):
        order.sort(key=[each[index] for each in keys].__getitem__, reverse=key.descending)
    return Result(query, [groups[index] for index in order])


Key = tuple[int, str | float]
"""An `order by` key: its class (missing, no number, value), and the value."""


class Evaluation:
    """Evaluates paths and conditions on one message, for one binding at a time."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.variables: list[list[Node]] = []
        self.from_root: dict[Path, list[Node]] = {}
        self._visits_left = _MOST_VISITED + _MOST_FOR_EACH_NODE * message.last
        self._from_parent: dict[tuple[int, int], list[Node]] = {}
        """What paths that begin with `..` select, by their identity and the parent."""
        self._passed: dict[int, bytearray] = {}
        """Which elements are known to pass a predicate, by its identity: those of a query stay as
        long as they are asked for. No predicate speaks of a variable."""

    def bind(self, query: Flwr, binding: Node) -> None:
        """Bind the `for` variable to a node, and the `let` variables to what follows from it."""
        self.variables = [[binding]]
        for let in query.lets:
            self.variables.append(self.select(let.path, binding))

    def visit(self, nodes: int) -> None:
        """Count nodes that are looked at; too many are a `ResultError`."""
        self._visits_left -= nodes
        if self._visits_left < 0:
            raise too_much_to_look_at()

    # Paths

    def select(self, path: Path, context: Node) -> list[Node]:
        """The nodes that a path selects, in document order, none twice."""
        if path.start is ROOT:
            known = self.from_root.get(path)
            if known is None:
                known = self.from_root[path] = self.walk(path, DOCUMENT)
            return known
        return self.walk(path, context)

    def walk(self, path: Path, context: Node) -> list[Node]:
        """The same, for a path that starts at the context node or a variable."""
        parent = self.first_parent(path, context)
        if parent is None:
            return self.follow(path, context)
        known = self._from_parent.get((id(path), parent))
        if known is None:
            known = self._from_parent[id(path), parent] = self.follow(path, context)
        return known

    def first_parent(self, path: Path, context: Node) -> int | None:
        """The parent that a path begins with, if it begins with `..` of one node."""
        if not path.steps or path.steps[0] != _UP:
            return None
        if isinstance(path.start, Variable):
            nodes = self.variables[path.start.index]
            return self.parent(nodes[0]) if len(nodes) == 1 else None
        return self.parent(context)

    def follow(self, path: Path, context: Node) -> list[Node]:
        """The nodes that a path leads to, step by step."""
        nodes = self.elements_of(path, context)
        return self.take_end(path.end, nodes) if path.end is not None else nodes

    def elements_of(self, path: Path, context: Node) -> list[Node]:
        """The nodes that a path's steps reach, before what it takes at its end."""
        if isinstance(path.start, Variable):
            nodes = self.variables[path.start.index]
        else:
            nodes = [DOCUMENT] if path.start is ROOT else [context]
        for step in path.steps:
            reached: set[Node] = set()
            for origin in self.origins(step.axis, nodes, with_text=step.test is PARENT):
                reached.update(self.take_step(step, origin))
            nodes = self.in_order(reached)
        return nodes

    def origins(
        self, axis: Axis, nodes: Iterable[Node], *, with_text: bool = False
    ) -> Iterable[Node]:
        """The nodes a step starts from: `a//b` starts from a and all elements below it.

        In XPath also from all text below it; that makes a difference only for `//..`.
        """
        if axis is Axis.CHILD:
            return nodes
        ends = self.message.ends
        origins: set[Node] = set()
        for node in nodes:
            if isinstance(node, int):
                self.visit(ends[node] - node)
                origins.update(range(node, ends[node] + 1))
            else:
                origins.add(node)
        if with_text:
            elements = [node for node in origins if isinstance(node, int)]
            origins.update(text for node in elements for text in self.message.texts(node))
        return origins

    def take_step(self, step: Step, origin: Node) -> list[Node]:
        """The nodes that one step reaches from one node, its predicates tried in turn."""
        candidates: list[Node]
        if step.test is PARENT:
            parent = self.parent(origin)
            candidates = [] if parent < DOCUMENT else [parent]
        else:
            assert isinstance(step.test, NameTest)
            children = self.message.children(origin) if isinstance(origin, int) else []
            self.visit(1 + len(children))
            test, name = step.test, self.message.name
            candidates = [child for child in children if test.accepts(name(child))]
        for predicate in step.predicates:
            size = len(candidates)
            candidates = [
                node
                for position, node in enumerate(candidates, start=1)
                if self.passes(predicate, node, position, size)
            ]
        return candidates

    def parent(self, node: Node) -> int:
        """The element that a node is in."""
        return self.message.parent(node) if isinstance(node, int) else node.owner

    def take_end(self, end: End, nodes: list[Node]) -> list[Node]:
        """The attributes or text nodes of the nodes that a path has reached."""
        taken: list[Node] = []
        for node in self.origins(end.axis, nodes):
            if not isinstance(node, int):
                continue
            if end.kind is EndKind.TEXT:
                taken.extend(self.message.texts(node))
            elif end.name is not None:
                value = self.message.attribute(node, end.name)
                if value is not None:
                    taken.append(AttributeNode(node, end.name, value))
        return self.in_order(taken)

    def in_order(self, nodes: Iterable[Node]) -> list[Node]:
        """Nodes in document order, none twice."""
        return sorted(set(nodes), key=self.order)

    def order(self, node: Node) -> tuple[int, int, int, int]:
        """Where a node stands in the document: behind which element, and how."""
        if isinstance(node, int):
            return (node, 0, 0, 0)
        if isinstance(node, AttributeNode):
            names = list(self.message.attributes(node.owner))
            return (node.owner, 1, names.index(node.name), 0)
        return (node.before, 2, -self.message.depth(node.owner), node.number)

    # Conditions

    def passes(self, predicate: Predicate, node: Node, position: int, size: int) -> bool:
        """Whether a node passes a predicate, at a position among so many."""
        match predicate:
            case PositionTest(comparison, number):
                return compare(float(position), comparison, number)
            case LastTest():
                return position == size
        if not isinstance(node, int):
            return self.holds(predicate, node)
        known = self._passed.get(id(predicate))
        if known is None:
            known = self._passed[id(predicate)] = bytearray(self.message.last + 1)
        if not known[node]:
            known[node] = _PASSES if self.holds(predicate, node) else _FAILS
        return known[node] == _PASSES

    def holds(self, condition: Condition, context: Node) -> bool:
        """Whether a condition is true of a node."""
        match condition:
            case And(operands):
                return all(self.holds(operand, context) for operand in operands)
            case Or(operands):
                return any(self.holds(operand, context) for operand in operands)
            case Not(operand):
                return not self.holds(operand, context)
            case Exists(path):
                return bool(self.select(path, context))
            case StringTest(function, path, literal):
                text = self.first_string(path, context)
                if function is StringFunction.CONTAINS:
                    return literal in text
                return text.startswith(literal)
            case Comparison(operand, comparison, literal):
                values = self.values(operand, context)
                return any(compare(value, comparison, literal) for value in values)

    def values(self, operand: Operand, context: Node) -> list[str | float]:
        """The values of an operand: one for each node of a path."""
        if isinstance(operand, Count):
            return [float(len(self.select(operand.path, context)))]
        if isinstance(operand, StringLength):
            return [float(len(self.first_string(operand.path, context)))]
        if operand.end is not None and operand.end.kind is EndKind.POSITION:
            return [float(position) for position in self.positions(operand, context)]
        return [self.string(node) for node in self.select(operand, context)]

    def positions(self, path: Path, context: Node) -> list[int]:
        """What `position()` at the end of a path makes: a number for each element."""
        nodes = self.elements_of(path, context)
        return [self.message.position(node) if isinstance(node, int) else 1 for node in nodes]

    def first_string(self, path: Path, context: Node) -> str:
        """The string value of the first node that a path selects, or nothing."""
        nodes = self.select(path, context)
        return self.string(nodes[0]) if nodes else ""

    def string(self, node: Node) -> str:
        """The string value of a node."""
        return self.message.string_value(node) if isinstance(node, int) else node.value

    # Groups

    def make_list(self, value: Path | Count | StringOf) -> GroupList:
        """The list that an embedded expression makes for the current binding."""
        if isinstance(value, Count):
            return [len(self.select(value.path, DOCUMENT))]
        if isinstance(value, StringOf):
            return [self.first_string(value.path, DOCUMENT)]
        if value.end is not None and value.end.kind is EndKind.POSITION:
            return self.positions(value, DOCUMENT)
        return self.select(value, DOCUMENT)

    def order_keys(self, query: Flwr, budget: ListBudget) -> list[Key]:
        """The keys of the current binding, within the budget of its result."""
        keys: list[Key] = []
        for each in query.order_by:
            keys.append(self.order_key(each))
            budget.take_key(keys[-1][1])
        return keys

    def order_key(self, key: OrderKey) -> Key:
        """A missing key sorts first, then a number that is none, then the rest."""
        values = self.values(key.operand, DOCUMENT)
        if not key.numeric:
            return (2, values[0]) if values else (0, "")
        # number() of nothing is NaN, as in XQuery.
        value = values[0] if values else "NaN"
        number = to_number(value) if isinstance(value, str) else value
        return (1, 0.0) if number is None or isnan(number) else (2, number)

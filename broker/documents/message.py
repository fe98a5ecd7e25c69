"""A message as a node table.

Nodes are small integers in document order: 0 is the document, 1 its root element, and so on in
pre-order (BROKER 2.1). So document order is id order, and the descendants of a node are an
interval of ids. Every element has a label path; names and depths are those of its label path.

Where names, texts and attributes are taken from is another matter: from lxml's tree
(`tree_message.py`), or from the message itself (`scanned_message.py`). Either takes them when they
are asked for: most messages are asked for little.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple, Protocol

from broker.documents.labels import LabelPaths, too_many_paths
from broker.documents.made_once import made_once
from broker.errors import MessageError
from broker.limits import MessageLimits
from broker.names import ExpandedName

_WIDTH = attrgetter("width")

DOCUMENT = 0
"""The id of the document node, the parent of the root element."""


class TextNode(NamedTuple):
    """A text node: the element it belongs to, its number among that element's, its text."""

    owner: int
    number: int
    value: str
    before: int
    """The last element that begins before it: its place in document order."""


class Kind(Protocol):
    """What elements have in common that are written alike; it is the same object for them."""

    label: int
    """Their label path."""
    attributes: dict[str, int]
    """The names of their attributes, as lxml writes them, numbered as their values come."""
    width: int
    """How many those are."""
    is_empty: bool
    """Whether it is certain that they have no content."""


class Message(ABC):
    """A parsed message. Ids run from 0, the document, to `last`."""

    __slots__ = ("__dict__", "data", "labels")

    label_paths: list[int]
    """The label path of each node."""
    kinds: Sequence[Kind]
    """The kind of each node."""

    def __init__(self, data: bytes, labels: LabelPaths) -> None:
        self.data = data
        self.labels = labels
        """The table that the label paths are coded in."""

    def __len__(self) -> int:
        """The number of elements."""
        return self.last

    # Structure

    @property
    def last(self) -> int:
        """The highest id."""
        return len(self.label_paths) - 1

    @property
    @abstractmethod
    def distinct_label_paths(self) -> set[int]:
        """The label paths that the message has, that of the document among them."""

    @made_once
    def parents(self) -> list[int]:
        """The parent of each node; that of the document is -1."""
        depths = self.labels.depths
        parents = [-1]
        open_nodes = [DOCUMENT] * (self.labels.deepest + 1)
        for node, label in enumerate(self.label_paths[1:], start=1):
            depth = depths[label]
            parents.append(open_nodes[depth - 1])
            open_nodes[depth] = node
        return parents

    @made_once
    def ends(self) -> list[int]:
        """The last node of each node's subtree: descendants of n are n + 1 … ends[n]."""
        parents = self.parents
        ends = list(range(self.last + 1))
        for node in range(self.last, 0, -1):
            parent = parents[node]
            ends[parent] = max(ends[parent], ends[node])
        return ends

    def parent(self, node: int) -> int:
        """The parent of a node, -1 for the document."""
        return self.parents[node]

    def depth(self, node: int) -> int:
        """How many elements there are from the root down to this one, both counted."""
        return self.labels.depths[self.label_paths[node]]

    def children(self, node: int) -> list[int]:
        """The child elements of a node, in document order."""
        return self._children[node]

    @made_once
    def _children(self) -> list[list[int]]:
        children: list[list[int]] = [[] for _ in range(self.last + 1)]
        for child, parent in enumerate(self.parents[1:], start=1):
            children[parent].append(child)
        return children

    def name(self, node: int) -> ExpandedName:
        """The expanded name of an element."""
        return self.labels.name(self.label_paths[node])

    def position(self, node: int) -> int:
        """The position of an element among its siblings of the same name, from 1."""
        return self._positions[node]

    @made_once
    def _positions(self) -> list[int]:
        positions = [1] * (self.last + 1)
        seen: dict[tuple[int, int], int] = {}
        for each, (parent, label) in enumerate(zip(self.parents, self.label_paths, strict=True)):
            positions[each] = seen[parent, label] = seen.get((parent, label), 0) + 1
        return positions

    # Values

    @property
    @abstractmethod
    def leaf_texts(self) -> Iterable[str]:
        """The string value of each element that may have content, but has no elements in it.

        In the place of other nodes there may be anything.
        """

    @property
    @abstractmethod
    def values(self) -> Sequence[str]:
        """The values of all attributes, element by element, as their kinds number them."""

    @made_once
    def value_ends(self) -> list[int]:
        """For each node, how many of those are its own or come before them."""
        return list(accumulate(map(_WIDTH, self.kinds)))

    @abstractmethod
    def attribute_items(self, node: int) -> Iterable[tuple[str, str]]:
        """The attributes of an element, by their names as lxml writes them."""

    @abstractmethod
    def attribute_value(self, node: int, name: str) -> str | None:
        """The value of one of those, or None."""

    def attributes(self, node: int) -> Mapping[ExpandedName, str]:
        """The attributes of a node; namespace declarations are none."""
        if node == DOCUMENT:
            return {}
        return {ExpandedName.from_clark(name): value for name, value in self.attribute_items(node)}

    def attribute(self, node: int, name: ExpandedName) -> str | None:
        """The value of one attribute of a node, or None."""
        return None if node == DOCUMENT else self.attribute_value(node, name.clark())

    @abstractmethod
    def texts(self, node: int) -> list[TextNode]:
        """The text nodes of a node itself, not those of elements in it."""

    @abstractmethod
    def text_values(self, node: int) -> list[str]:
        """What the text nodes of an element say, without where they stand."""

    @abstractmethod
    def string_value(self, node: int) -> str:
        """All text below a node, in order."""

    # Copies

    @abstractmethod
    def copies(self, nodes: Collection[int], most: int) -> list[bytes]:
        """The XML of nodes: the namespaces in scope declared, without what follows them.

        The rest is left out when there are more than so many bytes: elements in each other repeat
        their content, so a small message could fill the memory.
        """

    def serialise(self, node: int) -> bytes:
        """The XML of one node."""
        return self.copies((node,), 0)[0]

    @abstractmethod
    def has_default_namespace(self, node: int) -> bool:
        """Whether names without prefix are in a namespace at this node."""

    @abstractmethod
    def around_root(self) -> tuple[list[bytes], list[bytes]]:
        """The comments and processing instructions before and after the root element."""

    @abstractmethod
    def attribute_prefix(self, node: int, name: ExpandedName) -> str:
        """The prefix that an attribute in a namespace has in the message."""

    # Limits

    def refuse_shape(self, limits: MessageLimits) -> None:
        """Refuse a message whose elements are too deep in each other, each or all together."""
        labels = self.labels
        depths = labels.depths
        if labels.deepest > limits.max_depth or not labels.has_at_most(limits.max_path_steps):
            own = [depths[label] for label in self.distinct_label_paths]
            # First what may have been noticed before: it must not depend on what is known already.
            if sum(own) > limits.max_path_steps:
                raise too_many_paths()
            if max(own) > limits.max_depth:
                raise MessageError("too-deep", f"the message is more than {limits.max_depth} deep")
        if self.last * labels.deepest > limits.max_ancestors:
            ancestors = sum([depths[label] for label in self.label_paths])
            if ancestors > limits.max_ancestors:
                raise MessageError(
                    "too-nested",
                    f"the elements of the message are in {ancestors} others, all counted, more "
                    f"than {limits.max_ancestors}",
                )

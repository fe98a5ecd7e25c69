"""A message as a node table.

Nodes are small integers in document order: 0 is the document, 1 its root element, and so on in
pre-order (BROKER 2.1). So document order is id order, and the descendants of a node are an
interval of ids. Every element has a label path; names and depths are those of its label path.

Making the table costs one pass that takes each element's name and parent. All else, attributes,
text, string values, intervals, is taken from the parsed tree when it is asked for: most messages
are asked for little of it.
"""

import re
import threading
from collections.abc import Mapping
from typing import NamedTuple, cast

from lxml import etree

from broker.documents.labels import NO_ELEMENT, ROOT_LABEL, LabelPaths
from broker.documents.parsing import parse_tree
from broker.errors import MessageError
from broker.escaping import escape_text
from broker.limits import MessageLimits
from broker.names import ExpandedName

DOCUMENT = 0
"""The id of the document node, the parent of the root element."""

_LONGEST_KEPT_STRING = 65_536
"""Longer string values are made again: those of nested elements repeat each other."""

_NAME_OF_ATTRIBUTE = etree.XPath("name(@*[namespace-uri() = $uri and local-name() = $local])")
_NAMESPACE_DECLARATION = re.compile(rb"\sxmlns[:=]")
_DEFAULT_LIMITS = MessageLimits()


class _OwnLabels(threading.local):
    """The table of callers that bring none, one for each thread."""

    def __init__(self) -> None:
        self.labels = LabelPaths()


_own = _OwnLabels()


class TextNode(NamedTuple):
    """A text node: the element it belongs to, its number among that element's, its text."""

    owner: int
    number: int
    value: str
    before: int
    """The last element that begins before it: its place in document order."""


class Message:
    """A parsed message. Ids run from 0, the document, to `last`."""

    __slots__ = (
        "_children",
        "_elements",
        "_ends",
        "_has_namespaces",
        "_label_of",
        "_label_paths",
        "_parents",
        "_positions",
        "_serialised",
        "_string_values",
        "data",
        "labels",
    )

    def __init__(self, data: bytes, root: etree._Element, labels: LabelPaths) -> None:
        self.data = data
        self.labels = labels
        """The table that the label paths are coded in."""
        children = labels.children
        label_of: dict[etree._Element | None, int] = {None: ROOT_LABEL}
        for element in root.iter():
            parent = label_of[element.getparent()]
            tag = element.tag
            try:
                label_of[element] = children[parent][tag]
            except KeyError:
                label_of[element] = labels.add(parent, tag)
        self._label_of = label_of
        self._elements: list[etree._Element] | None = None
        self._label_paths: list[int] | None = None
        self._parents: list[int] | None = None
        self._ends: list[int] | None = None
        self._children: list[list[int]] | None = None
        self._positions: list[int] | None = None
        self._string_values: dict[int, str] = {}
        self._serialised: dict[int, bytes] = {}
        self._has_namespaces: bool | None = None

    @classmethod
    def parse(
        cls,
        data: bytes,
        limits: MessageLimits = _DEFAULT_LIMITS,
        labels: LabelPaths | None = None,
    ) -> "Message":
        """Parse a message and make its node table, or raise `MessageError`.

        Messages that are to be compared by label path must be given the same `labels`; a table
        belongs to one thread.
        """
        if labels is None:
            labels = _own.labels = _own.labels.renewed()
        root = parse_tree(data, limits)
        if len(data) > limits.uncounted_bytes:
            _refuse_excess(data, root, limits)
        message = cls(data, root, labels)
        if labels.deepest > limits.max_depth:
            message._refuse_depth(limits)
        return message

    def __len__(self) -> int:
        """The number of elements."""
        return self.last

    # Structure

    @property
    def last(self) -> int:
        """The highest id."""
        return len(self.label_paths) - 1

    @property
    def elements(self) -> list[etree._Element]:
        """The lxml elements by id; there is none for the document."""
        if self._elements is None:
            label_of = self._label_of
            nodes = list(label_of)
            if len(nodes) > len(self.label_paths):
                nodes = [each for each in nodes if label_of[each] != NO_ELEMENT]
            self._elements = cast("list[etree._Element]", nodes)  # noqa: SLF001 - a type
        return self._elements

    @property
    def label_paths(self) -> list[int]:
        """The label path of each node."""
        if self._label_paths is None:
            labels = list(self._label_of.values())
            if NO_ELEMENT in labels:
                labels = [label for label in labels if label != NO_ELEMENT]
            self._label_paths = labels
        return self._label_paths

    @property
    def has_comments(self) -> bool:
        """Whether there are comments or processing instructions, which no ids are given to."""
        return len(self._label_of) > len(self.label_paths)

    @property
    def distinct_label_paths(self) -> set[int]:
        """The label paths that the message has, that of the document among them."""
        labels = set(self._label_of.values())
        labels.discard(NO_ELEMENT)
        return labels

    @property
    def parents(self) -> list[int]:
        """The parent of each node; that of the document is -1."""
        if self._parents is None:
            depths = self.labels.depths
            parents = [-1]
            open_nodes = [DOCUMENT] * (self.labels.deepest + 1)
            for node, label in enumerate(self.label_paths[1:], start=1):
                depth = depths[label]
                parents.append(open_nodes[depth - 1])
                open_nodes[depth] = node
            self._parents = parents
        return self._parents

    @property
    def ends(self) -> list[int]:
        """The last node of each node's subtree: descendants of n are n + 1 … ends[n]."""
        if self._ends is None:
            parents = self.parents
            ends = list(range(self.last + 1))
            for node in range(self.last, 0, -1):
                parent = parents[node]
                ends[parent] = max(ends[parent], ends[node])
            self._ends = ends
        return self._ends

    def parent(self, node: int) -> int:
        """The parent of a node, -1 for the document."""
        return self.parents[node]

    def depth(self, node: int) -> int:
        """How many elements there are from the root down to this one, both counted."""
        return self.labels.depths[self.label_paths[node]]

    def children(self, node: int) -> list[int]:
        """The child elements of a node, in document order."""
        if self._children is None:
            children: list[list[int]] = [[] for _ in range(self.last + 1)]
            for child, parent in enumerate(self.parents[1:], start=1):
                children[parent].append(child)
            self._children = children
        return self._children[node]

    def name(self, node: int) -> ExpandedName:
        """The expanded name of an element."""
        return self.labels.name(self.label_paths[node])

    def position(self, node: int) -> int:
        """The position of an element among its siblings of the same name, from 1."""
        if self._positions is None:
            positions = [1] * (self.last + 1)
            seen: dict[tuple[int, int], int] = {}
            for each, (parent, label) in enumerate(
                zip(self.parents, self.label_paths, strict=True)
            ):
                positions[each] = seen[parent, label] = seen.get((parent, label), 0) + 1
            self._positions = positions
        return self._positions[node]

    # Values

    def attributes(self, node: int) -> Mapping[ExpandedName, str]:
        """The attributes of a node; namespace declarations are none."""
        if node == DOCUMENT:
            return {}
        return {
            ExpandedName.from_clark(str(tag)): str(value)
            for tag, value in self.elements[node].items()
        }

    def attribute(self, node: int, name: ExpandedName) -> str | None:
        """The value of one attribute, or None."""
        return None if node == DOCUMENT else self.elements[node].get(name.clark())

    def texts(self, node: int) -> list[TextNode]:
        """The text nodes of a node itself, not those of elements in it."""
        if node == DOCUMENT:
            return []
        element = self.elements[node]
        found = [TextNode(node, 0, element.text, node)] if element.text else []
        children = iter(self.children(node))
        before = node
        for child in element:
            if isinstance(child.tag, str):
                before = self.ends[next(children)]
            if child.tail:
                found.append(TextNode(node, len(found), child.tail, before))
        return found

    def text_values(self, node: int) -> list[str]:
        """What the text nodes of an element say, without where they stand."""
        element = self.elements[node]
        return [value for value in (element.text, *(child.tail for child in element)) if value]

    def string_value(self, node: int) -> str:
        """All text below a node, in order."""
        value = self._string_values.get(node)
        if value is None:
            element = self.elements[max(node, 1)]
            if len(element):
                value = etree.tostring(element, method="text", encoding="unicode", with_tail=False)
            else:
                value = element.text or ""
            if len(value) <= _LONGEST_KEPT_STRING:
                self._string_values[node] = value
        return value

    # Copies

    def serialise(self, node: int) -> bytes:
        """The XML of a node: the namespaces in its scope declared, without what follows it."""
        serialised = self._serialised.get(node)
        if serialised is None:
            serialised = self._serialised[node] = self._copy(node)
        return serialised

    def _copy(self, node: int) -> bytes:
        if node == DOCUMENT:
            before, after = self.around_root()
            return b"".join([*before, self.serialise(1), *after])
        if self._has_namespaces is None:
            self._has_namespaces = _NAMESPACE_DECLARATION.search(self.data) is not None
        element = self.elements[node]
        if not (self._has_namespaces or len(element) or element.keys()):
            # Nothing but text, and nothing to declare: as lxml writes it, in a fifth of the time.
            markup = self.labels.markup(self.label_paths[node])
            # None for a name in the namespace of xml:, which needs no declaration.
            if markup is not None:
                start, end, empty = markup
                text = element.text
                return start + escape_text(text) + end if text else empty
        return _serialise(element)

    def has_default_namespace(self, node: int) -> bool:
        """Whether names without prefix are in a namespace at this node."""
        return node != DOCUMENT and None in self.elements[node].nsmap

    def around_root(self) -> tuple[list[bytes], list[bytes]]:
        """The comments and processing instructions before and after the root element."""
        root = self.elements[1]
        before = [_serialise(node) for node in root.itersiblings(preceding=True)]
        return before[::-1], [_serialise(node) for node in root.itersiblings()]

    def attribute_prefix(self, node: int, name: ExpandedName) -> str:
        """The prefix that an attribute in a namespace has in the message."""
        element = self.elements[node]
        prefixes = [
            prefix
            for prefix, namespace in element.nsmap.items()
            if namespace == name.namespace and prefix
        ]
        if len(prefixes) == 1:
            return prefixes[0]
        # Several are bound to it; which one the attribute has, lxml tells in this way only.
        lexical = _NAME_OF_ATTRIBUTE(element, uri=name.namespace, local=name.local)
        return str(lexical).partition(":")[0]

    def _refuse_depth(self, limits: MessageLimits) -> None:
        depths = self.labels.depths
        if max(depths[label] for label in self.distinct_label_paths) > limits.max_depth:
            raise MessageError("too-deep", f"the message is more than {limits.max_depth} deep")


def _serialise(element: etree._Element) -> bytes:
    return etree.tostring(element, encoding="utf-8", with_tail=False)


def _refuse_excess(data: bytes, root: etree._Element, limits: MessageLimits) -> None:
    """Refuse a message that has too much of something, before its table is made."""
    nodes = list(root.iter())
    if len(nodes) > limits.max_elements:
        raise MessageError(
            "too-many-elements",
            f"the message has {len(nodes)} elements, comments and processing instructions, "
            f"more than {limits.max_elements}",
        )
    elements = [node for node in nodes if isinstance(node.tag, str)]
    declarations = sum(1 for _ in _NAMESPACE_DECLARATION.finditer(data))
    if declarations > limits.max_namespaces:
        raise MessageError(
            "too-many-namespaces",
            f"the message has {declarations} namespace declarations, more than "
            f"{limits.max_namespaces}",
        )
    # Each attribute has its `=`, so counting those is enough for most messages.
    attributes = data.count(b"=")
    if attributes > limits.max_attributes:
        attributes = sum(len(element.attrib) for element in elements)
        if attributes > limits.max_attributes:
            raise MessageError(
                "too-many-attributes",
                f"the message has {attributes} attributes, more than {limits.max_attributes}",
            )
    if len(elements) + attributes > limits.max_names:
        names: set[object] = set()
        for element in elements:
            names.add(element.tag)
            names.update(element.keys())
        if len(names) > limits.max_names:
            raise MessageError(
                "too-many-names",
                f"the message has {len(names)} distinct names, more than {limits.max_names}",
            )

"""A message as lxml parsed it: the node table is made in one pass over the tree."""

import re
from collections.abc import Collection, Sequence
from typing import cast

from lxml import etree

from broker.documents.labels import NO_ELEMENT, ROOT_LABEL, LabelPaths
from broker.documents.made_once import made_once
from broker.documents.message import DOCUMENT, Kind, Message, TextNode
from broker.escaping import escape_text
from broker.names import ExpandedName

_NAMESPACE_DECLARATION = re.compile(rb"\sxmlns[:=]")

_LONGEST_KEPT_STRING = 65_536
"""Longer string values are made again: those of nested elements repeat each other."""

_NAME_OF_ATTRIBUTE = etree.XPath("name(@*[namespace-uri() = $uri and local-name() = $local])")


class TreeMessage(Message):
    """A message whose texts and attributes are in lxml's tree."""

    def __init__(self, data: bytes, root: etree._Element, labels: LabelPaths) -> None:
        super().__init__(data, labels)
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
        self._string_values: dict[int, str] = {}
        self._serialised: dict[int, bytes] = {}

    # Structure

    @made_once
    def elements(self) -> list[etree._Element]:
        """The lxml elements by id; there is none for the document."""
        label_of = self._label_of
        nodes = list(label_of)
        if self._has_comments:
            nodes = [each for each in nodes if label_of[each] != NO_ELEMENT]
        return cast("list[etree._Element]", nodes)  # noqa: SLF001 - a type

    @made_once
    def label_paths(self) -> list[int]:
        """The label path of each node."""
        labels = list(self._label_of.values())
        if NO_ELEMENT in labels:
            labels = [label for label in labels if label != NO_ELEMENT]
        return labels

    @property
    def _has_comments(self) -> bool:
        """Whether there are comments or processing instructions, which no ids are given to."""
        return len(self._label_of) > len(self.label_paths)

    @property
    def distinct_label_paths(self) -> set[int]:
        """The label paths that the message has, that of the document among them."""
        labels = set(self._label_of.values())
        labels.discard(NO_ELEMENT)
        return labels

    # Values

    @made_once
    def kinds(self) -> Sequence[Kind]:
        """The kind of each node."""
        kind, label_paths = self.labels.kind, self.label_paths
        kinds: list[Kind] = [kind(label_paths[0], ())]
        for node in range(1, len(label_paths)):
            names = self.elements[node].keys()
            kinds.append(kind(label_paths[node], tuple(map(str, names))))
        return kinds

    @property
    def leaf_texts(self) -> list[str]:
        """The string value of each element that has no elements in it."""
        texts = [element.text or "" for element in self.elements[1:]]
        if self._has_comments:
            texts = [
                self.string_value(node) if len(self.elements[node]) else text
                for node, text in enumerate(texts, start=1)
            ]
        return ["", *texts]

    @property
    def values(self) -> list[str]:
        """The values of all attributes, element by element, as their kinds number them."""
        return [str(value) for element in self.elements[1:] for value in element.values()]

    def attribute_items(self, node: int) -> list[tuple[str, str]]:
        """The attributes of an element, by their names as lxml writes them."""
        return self.elements[node].items()

    def attribute_value(self, node: int, name: str) -> str | None:
        """The value of one of those, or None."""
        return self.elements[node].get(name)

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

    def copies(self, nodes: Collection[int], most: int) -> list[bytes]:
        """The XML of nodes, up to so many bytes and a little more."""
        copies = []
        size = 0
        for node in nodes:
            copy = self._serialised.get(node)
            if copy is None:
                copy = self._serialised[node] = self._copy(node)
            copies.append(copy)
            size += len(copy)
            if size > most:
                break
        return copies

    def _copy(self, node: int) -> bytes:
        if node == DOCUMENT:
            before, after = self.around_root()
            return b"".join([*before, self.serialise(1), *after])
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

    @made_once
    def _has_namespaces(self) -> bool:
        return _NAMESPACE_DECLARATION.search(self.data) is not None

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


def _serialise(element: etree._Element) -> bytes:
    return etree.tostring(element, encoding="utf-8", with_tail=False)

"""XML as XQuery builds it from the same query; the test oracle is Saxon.

Nodes are copied, numbers and strings become text with a space between neighbours, attributes go to
the element that is being built as long as it has no content. Namespaces are declared where they are
needed first.
"""

import re
from collections.abc import Iterator

from broker.documents.message import DOCUMENT, Message
from broker.errors import ResultError
from broker.escaping import escape_attribute, escape_text
from broker.names import XML_NAMESPACE, ExpandedName
from broker.query.syntax import (
    ConstantAttribute,
    ConstantElement,
    ConstantName,
    Embedded,
    Flwr,
    TemplateItem,
)
from broker.results import AttributeNode, Group, GroupList, ListKind, list_kinds, too_large

_NAME_WITHOUT_PREFIX = re.compile(rb"<[^\s:/>!?]+[\s/>]")
_TAG_NAME = re.compile(rb"\A<[^\s/>]+")


def build_xml(query: Flwr, groups: list[Group], message: Message, most: int) -> bytes:
    """The XML of all groups, or a `ResultError` if it has too many bytes or can't be built."""
    return _XmlBuilder(message, most).build(query, groups)


class _XmlBuilder:
    """Builds the XML of one result, piece by piece, and stops when it grows too large."""

    def __init__(self, message: Message, most: int) -> None:
        self.message = message
        self.most = most
        self.size = 0
        self.pieces: list[bytes] = []
        self.open: list[_OpenElement] = []
        self.after_atomic = False

    def build(self, query: Flwr, groups: list[Group]) -> bytes:
        kinds = list_kinds(query)
        if query.wrapper is not None:
            self.start(query.wrapper, iter(()))
        for group in groups:
            lists = iter(zip(group, kinds, strict=True))
            self.add_items(query.template, lists, is_sequence=True)
        if query.wrapper is not None:
            self.end()
        return b"".join(self.pieces)

    def write(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.size > self.most:
            raise too_large(self.most)
        self.pieces.append(piece)

    # Items

    def add_items(
        self,
        items: tuple[TemplateItem, ...],
        lists: Iterator[tuple[GroupList, ListKind]],
        *,
        is_sequence: bool = False,
    ) -> None:
        """Add template items; in a sequence, neighbouring numbers and strings get a space."""
        for item in items:
            if not is_sequence:
                self.after_atomic = False
            if isinstance(item, str):
                self.add_text(item)
            elif isinstance(item, Embedded):
                self.add_list(*next(lists))
            else:
                self.start(item, lists)
                self.add_items(item.content, lists)
                self.end()

    def add_list(self, items: GroupList, kind: ListKind) -> None:
        for item in items:
            if kind is not ListKind.NODES:
                self.add_atomic(str(item))
                continue
            self.after_atomic = False
            if isinstance(item, int):
                self.add_copy(item)
            elif isinstance(item, AttributeNode):
                self.add_attribute(item)
            elif not isinstance(item, str):
                self.add_text(item.value)

    def add_atomic(self, text: str) -> None:
        self.add_text(" " + text if self.after_atomic else text)
        self.after_atomic = True

    def add_text(self, text: str) -> None:
        if text:
            self.begin_content()
            self.write(escape_text(text))

    def add_copy(self, node: int) -> None:
        """Copy an element; names without prefix stay in no namespace where they were in none."""
        if node == DOCUMENT:
            before, after = self.message.around_root()
            for piece in before:
                self.begin_content()
                self.write(piece)
            self.add_copy(DOCUMENT + 1)
            for piece in after:
                self.write(piece)
            return
        self.begin_content()
        xml = self.message.serialise(node)
        if (
            self.scope().get("")
            and _NAME_WITHOUT_PREFIX.search(xml)
            and not self.message.has_default_namespace(node)
        ):
            xml = _TAG_NAME.sub(rb'\g<0> xmlns=""', xml, count=1)
        self.write(xml)

    # Elements

    def scope(self) -> dict[str, str]:
        """The namespaces in scope where the builder stands, by prefix."""
        return self.open[-1].scope if self.open else {}

    def begin_content(self) -> None:
        """Close the start tag, if it is still open."""
        if self.open and not self.open[-1].has_content:
            self.open[-1].has_content = True
            self.write(b">")

    def start(self, element: ConstantElement, lists: Iterator[tuple[GroupList, ListKind]]) -> None:
        self.begin_content()
        self.after_atomic = False
        outer = self.scope()
        declared = {**(self.open[-1].declared if self.open else {}), **dict(element.namespaces)}
        self.open.append(_OpenElement(element.name, dict(outer), declared))
        self.write(b"<" + element.name.lexical.encode())
        for prefix, uri in element.namespaces:
            if outer.get(prefix, "") != uri:
                self.declare(prefix, uri)
        self.declare_for(element.name)
        for attribute in element.attributes:
            if attribute.name.prefix:
                self.declare_for(attribute.name)
                self.open[-1].bound[attribute.name.prefix] = attribute.name.namespace
            name = ExpandedName(attribute.name.namespace, attribute.name.local)
            self.write_attribute(name, attribute.name.lexical, self.value_of(attribute, lists))

    def end(self) -> None:
        element = self.open.pop()
        self.write(f"</{element.lexical}>".encode() if element.has_content else b"/>")
        self.after_atomic = False

    def declare(self, prefix: str, uri: str) -> None:
        self.open[-1].scope[prefix] = uri
        name = b" xmlns:" + prefix.encode() if prefix else b" xmlns"
        self.write(name + b'="' + escape_attribute(uri) + b'"')

    def declare_for(self, name: ConstantName) -> None:
        if name.prefix != "xml" and self.scope().get(name.prefix, "") != name.namespace:
            self.declare(name.prefix, name.namespace)

    # Attributes

    def value_of(
        self, attribute: ConstantAttribute, lists: Iterator[tuple[GroupList, ListKind]]
    ) -> str:
        pieces: list[str] = []
        for part in attribute.parts:
            if isinstance(part, str):
                pieces.append(part)
            else:
                items, kind = next(lists)
                pieces.append(" ".join(self.string(item, kind) for item in items))
        return "".join(pieces)

    def string(self, item: object, kind: ListKind) -> str:
        if isinstance(item, int):
            return self.message.string_value(item) if kind is ListKind.NODES else str(item)
        return item if isinstance(item, str) else str(item.value)  # type: ignore[attr-defined]

    def add_attribute(self, node: AttributeNode) -> None:
        """Add a copied attribute to the element that is being built."""
        if not self.open:
            raise ResultError("attribute-without-element", f"@{node.name.local} has no element")
        if self.open[-1].has_content:
            raise ResultError(
                "attribute-after-content",
                f"@{node.name.local} comes after content of <{self.open[-1].lexical}>",
            )
        lexical = node.name.local
        if node.name.namespace:
            lexical = f"{self.attribute_prefix(node)}:{lexical}"
        self.write_attribute(node.name, lexical, node.value)

    def attribute_prefix(self, node: AttributeNode) -> str:
        """A prefix for a copied attribute: that of the message, or one that Saxon would make."""
        namespace = node.name.namespace
        if namespace == XML_NAMESPACE:
            return "xml"
        wanted = self.message.attribute_prefix(node.owner, node.name)
        element = self.open[-1]
        prefix, number = wanted, len(element.attributes)
        while element.bound.get(prefix, namespace) != namespace:
            number += 1
            prefix = f"{wanted}_{number}"
        if element.scope.get(prefix) != namespace:
            self.declare(prefix, namespace)
        element.bound[prefix] = namespace
        return prefix

    def write_attribute(self, name: ExpandedName, lexical: str, value: str) -> None:
        element = self.open[-1]
        if name in element.attributes:
            raise ResultError(
                "duplicate-attribute", f"<{element.lexical}> would have @{name.local} twice"
            )
        element.attributes.add(name)
        self.write(b" " + lexical.encode() + b'="' + escape_attribute(value) + b'"')


class _OpenElement:
    """An element that is being built."""

    __slots__ = ("attributes", "bound", "declared", "has_content", "lexical", "scope")

    def __init__(self, name: ConstantName, scope: dict[str, str], declared: dict[str, str]) -> None:
        self.lexical = name.lexical
        self.scope = scope
        """All prefixes that have a meaning here."""
        self.declared = declared
        """Those that the tags from the outermost to this one declare."""
        self.bound = {**declared, name.prefix: name.namespace}
        """Those that must keep their meaning in this very tag; others may be declared anew."""
        self.attributes: set[ExpandedName] = set()
        self.has_content = False

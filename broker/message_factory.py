"""The message factory: groups of lists to what a subscriber receives, XML or JSON (BROKER 2.1).

XML is built as XQuery builds it from the same query: nodes are copied, numbers and strings become
text with a space between neighbours, attributes go to the element that is being built as long as
it has no content. The test oracle is Saxon.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from functools import cached_property

from broker.documents.message import DOCUMENT, Message
from broker.errors import QuerySyntaxError, ResultError
from broker.escaping import escape_attribute, escape_text
from broker.limits import ResultLimits
from broker.names import XML_NAMESPACE, ExpandedName
from broker.plain_template import NotPlainError, PlainTemplate
from broker.query.syntax import (
    ConstantAttribute,
    ConstantElement,
    ConstantName,
    Count,
    Embedded,
    EndKind,
    Flwr,
    Path,
    StringOf,
    TemplateItem,
    Variable,
)
from broker.results import AttributeNode, Group, GroupList, ListKind, Result, end_of, list_kinds

_DEFAULT_LIMITS = ResultLimits()
_NAME_WITHOUT_PREFIX = re.compile(rb"<[^\s:/>!?]+[\s/>]")
_TAG_NAME = re.compile(rb"\A<[^\s/>]+")


class OutputFormat(Enum):
    """The forms of a transformation's result."""

    XML = "xml"
    GROUPS = "groups"

    __hash__ = object.__hash__  # Enum's takes longer, and formats are keys for each result


class MessageFactory:
    """Makes what the subscribers of one query receive."""

    def __init__(self, query: Flwr) -> None:
        self.query = query

    @cached_property
    def _template(self) -> PlainTemplate | None:
        try:
            return PlainTemplate.of(self.query)
        except NotPlainError:
            return None

    def make(
        self,
        groups: list[Group],
        message: Message,
        format: OutputFormat = OutputFormat.XML,
        limits: ResultLimits = _DEFAULT_LIMITS,
    ) -> bytes:
        """The bytes for a subscriber, or a `ResultError` if they are too many or can't be built."""
        most = limits.max_output_bytes(len(message.data))
        if format is OutputFormat.GROUPS:
            lists = list(self.query.list_names())
            data = groups_as_data(Result(self.query, groups), message, limits)
            text = json.dumps(
                {"lists": lists, "groups": data}, ensure_ascii=False, separators=(",", ":")
            )
            return _within(text.encode("utf-8"), most)
        if self._template is not None:
            with suppress(NotPlainError):
                return _within(self._template.make(groups, message, most), most)
        return _XmlBuilder(message, most).build(self.query, groups)


def make_output(
    result: Result,
    message: Message,
    format: OutputFormat = OutputFormat.XML,
    limits: ResultLimits = _DEFAULT_LIMITS,
) -> bytes | None:
    """The bytes of one result; None if there is no group, which makes no record."""
    if not result.groups:
        return None
    return MessageFactory(result.query).make(result.groups, message, format, limits)


def groups_as_data(
    result: Result, message: Message, limits: ResultLimits = _DEFAULT_LIMITS
) -> list[list[list[str | int]]]:
    """The groups as JSON has them: an element is its XML, attributes and text are strings.

    What is too large is noticed before it is all made.
    """
    most = limits.max_output_bytes(len(message.data))
    kinds = list_kinds(result.query)
    size = 0
    groups: list[list[list[str | int]]] = []
    for group in result.groups:
        lists: list[list[str | int]] = []
        for items, kind in zip(group, kinds, strict=True):
            made = [_as_data(item, kind, message) for item in items]
            size += sum(len(each) for each in made if isinstance(each, str))
            if size > most:
                raise _too_large(most)
            lists.append(made)
        groups.append(lists)
    return groups


def _as_data(item: object, kind: ListKind, message: Message) -> str | int:
    if isinstance(item, int):
        return message.serialise(item).decode("utf-8") if kind is ListKind.NODES else item
    return item if isinstance(item, str) else str(item.value)  # type: ignore[attr-defined]


def _within(output: bytes | None, most: int) -> bytes:
    if output is None or len(output) > most:
        raise _too_large(most)
    return output


def _too_large(most: int) -> ResultError:
    return ResultError("budget-exceeded", f"the result has more than {most} bytes")


def check_template(query: Flwr) -> None:
    """Refuse a query whose XML can never be built, at registration: attributes without a place."""
    _refuse_misplaced(query, query.template, is_open=query.wrapper is not None)


def _refuse_misplaced(
    query: Flwr,
    items: tuple[TemplateItem, ...],
    *,
    is_open: bool,
    names: frozenset[ExpandedName] = frozenset(),
) -> None:
    """Refuse attributes outside elements, after content that is certain to be there, and twice."""
    has_content = False
    for item in items:
        if isinstance(item, ConstantElement):
            own = frozenset(ExpandedName(*each.name[1:]) for each in item.attributes)
            _refuse_misplaced(query, item.content, is_open=True, names=own)
        elif isinstance(item, Embedded) and _makes_attributes(query, item):
            name = _certain_attribute(query, item)
            if name in names:
                raise _misplaced(query, item, "duplicate-attribute", "twice")
            if name is not None:
                names |= {name}
            if not is_open:
                raise _misplaced(query, item, "attribute-without-element", "outside an element")
            if has_content:
                raise _misplaced(query, item, "attribute-after-content", "after content")
        has_content = has_content or _is_certain_content(query, item)


def _misplaced(query: Flwr, item: Embedded, code: str, where: str) -> QuerySyntaxError:
    return QuerySyntaxError(
        code,
        f"an attribute can't be added {where}",
        source=query.source,
        span=item.span,
        help="put it first in an element, or take its text with string()",
    )


def _makes_attributes(query: Flwr, item: Embedded) -> bool:
    end = end_of(query, item.value) if isinstance(item.value, Path) else None
    return end is EndKind.ATTRIBUTE


def _certain_attribute(query: Flwr, item: Embedded) -> ExpandedName | None:
    """The name of the attribute that an expression is certain to make: the binding itself."""
    end = query.binding.end
    return end.name if end is not None and item.value == Path(Variable(0), (), None) else None


def _is_certain_content(query: Flwr, item: TemplateItem) -> bool:
    if not isinstance(item, Embedded):
        return True
    value = item.value
    if isinstance(value, Count):
        return True
    if isinstance(value, StringOf):
        return False
    if value.start != Variable(0) or value.steps:
        return False
    if value.end is not None:
        return value.end.kind is EndKind.POSITION
    return not _makes_attributes(query, item)


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
            raise _too_large(self.most)
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
        self.open.append(_OpenElement(element.name.lexical, dict(outer)))
        self.write(b"<" + element.name.lexical.encode())
        for prefix, uri in element.namespaces:
            if outer.get(prefix, "") != uri:
                self.declare(prefix, uri)
        self.declare_for(element.name)
        for attribute in element.attributes:
            if attribute.name.prefix:
                self.declare_for(attribute.name)
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
        """A prefix for a copied attribute: that of the message, or one made of it."""
        namespace = node.name.namespace
        if namespace == XML_NAMESPACE:
            return "xml"
        wanted = self.message.attribute_prefix(node.owner, node.name)
        prefix, number = wanted, 0
        scope = self.scope()
        while scope.get(prefix, namespace) != namespace:
            number += 1
            prefix = f"{wanted}_{number}"
        if prefix not in scope:
            self.declare(prefix, namespace)
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

    __slots__ = ("attributes", "has_content", "lexical", "scope")

    def __init__(self, lexical: str, scope: dict[str, str]) -> None:
        self.lexical = lexical
        self.scope = scope
        self.attributes: set[ExpandedName] = set()
        self.has_content = False

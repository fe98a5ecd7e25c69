"""Templates that need no bookkeeping: their XML is constant bytes with copies of nodes between.

The message factory's builder keeps track of namespaces, of attributes that are added and of spaces
between numbers. A template is plain if little of that can happen:

1. its elements and attributes are in no namespace, and it declares none;
2. expressions that give attributes stand first in an element, and no two give the same one;
3. expressions that give numbers or strings stand in an element.

Copies bring their own namespaces, so nothing is asked of the message. A path may give several
attributes of one name: then the builder has to refuse it.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from broker.documents.message import Message
from broker.escaping import escape_attribute, escape_text
from broker.query.syntax import ConstantElement, Embedded, EndKind, Flwr, Path, TemplateItem
from broker.results import Group, GroupList, ListKind, Node, end_of, list_kinds


class NodeList(NamedTuple):
    """The place of a list of nodes, by its number."""

    number: int


class ValueList(NamedTuple):
    """The place of a list of numbers or strings."""

    number: int


class PlainAttribute(NamedTuple):
    """An attribute whose value is made of constant text and lists."""

    start: bytes
    parts: tuple[bytes | NodeList | ValueList, ...]


class PlainElement(NamedTuple):
    """An element of the template: its tags, and what is between them."""

    start: bytes
    """The start tag as far as it is constant."""
    attributes: tuple[PlainAttribute, ...]
    added: tuple[tuple[bytes, int], ...]
    """Attributes that are copied: how they begin, and the list they are in."""
    end: bytes
    content: "Content"


Content = tuple[bytes | NodeList | ValueList | PlainElement, ...]


class NotPlainError(Exception):
    """A group that the builder has to look at."""


# Made once for a query


@lru_cache(maxsize=65_536)
def plain_template(query: Flwr) -> Content | None:
    """What a query's groups are made into; None if its template isn't plain."""
    if query.wrapper is not None and (
        _start_tag(query.wrapper) is None
        or any(
            not isinstance(part, str) for each in query.wrapper.attributes for part in each.parts
        )
    ):
        return None
    try:
        return tuple(_Compiler(query).content(query.template, is_outermost=True))
    except NotPlainError:
        return None


class _Compiler:
    def __init__(self, query: Flwr) -> None:
        self.query = query
        self.kinds = enumerate(list_kinds(query))

    def content(
        self, items: tuple[TemplateItem, ...], *, is_outermost: bool = False
    ) -> Iterator[bytes | NodeList | ValueList | PlainElement]:
        for item in items:
            if isinstance(item, str):
                yield escape_text(item)
            elif isinstance(item, Embedded):
                if self.attribute_of(item) is not None:
                    raise NotPlainError
                place = self.place()
                if is_outermost and isinstance(place, ValueList):
                    raise NotPlainError
                yield place
            else:
                yield self.element(item)

    def place(self) -> NodeList | ValueList:
        number, kind = next(self.kinds)
        return NodeList(number) if kind is ListKind.NODES else ValueList(number)

    def attribute_of(self, item: Embedded) -> str | None:
        """The name of the attributes that an expression gives; None if it gives others."""
        if not isinstance(item.value, Path):
            return None
        if end_of(self.query, item.value) is not EndKind.ATTRIBUTE:
            return None
        end = item.value.end
        if end is None or end.name is None or end.name.namespace:
            raise NotPlainError
        return end.name.local

    def element(self, element: ConstantElement) -> PlainElement:
        start = _start_tag(element)
        if start is None:
            raise NotPlainError
        names = {each.name.lexical for each in element.attributes}
        attributes = [
            PlainAttribute(
                f' {each.name.lexical}="'.encode(),
                tuple(
                    escape_attribute(part) if isinstance(part, str) else self.place()
                    for part in each.parts
                ),
            )
            for each in element.attributes
            if not all(isinstance(part, str) for part in each.parts)
        ]
        added: list[tuple[bytes, int]] = []
        content = list(element.content)
        while content and isinstance(content[0], Embedded):
            name = self.attribute_of(content[0])
            if name is None:
                break
            if name in names:
                raise NotPlainError
            names.add(name)
            added.append((f' {name}="'.encode(), self.place().number))
            del content[0]
        return PlainElement(
            start,
            tuple(attributes),
            tuple(added),
            f"</{element.name.lexical}>".encode(),
            tuple(self.content(tuple(content))),
        )


def _start_tag(element: ConstantElement) -> bytes | None:
    """The start tag with its constant attributes, unclosed; None if a namespace is in it.

    Attributes keep their order only if those that aren't constant come last.
    """
    if element.name.namespace or element.namespaces:
        return None
    pieces = [b"<", element.name.lexical.encode()]
    seen_other = False
    for attribute in element.attributes:
        if attribute.name.namespace:
            return None
        if not all(isinstance(part, str) for part in attribute.parts):
            seen_other = True
            continue
        if seen_other:
            return None
        value = "".join(part for part in attribute.parts if isinstance(part, str))
        pieces += [b" ", attribute.name.lexical.encode(), b'="', escape_attribute(value), b'"']
    return b"".join(pieces)


# For each group


def make_plain(
    query: Flwr, content: Content, groups: list[Group], message: Message, most: int
) -> bytes | None:
    """The XML of all groups; None if it has more bytes than it may. Or a `NotPlainError`."""
    pieces: list[bytes] = []
    size = 0
    for group in groups:
        piece = _content(content, group, message)
        size += len(piece)
        if size > most:
            return None
        pieces.append(piece)
    body = b"".join(pieces)
    if query.wrapper is not None:
        start = _start_tag(query.wrapper)
        assert start is not None
        end = f"</{query.wrapper.name.lexical}>".encode()
        body = b"".join((start, b">", body, end)) if body else start + b"/>"
    return body if len(body) <= most else None


def _content(content: Content, group: Group, message: Message) -> bytes:
    pieces: list[bytes] = []
    for item in content:
        if isinstance(item, bytes):
            pieces.append(item)
        elif isinstance(item, NodeList):
            for node in group[item.number]:
                if isinstance(node, int):
                    pieces.append(message.serialise(node))
                else:
                    pieces.append(escape_text(node.value))  # type: ignore[union-attr]
        elif isinstance(item, ValueList):
            pieces.append(escape_text(" ".join(map(str, group[item.number]))))
        else:
            pieces.append(_element(item, group, message))
    return b"".join(pieces)


def _element(element: PlainElement, group: Group, message: Message) -> bytes:
    if not element.attributes and not element.added:
        body = _content(element.content, group, message)
        return b"%b>%b%b" % (element.start, body, element.end) if body else element.start + b"/>"
    pieces = [element.start]
    for attribute in element.attributes:
        pieces.append(attribute.start)
        for part in attribute.parts:
            if isinstance(part, bytes):
                pieces.append(part)
            else:
                is_nodes = isinstance(part, NodeList)
                pieces.append(escape_attribute(_joined(group[part.number], message, is_nodes)))
        pieces.append(b'"')
    for start, number in element.added:
        items = group[number]
        if len(items) > 1:
            raise NotPlainError
        if items:
            pieces += [start, escape_attribute(items[0].value), b'"']  # type: ignore[union-attr]
    body = _content(element.content, group, message)
    if body:
        pieces += [b">", body, element.end]
    else:
        pieces.append(b"/>")
    return b"".join(pieces)


def _joined(items: GroupList, message: Message, is_nodes: bool) -> str:
    """What a list is in an attribute's value."""
    if not is_nodes:
        return " ".join(map(str, items))
    nodes: list[Node] = items  # type: ignore[assignment]
    return " ".join(
        message.string_value(node) if isinstance(node, int) else node.value for node in nodes
    )

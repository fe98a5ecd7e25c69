"""Templates that need no bookkeeping: their XML is constant bytes with copies of nodes between.

The message factory's builder keeps track of namespaces, of attributes that are added and of spaces
between numbers. A template is plain, and none of that can happen, if

1. its elements are in no namespace and declare none, and their attributes are constant;
2. its expressions give elements or text: no attributes, numbers or strings.

Copies bring their own namespaces, so nothing is asked of the message.
"""

from collections.abc import Iterable
from functools import lru_cache

from broker.documents.message import Message
from broker.escaping import escape_attribute, escape_text
from broker.query.syntax import ConstantElement, Embedded, EndKind, Flwr, Path, TemplateItem
from broker.results import Group, Node, end_of


class PlainElement:
    """An element of the template: its tags, and what is between them."""

    __slots__ = ("content", "end", "start")

    def __init__(self, start: bytes, end: bytes, content: "Content") -> None:
        self.start = start
        self.end = end
        self.content = content

    def make(self, lists: list[list[Node]], message: Message) -> bytes:
        """The XML of the element for one group."""
        body = make_content(self.content, lists, message)
        return b"".join((self.start, b">", body, self.end)) if body else self.start + b"/>"


Content = tuple[bytes | int | PlainElement, ...]
"""Constant bytes, the number of a list, or an element."""


def make_content(content: Content, lists: list[list[Node]], message: Message) -> bytes:
    """The XML of template items for one group."""
    pieces: list[bytes] = []
    serialise = message.serialise
    for item in content:
        if isinstance(item, bytes):
            pieces.append(item)
        elif isinstance(item, int):
            pieces += [
                serialise(node) if isinstance(node, int) else escape_text(node.value)
                for node in lists[item]
            ]
        else:
            pieces.append(item.make(lists, message))
    return b"".join(pieces)


@lru_cache(maxsize=65_536)
def plain_template(query: Flwr) -> Content | None:
    """What a query's groups are made into; None if its template isn't plain."""
    if query.wrapper is not None and _start_tag(query.wrapper) is None:
        return None
    numbers = iter(range(len(tuple(query.embedded()))))
    return _content(query, query.template, numbers)


def _content(
    query: Flwr, items: tuple[TemplateItem, ...], numbers: Iterable[int]
) -> Content | None:
    content: list[bytes | int | PlainElement] = []
    numbers = iter(numbers)
    for item in items:
        if isinstance(item, str):
            content.append(escape_text(item))
        elif isinstance(item, Embedded):
            if not isinstance(item.value, Path):
                return None
            if end_of(query, item.value) not in {None, EndKind.TEXT}:
                return None
            content.append(next(numbers))
        else:
            start = _start_tag(item)
            inner = None if start is None else _content(query, item.content, numbers)
            if start is None or inner is None:
                return None
            content.append(PlainElement(start, f"</{item.name.lexical}>".encode(), inner))
    return tuple(content)


def _start_tag(element: ConstantElement) -> bytes | None:
    """The start tag without its bracket; None if there is more to it than constants."""
    if element.name.namespace or element.namespaces:
        return None
    pieces = [b"<", element.name.lexical.encode()]
    for attribute in element.attributes:
        if attribute.name.namespace or not all(isinstance(part, str) for part in attribute.parts):
            return None
        value = "".join(part for part in attribute.parts if isinstance(part, str))
        pieces += [b" ", attribute.name.lexical.encode(), b'="', escape_attribute(value), b'"']
    return b"".join(pieces)


def make_plain(
    query: Flwr, content: Content, groups: list[Group], message: Message, most: int
) -> bytes | None:
    """The XML of all groups; None if it has more bytes than it may."""
    pieces: list[bytes] = []
    size = 0
    for group in groups:
        piece = make_content(content, group, message)  # type: ignore[arg-type]
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

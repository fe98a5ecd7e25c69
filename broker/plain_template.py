"""Templates that need no bookkeeping: their XML is constant bytes with copies of nodes between.

The message factory's builder keeps track of namespaces, of attributes that are added and of spaces
between numbers. A template is plain if little of that can happen:

1. its elements and attributes are in no namespace, and it declares none;
2. expressions that give attributes stand first in an element, and no two give the same one;
3. expressions that give numbers or strings stand in an element.

Copies bring their own namespaces, so nothing is asked of the message. A path may give several
attributes of one name: then the builder has to refuse it.

A template is made into functions once, one for each of its parts, which add the pieces of a result
to one list; most of those are copies of nodes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakValueDictionary

from broker.documents import Message
from broker.escaping import escape_attribute, escape_text
from broker.query.syntax import (
    ConstantAttribute,
    ConstantElement,
    Embedded,
    EndKind,
    Flwr,
    Path,
    TemplateItem,
)
from broker.results import Group, GroupList, ListKind, Node, end_of, list_kinds

# No tuples: one of these would be equal to one of those.


@dataclass(frozen=True, slots=True)
class NodeList:
    """The place of a list of nodes, by its number."""

    number: int
    is_elements: bool


@dataclass(frozen=True, slots=True)
class ValueList:
    """The place of a list of numbers or strings."""

    number: int


class PlainAttribute(NamedTuple):
    """An attribute whose value is made of constant text and lists."""

    start: bytes
    parts: tuple[bytes | NodeList | ValueList, ...]


class PlainElement(NamedTuple):
    """An element of the template: its tags, and what is between them."""

    start: bytes
    """The start tag as far as it is constant, closed if it is all of it."""
    attributes: tuple[PlainAttribute, ...]
    added: tuple[tuple[bytes, int], ...]
    """Attributes that are copied: how they begin, and the list they are in."""
    end: bytes
    empty: bytes
    """How the start tag ends if there is no content: all of it, if it is constant."""
    content: "Content"


Content = tuple[bytes | NodeList | ValueList | PlainElement, ...]


class NotPlainError(Exception):
    """A template, or a group, that the builder has to look at."""


Wrapper = tuple[bytes, bytes, bytes]
"""The tags around all groups, and what stands for them if there is nothing in them."""


class PlainTemplate:
    """What the groups of queries are made into. Equal ones are one object: many subscribers ask for
    the same in other conditions.
    """

    __slots__ = ("__weakref__", "_write", "content", "wrapper")

    def __init__(self, wrapper: Wrapper | None, content: Content) -> None:
        self.wrapper = wrapper
        self.content = content
        self._write = _writer_of_all(content)

    @classmethod
    def of(cls, query: Flwr) -> "PlainTemplate":
        """The template of a query; a `NotPlainError` if it isn't plain."""
        wrapper = None if query.wrapper is None else _wrapper(query.wrapper)
        content = tuple(_Compiler(query).content(query.template, is_outermost=True))
        template = _templates.get((wrapper, content))
        if template is None:
            template = _templates[wrapper, content] = cls(wrapper, content)
        return template

    def make(self, groups: list[Group], message: Message, most: int) -> bytes | None:
        """The XML of all groups; None if it has too many bytes. Or `NotPlainError`."""
        pieces: list[bytes] = []
        if len(groups) == 1:
            self._write(groups[0], message, most, pieces)
        else:
            size = done = 0
            for group in groups:
                self._write(group, message, most, pieces)
                size += sum(map(len, pieces[done:]))
                if size > most:
                    return None
                done = len(pieces)
        if self.wrapper is not None:
            start, end, empty = self.wrapper
            pieces = [start, *pieces, end] if pieces else [empty]
        output = b"".join(pieces)
        return output if len(output) <= most else None


_templates: WeakValueDictionary[tuple[Wrapper | None, Content], PlainTemplate]
_templates = WeakValueDictionary()


# Made once for a query


class _Compiler:
    def __init__(self, query: Flwr) -> None:
        self.query = query
        self.kinds = enumerate(list_kinds(query))
        self.is_elements = [
            isinstance(each.value, Path) and end_of(query, each.value) is None
            for each in query.embedded()
        ]

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
        if kind is not ListKind.NODES:
            return ValueList(number)
        return NodeList(number, is_elements=self.is_elements[number])

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
            for each in _varying(element)
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
        is_whole = not attributes and not added
        return PlainElement(
            start + b">" if is_whole else start,
            tuple(attributes),
            tuple(added),
            f"</{element.name.lexical}>".encode(),
            start + b"/>" if is_whole else b"/>",
            tuple(self.content(tuple(content))),
        )


def _wrapper(element: ConstantElement) -> Wrapper:
    start = _start_tag(element)
    if start is None or _varying(element):
        raise NotPlainError
    return start + b">", f"</{element.name.lexical}>".encode(), start + b"/>"


def _varying(element: ConstantElement) -> list[ConstantAttribute]:
    """The attributes that are not constant."""
    return [
        each for each in element.attributes if not all(isinstance(part, str) for part in each.parts)
    ]


def _start_tag(element: ConstantElement) -> bytes | None:
    """The start tag with its constant attributes, unclosed; None if a namespace is in it.

    Attributes keep their order only if those that aren't constant come last.
    """
    if element.name.namespace or element.namespaces:
        return None
    pieces = [b"<", element.name.lexical.encode()]
    varying = _varying(element)
    if varying and element.attributes[-len(varying) :] != tuple(varying):
        return None
    if any(attribute.name.namespace for attribute in element.attributes):
        return None
    for attribute in element.attributes[: len(element.attributes) - len(varying)]:
        value = "".join(part for part in attribute.parts if isinstance(part, str))
        pieces += [b" ", attribute.name.lexical.encode(), b'="', escape_attribute(value), b'"']
    return b"".join(pieces)


# For each group

Write = Callable[[Group, Message, int, list[bytes]], None]
"""Adds what a group makes of some content: nothing for nothing. When nodes have more bytes than the
number says, they are not copied to their end."""


def _writer_of_all(content: Content) -> Write:
    if len(content) == 1:
        return _writer(content[0])
    writers = tuple(map(_writer, content))

    def write(group: Group, message: Message, most: int, pieces: list[bytes]) -> None:
        for each in writers:
            each(group, message, most, pieces)

    return write


def _writer(item: bytes | NodeList | ValueList | PlainElement) -> Write:
    if isinstance(item, bytes):
        return lambda _group, _message, _most, pieces: pieces.append(item)
    if isinstance(item, PlainElement):
        return _writer_of_element(item)
    return _writer_of_list(item)


def _writer_of_list(place: NodeList | ValueList) -> Write:
    number = place.number

    def write_elements(group: Group, message: Message, most: int, pieces: list[bytes]) -> None:
        nodes = group[number]
        if nodes:
            pieces += message.copies(nodes, most)  # type: ignore[arg-type] # they are elements

    def write_nodes(group: Group, _message: Message, _most: int, pieces: list[bytes]) -> None:
        pieces += [escape_text(node.value) for node in group[number]]  # type: ignore[union-attr]

    def write_values(group: Group, _message: Message, _most: int, pieces: list[bytes]) -> None:
        text = " ".join(map(str, group[number]))
        if text:
            pieces.append(escape_text(text))

    if isinstance(place, ValueList):
        return write_values
    return write_elements if place.is_elements else write_nodes


def _writer_of_element(element: PlainElement) -> Write:
    start, end, empty = element.start, element.end, element.empty
    has_attributes = bool(element.attributes or element.added)
    write_content = _writer_of_all(element.content)
    lists = tuple(
        [each.number for each in element.content if isinstance(each, NodeList) and each.is_elements]
    )
    if len(lists) == len(element.content) and not has_attributes:
        return _writer_of_copies(element, lists)

    def write(group: Group, message: Message, most: int, pieces: list[bytes]) -> None:
        pieces.append(start)
        if has_attributes:
            _write_attributes(element, group, message, pieces)
            pieces.append(b">")
        before = len(pieces)
        write_content(group, message, most, pieces)
        if len(pieces) > before:
            pieces.append(end)
        else:
            pieces[-1] = empty

    return write


def _writer_of_copies(element: PlainElement, lists: tuple[int, ...]) -> Write:
    """For an element that has nothing but copies of elements, as most have."""
    start, end, empty = element.start, element.end, element.empty

    def write(group: Group, message: Message, most: int, pieces: list[bytes]) -> None:
        pieces.append(start)
        before = len(pieces)
        for number in lists:
            nodes = group[number]
            if nodes:
                pieces += message.copies(nodes, most)  # type: ignore[arg-type] # they are elements
        if len(pieces) > before:
            pieces.append(end)
        else:
            pieces[-1] = empty

    return write


def _write_attributes(
    element: PlainElement, group: Group, message: Message, pieces: list[bytes]
) -> None:
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


def _joined(items: GroupList, message: Message, is_nodes: bool) -> str:
    """What a list is in an attribute's value."""
    if not is_nodes:
        return " ".join(map(str, items))
    nodes: list[Node] = items  # type: ignore[assignment]
    return " ".join(
        message.string_value(node) if isinstance(node, int) else node.value for node in nodes
    )

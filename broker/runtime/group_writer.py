"""The XML of a result at once, from the bound elements: for the templates that most queries have.

The message factory makes XML of groups, and groups are made of what the paths of a return clause
reach. A template that only copies elements needs no groups: the copies of what a path reaches from
a bound element are bytes that all subscribers share who ask for them (`groups.py`). It may be used
if

1. the plan is a group plan, and the template is plain (`plain_template.py`);
2. around each group there is one constant element, and in it nothing but text and copies of
   elements; before those there may be attributes that are copied;
3. no query may have fewer lists and nodes than it has lists here, and as many nodes as the bytes of
   its output allow (`most_lists`).

What it makes are the bytes that the factory makes; if they are too many, or an attribute would be
there twice, it leaves the result to the factory, which says so.
"""

from typing import NamedTuple
from weakref import WeakValueDictionary

from broker.escaping import escape_attribute
from broker.limits import ResultLimits
from broker.plain_template import NodeList, NotPlainError, PlainElement, PlainTemplate, Wrapper
from broker.plan.group_plan import Lists, PlainPath
from broker.query import Flwr
from broker.runtime.groups import Groups

_SMALLEST_COPY = 4
"""The bytes of `<a/>`."""


def most_lists(limits: ResultLimits, output_bytes: int) -> int:
    """So many lists a result may have to be written at once, with output of up to so many bytes."""
    return limits.max_items - output_bytes // _SMALLEST_COPY


class AddedAttribute(NamedTuple):
    """An attribute that is copied to the constant element."""

    start: bytes
    path: PlainPath


class GroupWriter:
    """Writes the results of queries with equal return clauses; those share one object."""

    __slots__ = ("__weakref__", "_added", "_content", "_element", "_only", "_wrapper", "lists")

    def __init__(self, wrapper: Wrapper | None, element: PlainElement, lists: Lists) -> None:
        self.lists = len(lists.parts)
        """How many there are for each bound element."""
        self._wrapper = wrapper
        self._element = element
        self._added = tuple(
            [AddedAttribute(start, lists.parts[number][1]) for start, number in element.added]
        )
        self._content = tuple([_part(item, lists) for item in element.content])
        first, *others = self._content or (b"",)
        self._only = None if others or isinstance(first, bytes) else first
        """What there is to copy, if it is one path."""

    @classmethod
    def of(cls, query: Flwr, lists: Lists) -> "GroupWriter | None":
        """The writer for a query, if it may have one."""
        try:
            template = PlainTemplate.of(query)
        except NotPlainError:
            return None
        writer = _writers.get((template, lists))
        if writer is None:
            if len(template.content) != 1:
                return None
            (element,) = template.content
            if not isinstance(element, PlainElement) or not _is_copies(element):
                return None
            writer = _writers[template, lists] = cls(template.wrapper, element, lists)
        return writer

    def write(self, groups: Groups, bound: list[int], most: int) -> bytes | None:
        """The result for some bound elements; None if the factory has to look at it."""
        if len(bound) == 1 and self._wrapper is None:
            piece = self._write(groups, bound[0], most)
            return piece if piece is not None and len(piece) <= most else None
        pieces: list[bytes] = []
        size = 0
        for node in bound:
            piece = self._write(groups, node, most)
            if piece is None:
                return None
            size += len(piece)
            if size > most:
                return None
            pieces.append(piece)
        if self._wrapper is not None:
            start, end, _ = self._wrapper
            pieces = [start, *pieces, end]
        output = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return output if len(output) <= most else None

    def _write(self, groups: Groups, node: int, most: int) -> bytes | None:
        if self._only is not None:
            content = groups.copied(self._only, node, most)
        else:
            content = b"".join(
                [
                    part if isinstance(part, bytes) else groups.copied(part, node, most)
                    for part in self._content
                ]
            )
        element = self._element
        if not self._added:
            return b"%b%b%b" % (element.start, content, element.end) if content else element.empty
        pieces = [element.start]
        for start, path in self._added:
            values = groups.attribute_values(path, node)
            if len(values) > 1:
                return None
            if values:
                pieces += (start, escape_attribute(values[0]), b'"')
        pieces += (b">", content, element.end) if content else (element.empty,)
        return b"".join(pieces)


_writers: WeakValueDictionary[tuple[PlainTemplate, Lists], GroupWriter] = WeakValueDictionary()


def _is_copies(element: PlainElement) -> bool:
    """Whether there is nothing in an element but text and copies of elements."""
    return not element.attributes and all(
        isinstance(item, bytes) or (isinstance(item, NodeList) and item.is_elements)
        for item in element.content
    )


def _part(item: object, lists: Lists) -> bytes | PlainPath:
    if isinstance(item, bytes):
        return item
    assert isinstance(item, NodeList)
    return lists.parts[item.number][1]

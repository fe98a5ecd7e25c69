"""The message factory: groups of lists to what a subscriber receives, XML or JSON (BROKER 2.1)."""

import json
from contextlib import suppress
from enum import Enum

from broker.documents.message import Message
from broker.errors import QuerySyntaxError
from broker.limits import ResultLimits
from broker.names import ExpandedName
from broker.plain_template import NotPlainError, PlainTemplate
from broker.query.parser import parse_whole
from broker.query.syntax import (
    ConstantElement,
    Count,
    Embedded,
    EndKind,
    Flwr,
    Path,
    StringOf,
    TemplateItem,
    Variable,
)
from broker.results import Group, GroupList, ListKind, Result, end_of, list_kinds, too_large
from broker.xml_builder import build_xml

_DEFAULT_LIMITS = ResultLimits()


class OutputFormat(Enum):
    """The forms of a transformation's result."""

    XML = "xml"
    GROUPS = "groups"

    __hash__ = object.__hash__  # Enum's takes longer, and formats are keys for each result


class MessageFactory:
    """Makes what the subscribers of one query receive."""

    __slots__ = ("_template", "query")

    def __init__(self, query: Flwr) -> None:
        self.query = query
        self._template: PlainTemplate | None = None
        with suppress(NotPlainError):
            self._template = PlainTemplate.of(query)

    def make(self, groups: list[Group], message: Message, format: OutputFormat, most: int) -> bytes:
        """The bytes for a subscriber, or a `ResultError` if they are too many or can't be built."""
        if format is OutputFormat.XML:
            if self._template is None:
                return build_xml(self.query, groups, message, most)
            try:
                output = self._template.make(groups, message, most)
            except NotPlainError:
                return build_xml(self.query, groups, message, most)
        else:
            output = self._as_json(groups, message, most)
        if output is None or len(output) > most:
            raise too_large(most)
        return output

    def _as_json(self, groups: list[Group], message: Message, most: int) -> bytes:
        made = {
            "lists": list(self.query.list_names()),
            "groups": groups_as_data(Result(self.query, groups), message, most),
        }
        return json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def make_output(
    result: Result,
    message: Message,
    format: OutputFormat = OutputFormat.XML,
    limits: ResultLimits = _DEFAULT_LIMITS,
) -> bytes | None:
    """The bytes of one result; None if there is no group, which makes no record."""
    if not result.groups:
        return None
    most = limits.max_output_bytes(len(message.data))
    return MessageFactory(result.query).make(result.groups, message, format, most)


def groups_as_data(result: Result, message: Message, most: int) -> list[list[list[str | int]]]:
    """The groups as JSON has them: an element is its XML, attributes and text are strings.

    A `ResultError` if they have too many bytes; that is noticed before they are all made.
    """
    kinds = list_kinds(result.query)
    size = 0
    groups: list[list[list[str | int]]] = []
    for group in result.groups:
        lists: list[list[str | int]] = []
        for items, kind in zip(group, kinds, strict=True):
            made = _as_data(items, kind, message, most)
            size += sum(len(each) for each in made if isinstance(each, str))
            if size > most:
                raise too_large(most)
            lists.append(made)
        groups.append(lists)
    return groups


def _as_data(items: GroupList, kind: ListKind, message: Message, most: int) -> list[str | int]:
    if kind is not ListKind.NODES:
        return list(items)  # type: ignore[arg-type] # numbers or strings
    if not items or not isinstance(items[0], int):
        return [item.value for item in items]  # type: ignore[union-attr] # attributes or text
    copies = message.copies(items, most)  # type: ignore[arg-type] # elements, all of them
    if sum(map(len, copies)) > most:
        raise too_large(most)
    return [copy.decode("utf-8") for copy in copies]


def check_template(query: Flwr) -> None:
    """Refuse a query whose XML can never be built, at registration: attributes without a place."""
    shape = query.shape
    if shape is None:
        _refuse_misplaced(query, query.template, is_open=query.wrapper is not None)
    elif not shape.is_buildable:
        whole = parse_whole(query.source, shape.limits)  # an error has to be at its place
        assert isinstance(whole, Flwr)
        check_template(whole)
        shape.is_buildable = True


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

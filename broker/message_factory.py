"""The message factory: groups of lists to what a subscriber receives, XML or JSON (BROKER 2.1)."""

import json
from contextlib import suppress
from enum import Enum
from functools import cached_property

from broker.documents.message import Message
from broker.errors import QuerySyntaxError
from broker.limits import ResultLimits
from broker.names import ExpandedName
from broker.plain_template import NotPlainError, PlainTemplate
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
from broker.results import Group, ListKind, Result, end_of, list_kinds, too_large
from broker.xml_builder import build_xml

_DEFAULT_LIMITS = ResultLimits()


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
        return build_xml(self.query, groups, message, most)


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
                raise too_large(most)
            lists.append(made)
        groups.append(lists)
    return groups


def _as_data(item: object, kind: ListKind, message: Message) -> str | int:
    if isinstance(item, int):
        return message.serialise(item).decode("utf-8") if kind is ListKind.NODES else item
    return item if isinstance(item, str) else str(item.value)  # type: ignore[attr-defined]


def _within(output: bytes | None, most: int) -> bytes:
    if output is None or len(output) > most:
        raise too_large(most)
    return output


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

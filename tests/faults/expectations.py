"""What should come out, by processors that share no code with the engine.

Filters are decided by libxml2, or by Saxon where XPath 1.0 has no words for them; transformations
are run by Saxon. Only the JSON form of groups has no counterpart there: for it the reference
evaluator of `broker.reference` is asked, which `tests/oracles` compares with Saxon node by node.

Which record of a subscription is in force is told by the book of what was written, whose author
knows which records are right. The broker's own reducer is not asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import NamedTuple

from lxml import etree

from broker import reference
from broker.documents import parse_message
from broker.errors import ResultError
from broker.message_factory import OutputFormat, make_output
from broker.query import Filter, Flwr, parse
from tests.faults.ledger import JSON, Expected, Form, Wanted
from tests.oracles.engines import LxmlDocument, SaxonDocument, SaxonError
from tests.oracles.test_transformations import ERRORS
from tests.oracles.translate import (
    UntranslatableError,
    XQuery,
    filter_for_lxml,
    filter_for_saxon,
)


class Active(NamedTuple):
    """A subscription that is in force."""

    version: int
    query: str
    format: str


@dataclass(frozen=True)
class WrittenRecord:
    """A record of the subscription topic, by the one who wrote it."""

    version: int
    name: str
    record: Mapping[str, object] | None
    """None deletes."""
    is_right: bool


@dataclass
class Book:
    """All that was written to the subscription topic, in order."""

    records: list[WrittenRecord] = field(default_factory=list)

    def in_force(self, version: int, moment: datetime) -> dict[str, Active]:
        """The subscriptions that a batch of this version and time has."""
        latest: dict[str, WrittenRecord] = {}
        for each in self.records:
            if each.version <= version and each.is_right:
                latest[each.name] = each
        return {
            name: Active(each.version, str(each.record["query"]), str(each.record.get("format")))
            for name, each in latest.items()
            if each.record is not None
            and not each.record.get("paused")
            and not _is_over(each.record.get("expires"), moment)
        }


def _is_over(expires: object, moment: datetime) -> bool:
    return isinstance(expires, str) and datetime.fromisoformat(expires) <= moment


def expect(
    value: bytes | None, refused_with: str | None, version: int, active: Mapping[str, Active]
) -> Expected:
    """What is to come of a message; `refused_with` is the code if it is made to be refused."""
    if refused_with is not None or value is None:
        return Expected(version, refusals={None: frozenset({refused_with or "no-value"})})
    results: dict[tuple[str, int], Wanted] = {}
    refusals: dict[str | None, frozenset[str]] = {}
    for name, each in active.items():
        answer = _answer(value, each.query, each.format)
        if isinstance(answer, Wanted):
            results[name, each.version] = answer
        elif answer is not None:
            refusals[name] = answer
    return Expected(version, results, refusals)


@cache
def _answer(value: bytes, query: str, format: str) -> Wanted | frozenset[str] | None:
    """The result, the codes of which one is due, or nothing."""
    parsed = parse(query)
    if isinstance(parsed, Filter):
        return Wanted(value) if _matches(value, parsed) else None
    if format == OutputFormat.GROUPS.value:
        message = parse_message(value)
        try:
            made = make_output(reference.transform(parsed, message), message, OutputFormat.GROUPS)
        except ResultError as error:
            return frozenset({error.code})
        return None if made is None else Wanted(made, content_type=JSON)
    return _transformed(value, parsed)


def _matches(value: bytes, query: Filter) -> bool:
    try:
        return LxmlDocument(value).is_true(filter_for_lxml(query))
    except UntranslatableError:
        return SaxonDocument(value).run(filter_for_saxon(query)) == "true"


def _transformed(value: bytes, query: Flwr) -> Wanted | frozenset[str] | None:
    document = SaxonDocument(value)
    if len(etree.fromstring(document.run(XQuery().flwr(query, as_paths=True)))) == 0:
        return None
    try:
        return Wanted(document.run(XQuery().flwr(query)).encode(), Form.XML)
    except SaxonError as error:
        codes = frozenset(code for code, names in ERRORS.items() if error.code in names)
        if not codes:
            raise
        return codes

"""FLWR queries against Saxon: the same XML, and the same groups, node by node."""

from hypothesis import given
from lxml import etree

from broker import reference
from broker.documents import Message
from broker.errors import ResultError
from broker.message_factory import make_output
from broker.query import Flwr, parse
from broker.results import ListKind, list_kinds
from tests.oracles.engines import SaxonDocument, SaxonError, canonical, saxon_path
from tests.oracles.strategies import Case, transformations
from tests.oracles.translate import XQuery

ERRORS = {
    "attribute-after-content": {"XQTY0024"},
    "attribute-without-element": {"SENR0001", "XQTY0024"},
    "duplicate-attribute": {"XQDY0025"},
}
"""What the message factory refuses, and what XQuery calls it."""


def parse_flwr(text: str) -> Flwr:
    query = parse(text)
    assert isinstance(query, Flwr)
    return query


@given(transformations())
def test_groups_are_those_of_saxon(case: Case) -> None:
    query = parse_flwr(case.query)
    message = Message.parse(case.data)
    answer = SaxonDocument(case.data).run(XQuery().flwr(query, as_paths=True))
    expected = [
        [[item.text or "" for item in items] for items in group]
        for group in etree.fromstring(answer)
    ]
    kinds = list_kinds(query)
    groups = [
        [
            [saxon_path(message, item) if kind is ListKind.NODES else str(item) for item in items]  # type: ignore[arg-type]
            for items, kind in zip(group, kinds, strict=True)
        ]
        for group in reference.transform(query, message).groups
    ]
    assert groups == expected


@given(transformations())
def test_xml_is_that_of_saxon(case: Case) -> None:
    query = parse_flwr(case.query)
    message = Message.parse(case.data)
    result = reference.transform(query, message)
    refusal = None
    output = None
    try:
        output = make_output(result, message)
    except ResultError as error:
        refusal = error.code
    if refusal is not None:
        assert fails_with(case, query) in ERRORS[refusal]
    if output is not None:
        expected = SaxonDocument(case.data).run(XQuery().flwr(query))
        # In a tag with a default namespace, Saxon and we take different, equal ways to undo it.
        exclusive = "xmlns=" in case.query
        assert canonical(output, exclusive=exclusive) == canonical(expected, exclusive=exclusive)


def fails_with(case: Case, query: Flwr) -> str:
    try:
        SaxonDocument(case.data).run(XQuery().flwr(query))
    except SaxonError as error:
        return error.code
    return "no error"


def test_most_generated_queries_bind_something() -> None:
    """Else the tests above would compare nothing with nothing."""
    seen = {True: 0, False: 0}

    @given(transformations())
    def count(case: Case) -> None:
        result = reference.transform(parse_flwr(case.query), Message.parse(case.data))
        seen[bool(result.groups)] += 1

    count()
    assert seen[True] > seen[False] / 2

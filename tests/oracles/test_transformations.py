"""FLWR queries against Saxon: the same XML, and the same groups, node by node."""

import pytest
from hypothesis import given

from broker import reference
from broker.documents import parse_message
from broker.errors import ResultError
from broker.limits import ResultLimits
from broker.message_factory import make_output
from broker.query import Flwr, parse
from broker.runtime.transformer import Choice, Transformer
from tests.oracles.engines import SaxonDocument, SaxonError, canonical
from tests.oracles.saxon_groups import saxon_groups, shown
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


@pytest.mark.parametrize("choice", Choice)
def test_groups_are_those_of_saxon(choice: Choice) -> None:
    @given(transformations())
    def compare(case: Case) -> None:
        query = parse_flwr(case.query)
        message = parse_message(case.data)
        result = Transformer(query, choice).run(message, ResultLimits())
        expected = saxon_groups(SaxonDocument(case.data), query)
        assert shown(result.groups, query, message) == expected

    compare()


@given(transformations())
def test_xml_is_that_of_saxon(case: Case) -> None:
    query = parse_flwr(case.query)
    message = parse_message(case.data)
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
        result = reference.transform(parse_flwr(case.query), parse_message(case.data))
        seen[bool(result.groups)] += 1

    count()
    assert seen[True] > seen[False] / 2


@given(transformations())
def test_xml_of_the_query_as_it_is_written(case: Case) -> None:
    """No translation between: what the parser reads wrongly would be seen here."""
    text = case.query
    message = parse_message(case.data)
    try:
        output = make_output(reference.transform(parse_flwr(text), message), message)
        expected = SaxonDocument(case.data).run(text)
    except (ResultError, SaxonError):
        return  # the tests above compare errors; Saxon makes one of what is no number
    if output is None or "position()" in text:
        return
    assert canonical(output, exclusive=True) == canonical(expected, exclusive=True)


RAW = [
    (
        'declare namespace p = "urn:u?a&amp;b"; for $v in //p:b return <o/>',
        "<r><b xmlns='urn:u?a&amp;b'/></r>",
    ),
    ('for $v in //b where $v = "x\r\ny" return <o/>', "<r><b>x\ny</b></r>"),
    ("for $v in //b return <o a='\"' b=\"'\" c='x''y'>x&#13;y</o>", "<r><b/></r>"),
    ("for $v in //b return <o>\r\n a \r\n{$v}</o>", "<r><b/></r>"),
    (
        'declare default element namespace "urn:u"; for $v in //b return <o>{$v/c}</o>',
        "<b xmlns='urn:u'><c/></b>",
    ),
    (
        'declare default element namespace "urn:u"; for $v in /*:r return <o x="{$v/@x}"/>',
        "<r x='1'/>",
    ),
    (
        "<a xmlns='urn:u'>{ for $v in //b return <c xmlns=''>{$v}</c> }</a>",
        "<r xmlns='urn:u'><b/></r>",
    ),
    ("for $v in /r return <a xmlns:z='urn:z'><b><z:c/></b>{$v}</a>", "<r/>"),
    (
        'declare namespace q = "urn:q"; for $v in //a return <o>{$v/@q:id}</o>',
        "<r xmlns:q='urn:q' xmlns:z='urn:q'><a xmlns:p='urn:q' p:id='1'/><a z:id='2'/></r>",
    ),
    (
        'declare namespace p = "urn:p"; declare namespace q = "urn:q";'
        " for $v in //a return <p:o q:k=''>{$v/@q:id}<i>{$v/@q:id}</i></p:o>",
        "<r xmlns:p='urn:q' xmlns:q='urn:q'><a p:id='1'/><a q:id='2'/></r>",
    ),
    (
        'declare namespace q = "urn:q";'
        " for $v in //a return <o xmlns:p='urn:p'><i>{$v/@q:id}</i></o>",
        "<r xmlns:p='urn:q'><a p:id='1'/></r>",
    ),
    (
        'declare namespace p = "urn:p"; declare namespace q = "urn:q";'
        'declare namespace s = "urn:s";'
        " for $v in //a return <p:o q:k=''>{$v/@s:y}{$v/@q:id}{$v/@q:x}</p:o>",
        "<r xmlns:p='urn:q' xmlns:t='urn:s'><a p:id='1' p:x='2' t:y='3'/></r>",
    ),
    (
        "for $v in //b order by $v/@k descending, number($v) return <o>{string($v)}</o>",
        "<r><b k='1'>2</b><b>3</b><b k='1'>1</b><b k='2'>x</b></r>",
    ),
]


@pytest.mark.parametrize(("query", "document"), RAW, ids=[query for query, _ in RAW])
def test_xml_of_queries_written_by_hand(query: str, document: str) -> None:
    message = parse_message(document.encode())
    output = make_output(reference.transform(parse_flwr(query), message), message)
    assert output is not None
    expected = SaxonDocument(document.encode()).run(query)
    assert canonical(output, exclusive=True) == canonical(expected, exclusive=True)

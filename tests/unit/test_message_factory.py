"""The message factory: XML and groups, and what can't be built. Saxon is asked in tests/oracles."""

import json

import pytest

from broker import reference
from broker.documents import parse_message
from broker.errors import QueryError, ResultError
from broker.limits import ResultLimits
from broker.message_factory import (
    MessageFactory,
    OutputFormat,
    check_template,
    make_output,
)
from broker.query import Flwr, parse

BOOKS = b"""<bib xmlns:m="urn:m"><book id="1" m:isbn="x"><title>A &amp; B</title><author>X</author>\
<author>Y</author></book><book><title>B</title></book></bib>"""


def flwr(text: str) -> Flwr:
    query = parse(text)
    assert isinstance(query, Flwr)
    return query


def output(
    text: str, data: bytes = BOOKS, format: OutputFormat = OutputFormat.XML, **limits: int
) -> str | None:
    message = parse_message(data)
    result = reference.transform(flwr(text), message)
    made = make_output(result, message, format, ResultLimits(**limits))
    return made.decode("utf-8") if made is not None else None


def test_templates_that_look_alike() -> None:
    """Equal templates are shared while there is one, and nodes are no numbers."""
    message = parse_message(BOOKS)
    made = {}
    factories = []
    for item in ("$b/book[2]/title", "count($b/book)", "string($b/book[2])"):
        query = flwr(f"for $b in /bib return <r>{{{item}}}</r>")
        factories.append(MessageFactory(query))
        groups = reference.transform(query, message).groups
        made[item] = factories[-1].make(groups, message, OutputFormat.XML, 1_000)
    assert list(made.values()) == [
        b'<r><title xmlns:m="urn:m">B</title></r>',
        b"<r>2</r>",
        b"<r>B</r>",
    ]


def test_the_groups_of_the_interface() -> None:
    made = output(
        "for $b in //book return <r>{$b/title}{$b/author}</r>", format=OutputFormat.GROUPS
    )
    assert json.loads(made or "") == {
        "lists": ["$b/title", "$b/author"],
        "groups": [
            [
                ['<title xmlns:m="urn:m">A &amp; B</title>'],
                ['<author xmlns:m="urn:m">X</author>', '<author xmlns:m="urn:m">Y</author>'],
            ],
            [['<title xmlns:m="urn:m">B</title>'], []],
        ],
    }


def test_kinds_of_items_in_groups() -> None:
    made = output(
        "declare namespace m = 'urn:m'; for $b in //book[1] return "
        "<r n='{$b/@id}'>{ $b / @m:isbn }{$b/title/text()}{$b/author/position()}"
        "{count($b/author)}{string($b/title)}</r>",
        format=OutputFormat.GROUPS,
    )
    assert json.loads(made or "") == {
        "lists": [
            "$b/@id",
            "$b / @m:isbn",
            "$b/title/text()",
            "$b/author/position()",
            "count($b/author)",
            "string($b/title)",
        ],
        "groups": [[["1"], ["x"], ["A & B"], [1, 2], [2], ["A & B"]]],
    }


def test_text_is_escaped() -> None:
    tag = "<r t='{$b/title}' q='&quot;&lt;&#10;'>&lt;{string($b/title)}</r>"
    assert (
        output("for $b in //book[1] return " + tag)
        == '<r t="A &amp; B" q="&quot;&lt;&#10;">&lt;A &amp; B</r>'
    )


def test_an_attribute_keeps_its_prefix_or_gets_another() -> None:
    prolog = "declare namespace m = 'urn:m'; "
    assert (
        output(prolog + "for $b in //book[1] return <r>{$b/@m:isbn}</r>")
        == '<r xmlns:m="urn:m" m:isbn="x"/>'
    )
    assert (
        output(prolog + "for $b in //book[1] let $i := $b/@m:isbn return <r xmlns:m='v'>{$i}</r>")
        == '<r xmlns:m="v" xmlns:m_1="urn:m" m_1:isbn="x"/>'
    )


def test_constant_elements_declare_their_namespaces_once() -> None:
    prolog = "declare namespace o = 'urn:o'; declare default element namespace 'urn:d'; "
    assert (
        output(prolog + "<o:all>{for $b in /*:bib return <x o:k='1'><o:y/><z/></x>}</o:all>")
        == '<o:all xmlns:o="urn:o"><x xmlns="urn:d" o:k="1"><o:y/><z/></x></o:all>'
    )


def test_names_without_namespace_stay_so_in_a_default_namespace() -> None:
    data = b"<a><book><c/></book></a>"
    made = output("for $b in //book return <r xmlns='urn:d'>{$b}</r>", data)
    assert made == '<r xmlns="urn:d"><book xmlns=""><c/></book></r>'


def test_the_document_can_be_copied() -> None:
    made = output("for $a in /a return <r>{$a/..}</r>", b"<!--1--><a/><?p 2?>")
    assert made == "<r><!--1--><a/><?p 2?></r>"


def test_no_group_makes_no_record() -> None:
    assert output("<r>{for $m in //magazine return $m}</r>") is None


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("for $b in //book return <r>{$b/title}{$b/@id}</r>", "attribute-after-content"),
        ("for $b in //book return <r id='0'>{$b/@id}</r>", "duplicate-attribute"),
        ("<r>{for $b in //book return <x/>{$b/@id}}</r>", "attribute-after-content"),
        ("for $b in //book return {$b/@id}", "attribute-without-element"),
    ],
)
def test_attributes_without_a_place_are_an_error_of_the_result(query: str, code: str) -> None:
    with pytest.raises(ResultError) as caught:
        output(query)
    assert caught.value.code == code


def test_an_attribute_after_what_turns_out_empty_is_fine() -> None:
    assert output("for $b in //book[1] return <r>{$b/price}{$b/@id}</r>") == '<r id="1"/>'
    assert output("for $b in //book[1] return <r>{string($b/price)}{$b/@id}</r>") == '<r id="1"/>'


@pytest.mark.parametrize(
    "query",
    [
        "for $b in //book return <r>{$b/title}{$b/@id}</r>",
        "for $b in //book return <r>{string($b)}{$b/@id}</r>",
        "for $b in //book let $i := $b/@id return <r>{$i}{$b/title}</r>",
        "<r>{for $b in //book return $b/@id}</r>",
        "for $b in //book/@id return <r>{$b}</r>",
        "for $b in //book return <r>{$b/@id} text</r>",
    ],
)
def test_what_may_turn_out_well_is_not_refused_at_registration(query: str) -> None:
    check_template(flwr(query))


def test_what_can_not_turn_out_well_is_refused_at_registration() -> None:
    with pytest.raises(QueryError) as caught:
        check_template(flwr("for $b in //book let $i := $b/@id return <r><x/>{$i}</r>"))
    assert caught.value.code == "attribute-after-content"
    assert caught.value.column == 50


@pytest.mark.parametrize("format", OutputFormat)
def test_output_beyond_the_budget_is_an_error(format: OutputFormat) -> None:
    query = "for $b in //author return <r>{$b/..}{$b/../..}</r>"
    assert output(query, format=format)
    with pytest.raises(ResultError) as caught:
        output(query, format=format, output_factor=1, output_base=10)
    assert caught.value.code == "budget-exceeded"


def test_bindings_beyond_the_budget_are_an_error() -> None:
    message = parse_message(b"<a>" + b"<b/>" * 11 + b"</a>")
    query = flwr("for $b in //b return $b")
    assert len(reference.transform(query, message, ResultLimits(max_bindings=11)).groups) == 11
    with pytest.raises(ResultError) as caught:
        reference.transform(query, message, ResultLimits(max_bindings=10))
    assert caught.value.code == "budget-exceeded"


def test_amplification_stays_within_the_budget() -> None:
    """Nested copies grow with the square of the depth: 700 bytes would make 15 MB."""
    data = b"<a>" * 150 + b"x" * 50 + b"</a>" * 150
    query = "for $a in //a return <r>{$a}{$a//a}</r>"
    with pytest.raises(ResultError) as caught:
        output(query, data)
    assert caught.value.code == "budget-exceeded"


def test_lists_beyond_the_budget_are_an_error_before_they_are_made() -> None:
    data = b"<r>" + b"<a/>" * 2000 + b"</r>"
    with pytest.raises(ResultError) as caught:
        output("for $v in //a let $w := //a return <p>{$w}</p>", data)
    assert caught.value.code == "budget-exceeded"
    assert "lists and nodes" in caught.value.detail

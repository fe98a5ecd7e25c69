"""Text that means harm gets an error: no traceback, no deep recursion, no long wait."""

import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.errors import QueryError
from broker.limits import QueryLimits
from broker.query import Query, check, parse, unparse

WIDE = QueryLimits(max_length=10_000_000, max_steps=10**9, max_predicates=10**9, max_nesting=64)


def outcome(text: str | bytes, limits: QueryLimits | None = None) -> tuple[Query | None, str]:
    """The query, or what its refusal says; any other error is a failure of the test."""
    try:
        return check(text) if limits is None else parse(text, limits), ""
    except QueryError as error:
        return None, str(error)


@given(st.binary(max_size=300))
@example(b"/*")
def test_random_bytes(data: bytes) -> None:
    query, refusal = outcome(data)
    assert query is None or parse(unparse(query)) == query
    assert query is not None or refusal


@given(
    st.text(
        alphabet='/ab*@.[]()<>{}$:=\'"&;!|,-+ \n\t01not anddocument("x")forinreturn', max_size=80
    )
)
@example("//a[")
def test_random_text_of_the_languages_own_characters(text: str) -> None:
    query, refusal = outcome(text)
    assert query is None or parse(unparse(query)) == query
    assert query is not None or refusal


@given(st.text(max_size=50))
def test_random_unicode(text: str) -> None:
    query, refusal = outcome("//a[b = '" + text + "']")
    assert query is not None or refusal


HOSTILE = {
    "a megabyte of letters": "/" + "a" * 1_000_000,
    "a megabyte of steps": "/a" * 500_000,
    "a megabyte of descendants": "//a" * 300_000,
    "a megabyte of spaces": "//a" + " " * 1_000_000,
    "10,000 open brackets": "//a" + "[" * 10_000,
    "10,000 nested predicates": "//a[" * 10_000,
    "10,000 open parentheses": "(" * 10_000,
    "10,000 times not": "not(" * 10_000,
    "10,000 open elements": "for $a in //a return " + "<x>" * 10_000,
    "10,000 open braces": "for $a in //a return " + "{" * 10_000,
    "10,000 open comments": "(:" * 10_000,
    "10,000 comments": "(::)" * 10_000,
    "10,000 predicates": "//a" + "[b]" * 10_000,
    "10,000 conjunctions": "//a" + " and //b" * 10_000,
    "10,000 minuses": "//a[" + "-" * 10_000,
    "10,000 ampersands": "for $a in //a return <x>" + "&amp;" * 10_000 + "</x>",
    "10,000 attributes": "for $a in //a return <x " + "a='1' " * 10_000 + "/>",
    "10,000 declarations": 'declare namespace p = "u";' * 10_000,
    "10,000 quotes": "//a[b=" + '"' * 10_001,
    "a name, then colons": "//a" + ":" * 10_000,
    "NUL": "//a\0",
    "a lone surrogate": "//a[b='\ud800']",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_with_the_limits_as_they_are(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        check(text)
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_with_wide_limits_costs_no_recursion(text: str) -> None:
    query, refusal = outcome(text, WIDE)
    assert query is None or query.source == text
    assert query is not None or 0 < len(refusal) < 2000


@pytest.mark.parametrize("name", [name for name in HOSTILE if name[:2] in ("a ", "10")])
def test_cost_grows_linearly(name: str) -> None:
    """Counted in calls, not seconds: ten times the text may make ten times the calls, not more."""
    few, many = (calls_of(HOSTILE[name][:size]) for size in (1000, 10_000))
    assert many <= 12 * few + 200


def calls_of(text: str) -> int:
    count = 0

    def tick(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tick)
    try:
        parse(text, WIDE)
    except QueryError:
        pass  # refused, which costs calls too
    finally:
        sys.setprofile(None)
    return count

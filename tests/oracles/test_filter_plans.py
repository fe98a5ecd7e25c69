"""Filters that the index over constants finds take the messages that the reference takes."""

import pytest
from hypothesis import given

from broker import reference
from broker.documents import parse_message
from broker.engine import Engine
from broker.query import Filter, parse
from tests.oracles.strategies import Case, filters

MESSAGE = b"<r><a k='1'><b>x</b><c/></a><a k='2'><b>y</b></a><a><b>10</b><b>x</b></a></r>"


def ways(query: str) -> dict[str, int]:
    engine = Engine()
    engine.add("s", parse(query))
    return dict(engine.transformations)


@pytest.mark.parametrize(
    ("query", "is_taken"),
    [
        ("//a[b = 'x']", True),
        ("//a[b = 'x']/c", True),
        ("//a[b = 'y']/c", False),
        ("//a[b = 'x']/@k", True),
        ("//a[b = 10]/@k", False),
        ("//a[b = 10]", True),
        ("/r/a[@k > 1][b]", True),
        ("/r/a[@k > 2]", False),
        ("//a[b = 'x' and not(@k)]", True),
        ("//b[. = 'y']", True),
        ("//b[text() = 'z']", False),
        ("/r[a/b = 'y']", True),
        ("//a[contains(b, 'y') and @k = '2']/b/text()", True),
    ],
)
def test_filters_that_are_indexed(query: str, is_taken: bool) -> None:
    engine = Engine()
    engine.add("s", parse(query))
    assert engine.transformations == {"indexed filter": 1}
    assert engine.explain("s") == [
        "a filter, found by the constants that its predicates compare with"
    ]
    for _ in range(2):
        assert [each.payload for each in engine.process(MESSAGE)] == [MESSAGE] * is_taken
    engine.add("other", parse(query.replace("'", '"')))
    assert len(engine._index) == 1
    engine.remove("s")
    engine.remove("other")
    assert len(engine._index) == len(engine._unmatched) == 0


@pytest.mark.parametrize(
    "query",
    [
        "//a",
        "//a[b = 'x'] and //a",
        "//a[b = 'x'][1]",
        "//a[b = 'x']/c[d = 'y']",
        "//a[/r/a/b = 'x']",
        "//a[b[@c] = 'x']",
        "//a[b != 'x']",
        "//a[not(b = 'x')]",
        "//*[. = 'x']",
        "//a[b = 'x']/..",
    ],
)
def test_filters_that_are_matched(query: str) -> None:
    assert not ways(query)


@given(filters())
def test_random_filters(case: Case) -> None:
    query = parse(case.query)
    assert isinstance(query, Filter)
    engine = Engine()
    engine.add("s", query)
    expected = [case.data] * reference.matches(query, parse_message(case.data))
    for _ in range(2):
        assert [each.payload for each in engine.process(case.data)] == expected


def test_a_filter_is_no_result_of_groups() -> None:
    engine = Engine()
    engine.add("filter", parse("//a[b = 'x']"))
    engine.add("made", parse("for $v in //a where $v/b = 'x' return <m>{$v/@k}</m>"))
    message = parse_message(MESSAGE)
    assert len(list(engine.results(message))) == 1
    assert {each.subscription for each in engine.process(MESSAGE)} == {"filter", "made"}

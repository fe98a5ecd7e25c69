"""Queries that differ only in literals are parsed once; the tree is the parser's all the same."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import QueryError
from broker.limits import QueryLimits
from broker.message_factory import check_template
from broker.query import Flwr, Query, check, parse
from broker.query.parser import parse_whole, read_text
from broker.query.shapes import _MOST_CHARACTERS, _MOST_SHAPES, _shapes
from tests.oracles.strategies import Case, transformations

LIMITS = QueryLimits()
LITERAL = re.compile(r""""[^"]*"|'[^']*'|(?<=[=<>] )[0-9.]+""")
CONTENTS = ["", "x", "return", "where", "(: x :)", "$v", "{", "</r>", " ", "1", "é", "a\tb", "it"]


def flwr(text: str) -> Flwr:
    query = parse(text)
    assert isinstance(query, Flwr)
    return query


def whole(text: str) -> Query | tuple[str, str]:
    """What the parser makes of a text, or how it refuses it."""
    try:
        return parse_whole(read_text(text, LIMITS), LIMITS)
    except QueryError as error:
        return error.code, str(error)


def read(text: str) -> Query | tuple[str, str]:
    try:
        return parse(text)
    except QueryError as error:
        return error.code, str(error)


def assert_read_alike(text: str) -> None:
    ours, expected = read(text), whole(text)
    assert ours == expected
    if isinstance(ours, Flwr):
        assert isinstance(expected, Flwr)
        assert hash(ours) == hash(expected)
        assert ours.source == expected.source
        assert ours.literals == expected.literals
        assert ours.list_names() == expected.list_names()


@given(transformations(), st.randoms(use_true_random=False))
def test_other_literals_in_random_queries(case: Case, rng: random.Random) -> None:
    """Whatever is in the place of a literal: the second query of a shape is read as the first."""

    def other(match: re.Match[str]) -> str:
        if match[0][0] not in "\"'":
            return rng.choice(["7", "07", "7.5", "7.", ".5", "-7", "1e5", "7x", "9" * 400])
        content = rng.choice([*CONTENTS, "&amp;", "&", "a\r\nb", '"', "'", "''", '""'])
        return match[0][0] + content + match[0][0]

    assert_read_alike(case.query)
    for _ in range(5):
        assert_read_alike(LITERAL.sub(other, case.query))


@pytest.mark.parametrize(
    "where",
    [
        "$v/a = {}",
        "$v/a = {} and $v/b != {} or not($v/c < {})",
        "contains($v/a, {}) and starts-with($v/b , {} )",
        "$v/a={}and $v/b={}",
        "count($v/a) and $v/b = {}",
        "string-length($v/a) > 3 and $v/b = {}",
    ],
)
def test_queries_of_one_shape_share_all_but_their_literals(where: str) -> None:
    texts = [
        "for $v in //a where "
        + re.sub(r"\{\}", lambda _, each=each: f"'{each}'", where)  # type: ignore[misc]
        + " return <r a='it''s'>{$v/@b}{ $v / c }</r>"
        for each in CONTENTS
    ]
    queries = []
    for text in texts:
        assert_read_alike(text)
        queries.append(flwr(text))
    assert len(set(queries)) == len(texts)
    assert queries[1].shape is not None
    shared = [each for each in queries if each.shape is queries[1].shape]
    assert all(each.template is queries[1].template for each in shared)
    # A literal may have the word that the look for literals ends with.
    assert len(shared) >= len(texts) - 1


@pytest.mark.parametrize("where", ["$v/a[@x = 'y']/b = 'z'", "$v/a (: it's :) = 'z' (: 'so' :)"])
def test_what_is_no_literal_of_where_makes_no_shape(where: str) -> None:
    for text in (where, where.replace("z", "other"), where.replace("y", "other")):
        assert_read_alike(f"for $v in //a where {text} return $v")
        assert flwr(f"for $v in //a where {text} return $v").shape is None


def test_numbers_are_literals_too() -> None:
    first, second = (flwr(f"for $v in //a where $v/b < {n} return $v") for n in ("5", "7.25"))
    assert first.shape is second.shape is not None
    assert second.literals == (7.25,)
    assert_read_alike("for $v in //a where $v/b < 7.25 return $v")


def test_positions_and_digits_in_names_are_none() -> None:
    for number in (1, 2):
        assert_read_alike(f"for $v in //a[{number}] where $v/h{number} = 'x' return $v")
        assert_read_alike(f"for $v in //a where $v/b[{number}] = 'x' return $v")
        assert_read_alike(f"for $v in //a where $v/b[@c = {number} ] = 'x' return $v")
        assert_read_alike(f"for $v in //a where $v/b = 'x' return <r> {number} </r>")


def test_errors_are_at_their_place_also_in_later_queries_of_a_shape() -> None:
    steps = "/s" * 20

    def refused(literal: str) -> QueryError:
        with pytest.raises(QueryError) as caught:
            check(f"for $v in /a where $v/b = '{literal}' return <r>{{$v{steps}}}{{$v{steps}}}</r>")
        return caught.value

    short, long = refused("x"), refused("x" * 30)
    assert short.code == long.code == "query-too-many-steps"
    assert long.span[0] - short.span[0] == 29
    assert "x" * 30 in long.source

    def misplaced(literal: str) -> QueryError:
        query = flwr(f"for $v in /a where $v/b = '{literal}' return <r>text {{$v/@c}}</r>")
        with pytest.raises(QueryError) as caught:
            check_template(query)
        return caught.value

    short, long = misplaced("x"), misplaced("x" * 30)
    assert short.code == long.code == "attribute-after-content"
    assert long.span[0] - short.span[0] == 29


def test_limits_hold_for_all_queries_of_a_shape() -> None:
    text = "for $v in //a where $v/b = '{}' return $v"
    assert parse(text.format("x")).source
    with pytest.raises(QueryError, match="longer than"):
        parse(text.format("x" * 10_000))
    few = QueryLimits(max_steps=1)
    for literal in ("x", "y"):
        check(text.format(literal))
        with pytest.raises(QueryError, match="more than 1 steps"):
            check(text.format(literal), few)


def test_shapes_are_bounded() -> None:
    for number in range(_MOST_SHAPES + 100):
        parse(f"for $v in //a{number} where $v/b = 'x' return $v")
    assert len(_shapes._shapes) <= _MOST_SHAPES
    long = "x" * 7_000
    for number in range(1_000):
        parse(f"for $v in //{long}{number} where $v/b = 'x' return $v")
    assert sum(map(len, _shapes._shapes.values())) == _shapes._characters <= _MOST_CHARACTERS

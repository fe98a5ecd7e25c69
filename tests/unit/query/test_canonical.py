"""Canonical text: equal for equal meanings, different for different ones, and it parses back."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given

from broker.query import parse, unparse
from tests.conftest import DATA
from tests.oracles.strategies import Case, filters, transformations


def blocks(name: str) -> list[list[str]]:
    text = (DATA / name).read_text(encoding="utf-8")
    lines = [
        [line for line in block.splitlines() if line[:1] != "#"] for block in text.split("\n\n")
    ]
    return [block for block in lines if len(block) > 1]


SAME = blocks("same_meaning.txt")
OTHER = blocks("other_meaning.txt")


@pytest.mark.parametrize("block", SAME, ids=[block[0] for block in SAME])
def test_spellings_of_one_meaning_are_one_text(block: list[str]) -> None:
    texts = {unparse(parse(spelling)) for spelling in block}
    assert len(texts) == 1
    for one, other in pairwise(block):
        assert parse(one) == parse(other)
        assert hash(parse(one)) == hash(parse(other))


@pytest.mark.parametrize("block", OTHER, ids=[block[0] for block in OTHER])
def test_different_meanings_are_different_texts(block: list[str]) -> None:
    for one, other in combinations(block, 2):
        assert unparse(parse(one)) != unparse(parse(other))
        assert parse(one) != parse(other)


@pytest.mark.parametrize("query", [query for block in SAME + OTHER for query in block])
def test_canonical_text_parses_to_the_same_query(query: str) -> None:
    parsed = parse(query)
    assert parse(unparse(parsed)) == parsed
    assert unparse(parse(unparse(parsed))) == unparse(parsed)


@given(filters())
def test_canonical_text_of_random_filters(case: Case) -> None:
    parsed = parse(case.query)
    assert parse(unparse(parsed)) == parsed


@given(transformations())
def test_canonical_text_of_random_transformations(case: Case) -> None:
    parsed = parse(case.query)
    assert parse(unparse(parsed)) == parsed
    assert unparse(parse(unparse(parsed))) == unparse(parsed)

"""Filters against libxml2 and Saxon: the same nodes in the same order."""

from hypothesis import given

from broker import reference
from broker.documents import parse_message
from broker.query import Filter, parse
from broker.query.syntax import Exists
from tests.oracles.engines import LxmlDocument, SaxonDocument, comparable
from tests.oracles.strategies import Case, filters
from tests.oracles.translate import (
    UntranslatableError,
    XPath10,
    filter_for_lxml,
    filter_for_saxon,
)


def parse_filter(text: str) -> Filter:
    query = parse(text)
    assert isinstance(query, Filter)
    return query


@given(filters())
def test_filter_decides_as_libxml2(case: Case) -> None:
    query = parse_filter(case.query)
    try:
        xpath = filter_for_lxml(query)
    except UntranslatableError:
        return
    expected = LxmlDocument(case.data).is_true(xpath)
    assert reference.matches(query, parse_message(case.data)) == expected


@given(filters())
def test_path_selects_the_nodes_that_libxml2_selects(case: Case) -> None:
    query = parse_filter(case.query)
    if not isinstance(query.condition, Exists):
        return
    path = query.condition.path
    try:
        xpath = XPath10().path(path)
    except UntranslatableError:
        return
    expected = LxmlDocument(case.data).select(xpath)
    assert comparable(reference.select(path, parse_message(case.data))) == expected


@given(filters())
def test_filter_decides_as_saxon(case: Case) -> None:
    query = parse_filter(case.query)
    answer = SaxonDocument(case.data).run(filter_for_saxon(query))
    assert reference.matches(query, parse_message(case.data)) == (answer == "true")


def test_most_generated_filters_match() -> None:
    """Else the tests above would compare nothing with nothing."""
    seen = {True: 0, False: 0}

    @given(filters())
    def count(case: Case) -> None:
        seen[reference.matches(parse_filter(case.query), parse_message(case.data))] += 1

    count()
    assert seen[True] > seen[False] / 2

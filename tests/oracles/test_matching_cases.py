"""Messages and filters in `tests/data/matching.txt`, on every engine and against libxml2."""

from collections.abc import Callable, Iterator

import pytest
from lxml import etree

from broker.documents import LabelPaths, parse_message
from broker.matching import Engine
from tests.conftest import DATA
from tests.oracles.test_engines import SWITCHES, parse_filter


def blocks() -> Iterator[tuple[bytes, dict[str, bool]]]:
    """Each message with its filters and whether they take it."""
    text = (DATA / "matching.txt").read_text(encoding="utf-8")
    for block in text.split("\n\n")[1:]:
        message, *lines = block.strip().splitlines()
        pairs = [line.split(" | ") for line in lines]
        yield message.encode(), {query: answer == "yes" for answer, query in pairs}


@pytest.mark.parametrize("make", SWITCHES.values(), ids=SWITCHES.keys())
def test_engine(make: Callable[[], Engine]) -> None:
    for data, answers in blocks():
        engine = make()
        numbers = {query: engine.add(parse_filter(query)) for query in answers}
        taken = engine.match(parse_message(data, labels=LabelPaths()))
        assert {query: number in taken for query, number in numbers.items()} == answers


def test_libxml2() -> None:
    for data, answers in blocks():
        tree = etree.fromstring(data).getroottree()
        assert {query: bool(tree.xpath(query)) for query in answers} == answers

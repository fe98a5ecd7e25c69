"""All 153,928 NITF queries on the 100 messages, exactly as libxml2 answers them.

Minutes rather than seconds: `make test-conformance`. A sample of it is in tests/oracles.
"""

import gzip
from pathlib import Path

from lxml import etree

from broker.documents import LabelPaths, parse_message
from broker.matching import YFilter
from broker.query import Filter, check


def test_all_queries_on_all_messages(nitf: Path) -> None:
    text = gzip.decompress((nitf / "queries-153928-distinct.txt.gz").read_bytes()).decode()
    lines = text.splitlines()
    engine = YFilter()
    numbers = []
    for line in lines:
        query = check(line)
        assert isinstance(query, Filter)
        numbers.append(engine.add(query))
    assert len(set(numbers)) == len(lines) == 153_928
    compiled = [etree.XPath(line) for line in lines]
    labels = LabelPaths()
    for file in sorted((nitf / "documents").glob("*.xml")):
        data = file.read_bytes()
        tree = etree.fromstring(data).getroottree()
        expected = [n for n, xpath in zip(numbers, compiled, strict=True) if xpath(tree)]
        found = engine.match(parse_message(data, labels=labels)).to_list()
        assert found == sorted(expected), file.name

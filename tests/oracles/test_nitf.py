"""YFilter 1.0's own test suites: its published answers, exactly."""

import json
from pathlib import Path

import pytest

from broker import reference
from broker.documents import LabelPaths, parse_message
from broker.query import Filter, check


@pytest.mark.parametrize("suite", ["simple-paths", "simple-predicates"])
def test_suite_gives_the_published_answers(nitf: Path, suite: str) -> None:
    lines = (nitf / suite / "queries.txt").read_text(encoding="utf-8").splitlines()
    queries = [check(line) for line in lines]
    labels = LabelPaths()
    expected = (nitf / suite / "expected.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(expected) == 100
    for line in expected:
        record = json.loads(line)
        data = (nitf / "documents" / record["document"]).read_bytes()
        message = parse_message(data, labels=labels)
        numbers = [
            number
            for number, query in enumerate(queries, start=1)
            if isinstance(query, Filter) and reference.matches(query, message)
        ]
        assert numbers == record["matches"], record["document"]

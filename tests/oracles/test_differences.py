"""Where the language differs from an oracle on purpose: the difference is there, and as listed."""

import json
from typing import Any

import pytest
from lxml import etree

from broker import reference
from broker.documents import parse_message
from broker.message_factory import make_output
from broker.query import Filter, parse
from tests.conftest import DATA
from tests.oracles.engines import SaxonDocument, SaxonError, canonical

DIFFERENCES: list[dict[str, Any]] = json.loads(
    (DATA / "oracle_differences.json").read_text(encoding="utf-8")
)
BY_NAME = pytest.mark.parametrize("case", DIFFERENCES, ids=[each["about"] for each in DIFFERENCES])


@BY_NAME
def test_our_answer(case: dict[str, Any]) -> None:
    message = parse_message(case["document"].encode())
    query = parse(case["query"])
    if isinstance(query, Filter):
        assert reference.matches(query, message) is case["ours"]
        return
    output = make_output(reference.transform(query, message), message)
    assert (output.decode() if output is not None else None) == case["ours"]


@BY_NAME
def test_answer_of_libxml2(case: dict[str, Any]) -> None:
    if "libxml2" not in case:
        assert not isinstance(parse(case["query"]), Filter)
        return
    assert libxml2(case["document"], case["query"]) == case["libxml2"]


@BY_NAME
def test_answer_of_saxon(case: dict[str, Any]) -> None:
    query = parse(case["query"])
    text = f"boolean({case['query']})" if isinstance(query, Filter) else case["query"]
    answer: object = saxon(case["document"], text)
    if isinstance(query, Filter) and answer in ("true", "false"):
        answer = answer == "true"
    elif not isinstance(query, Filter) and answer != case["saxon"]:
        answer = canonical(str(answer))
        assert answer == canonical(case["saxon"])
        return
    assert answer == case["saxon"]


def libxml2(document: str, query: str) -> object:
    tree = etree.fromstring(document).getroottree()
    try:
        return tree.xpath(f"boolean({query})")
    except etree.XPathError:
        return "error"


def saxon(document: str, query: str) -> str:
    try:
        return SaxonDocument(document.encode()).run(query)
    except SaxonError as error:
        return error.code

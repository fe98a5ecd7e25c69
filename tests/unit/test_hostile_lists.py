"""Lists of results that could fill the memory long before there is output to measure."""

import tracemalloc

import pytest

from broker.delivery import Delivery
from broker.engine import Engine
from broker.limits import QueryLimits, ResultLimits
from broker.query import parse
from broker.runtime.transformer import Choice

STRATEGIES = [Choice.AUTO, Choice.F, Choice.FW, Choice.FWR, Choice.REFERENCE]

TEXT = 100_000
DEPTH = 10
NESTED = b"<r>" + b"<w>" * DEPTH + b"x" * TEXT + b"</w>" * DEPTH + b"</r>"
"""Each of the ten has all of the text."""

MANY = b"<r>" + b"<a/>" * 600 + b"</r>"

_MOST_BYTES = 30_000_000


def _only(choice: Choice, query: str, data: bytes, limits: ResultLimits | None = None) -> Delivery:
    engine = Engine(choice=choice, result_limits=limits or ResultLimits())
    engine.add("s", parse(query, QueryLimits(max_length=20_000, max_steps=1_000)))
    (delivery,) = engine.process(data)
    return delivery


@pytest.mark.parametrize("choice", STRATEGIES)
@pytest.mark.parametrize("value", ["string($v)", "$v//text()", "string($v/..)"])
def test_texts_that_are_asked_for_often_are_not_all_made(choice: Choice, value: str) -> None:
    """Else 600 MB are, for a message of 100 kB."""
    query = f"for $v in //w return <o>{f'{{{value}}}' * 600}</o>"
    tracemalloc.start()
    try:
        delivery = _only(choice, query, NESTED)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert delivery.error is not None
    assert delivery.error.code == "budget-exceeded"
    assert peak < _MOST_BYTES


@pytest.mark.parametrize("choice", STRATEGIES)
def test_keys_that_are_too_long_together(choice: Choice) -> None:
    limits = ResultLimits(output_factor=0, output_base=5 * TEXT)
    delivery = _only(choice, "for $v in //w order by $v return <o/>", NESTED, limits)
    assert delivery.error is not None
    assert f"more than {5 * TEXT} characters together" in delivery.error.detail
    limits = ResultLimits(output_factor=0, output_base=DEPTH * TEXT)
    delivery = _only(choice, "for $v in //w order by $v return <o/>", NESTED, limits)
    assert delivery.payload == b"<o/>" * DEPTH


@pytest.mark.parametrize("choice", STRATEGIES)
@pytest.mark.parametrize("value", ["$v/b", "$v/b/text()", "$v//b", "$v/@b"])
def test_empty_lists_count(choice: Choice, value: str) -> None:
    """One for each binding and each expression is many millions, if the limits allow it."""
    query = f"for $v in //a return <o>{f'{{{value}}}' * 300}</o>"
    limits = ResultLimits(max_items=120_000)
    delivery = _only(choice, query, MANY, limits)
    assert delivery.error is not None
    assert delivery.error.detail == "more than 120000 lists and nodes in the result"
    delivery = _only(choice, query, MANY.replace(b"<a/>", b"", 200), limits)
    assert delivery.payload == b"<o/>" * 400

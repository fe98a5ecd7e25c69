"""Transformations that could take for ever, or more than they may: work is counted, not timed."""

import pytest

from broker.engine import Engine
from broker.limits import ResultLimits
from broker.query import parse
from broker.reference import Evaluation
from broker.runtime.transformer import Choice

DEPTH = 60
NESTED = b"<a>" * DEPTH + b"</a>" * DEPTH
LEVELS = 7
PREDICATES = "".join("[.//a" for _ in range(LEVELS)) + "]" * LEVELS

STRATEGIES = [Choice.AUTO, Choice.F, Choice.FW, Choice.FWR, Choice.REFERENCE]

MANY_TUPLES = (
    b"<r>" + b"<a>" * 40 + b"<b>" * 40 + b"<c/>" * 50 + b"</b>" * 40 + b"</a>" * 40 + b"</r>"
)
"""80,000 tuples of //a//b//c, and 50 nodes."""


@pytest.mark.parametrize(
    "query",
    [
        f"for $v in //a{PREDICATES} return <r/>",
        f"for $v in //a where $v//a{PREDICATES} return <r/>",
        f"for $v in /a return <r>{{count($v//a{PREDICATES})}}</r>",
        f"//a[count(.//a{PREDICATES}) > 0]",
    ],
)
@pytest.mark.parametrize("choice", STRATEGIES)
def test_a_predicate_is_tried_once_on_a_node(
    choice: Choice, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else predicates in each other would take as many as there are choices of ancestors."""
    tried = 0
    holds = Evaluation.holds

    def counted(self: Evaluation, *arguments: object) -> bool:
        nonlocal tried
        tried += 1
        return holds(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Evaluation, "holds", counted)
    engine = Engine(choice=choice)
    engine.add("s", parse(query))
    assert len(engine.process(NESTED)) == 1
    # Once by each of the few that look at the query.
    assert tried <= 4 * (LEVELS + 2) * DEPTH


@pytest.mark.parametrize("choice", STRATEGIES)
@pytest.mark.parametrize("where", ["", "where count($v/../c) > 1", "where not($v/d)"])
def test_many_tuples_are_no_reason_to_refuse_few_nodes(choice: Choice, where: str) -> None:
    engine = Engine(choice=choice)
    engine.add("s", parse(f"for $v in //a//b//c {where} return <n>{{$v/position()}}</n>"))
    (delivery,) = engine.process(MANY_TUPLES)
    assert delivery.payload == b"".join(b"<n>%d</n>" % number for number in range(1, 51))


@pytest.mark.parametrize("choice", STRATEGIES)
@pytest.mark.parametrize("returned", ["{$v}", "{$v/..}"])
def test_too_many_bindings(choice: Choice, returned: str) -> None:
    engine = Engine(choice=choice, result_limits=ResultLimits(max_bindings=2))
    engine.add("s", parse(f"for $v in //a return <r>{returned}</r>"))
    (delivery,) = engine.process(b"<m><a/><a/></m>")
    assert delivery.error is None
    (delivery,) = engine.process(b"<m><a/><a/><a/></m>")
    assert delivery.error is not None
    assert delivery.error.code == "budget-exceeded"
    assert "bindings" in delivery.error.detail


@pytest.mark.parametrize("choice", STRATEGIES)
@pytest.mark.parametrize("returned", ["{$v}{$v}", "{$v/a}{$v/..}", "{$v/..}{$v/a}"])
def test_too_many_nodes_in_all_lists_together(choice: Choice, returned: str) -> None:
    engine = Engine(choice=choice, result_limits=ResultLimits(max_items=4))
    engine.add("s", parse(f"for $v in //v return <r>{returned}</r>"))
    (delivery,) = engine.process(b"<m><v><a/></v><v><a/></v></m>")
    assert delivery.error is None
    (delivery,) = engine.process(b"<m><v><a/></v><v><a/></v><v><a/></v></m>")
    assert delivery.error is not None
    assert "more than 4 nodes" in delivery.error.detail

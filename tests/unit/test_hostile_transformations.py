"""Transformations that could take for ever, or more than they may: work is counted, not timed."""

import pytest

from broker import reference
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
    engine = Engine(choice=choice, result_limits=ResultLimits(max_items=8))
    engine.add("s", parse(f"for $v in //v return <r>{returned}</r>"))
    (delivery,) = engine.process(b"<m><v><a/></v><v><a/></v></m>")
    assert delivery.error is None
    (delivery,) = engine.process(b"<m><v><a/></v><v><a/></v><v><a/></v></m>")
    assert delivery.error is not None
    assert "more than 8 lists and nodes" in delivery.error.detail


SIBLINGS = b"<r>" + b"<a/>" * 3_000 + b"</r>"
SECTIONS = b"<s>" * 50 + b"<b/>" * 1_000 + b"</s>" * 50
"""From each section all of the others below it, and their parts, can be reached."""


@pytest.mark.parametrize("choice", STRATEGIES)
@pytest.mark.parametrize(
    ("query", "is_filter"),
    [
        ("for $v in //a where count($v/../a) = 3000 return <r/>", False),
        ("for $v in //a where not($v/../a/..) return <r/>", None),
        ("//a[count(../a) = 3000]", True),
        ("//a[../a[../a]]", True),
    ],
)
def test_siblings_share_what_is_above_them(
    choice: Choice, query: str, is_filter: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    visited = 0
    visit = Evaluation.visit

    def counted(self: Evaluation, nodes: int) -> None:
        nonlocal visited
        visited += nodes
        visit(self, nodes)

    monkeypatch.setattr(Evaluation, "visit", counted)
    engine = Engine(choice=choice)
    engine.add("s", parse(query))
    payloads = [each.payload for each in engine.process(SIBLINGS)]
    expected = {True: [SIBLINGS], False: [b"<r/>" * 3_000], None: []}
    assert payloads == expected[is_filter]
    assert visited < 100_000


@pytest.mark.parametrize("choice", STRATEGIES)
@pytest.mark.parametrize(
    "query",
    [
        "for $v in //s where count($v//b/..) > 1 return <r/>",
        "for $v in //s return <r>{count($v//b/..)}</r>",
        "for $v in //s order by count($v//b/..) return <r/>",
        "//s[count(.//b/..) > 4000]",
        "//b[../c] or //s[count(.//b/..) > 4000]",
    ],
)
def test_what_multiplies_is_refused_for_that_subscription_alone(
    choice: Choice, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "_MOST_VISITED", 20_000)
    monkeypatch.setattr(reference, "_MOST_FOR_EACH_NODE", 0)
    engine = Engine(choice=choice)
    engine.add("hostile", parse(query))
    engine.add("filter", parse("//b[../b]"))
    engine.add("modest", parse("for $v in /s return <n>{count($v//b)}</n>"))
    got = {each.subscription: each for each in engine.process(SECTIONS)}
    error = got["hostile"].error
    assert error is not None
    assert error.code == "budget-exceeded"
    assert "too many nodes" in error.detail
    assert got["filter"].payload == SECTIONS
    assert got["modest"].payload == b"<n>1000</n>"
    assert engine.metrics.budget_overruns == 1

"""The plans of BROKER's Queries 1-3, by each strategy and optimisation, as its figures have them;
what is rewritten by a DTD, and what is grouped in the matcher, each with its reasons.

Query 2 keeps its DupElims, and with the DTD gets merging operators by claim 5; Query 3 keeps the
DupElim of `//section//section//title` alone (BROKER 4.2). `XMLBROKER_WRITE_GOLDEN=1` writes the
files anew; read the difference then.
"""

import os
from pathlib import Path

import pytest

from broker.documents.dtd import ElementGraph
from broker.plan.build import Strategy, build
from broker.plan.operators import Plan
from broker.plan.optimise import Optimisation, optimise
from broker.plan.rewrite import rewritings
from broker.plan.text import plan_text, shared_plan_text
from broker.query import Flwr, parse
from broker.runtime.planned import PlannedTogether
from broker.runtime.transformer import Choice, Transformer
from tests.conftest import DATA

PLANS = DATA / "plans"


def describe(query: Flwr) -> str:
    graph = ElementGraph.load(PLANS / "book.dtd")
    parts = []
    for strategy in Strategy:
        for optimisation in Optimisation:
            plan, report = optimise(build(query, strategy), optimisation, graph)
            lines = [f"## {strategy}, {optimisation}", plan_text(plan)]
            lines += [f"fired: {name}, {reason}" for name, reason in report.fired]
            lines += [f"not fired: {name}, {reason}" for name, reason in report.stayed]
            parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


@pytest.mark.parametrize("file", sorted(PLANS.glob("*.xq")), ids=lambda file: file.stem)
def test_plan(file: Path) -> None:
    query = parse(file.read_text(encoding="utf-8"))
    assert isinstance(query, Flwr)
    golden = file.with_suffix(".txt")
    described = describe(query)
    if os.environ.get("XMLBROKER_WRITE_GOLDEN"):
        golden.write_text(described, encoding="utf-8")
    assert described == golden.read_text(encoding="utf-8")


def plan_of(name: str) -> str:
    query = parse((PLANS / f"{name}.xq").read_text(encoding="utf-8"))
    assert isinstance(query, Flwr)
    graph = ElementGraph.load(PLANS / "book.dtd")
    plan, _ = optimise(build(query, Strategy.FWR), Optimisation.Q_DTD, graph)
    return plan_text(plan)


def test_what_the_paper_says_remains_of_query_2() -> None:
    text = plan_of("query2")
    assert text.count("DupElim(scan)") == 2
    assert "OuterJoinSelect(merge)" in text
    assert "SemiJoin(merge)" in text
    assert "hash" not in text


def test_what_the_paper_says_remains_of_query_3() -> None:
    text = plan_of("query3")
    assert text.count("DupElim") == 1
    after = text.split("DupElim(hash) on 1, 3\n")[1]
    assert after.strip().startswith("PathStream //section//section//title")


def test_rewriting() -> None:
    """BROKER 5.1: a case is a strategy, a DTD and a query."""
    golden = PLANS / "rewriting.txt"
    content = golden.read_text(encoding="utf-8")
    answers = []
    for block in content.split("\n\n"):
        heading, text = block.strip().splitlines()[:2]
        strategy, dtd = heading.split(", ")
        query = parse(text)
        assert isinstance(query, Flwr)
        graph = ElementGraph.load(PLANS / dtd)
        before = build(query, Strategy(strategy))
        after = build(query, Strategy(strategy), graph)
        fired, stayed = rewritings(before, after)
        lines = [heading, text, "before", *indented(before), "after", *indented(after)]
        lines += [f"fired: {reason}" for reason in fired]
        lines += [f"not fired: {reason}" for reason in stayed]
        answers.append("\n".join(lines) + "\n")
    if os.environ.get("XMLBROKER_WRITE_GOLDEN"):
        golden.write_text("\n".join(answers), encoding="utf-8")
    assert "\n".join(answers) == golden.read_text(encoding="utf-8")
    assert "\nfired:" in content
    assert "\nnot fired:" in content


def indented(plan: Plan) -> list[str]:
    return [f"  {line}" for line in plan_text(plan).splitlines()]


def test_sharing() -> None:
    """BROKER's Figure 5: one plan for several queries, with what they have in common once."""
    golden = PLANS / "sharing.txt"
    content = golden.read_text(encoding="utf-8")
    queries = [line for line in content.splitlines() if line.startswith("for ")]
    graph = ElementGraph.load(PLANS / "bib.dtd")
    parts = ["\n".join(queries)]
    for optimisation in Optimisation:
        together: PlannedTogether[int] = PlannedTogether(Strategy.FWR, optimisation, graph)
        for number, text in enumerate(queries):
            query = parse(text)
            assert isinstance(query, Flwr)
            together.add(number, query)
        parts.append(f"## fwr, {optimisation}\n{shared_plan_text(together.plans())}")
    described = "\n\n".join(parts) + "\n"
    if os.environ.get("XMLBROKER_WRITE_GOLDEN"):
        golden.write_text(described, encoding="utf-8")
    assert described == golden.read_text(encoding="utf-8")
    for shared in ("SharedJoin(merge)", "SharedJoin(hash)", "GroupBy(scan)", "GroupBy(hash)"):
        assert shared in content


def test_grouping() -> None:
    """The rule "group in the matcher", with the condition that is not met where it stays."""
    golden = PLANS / "grouping.txt"
    content = golden.read_text(encoding="utf-8")
    queries = [line for line in content.splitlines() if line.startswith("for ")]
    answers = []
    for text in queries:
        query = parse(text)
        assert isinstance(query, Flwr)
        notes = Transformer(query, Choice.GROUP).explain()
        answers += [text, *(f"  {note}" for note in notes)]
    described = "\n".join(answers) + "\n"
    if os.environ.get("XMLBROKER_WRITE_GOLDEN"):
        golden.write_text(described, encoding="utf-8")
    assert described == golden.read_text(encoding="utf-8")
    assert {number for number in "1234" if f"condition {number}" in content} >= {*"123"}

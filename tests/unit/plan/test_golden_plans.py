"""The plans of BROKER's Queries 1-3, by each strategy and optimisation, as its figures have them,
and of several queries together.

Query 2 keeps its DupElims, and with the DTD gets merging operators by claim 5; Query 3 keeps the
DupElim of `//section//section//title` alone (BROKER 4.2). `XMLBROKER_WRITE_GOLDEN=1` writes the
files anew; read the difference then.
"""

import os
from pathlib import Path

import pytest

from broker.documents.dtd import ElementGraph
from broker.plan.build import build
from broker.plan.operators import Strategy
from broker.plan.optimise import Optimisation, optimise
from broker.plan.text import plan_text, shared_plan_text
from broker.query import Flwr, parse
from broker.runtime.planned import PlannedTogether
from tests.conftest import DATA

PLANS = DATA / "plans"


def describe(query: Flwr) -> str:
    graph = ElementGraph.load(PLANS / "book.dtd")
    parts = []
    for strategy in Strategy:
        for optimisation in Optimisation:
            plan, report = optimise(build(query, strategy), optimisation, graph)
            lines = [f"## {strategy}, {optimisation}", plan_text(plan)]
            lines += report.lines()
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

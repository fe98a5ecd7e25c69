"""Each rule by itself: plans before and after it, and why it fired or did not.

A case is a strategy, perhaps a DTD, and a query; the rest of `tests/data/plans/rules/<rule>.txt` is
what is expected. `XMLBROKER_WRITE_GOLDEN=1` writes it anew; read the difference then.
"""

import os
from contextlib import suppress
from dataclasses import replace

import pytest

from broker.documents.dtd import ElementGraph
from broker.plan.build import NotPlannedError, build
from broker.plan.group_plan import PathTable
from broker.plan.operators import Plan, ReturnSelect, Selection, SemiJoin, Strategy
from broker.plan.optimise import RULES, PlanRule, QueryRule, Report, apply_rule, group
from broker.plan.rules import Given, pull_up_selection
from broker.plan.text import group_plan_text, plan_text
from broker.query import Flwr, parse
from tests.conftest import DATA

PLANS = DATA / "plans"


def described(rule: QueryRule | PlanRule, heading: str, text: str) -> str:
    strategy, _, dtd = heading.removeprefix("# ").partition(", ")
    graph = ElementGraph.load(PLANS / dtd) if dtd else None
    query = parse(text)
    assert isinstance(query, Flwr)
    before = planned(query, Strategy(strategy))
    report = Report()
    if isinstance(rule, PlanRule):
        assert before is not None
        after = plan_text(apply_rule(rule, before, graph, report))
    elif group(query, PathTable(), report) is not None:
        after = group_plan_text(query)
    else:
        after = text_of(before)
    count = report.counts[rule.name]
    assert (count.fired, count.stayed) == (len(report.fired), len(report.stayed))
    lines = [heading, text, "before", *indented(text_of(before)), "after", *indented(after)]
    lines += [f"fired: {reason}" for _, reason in report.fired]
    lines += [f"not fired: {reason}" for _, reason in report.stayed]
    return "\n".join(lines) + "\n"


def planned(query: Flwr, strategy: Strategy) -> Plan | None:
    with suppress(NotPlannedError):
        return build(query, strategy)
    return None


def text_of(plan: Plan | None) -> str:
    return "walked by the reference engine" if plan is None else plan_text(plan)


def indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule(rule: QueryRule | PlanRule) -> None:
    golden = PLANS / "rules" / f"{rule.name}.txt"
    content = golden.read_text(encoding="utf-8")
    cases = [block.strip().splitlines()[:2] for block in content.split("\n\n")]
    answers = [described(rule, heading, text) for heading, text in cases]
    if os.environ.get("XMLBROKER_WRITE_GOLDEN"):
        golden.write_text("\n".join(answers), encoding="utf-8")
    assert "\n".join(answers) == golden.read_text(encoding="utf-8")
    assert "\nfired:" in content
    if rule.name != "pull_up_selection":
        assert "\nnot fired:" in content, "a case in which it must not fire"


def test_pull_up_selection_leaves_what_has_several_tests() -> None:
    """No query makes such a semijoin; the rule looks all the same."""
    query = parse('for $v in //a where $v/b = "1" return <r/>')
    assert isinstance(query, Flwr)
    plan = build(query, Strategy.FW)
    root = plan.root
    assert isinstance(root, ReturnSelect)
    join = root.source
    assert isinstance(join, SemiJoin)
    assert isinstance(join.right, Selection)
    doubled = replace(join, right=replace(join.right, tests=join.right.tests * 2))
    assert isinstance(pull_up_selection.apply(doubled, Given(plan, None)), str)


def test_each_rule_has_its_file_and_no_file_is_left_over() -> None:
    files = {file.stem for file in (PLANS / "rules").glob("*.txt")}
    assert files == {rule.name for rule in RULES}
    assert all(rule.apply.__module__ == f"broker.plan.rules.{rule.name}" for rule in RULES)

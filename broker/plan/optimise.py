"""The optimiser: lists of rules, each applied to every operator of a plan, from the leaves up."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from broker.documents.dtd import ElementGraph
from broker.plan.operators import (
    Operator,
    OuterJoinSelect,
    Plan,
    ReturnSelect,
    inputs,
    with_inputs,
)
from broker.plan.rules import (
    drop_dup_elim,
    merge_outer_join_select,
    merge_semi_join,
    pull_up_selection,
    scan_dup_elim,
    share_group_by,
    share_selection,
)


class Optimisation(StrEnum):
    """What the optimiser may use."""

    NONE = "none"
    Q = "q"
    Q_DTD = "q+dtd"


class Rule(NamedTuple):
    """A rule: its name is that of its file."""

    name: str
    apply: Callable[[Operator, ElementGraph | None], "tuple[Operator, str] | str | None"]
    """The operator that takes the place of one, and why; or why it stays; None if it is another."""


RULES = (
    Rule("drop_dup_elim", drop_dup_elim.apply),
    Rule("scan_dup_elim", scan_dup_elim.apply),
    Rule("merge_semi_join", merge_semi_join.apply),
    Rule("merge_outer_join_select", merge_outer_join_select.apply),
)
"""The rules of BROKER 4, in the order in which they are tried."""

SHARING_RULES = (
    Rule("share_selection", share_selection.apply),
    Rule("pull_up_selection", pull_up_selection.apply),
    Rule("share_group_by", share_group_by.apply),
)
"""The rules of BROKER 5.2, applied to what those above have left."""


@dataclass(slots=True)
class RuleCount:
    """How often a rule was tried on an operator of its kind, and what that took."""

    fired: int = 0
    stayed: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Report:
    """What the optimiser did."""

    fired: list[tuple[str, str]] = field(default_factory=list)
    """Names of rules that fired, each with its reason."""
    stayed: list[tuple[str, str]] = field(default_factory=list)
    """Names of rules that did not, likewise."""
    counts: dict[str, RuleCount] = field(default_factory=dict)


def optimise(
    plan: Plan,
    optimisation: Optimisation,
    graph: ElementGraph | None,
    *,
    sharing: bool = False,
) -> tuple[Plan, Report]:
    """A plan that gives the same groups for less; with a DTD, for messages that conform to it.

    With sharing, its parts are such that plans of other queries may have the same.
    """
    report = Report()
    if optimisation is not Optimisation.NONE:
        graph = graph if optimisation is Optimisation.Q_DTD else None
        plan = apply_rules(RULES, plan, graph, report)
    if sharing:
        plan = apply_rules(SHARING_RULES, plan, None, report)
    return plan, report


def apply_rules(
    rules: tuple[Rule, ...], plan: Plan, graph: ElementGraph | None, report: Report
) -> Plan:
    """A plan after some rules, which may use the DTD if one is given."""
    root = _visit(plan.root, rules, graph, report)
    assert isinstance(root, ReturnSelect | OuterJoinSelect)
    return replace(plan, root=root)


def _visit(
    operator: Operator, rules: tuple[Rule, ...], graph: ElementGraph | None, report: Report
) -> Operator:
    below = tuple(_visit(each, rules, graph, report) for each in inputs(operator))
    operator = with_inputs(operator, below)
    for rule in rules:
        count = report.counts.setdefault(rule.name, RuleCount())
        started = time.perf_counter()
        answer = rule.apply(operator, graph)
        count.seconds += time.perf_counter() - started
        if isinstance(answer, str):
            count.stayed += 1
            report.stayed.append((rule.name, answer))
        elif answer is not None:
            count.fired += 1
            operator, reason = answer
            report.fired.append((rule.name, reason))
    return operator

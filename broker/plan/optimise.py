"""The optimiser: one list of rules, each with the part of its work that it belongs to.

Every rule that is asked for is tried on each operator of a plan, from the leaves up, before the
next rule has its turn. Each is timed and counted.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from broker.documents.dtd import ElementGraph
from broker.plan.group_plan import PathTable
from broker.plan.operators import (
    Operator,
    OuterJoinSelect,
    Plan,
    ReturnSelect,
    inputs,
    with_inputs,
)
from broker.plan.rules import (
    Given,
    drop_dup_elim,
    group_in_matcher,
    merge_outer_join_select,
    merge_semi_join,
    pull_up_selection,
    rewrite_descendants,
    scan_dup_elim,
    share_group_by,
    share_selection,
)
from broker.query import Flwr


class Optimisation(StrEnum):
    """What the optimiser may use."""

    NONE = "none"
    Q = "q"
    Q_DTD = "q+dtd"


class Stage(StrEnum):
    """What a rule is for, and so when it is tried."""

    REWRITING = "rewriting"
    """Opt(q+dtd), and there is a DTD."""
    CLAIMS = "claims"
    """Opt(q) and Opt(q+dtd); the claims that may be used are theirs."""
    SHARING = "sharing"
    """The plan is to be a part of one that many queries share."""


class QueryRule(NamedTuple):
    """A rule that gives a query a plan of another kind. Its name is that of its file."""

    name: str
    apply: Callable[[Flwr, PathTable], tuple[group_in_matcher.Answer, str] | str]
    """The plan, and why; or why there is none."""


class PlanRule(NamedTuple):
    """A rule for plans with path streams. Its name is that of its file."""

    name: str
    stage: Stage
    apply: Callable[[Operator, Given], tuple[Operator, str] | str | None]
    """The operator that takes the place of one, and why; or why it stays; None if it is another."""


GROUP_IN_MATCHER = QueryRule("group_in_matcher", group_in_matcher.apply)

RULES = (
    GROUP_IN_MATCHER,
    PlanRule("rewrite_descendants", Stage.REWRITING, rewrite_descendants.apply),
    PlanRule("drop_dup_elim", Stage.CLAIMS, drop_dup_elim.apply),
    PlanRule("scan_dup_elim", Stage.CLAIMS, scan_dup_elim.apply),
    PlanRule("merge_semi_join", Stage.CLAIMS, merge_semi_join.apply),
    PlanRule("merge_outer_join_select", Stage.CLAIMS, merge_outer_join_select.apply),
    PlanRule("share_selection", Stage.SHARING, share_selection.apply),
    PlanRule("pull_up_selection", Stage.SHARING, pull_up_selection.apply),
    PlanRule("share_group_by", Stage.SHARING, share_group_by.apply),
)
"""All rules, in the order in which they are tried: the fused one of our own, which needs none of
the others; then those of BROKER 5.1, 4 and 5.2."""


@dataclass(slots=True)
class RuleCount:
    """How often a rule was tried on what it is for, and what that took."""

    fired: int = 0
    stayed: int = 0
    seconds: float = 0.0


class RuleCounts(dict[str, RuleCount]):
    """What the rules did, by their names."""

    def __missing__(self, name: str) -> RuleCount:
        self[name] = RuleCount()
        return self[name]

    def add(self, other: "RuleCounts") -> None:
        """Count what others did, too."""
        for name, count in other.items():
            total = self[name]
            total.fired += count.fired
            total.stayed += count.stayed
            total.seconds += count.seconds


@dataclass(slots=True)
class Report:
    """What the optimiser did."""

    fired: list[tuple[str, str]] = field(default_factory=list)
    """Names of rules that fired, each with its reason."""
    stayed: list[tuple[str, str]] = field(default_factory=list)
    """Names of rules that did not, likewise."""
    counts: RuleCounts = field(default_factory=RuleCounts)

    def lines(self) -> Iterator[str]:
        """The same in words: the rules that fired and those that did not, and why."""
        for name, reason in self.fired:
            yield f"fired: {name}, {reason}"
        for name, reason in self.stayed:
            yield f"not fired: {name}, {reason}"


def group(query: Flwr, paths: PathTable, report: Report) -> group_in_matcher.Answer | None:
    """The plan that needs no path streams, if the rule for it fires."""
    name, apply = GROUP_IN_MATCHER
    count = report.counts[name]
    started = time.perf_counter()
    answer = apply(query, paths)
    count.seconds += time.perf_counter() - started
    if isinstance(answer, str):
        count.stayed += 1
        report.stayed.append((name, answer))
        return None
    count.fired += 1
    plan, reason = answer
    report.fired.append((name, reason))
    return plan


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
    stages = {Stage.CLAIMS} if optimisation is not Optimisation.NONE else set()
    if optimisation is Optimisation.Q_DTD and graph is not None:
        stages.add(Stage.REWRITING)
    else:
        graph = None
    if sharing:
        stages.add(Stage.SHARING)
    for rule in RULES:
        if isinstance(rule, PlanRule) and rule.stage in stages:
            plan = apply_rule(rule, plan, graph, report)
    return plan, report


def apply_rule(rule: PlanRule, plan: Plan, graph: ElementGraph | None, report: Report) -> Plan:
    """A plan after one rule, which may use the DTD if one is given."""
    count = report.counts[rule.name]
    started = time.perf_counter()
    root = _visit(plan.root, rule, Given(plan, graph), report)
    count.seconds += time.perf_counter() - started
    assert isinstance(root, ReturnSelect | OuterJoinSelect)
    return replace(plan, root=root)


def _visit(operator: Operator, rule: PlanRule, given: Given, report: Report) -> Operator:
    below = tuple([_visit(each, rule, given, report) for each in inputs(operator)])
    operator = with_inputs(operator, below)
    answer = rule.apply(operator, given)
    if answer is None:
        return operator
    if isinstance(answer, str):
        report.counts[rule.name].stayed += 1
        report.stayed.append((rule.name, answer))
        return operator
    report.counts[rule.name].fired += 1
    report.fired.append((rule.name, answer[1]))
    return answer[0]

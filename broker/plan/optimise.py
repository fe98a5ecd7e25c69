"""The optimiser: a list of rules, each applied to every operator of a plan, from the leaves up."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from broker.documents.dtd import ElementGraph
from broker.plan.operators import (
    DupElim,
    Operator,
    OuterJoinSelect,
    Plan,
    ReturnSelect,
    Searched,
    SemiJoin,
    Streamed,
    WhereFilter,
)
from broker.plan.rules import (
    drop_dup_elim,
    merge_outer_join_select,
    merge_semi_join,
    scan_dup_elim,
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
"""All rules, in the order in which they are tried."""


@dataclass(slots=True)
class Report:
    """What the optimiser did."""

    fired: list[tuple[str, str]] = field(default_factory=list)
    """Names of rules that fired, each with its reason."""
    stayed: list[tuple[str, str]] = field(default_factory=list)
    """Names of rules that did not, likewise."""


def optimise(
    plan: Plan, optimisation: Optimisation, graph: ElementGraph | None
) -> tuple[Plan, Report]:
    """A plan that gives the same groups for less; with a DTD, for messages that conform to it."""
    report = Report()
    if optimisation is Optimisation.NONE:
        return plan, report
    optimiser = _Optimiser(graph if optimisation is Optimisation.Q_DTD else None, report)
    root = optimiser.visit(plan.root)
    assert isinstance(root, ReturnSelect | OuterJoinSelect)
    return replace(plan, root=root), report


class _Optimiser:
    def __init__(self, graph: ElementGraph | None, report: Report) -> None:
        self.graph = graph
        self.report = report

    def visit(self, operator: Operator) -> Operator:
        operator = self.visit_inputs(operator)
        for rule in RULES:
            answer = rule.apply(operator, self.graph)
            if isinstance(answer, str):
                self.report.stayed.append((rule.name, answer))
            elif answer is not None:
                operator, reason = answer
                self.report.fired.append((rule.name, reason))
        return operator

    def visit_inputs(self, operator: Operator) -> Operator:
        match operator:
            case DupElim() | WhereFilter() | Streamed() | ReturnSelect():
                return replace(operator, source=self.visit(operator.source))  # type: ignore[arg-type]
            case SemiJoin():
                left, right = self.visit(operator.left), self.visit(operator.right)
                return replace(operator, left=left, right=right)  # type: ignore[arg-type]
            case OuterJoinSelect():
                lists = tuple(
                    each if isinstance(each, Searched) else self.visit(each)
                    for each in operator.lists
                )
                return replace(operator, left=self.visit(operator.left), lists=lists)  # type: ignore[arg-type]
        return operator

"""One transformation, by the strategy that is asked for or the best that there is."""

from collections.abc import Iterator
from enum import StrEnum

from broker import reference
from broker.documents import Message
from broker.documents.dtd import ElementGraph
from broker.limits import ResultLimits
from broker.plan.build import NotPlannedError
from broker.plan.group_plan import GroupPlan, PathTable
from broker.plan.operators import Strategy
from broker.plan.optimise import Optimisation, Report, group
from broker.plan.text import group_plan_text, plan_text
from broker.query import Flwr
from broker.query.syntax import Literal
from broker.results import Result
from broker.runtime.groups import Groups
from broker.runtime.planned import Planned


class Choice(StrEnum):
    """The strategies by the names that the command line knows them by."""

    AUTO = "auto"
    GROUP = "group"
    F = "f"
    FW = "fw"
    FWR = "fwr"
    REFERENCE = "reference"


class Transformer:
    """Answers one query. Where a strategy can't, the reference engine walks the message."""

    def __init__(
        self,
        query: Flwr,
        choice: Choice = Choice.AUTO,
        optimisation: Optimisation = Optimisation.Q_DTD,
        graph: ElementGraph | None = None,
        *,
        sharing: bool = False,
    ) -> None:
        self.query = query
        self.groups: tuple[GroupPlan, tuple[Literal, ...]] | None = None
        """The plan, and the constants of its keys."""
        self.planned: Planned | None = None
        self.notes: list[str] = []
        """What was decided before there was a plan with path streams."""
        if choice in {Choice.AUTO, Choice.GROUP}:
            report = Report()
            self.groups = group(query, PathTable(), report)
            self.notes += report.lines()
        if choice not in {Choice.GROUP, Choice.REFERENCE} and self.groups is None:
            strategy = Strategy.FWR if choice is Choice.AUTO else Strategy(choice.value)
            try:
                self.planned = Planned(query, strategy, optimisation, graph, sharing=sharing)
            except NotPlannedError as error:
                self.notes.append(f"no plan with path streams: {error}")

    def run(self, message: Message, limits: ResultLimits) -> Result:
        """The groups that the query makes of a message."""
        if self.groups is not None:
            groups, (plan, constants) = Groups(message), self.groups
            bound = groups.bound(plan, constants, limits)
            return Result(self.query, groups.make(plan, bound, limits))
        if self.planned is not None:
            return self.planned.run(message, limits)
        return reference.transform(self.query, message, limits)

    def explain(self) -> Iterator[str]:
        """The plan, the rules that fired and those that didn't, and why."""
        if self.groups is not None:
            yield group_plan_text(self.query)
        elif self.planned is not None:
            yield plan_text(self.planned.plan)
        else:
            yield "walked by the reference engine"
        yield from self.notes
        if self.planned is not None:
            yield from self.planned.explain()

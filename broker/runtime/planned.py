"""A transformation with its plan, and the plan for messages that don't conform to the DTD."""

from broker.documents import Message
from broker.documents.dtd import ElementGraph
from broker.limits import ResultLimits
from broker.plan.build import Strategy, build
from broker.plan.optimise import Optimisation, optimise
from broker.query import Flwr
from broker.results import Result
from broker.runtime.executor import Executor


class Planned:
    """Answers one query by one strategy of BROKER 3, right for all messages."""

    def __init__(
        self,
        query: Flwr,
        strategy: Strategy,
        optimisation: Optimisation,
        graph: ElementGraph | None = None,
    ) -> None:
        self.graph = graph if optimisation is Optimisation.Q_DTD else None
        built = build(query, strategy, self.graph)
        self.plan, self.report = optimise(built, optimisation, self.graph)
        self.fallback = self.plan
        """The plan that needs no DTD."""
        if self.graph is not None:
            self.fallback, _ = optimise(build(query, strategy), Optimisation.Q, None)
        self.fallbacks = 0
        """How many messages it answered."""

    def run(
        self, message: Message, limits: ResultLimits, executor: Executor | None = None
    ) -> Result:
        """The groups that the query makes of a message. Queries share an executor's streams."""
        plan = self.plan
        if self.graph is not None and not self.graph.conforms(message):
            plan = self.fallback
            self.fallbacks += 1
        return (executor or Executor(message, limits)).run(plan)

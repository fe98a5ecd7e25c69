"""Plans as BROKER 3 has them, before anything is optimised.

- `f`: the matching engine has the binding path; `where` and `return` are tree searches;
- `fw`: it has the predicate paths as well, extended by the binding path, and semijoins join them;
- `fwr`: it has the return paths as well, and an outer join makes the groups.

What is no plain path below the bound node stays a tree search in all three.
"""

from broker.documents.dtd import ElementGraph
from broker.plan.candidates import without_let
from broker.plan.operators import (
    Bound,
    DupElim,
    FieldTest,
    Method,
    OuterJoinSelect,
    PathStream,
    Plan,
    ReturnSelect,
    Root,
    Searched,
    Selection,
    SemiJoin,
    Strategy,
    Streamed,
    Value,
    WhereFilter,
)
from broker.plan.rewrite import rewrite_steps
from broker.query import Flwr
from broker.query.syntax import (
    CONTEXT,
    PARENT,
    And,
    Axis,
    Comparison,
    Condition,
    EndKind,
    Exists,
    LastTest,
    Path,
    PositionTest,
    Step,
    Variable,
)


class NotPlannedError(Exception):
    """There is no such plan for this query; says why."""


def build(query: Flwr, strategy: Strategy, graph: ElementGraph | None = None) -> Plan:
    """The plan of a query, every operator the one that is always right.

    With a DTD, its paths are rewritten, and the plan is right for messages that conform to it.
    """
    return Plan(query, strategy, _Builder(query, strategy, graph).root())


class _Builder:
    def __init__(self, query: Flwr, strategy: Strategy, graph: ElementGraph | None) -> None:
        binding = query.binding
        if binding.end is not None:
            raise NotPlannedError("the binding path ends with attributes or text")
        if any(step.test is PARENT for step in binding.steps):
            raise NotPlannedError("the binding path has ..")
        for step in binding.steps:
            if any(isinstance(each, PositionTest | LastTest) for each in step.predicates[1:]):
                raise NotPlannedError("the binding path has a position after other predicates")
        self.query = query
        self.strategy = strategy
        self.graph = graph
        self.steps = binding.steps
        if graph is not None:
            self.steps = rewrite_steps(binding.steps, graph, None)
        self.binding = bare(self.steps)
        self.field = len(self.steps)

    def root(self) -> Root:
        bound = self.where(self.bound())
        values = [each.value for each in self.query.embedded()]
        if self.strategy is not Strategy.FWR:
            return ReturnSelect(bound, tuple(Searched(value) for value in values))
        lists = tuple(self.make_list(value) for value in values)
        return OuterJoinSelect(bound, lists, self.field, Method.HASH)

    def bound(self) -> Bound:
        stream = PathStream(self.binding)
        tests = tuple(
            FieldTest(index, step)
            for index, step in enumerate(self.steps, start=1)
            if step.predicates
        )
        # The stream is ordered by its last field, so equal ones are neighbours.
        return DupElim(Selection(stream, tests) if tests else stream, (self.field,), Method.SCAN)

    def where(self, bound: Bound) -> Bound:
        where = self.query.where
        if where is None:
            return bound
        if self.strategy is Strategy.F:
            return WhereFilter(bound, where)
        searched: list[Condition] = []
        for condition in where.operands if isinstance(where, And) else (where,):
            right = self.predicate_stream(condition)
            if right is None:
                searched.append(condition)
            else:
                bound = SemiJoin(bound, right, self.field, Method.HASH)
        if searched:
            rest = searched[0] if len(searched) == 1 else And(tuple(searched))
            bound = WhereFilter(bound, rest)
        return bound

    def predicate_stream(self, condition: Condition) -> PathStream | Selection | None:
        """The stream of a condition's path, selected by what it asks of the path's end."""
        if isinstance(condition, Exists):
            path = self.below(condition.path)
            if path is None:
                return None
            stream = PathStream((*self.binding, *path.steps))
            if path.end is None:
                return stream
            test: Condition = Exists(Path(CONTEXT, (), path.end))
        elif isinstance(condition, Comparison) and isinstance(condition.operand, Path):
            path = self.below(condition.operand)
            if path is None:
                return None
            stream = PathStream((*self.binding, *path.steps))
            operand = Path(CONTEXT, (), path.end)
            test = Comparison(operand, condition.operator, condition.literal)
        else:
            return None
        return Selection(stream, (FieldTest(len(stream.steps), None, test),))

    def make_list(self, value: Value) -> Searched | Streamed:
        path = self.below(value, with_position=True) if isinstance(value, Path) else None
        if path is None or not path.steps:
            return Searched(value)
        stream = PathStream((*self.binding, *path.steps))
        fields = (self.field, len(stream.steps))
        return Streamed(DupElim(stream, fields, Method.HASH), path.end)

    def below(self, path: Path, *, with_position: bool = False) -> Path | None:
        """The path from the bound node, if it is plain; the matching engine can have it then."""
        flat = without_let(path, self.query)
        if flat is None or not isinstance(flat.start, Variable):
            return None
        if any(step.predicates or step.test is PARENT for step in flat.steps):
            return None
        if flat.end is not None:
            is_position = flat.end.kind is EndKind.POSITION
            if flat.end.axis is Axis.DESCENDANT or (is_position and not with_position):
                return None
        if self.graph is None:
            return flat
        return Path(flat.start, rewrite_steps(flat.steps, self.graph, self.steps[-1]), flat.end)


def bare(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Steps without their predicates."""
    return tuple(Step(step.axis, step.test) for step in steps)

"""Runs plans on one message. What plans share is made once, and only if a plan asks for it."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from broker import reference
from broker.documents import Message
from broker.documents.dtd import ElementGraph
from broker.limits import ResultLimits
from broker.list_budget import ListBudget
from broker.plan.operators import (
    Bound,
    DupElim,
    GroupBy,
    Grouped,
    Method,
    Operator,
    OuterJoinSelect,
    Output,
    PathStream,
    Plan,
    Searched,
    Selection,
    SemiJoin,
    SharedJoin,
    SharedSelection,
    Streamed,
    WhereFilter,
)
from broker.query.syntax import End, EndKind
from broker.reference import Evaluation, Key
from broker.results import Group, GroupList, Node, Result, refuse_bindings
from broker.runtime import (
    dup_elim,
    group_by,
    outer_join_select,
    return_select,
    semi_join,
    shared_join,
    where_filter,
)
from broker.runtime.path_stream import PathStreams, Rows, TooManyTuplesError
from broker.runtime.selection import select
from broker.runtime.shared_join import Pairs
from broker.runtime.shared_selection import ConstantIndex, TpLists
from broker.runtime.shared_selection import select as select_shared

Made = TypeVar("Made")


class Executor:
    """What plans share on one message: path streams, and the outcome of operators."""

    def __init__(
        self,
        message: Message,
        limits: ResultLimits,
        indexes: Mapping[SharedSelection, ConstantIndex] | None = None,
    ) -> None:
        self.message = message
        self.limits = limits
        self.streams = PathStreams(message)
        self.indexes = indexes
        """The constants of shared selections. With them, equal operators are one object."""
        self._made: dict[int, object] = {}
        self._conforms: dict[int, bool] = {}

    def conforms(self, graph: ElementGraph) -> bool:
        """Whether the message conforms to a DTD; looked at once for all plans."""
        known = self._conforms.get(id(graph))
        if known is None:
            known = self._conforms[id(graph)] = graph.conforms(self.message)
        return known

    def run(self, plan: Plan) -> Result:
        """The groups that a plan makes."""
        try:
            return _Run(self, plan).result()
        except TooManyTuplesError:
            return reference.transform(plan.query, self.message, self.limits)

    def once(self, operator: Operator, make: Callable[[], Made]) -> Made:
        """What an operator makes, made once if plans share it."""
        if self.indexes is None:
            return make()
        known = self._made.get(id(operator))
        if known is None:
            known = self._made[id(operator)] = make()
        return known  # type: ignore[return-value]

    def tp_lists(self, selection: SharedSelection, constant: str | float | None) -> TpLists:
        """The outputs of a shared selection; of one alone if its constants aren't known."""
        index = None if self.indexes is None else self.indexes.get(selection)
        if index is None:
            index = ConstantIndex(selection.operator)
            index.add(constant)
        pairs = self._pairs(selection.source)
        return select_shared(pairs, selection.field, selection.end, index, self.message)

    def _pairs(self, source: SharedJoin | PathStream) -> Pairs:
        if isinstance(source, PathStream):
            return [(row, [row]) for row in self.streams.rows(source.steps)]
        return self.once(source, lambda: self._join(source))

    def _join(self, join: SharedJoin) -> Pairs:
        left = self.base(join.left)
        right = self.streams.rows(join.right.steps) if left else []
        method = shared_join.merge if join.method is Method.MERGE else shared_join.hashed
        return method(left, right, join.field)

    def base(self, operator: PathStream | DupElim) -> Rows:
        """A binding path's tuples, before any query's own operators."""
        if isinstance(operator, PathStream):
            return self.streams.rows(operator.steps)
        assert isinstance(operator.source, PathStream)
        source = operator.source
        return self.once(
            operator, lambda: dup_elim.scan(self.streams.rows(source.steps), operator.fields)
        )

    def groups(self, operator: GroupBy) -> group_by.Lists:
        """A return path's nodes by the bound one."""
        method = group_by.scan if operator.method is Method.SCAN else group_by.hashed
        return self.once(
            operator,
            lambda: method(
                self.streams.rows(operator.source.steps),
                operator.field,
                eliminates=operator.eliminates,
            ),
        )


class _Run:
    def __init__(self, executor: Executor, plan: Plan) -> None:
        self.executor = executor
        self.message = executor.message
        self.limits = executor.limits
        self.plan = plan
        self.evaluation = Evaluation(executor.message)
        self.budget = ListBudget(executor.limits, executor.message)

    def result(self) -> Result:
        root = self.plan.root
        source = root.left if isinstance(root, OuterJoinSelect) else root.source
        bound = [row[-1] for row in self.rows(source)]
        refuse_bindings(len(bound), self.limits)
        columns = [self.column(each, bound) for each in root.lists] if bound else []
        groups: list[Group] = list(zip(*columns, strict=True)) if columns else [() for _ in bound]
        if self.plan.query.order_by:
            groups = self.in_order(bound, groups)
        return Result(self.plan.query, groups)

    def rows(self, operator: Bound) -> Rows:
        """The tuples that an operator gives on."""
        if isinstance(operator, WhereFilter):
            # Its condition may speak of this query's variables: it is no other query's.
            rows = self.rows(operator.source)
            return where_filter.search(rows, operator.condition, self.plan.query, self.evaluation)
        if isinstance(operator, PathStream):
            return self.executor.streams.rows(operator.steps)
        return self.executor.once(operator, lambda: self.make_rows(operator))

    def make_rows(self, operator: Selection | DupElim | SemiJoin | Output) -> Rows:
        match operator:
            case Selection(source, tests):
                return select(self.rows(source), tests, self.evaluation)
            case DupElim(source, fields, method):
                eliminate = dup_elim.scan if method is Method.SCAN else dup_elim.hashed
                return eliminate(self.rows(source), fields)
            case SemiJoin(left, right, field, method):
                rows = self.rows(left)
                join = semi_join.merge if method is Method.MERGE else semi_join.hashed
                return join(rows, self.rows(right), field) if rows else rows
            case Output(selection, constant):
                lists = self.executor.once(
                    selection, lambda: self.executor.tp_lists(selection, constant)
                )
                return lists.get(constant, [])

    def column(self, each: Searched | Streamed | Grouped, bound: list[int]) -> list[GroupList]:
        """One list for each bound node."""
        if isinstance(each, Searched):
            query = self.plan.query
            return return_select.search(bound, each.value, query, self.evaluation, self.budget)
        if isinstance(each, Grouped):
            lists = self.executor.groups(each.source)
            joined = [lists.get(node, []) for node in bound]
        else:
            root = self.plan.root
            assert isinstance(root, OuterJoinSelect)
            is_merge = root.method is Method.MERGE
            join = outer_join_select.merge if is_merge else outer_join_select.hashed
            joined = join(bound, self.rows(each.source), root.field)
        if each.end is None:
            return self.within_budget(list(joined))
        taken: list[GroupList] = []
        for nodes in joined:
            taken.append(self.take(each.end, nodes))
            self.budget.take(taken[-1])
        return taken

    def take(self, end: End, nodes: list[int]) -> GroupList:
        if end.kind is EndKind.POSITION:
            return [self.message.position(node) for node in nodes]
        elements: list[Node] = list(nodes)
        return self.evaluation.take_end(end, elements)

    def within_budget(self, lists: list[GroupList]) -> list[GroupList]:
        self.budget.take_all(lists)
        return lists

    def in_order(self, bound: list[int], groups: list[Group]) -> list[Group]:
        query = self.plan.query
        keys: list[list[Key]] = []
        for node in bound:
            self.evaluation.bind(query, node)
            keys.append(self.evaluation.order_keys(query, self.budget))
        order = list(range(len(groups)))
        for index, key in reversed(list(enumerate(query.order_by))):
            order.sort(key=[each[index] for each in keys].__getitem__, reverse=key.descending)
        return [groups[index] for index in order]

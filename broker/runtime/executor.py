"""Runs the plan of one query on one message."""

from broker.documents import Message
from broker.errors import ResultError
from broker.limits import ResultLimits
from broker.plan.operators import (
    Bound,
    DupElim,
    Method,
    OuterJoinSelect,
    PathStream,
    Plan,
    Searched,
    Selection,
    SemiJoin,
    Streamed,
    WhereFilter,
)
from broker.query.syntax import Condition, End, EndKind
from broker.reference import Evaluation, Key
from broker.results import Group, GroupList, Node, Result
from broker.runtime import dup_elim, outer_join_select, semi_join
from broker.runtime.path_stream import PathStreams, Rows
from broker.runtime.selection import select


class Executor:
    """What plans share on one message: its path streams."""

    def __init__(self, message: Message, limits: ResultLimits) -> None:
        self.message = message
        self.limits = limits
        self.streams = PathStreams(message, limits.max_items)

    def run(self, plan: Plan) -> Result:
        """The groups that a plan makes."""
        return _Run(self, plan).result()


class _Run:
    def __init__(self, executor: Executor, plan: Plan) -> None:
        self.executor = executor
        self.message = executor.message
        self.limits = executor.limits
        self.plan = plan
        self.evaluation = Evaluation(executor.message)

    def result(self) -> Result:
        root = self.plan.root
        source = root.left if isinstance(root, OuterJoinSelect) else root.source
        bound = [row[-1] for row in self.rows(source)]
        columns = [self.column(each, bound) for each in root.lists]
        groups: list[Group] = list(zip(*columns, strict=True)) if columns else [() for _ in bound]
        if self.plan.query.order_by:
            groups = self.in_order(bound, groups)
        return Result(self.plan.query, groups)

    def rows(self, operator: Bound) -> Rows:
        """The tuples that an operator gives on."""
        match operator:
            case PathStream(steps):
                return self.executor.streams.rows(steps)
            case Selection(source, tests):
                return select(self.rows(source), tests, self.evaluation)
            case DupElim(source, fields, method):
                rows = self.rows(source)
                if method is Method.SCAN:
                    return dup_elim.scan(rows, fields)
                return dup_elim.hashed(rows, fields)
            case WhereFilter(source, condition):
                return [row for row in self.rows(source) if self.passes(row[-1], condition)]
            case SemiJoin(left, right, field, method):
                join = semi_join.merge if method is Method.MERGE else semi_join.hashed
                return join(self.rows(left), self.rows(right), field)

    def passes(self, node: int, condition: Condition) -> bool:
        self.evaluation.bind(self.plan.query, node)
        return self.evaluation.holds(condition, node)

    def column(self, each: Searched | Streamed, bound: list[int]) -> list[GroupList]:
        """One list for each bound node."""
        if isinstance(each, Searched):
            lists: list[GroupList] = []
            for node in bound:
                self.evaluation.bind(self.plan.query, node)
                lists.append(self.evaluation.make_list(each.value))
            return self.within_budget(lists)
        root = self.plan.root
        assert isinstance(root, OuterJoinSelect)
        join = outer_join_select.merge if root.method is Method.MERGE else outer_join_select.hashed
        joined = join(bound, self.rows(each.source), root.field)
        if each.end is None:
            return self.within_budget(list(joined))
        return self.within_budget([self.take(each.end, nodes) for nodes in joined])

    def take(self, end: End, nodes: list[int]) -> GroupList:
        if end.kind is EndKind.POSITION:
            return [self.message.position(node) for node in nodes]
        elements: list[Node] = list(nodes)
        return self.evaluation.take_end(end, elements)

    def within_budget(self, lists: list[GroupList]) -> list[GroupList]:
        if sum(map(len, lists)) > self.limits.max_items:
            detail = f"more than {self.limits.max_items} nodes in the lists of the result"
            raise ResultError("budget-exceeded", detail)
        return lists

    def in_order(self, bound: list[int], groups: list[Group]) -> list[Group]:
        query = self.plan.query
        keys: list[list[Key]] = []
        for node in bound:
            self.evaluation.bind(query, node)
            keys.append([self.evaluation.order_key(key) for key in query.order_by])
        order = list(range(len(groups)))
        for index, key in reversed(list(enumerate(query.order_by))):
            order.sort(key=[each[index] for each in keys].__getitem__, reverse=key.descending)
        return [groups[index] for index in order]

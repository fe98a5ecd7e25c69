"""The plans of many queries as one: equal operators are one object (BROKER 5.3).

A query's plan is built by itself, and its operators are then replaced by those that are there
already. A message is answered from the shared selections up: their outputs, made for the constants
that it has, say which queries have to be run. What no output leads to is run for each message.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Generic, TypeVar, cast

from broker.documents import Message
from broker.errors import ResultError
from broker.limits import ResultLimits
from broker.plan.operators import (
    Bound,
    DupElim,
    Operator,
    OuterJoinSelect,
    Output,
    Plan,
    Root,
    SemiJoin,
    SharedSelection,
    WhereFilter,
    inputs,
    with_inputs,
)
from broker.plan.text import shared_plan_text
from broker.results import Result
from broker.runtime.executor import Executor
from broker.runtime.path_stream import TooManyTuplesError
from broker.runtime.shared_selection import ConstantIndex

Member = TypeVar("Member", bound=Hashable)


class SharedPlan(Generic[Member]):
    """The plans of all members. It belongs to one thread."""

    def __init__(self) -> None:
        self._operators: dict[Operator, Operator] = {}
        self._uses: dict[Operator, int] = {}
        self._plans: dict[Member, Plan] = {}
        self._indexes: dict[SharedSelection, ConstantIndex] = {}
        self._led: dict[SharedSelection, dict[object, dict[Member, None]]] = {}
        """The members to be run if an output has tuples, by its selection and constant."""
        self._unled: dict[Member, None] = {}

    def __len__(self) -> int:
        return len(self._plans)

    def __contains__(self, member: Member) -> bool:
        return member in self._plans

    @property
    def operators(self) -> int:
        """The number of distinct operators."""
        return len(self._operators)

    def text(self) -> str:
        """The plan, every operator once."""
        return shared_plan_text(self._plans.values())

    def plans(self) -> Iterator[Plan]:
        """The plans of the members, as they are shared."""
        return iter(self._plans.values())

    # Members

    def add(self, member: Member, plan: Plan) -> None:
        """Take a member's plan; effective at once."""
        root = cast("Root", self._merge(plan.root))
        self._plans[member] = replace(plan, root=root)
        leader = _leader(root)
        if leader is None:
            self._unled[member] = None
        else:
            led = self._led.setdefault(leader.source, {})
            led.setdefault(leader.constant, {})[member] = None

    def remove(self, member: Member) -> None:
        """Drop a member, and the operators that only it has."""
        plan = self._plans.pop(member)
        leader = _leader(plan.root)
        if leader is None:
            del self._unled[member]
        else:
            led = self._led[leader.source]
            del led[leader.constant][member]
            if not led[leader.constant]:
                del led[leader.constant]
            if not led:
                del self._led[leader.source]
        self._release(plan.root)

    def _merge(self, operator: Operator) -> Operator:
        """The one object for an operator, with one more use."""
        merged = self._operators.get(operator)
        if merged is None:
            merged = with_inputs(operator, tuple(map(self._merge, inputs(operator))))
            self._operators[merged] = merged
            self._uses[merged] = 0
            if isinstance(merged, SharedSelection):
                self._indexes[merged] = ConstantIndex(merged.operator)
            if isinstance(merged, Output):
                self._indexes[merged.source].add(merged.constant)
        self._uses[merged] += 1
        return merged

    def _release(self, operator: Operator) -> None:
        self._uses[operator] -= 1
        if self._uses[operator]:
            return
        del self._uses[operator], self._operators[operator]
        if isinstance(operator, Output):
            self._indexes[operator.source].remove(operator.constant)
        if isinstance(operator, SharedSelection):
            del self._indexes[operator]
        for each in inputs(operator):
            self._release(each)

    # Messages

    def run(
        self, message: Message, limits: ResultLimits
    ) -> Iterator[tuple[Member, Result | ResultError]]:
        """What the members that have a result get, each its groups or why there are none."""
        executor = Executor(message, limits, self._indexes)
        for member in self._candidates(executor):
            try:
                result = executor.run(self._plans[member])
            except ResultError as error:
                yield member, error
                continue
            if result.groups:
                yield member, result

    def answering(self, message: Message, limits: ResultLimits) -> Callable[[Member], Result]:
        """What answers single members; what they share is made once for all that are asked for."""
        executor = Executor(message, limits, self._indexes)
        return lambda member: executor.run(self._plans[member])

    def _candidates(self, executor: Executor) -> Iterator[Member]:
        yield from self._unled
        for selection, led in self._led.items():
            try:
                lists = executor.once(selection, lambda: executor.tp_lists(selection, None))  # noqa: B023 - called here
            except TooManyTuplesError:
                # Each member is answered in another way.
                for members in led.values():
                    yield from members
                continue
            for constant in lists:
                yield from led.get(constant, ())


def _leader(root: Root) -> Output | None:
    """An output without whose tuples a plan has no result."""
    operator: Bound = root.left if isinstance(root, OuterJoinSelect) else root.source
    while True:
        match operator:
            case Output():
                return operator
            case SemiJoin(left, right):
                if isinstance(right, Output):
                    return right
                operator = left
            case WhereFilter(source=source) | DupElim(source=source):
                operator = source
            case _:
                return None

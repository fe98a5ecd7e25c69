"""SharedSelection: the tuples that pass for each of many constants, by an index (BROKER 5.2)."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from math import isnan

from broker.documents import Message
from broker.query.syntax import End, EndKind, Operator
from broker.runtime.path_stream import Row, Rows
from broker.values import to_number

Constant = str | float | None
TpLists = dict[Constant, Rows]
"""The tuples that pass, by constant. A list is made when its first tuple comes (BROKER 5.3)."""


class ConstantIndex:
    """The constants of all selections with one signature."""

    def __init__(self, operator: Operator | None) -> None:
        self.operator = operator
        self._uses: dict[Constant, int] = {}
        self._texts: list[str] = []
        self._numbers: list[float] = []

    def __len__(self) -> int:
        return len(self._uses)

    def add(self, constant: Constant) -> None:
        """One more selection with a constant."""
        uses = self._uses.get(constant, 0)
        self._uses[constant] = uses + 1
        if not uses:
            if isinstance(constant, str):
                insort(self._texts, constant)
            elif constant is not None:
                insort(self._numbers, constant)

    def remove(self, constant: Constant) -> None:
        """One selection less."""
        self._uses[constant] -= 1
        if not self._uses[constant]:
            del self._uses[constant]
            if isinstance(constant, str):
                del self._texts[bisect_left(self._texts, constant)]
            elif constant is not None:
                del self._numbers[bisect_left(self._numbers, constant)]

    def holding(self, value: str) -> Iterator[Constant]:
        """The constants for which `value op constant` holds."""
        if self.operator is None:
            yield None
            return
        number = to_number(value) if self._numbers else None
        if self.operator is Operator.EQ:
            if value in self._uses:
                yield value
            if number is not None and number in self._uses:
                yield number
            return
        yield from _compared(self._texts, self.operator, value)
        if number is not None and not isnan(number):
            yield from _compared(self._numbers, self.operator, number)
        elif number is not None and self.operator is Operator.NE:
            yield from self._numbers


def _compared(
    constants: list[str] | list[float], operator: Operator, value: str | float
) -> Iterable[str | float]:
    first = bisect_left(constants, value)
    after = bisect_right(constants, value)
    match operator:
        case Operator.LT:
            return constants[after:]
        case Operator.LE:
            return constants[first:]
        case Operator.GT:
            return constants[:first]
        case Operator.GE:
            return constants[:after]
    return [*constants[:first], *constants[after:]]


def select(
    pairs: Iterable[tuple[Row, Rows]],
    field: int,
    end: End | None,
    index: ConstantIndex,
    message: Message,
) -> TpLists:
    """The left tuples of the pairs with a right one that passes, each once for a constant."""
    lists: TpLists = {}
    known: dict[int, list[Constant]] = {}
    for left, rights in pairs:
        for right in rights:
            node = right[field - 1]
            passed = known.get(node)
            if passed is None:
                values = values_of(message, node, end)
                passed = known[node] = [
                    constant for value in values for constant in index.holding(value)
                ]
            for constant in passed:
                rows = lists.setdefault(constant, [])
                if not rows or rows[-1] is not left:
                    rows.append(left)
    return lists


def values_of(message: Message, node: int, end: End | None) -> list[str]:
    """What a node's comparison looks at: its value, one of its attributes, or its texts."""
    if end is None:
        return [message.string_value(node)]
    if end.kind is EndKind.TEXT:
        return message.text_values(node)
    assert end.name is not None
    value = message.attribute(node, end.name)
    return [] if value is None else [value]

"""The constants that values are compared with: found by a value, those for which it holds.

Constants belong to signatures, a binding path and a predicate path (BROKER 5.2: path ids, attribute
and operator): a value is looked up first, then the signatures that ask for it, since most values
are asked for by few.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable
from typing import Generic, TypeVar

from broker.plan.group_plan import GroupPlan, PlainPath
from broker.query.syntax import Literal, Operator

Member = TypeVar("Member", bound=Hashable)

_MOST_SIGNATURES = 128
"""So many signatures may ask for one value of the elements of one name."""


_FEW_MEMBERS = 8

Members = tuple[Member, ...] | dict[Member, None]
"""A tuple while they are few. Most entries have one, for which a dictionary takes 232 bytes."""


def with_member(members: Members[Member] | None, member: Member) -> Members[Member]:
    """Some members and another one."""
    if members is None:
        return (member,)
    if isinstance(members, dict):
        members[member] = None
        return members
    more = (*members, member)
    return more if len(more) <= _FEW_MEMBERS else dict.fromkeys(more)


def without_member(members: Members[Member] | None, member: Member) -> Members[Member] | None:
    """Some members without one of them; None if there are no others."""
    assert members is not None
    if isinstance(members, dict):
        del members[member]
        return members or None
    return tuple([each for each in members if each is not member]) or None


class Signature(Generic[Member]):
    """A binding path and a predicate path, and where they lead at each label path."""

    __slots__ = ("binding", "bound", "constants", "path", "users")

    def __init__(self, binding: PlainPath, path: PlainPath, constants: "Constants[Member]") -> None:
        self.binding = binding
        self.path = path
        self.constants = constants
        """Those that its values are compared with, and those of others for such elements."""
        self.users = 0
        self.bound: dict[int, tuple[int, ...]] = {}
        """For a label path, those of the elements above it, or itself, that are bound."""


class Entry(Generic[Member]):
    """A signature and a constant, and the members that are found by it."""

    __slots__ = ("bound", "next", "signature", "tested", "untested", "users")

    def __init__(
        self, signature: Signature[Member], following: "Entry[Member] | None" = None
    ) -> None:
        self.signature = signature
        self.bound = signature.bound
        """The signature's: one look less for each value that is found."""
        self.next = following
        """The entry of another signature for the same constant, if there is one."""
        self.users = 0
        """Those who ask for it, whether they are found by it or not."""
        self.untested: Members[Member] | None = None
        """Members for which this is all of `where`, if there are some."""
        self.tested: dict[Member, tuple[tuple[Entry[Member], ...], GroupPlan]] | None = None
        """Members with other entries that have to be found too, or with more in their plan."""


class Ordered(Generic[Member]):
    """The constants that a signature's values are compared with by one operator, rising."""

    __slots__ = ("constants", "entries")

    def __init__(self) -> None:
        self.constants: list[str | float] = []
        self.entries: list[Entry[Member]] = []

    def entry(self, signature: Signature[Member], constant: str | float) -> Entry[Member]:
        """The entry of a constant, made if there is none."""
        place = bisect_left(self.constants, constant)
        if place == len(self.constants) or self.constants[place] != constant:
            self.constants.insert(place, constant)
            self.entries.insert(place, Entry(signature))
        return self.entries[place]

    def drop(self, constant: str | float) -> None:
        """Forget a constant."""
        place = bisect_left(self.constants, constant)
        del self.constants[place], self.entries[place]

    def holding(self, operator: Operator, value: str | float) -> list[Entry[Member]]:
        """The entries of the constants for which `value op constant` holds."""
        match operator:
            case Operator.LT:
                return self.entries[bisect_right(self.constants, value) :]
            case Operator.LE:
                return self.entries[bisect_left(self.constants, value) :]
            case Operator.GT:
                return self.entries[: bisect_left(self.constants, value)]
        return self.entries[: bisect_right(self.constants, value)]


def _quick_to_miss() -> dict[str, Entry[Member]]:
    """An empty dictionary that keeps the hashes of its keys beside them.

    Dictionaries of strings alone don't, and look at a string for its hash, somewhere else in the
    memory, to find that it is another one. A key that is no string changes that for good. Most
    values of messages are not found, and with 100,000 transformations it saves a fifth of the time
    to look them up.
    """
    made: dict[object, Entry[Member]] = {}
    made[None] = None  # type: ignore[assignment]
    del made[None]
    return made  # type: ignore[return-value]


Orders = dict[tuple[Signature[Member], Operator], Ordered[Member]]


class Constants(Generic[Member]):
    """What is asked of the elements of one name, or of one of their attributes."""

    __slots__ = ("is_texts_alone", "number_orders", "numbers", "text_orders", "texts")

    def __init__(self) -> None:
        self.texts: dict[str, Entry[Member]] = _quick_to_miss()
        """For each constant the first of its entries; most have one."""
        self.numbers: dict[float, Entry[Member]] = {}
        self.text_orders: Orders[Member] = {}
        self.number_orders: Orders[Member] = {}
        self.is_texts_alone = True
        """Whether values have only to be looked up, as they are."""

    def is_empty(self) -> bool:
        """Whether nothing is asked."""
        return self.is_texts_alone and not self.texts

    def entry(
        self, signature: Signature[Member], operator: Operator, constant: Literal
    ) -> Entry[Member] | None:
        """The entry of a constant, made if there is none; None if too many are beside it."""
        if operator is not Operator.EQ:
            orders = self._orders(constant)
            if (signature, operator) not in orders and len(orders) >= _MOST_SIGNATURES:
                return None
            self.is_texts_alone = False
            ordered = orders.setdefault((signature, operator), Ordered())
            return ordered.entry(signature, constant)
        equal = self._equal(constant)
        first = entry = equal.get(constant)
        signatures = 0
        while entry is not None:
            if entry.signature is signature:
                return entry
            entry = entry.next
            signatures += 1
        if signatures >= _MOST_SIGNATURES:
            return None
        if equal is not self.texts:
            self.is_texts_alone = False
        made = equal[constant] = Entry(signature, first)
        return made

    def drop(self, signature: Signature[Member], operator: Operator, constant: Literal) -> None:
        """Forget a constant."""
        if operator is not Operator.EQ:
            orders = self._orders(constant)
            orders[signature, operator].drop(constant)
            if not orders[signature, operator].entries:
                del orders[signature, operator]
        else:
            self._drop_equal(signature, constant)
        if not self.is_texts_alone:
            self.is_texts_alone = not (self.numbers or self.text_orders or self.number_orders)

    def _drop_equal(self, signature: Signature[Member], constant: Literal) -> None:
        equal = self._equal(constant)
        entry = equal[constant]
        if entry.signature is not signature:
            while entry.next is not None and entry.next.signature is not signature:
                entry = entry.next
            assert entry.next is not None
            entry.next = entry.next.next
        elif entry.next is not None:
            equal[constant] = entry.next
        else:
            del equal[constant]

    def _orders(self, constant: Literal) -> Orders[Member]:
        return self.text_orders if isinstance(constant, str) else self.number_orders

    def _equal(self, constant: Literal) -> dict[Literal, Entry[Member]]:
        return self.texts if isinstance(constant, str) else self.numbers  # type: ignore[return-value]

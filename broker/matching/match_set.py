"""Sets of query numbers, in a form for many of few and a form for few of many.

A set that holds thousands of a hundred thousand is best as the bits of one integer: the union of
two is one instruction for each 30 numbers. A set that holds twenty of a million is best as a tuple:
its bits would be 125 kB of zeros. An `Accept` has both parts, and what goes where is decided by
what a union costs.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

_BITS_PER_NUMBER = 2048
"""A union over so many bits costs about as much as adding one number to a set (measured)."""


_MANY = 64
"""So many numbers are put into bits faster by numpy than one by one."""


class Accept(NamedTuple):
    """The queries that a state accepts: a dense part as bits, a sparse part as numbers."""

    bits: int
    numbers: tuple[int, ...]


NOTHING = Accept(0, ())


def accept_of(numbers: Iterable[int], universe: int) -> Accept:
    """The cheaper form of a set of numbers below `universe`."""
    numbers = tuple(numbers)
    if len(numbers) * _BITS_PER_NUMBER <= universe:
        return Accept(0, numbers)
    return Accept(to_bits(numbers), ())


def union(one: Accept, other: Accept, universe: int) -> Accept:
    """All that either accepts."""
    numbers = (
        one.numbers + other.numbers
        if one.numbers and other.numbers
        else (one.numbers or other.numbers)
    )
    bits = one.bits | other.bits
    if len(numbers) * _BITS_PER_NUMBER > universe:
        return Accept(bits | to_bits(numbers), ())
    return Accept(bits, numbers)


def to_bits(numbers: Iterable[int]) -> int:
    """The integer with these bits set."""
    numbers = numbers if isinstance(numbers, array) else list(numbers)
    if not numbers:
        return 0
    if len(numbers) > _MANY:
        places = np.asarray(numbers)
        flags = np.zeros(int(places.max()) + 1, np.bool_)
        flags[places] = True
        return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")
    field = bytearray(max(numbers) // 8 + 1)
    for number in numbers:
        field[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(field, "little")


def from_bits(bits: int) -> list[int]:
    """The bits that are set, rising.

    >>> from_bits(0b10110)
    [1, 2, 4]
    """
    return cast("list[int]", _places(bits).tolist())


def _places(bits: int) -> NDArray[np.intp]:
    field = np.frombuffer(bits.to_bytes(bits.bit_length() // 8 + 1, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(field, bitorder="little").view(np.bool_))


class Part(NamedTuple):
    """What an automaton accepts: places as bits and as numbers, and the numbers at the places."""

    bits: int
    places: set[int]
    numbers: Sequence[int]


class MatchSet:
    """The queries that a message matched. Iterates over their numbers, rising."""

    __slots__ = ("parts", "undecided")

    def __init__(self, parts: list[Part], undecided: Sequence[int] = ()) -> None:
        self.parts = parts
        self.undecided = undecided
        """Those of which it was not found out, within the budget, whether they match."""

    @classmethod
    def of(cls, numbers: Iterable[int]) -> "MatchSet":
        """A match set of single numbers."""
        given = sorted(numbers)
        return cls([Part(0, set(range(len(given))), given)])

    def to_list(self) -> list[int]:
        """The numbers, rising."""
        found: list[int] = []
        for bits, places, numbers in self.parts:
            if bits:
                found += np.asarray(numbers)[_places(bits | to_bits(places))].tolist()
            else:
                found += [numbers[place] for place in places]
        found.sort()
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self.to_list())

    def __len__(self) -> int:
        return sum(
            (bits | to_bits(places)).bit_count() if bits else len(places)
            for bits, places, _ in self.parts
        )

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        for bits, places, numbers in self.parts:
            place = bisect_left(numbers, number)
            if place < len(numbers) and numbers[place] == number:
                return place in places or bool(bits >> place & 1)
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MatchSet) and self.to_list() == other.to_list()

    __hash__ = None  # type: ignore[assignment]  # sets that change have none

    def __repr__(self) -> str:
        return f"MatchSet({self.to_list()})"

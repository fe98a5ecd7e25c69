"""Sets of query numbers, in a form for many of few and a form for few of many.

A set that holds thousands of a hundred thousand is best as the bits of one integer: the union of
two is one instruction for each 30 numbers. A set that holds twenty of a million is best as a tuple:
its bits would be 125 kB of zeros. An `Accept` has both parts, and what goes where is decided by
what a union costs.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

_BITS_PER_NUMBER = 2048
"""A union over so many bits costs about as much as adding one number to a set (measured)."""


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
    numbers = list(numbers)
    if not numbers:
        return 0
    field = bytearray(max(numbers) // 8 + 1)
    for number in numbers:
        field[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(field, "little")


def from_bits(bits: int) -> list[int]:
    """The bits that are set, rising.

    >>> from_bits(0b10110)
    [1, 2, 4]
    """
    field = np.frombuffer(bits.to_bytes(bits.bit_length() // 8 + 1, "little"), np.uint8)
    numbers: list[int] = np.flatnonzero(
        np.unpackbits(field, bitorder="little").view(np.bool_)
    ).tolist()
    return numbers


class MatchSet:
    """The queries that a message matched. Iterates over their numbers, rising."""

    __slots__ = ("bits", "numbers")

    def __init__(self, bits: int, numbers: set[int]) -> None:
        self.bits = bits
        self.numbers = numbers

    def to_list(self) -> list[int]:
        """The numbers, rising."""
        if not self.bits:
            return sorted(self.numbers)
        return from_bits(self.bits | to_bits(self.numbers))

    def __iter__(self) -> Iterator[int]:
        return iter(self.to_list())

    def __len__(self) -> int:
        if not self.bits:
            return len(self.numbers)
        return (self.bits | to_bits(self.numbers)).bit_count()

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        return number in self.numbers or bool(self.bits >> number & 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MatchSet) and self.to_list() == other.to_list()

    __hash__ = None  # type: ignore[assignment]  # sets that change have none

    def __repr__(self) -> str:
        return f"MatchSet({self.to_list()})"

"""Match sets: both forms, several automata."""

from broker.matching.match_set import MatchSet, Part, accept_of, from_bits, to_bits, union


def test_parts_are_united_and_in_order() -> None:
    matched = MatchSet([Part(0b101, {3}, [10, 20, 30, 40]), Part(0, {1}, [15, 25])])
    assert matched.to_list() == [10, 25, 30, 40]
    assert len(matched) == 4
    assert [number in matched for number in (10, 15, 20, 25, 30, 40, 99)] == [
        True, False, False, True, True, True, False,
    ]  # fmt: skip
    assert "10" not in matched
    assert matched == MatchSet.of([40, 30, 25, 10])
    assert matched != MatchSet.of([40])
    assert repr(MatchSet.of([2, 1])) == "MatchSet([1, 2])"


def test_few_of_many_are_numbers_and_many_are_bits() -> None:
    assert accept_of([1, 2], 1_000_000) == (0, (1, 2))
    assert accept_of([1, 2], 100) == (0b110, ())
    few, many = accept_of([5], 1_000_000), accept_of(range(900), 1_000_000)
    bits, numbers = union(few, many, 1_000_000)
    assert bits | to_bits(numbers) == to_bits(range(900))


def test_bits_and_back() -> None:
    numbers = [0, 1, 7, 8, 63, 64, 1000]
    assert from_bits(to_bits(numbers)) == numbers
    assert from_bits(to_bits([])) == []

"""Live change: automata stay few, dead filters go, and no message does much of the work."""

import itertools
import random

from broker.documents import LabelPaths, parse_message
from broker.matching import YFilter
from broker.matching.automaton import Automaton
from broker.query import Filter, parse

MESSAGE = b"<r><a k='1'><b/></a><a k='2'/></r>"


def make(text: str) -> Filter:
    query = parse(text)
    assert isinstance(query, Filter)
    return query


def test_automata_stay_few_while_filters_come(labels: LabelPaths) -> None:
    engine = YFilter(settle_above=10)
    message = parse_message(MESSAGE, labels=labels)
    for number in range(3_000):
        engine.add(make(f"/r/a[@k = {number}]"))
        if number % 7 == 0:
            engine.match(message)
            assert len(engine.settled) < 12
    for _ in range(3_000):
        engine.match(message)
    assert len(engine.settled) <= 4
    assert engine.folding is None
    assert engine.match(message).to_list() == [1, 2]


def test_removed_filters_leave_the_automata(labels: LabelPaths) -> None:
    engine = YFilter(settle_above=10)
    message = parse_message(MESSAGE, labels=labels)
    numbers = [engine.add(make(f"/r/a[@k = {number}]")) for number in range(2_000)]
    engine.match(message)
    states = engine.describe().states
    random.Random(1).shuffle(numbers)
    for number in numbers[:1_500]:
        engine.remove(number)
        engine.match(message)
    for _ in range(2_000):
        engine.match(message)
    assert sum(map(len, engine.settled)) < 2 * 500
    assert engine.describe().states <= states
    assert engine.describe().queries == 500


def test_a_message_does_a_bounded_part_of_folding(labels: LabelPaths) -> None:
    engine = YFilter(settle_above=10)
    message = parse_message(MESSAGE, labels=labels)
    for size in (2_000, 1_500):
        for number in range(size):
            engine.add(make(f"/r/a[@k{size} = {number}]"))
        engine.match(message)
    folding = engine.folding
    assert folding is not None
    sizes = [0]
    while engine.folding is folding:
        sizes.append(len(folding.made))
        engine.match(message)
    steps = [after - before for before, after in itertools.pairwise(sizes)]
    assert sum(steps) == 3_500
    assert max(steps) <= 4


def test_what_folding_makes_is_warm(labels: LabelPaths) -> None:
    engine = YFilter(settle_above=10)
    message = parse_message(MESSAGE, labels=labels)
    for prefix in "xy":
        for number in range(40):
            engine.add(make(f"/r/a[@k = {number}][{prefix}]/b"))
        engine.match(message)
    folding = engine.folding
    assert folding is not None
    while engine.folding is folding:
        engine.match(message)
    assert engine.settled == [folding.made]
    assert folding.made.determinised.young.keys() == message.distinct_label_paths


def test_a_filter_that_dies_while_it_is_folded_stays_dead(labels: LabelPaths) -> None:
    for delay in range(0, 120, 3):
        engine = YFilter(settle_above=10)
        message = parse_message(MESSAGE, labels=labels)
        numbers = []
        for kind in ("a", "*"):
            numbers += [engine.add(make(f"/r/{kind}[@k < {n}]")) for n in range(2, 60)]
            engine.match(message)
        for _ in range(delay):
            engine.match(message)
        for number in numbers[::2]:
            engine.remove(number)
        for _ in range(100):
            assert engine.match(message).to_list() == numbers[1::2]


def test_a_small_automaton_does_not_keep_others_from_being_folded(labels: LabelPaths) -> None:
    engine = YFilter(settle_above=10)
    message = parse_message(MESSAGE, labels=labels)
    numbers = [engine.add(make(f"/r/a{n}")) for n in range(60)]
    engine.match(message)
    for number in numbers[:50]:
        engine.remove(number)
    for part in range(20):
        for n in range(60):
            engine.add(make(f"/r/a{n}/b{part}"))
        for _ in range(300):
            engine.match(message)
    assert len(engine.settled) <= 4


def test_an_engine_that_was_emptied_has_no_automata(labels: LabelPaths) -> None:
    engine = YFilter(settle_above=10)
    message = parse_message(MESSAGE, labels=labels)
    engine.fold()
    for number in [engine.add(make(f"/r/a{n}")) for n in range(60)]:
        engine.match(message)
        engine.remove(number)
    engine.fold()
    assert engine.settled == []
    assert engine.describe().active_states == 0


def test_numbers_are_found_by_place() -> None:
    automaton = Automaton(YFilter().predicates, 1000)
    for number in (3, 7, 20):
        automaton.add(number, make(f"/a{number}"))
    assert automaton.remove(7)
    assert not automaton.remove(8)
    assert not automaton.remove(21)
    assert automaton.dead == {1}

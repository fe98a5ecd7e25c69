"""Hostile filters and messages: what they can cost is bounded. Work is counted, not timed."""

import random
from collections.abc import Iterator

import pytest

from broker import reference
from broker.documents import LabelPaths, Message, parse_message
from broker.matching import YFilter
from broker.matching.automaton import Automaton
from broker.matching.decision import Decision
from broker.matching.determinised import Determinised, Entry
from broker.matching.patterns import Clause, Pattern, Predicates
from broker.matching.value_index import _OtherTests
from broker.query import Filter, check

CACHE = 400_000


def hostile_filters(count: int, seed: int = 1) -> list[str]:
    """Paths like //a/*/*/b that would have exponentially many states if determinised in full."""
    rng = random.Random(seed)
    filters: dict[str, None] = {}
    while len(filters) < count:
        steps = "".join(rng.choice(("/*", "/*", "/a", "//b")) for _ in range(rng.randint(2, 9)))
        branch = rng.choice(("", "", "[*/*]", "[.//b]", "[@x = 1]"))
        filters["//" + rng.choice("ab") + branch + steps] = None
    return list(filters)


def deep_message(rng: random.Random, depth: int) -> bytes:
    """One path of random names: every message has label paths of its own."""
    names = [rng.choice("ab") for _ in range(depth)]
    opened = "".join(f'<{name} x="{rng.randrange(3)}">' for name in names)
    return (opened + "".join(f"</{name}>" for name in reversed(names))).encode()


def make_engine(texts: list[str], **switches: object) -> YFilter:
    engine = YFilter(**switches)  # type: ignore[arg-type]
    for text in texts:
        query = check(text)
        assert isinstance(query, Filter)
        engine.add(query)
    return engine


def cached_bytes(engine: YFilter) -> int:
    return engine.describe().cached_bytes


class Made:
    """Counts the entries that are made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        make = Determinised._make

        def counted(self_: Determinised, label: int, transient: dict[int, Entry]) -> Entry:
            self.count += 1
            return make(self_, label, transient)

        monkeypatch.setattr(Determinised, "_make", counted)


@pytest.mark.parametrize("predicates", Predicates)
def test_the_cache_stays_within_its_bound_and_recovers(
    monkeypatch: pytest.MonkeyPatch, predicates: Predicates
) -> None:
    made = Made(monkeypatch)
    engine = make_engine(hostile_filters(300), max_cache_bytes=CACHE, predicates=predicates)
    plain = [f"<a><b><c{n}/></b><a x='1'><b/></a></a>".encode() for n in range(5)]
    labels = LabelPaths(limit=100_000)
    rng = random.Random(2)
    for _ in range(60):
        engine.match(parse_message(deep_message(rng, 40), labels=labels))
        # What was put in last may be above it.
        assert cached_bytes(engine) < 1.2 * CACHE
    for _ in range(3):
        for data in plain:
            engine.match(parse_message(data, labels=labels))
    made.count = 0
    for data in plain:
        engine.match(parse_message(data, labels=labels))
    assert made.count == 0, "the cache doesn't follow the traffic"


def test_an_entry_of_the_cache_is_made_once_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the bound the NFA is stepped: once for each label path, not again and again."""
    made = Made(monkeypatch)
    engine = make_engine(hostile_filters(200), max_cache_bytes=1)
    labels = LabelPaths()
    message = parse_message(deep_message(random.Random(3), 60), labels=labels)
    engine.match(message)
    made.count = 0
    engine.match(message)
    assert made.count <= len(message.distinct_label_paths)


def test_states_that_are_active_were_charged_for() -> None:
    rng = random.Random(4)
    texts = hostile_filters(400)
    engine = make_engine(texts)
    charged = engine.describe().active_states
    labels = LabelPaths()
    for _ in range(10):
        engine.match(parse_message(deep_message(rng, 60), labels=labels))
    entries = [entry for each in automata(engine) for entry in each.determinised.young.values()]
    assert len(entries) > 300
    for entry in entries:
        # Paths that branch off are followed for each open element, which the cache is charged for.
        assert len(entry.active.reached) + len(entry.active.waiting) <= charged


def automata(engine: YFilter) -> list[Automaton]:
    return [each for each in (*engine.settled, engine.young) if isinstance(each, Automaton)]


def test_an_entry_that_was_turned_over_is_not_used_after_a_change() -> None:
    message, other = (f"<{root}><n0/><n1/><n2/><n3/></{root}>".encode() for root in ("a", "z"))
    for size in range(1_000, 6_000, 40):
        engine = make_engine(["/a/n1"], max_cache_bytes=size)
        assert engine.match(parse_message(message, labels=LabelPaths())).to_list() == [0]
        assert engine.match(parse_message(other, labels=LabelPaths())).to_list() == []


def test_positions_among_many_siblings_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    children = Message.children

    def count(self: Message, node: int) -> list[int]:
        counted.append(node)
        return children(self, node)

    monkeypatch.setattr(Message, "children", count)
    engine = make_engine(["/r/a[2]", "/r/a[last()]/b", "//a[position() > 3000]"])
    engine.match(parse_message(b"<r>" + b"<a/>" * 3_000 + b"</r>", labels=LabelPaths()))
    assert len(counted) < 10


def test_tests_of_states_that_are_not_there_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"/r/x{n}[@k {op} {n}]" for n in range(200) for op in ("!=", "<", ">")]
    engine = make_engine([*texts, "/r/y[@k != 1]"])
    tried: list[str] = []
    passed = _OtherTests.passed

    def count(self: _OtherTests, value: str, number: float | None) -> Iterator[int]:
        tried.append(value)
        return passed(self, value, number)

    monkeypatch.setattr(_OtherTests, "passed", count)
    message = parse_message(b'<r><y k="2"/><z k="3"/></r>', labels=LabelPaths())
    assert engine.match(message).to_list() == [len(texts)]
    assert tried == ["2"]


def test_a_value_that_all_ask_for_is_no_key_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"//item[@lang = 'en'][x{n}]" for n in range(300)]
    engine = make_engine([*texts, "//item[@lang = 'en'][y]", "//item[@lang = 'en'][@k = 2]/y"])
    checked: list[int] = []
    check = Decision._check

    def count(  # noqa: PLR0917 - as the method is
        self: Decision,
        node: int,
        entry: Entry,
        candidates: list[Clause],
        marks: set[int],
        held: list[Pattern],
    ) -> None:
        checked.append(len(candidates))
        check(self, node, entry, candidates, marks, held)

    monkeypatch.setattr(Decision, "_check", count)
    data = b"<r>" + b"<item lang='en'><y/></item><item lang='en' k='2'><x7/></item>" * 20 + b"</r>"
    taken = engine.match(parse_message(data, labels=LabelPaths()))
    assert taken.to_list() == [7, 300]
    assert max(checked) <= 3


def test_filters_that_have_to_be_verified_are_not_without_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = [f"//item[contains(title, 'k{n}')]" for n in range(100)]
    texts += [f"//item[count(x) > {n}][@k = {n}]" for n in range(100)]
    texts += [f"/r/item[title/../@k = {n}]/title[. = 'k{n}']" for n in range(100)]
    engine = make_engine(texts)
    verified: list[Filter] = []
    matches = reference.matches

    def count(query: Filter, message: Message) -> bool:
        verified.append(query)
        return matches(query, message)

    monkeypatch.setattr(reference, "matches", count)
    data = b"<r><item k='3'><title>k7</title><title>k8</title><x/></item></r>"
    message = parse_message(data, labels=LabelPaths())
    assert engine.match(message).to_list() == [7]
    looked_at = [7, 8, 103, 207, 208]
    assert {query.source for query in verified} == {texts[index] for index in looked_at}


def test_equal_filters_cost_one() -> None:
    texts = hostile_filters(50)
    engine = make_engine(texts)
    once = engine.describe()
    for _ in range(200):
        for text in texts:
            query = check(text)
            assert isinstance(query, Filter)
            engine.add(query)
    assert engine.describe() == once


def test_many_constants_on_one_path_are_one_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"/a/b[@x = {number}]/c" for number in range(5_000)]
    message = parse_message(b'<a><b x="4711"><c/></b><b x="no"><c/></b></a>', labels=LabelPaths())
    for predicates in Predicates:
        engine = make_engine(texts, predicates=predicates)
        assert engine.match(message).to_list() == [4711]
        [automaton] = automata(engine)[:1]
        assert [index.size() for index in automaton.tests.by_value.values()] == [(5_000, 0, 0)]
    groups = make_engine(texts, predicates=Predicates.SP).young.patterns.groups_by_path
    assert [len(group) for group in groups.values()] == [1], "constants alone make no group"

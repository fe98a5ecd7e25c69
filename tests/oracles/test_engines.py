"""Every engine and every switch against the reference engine, libxml2, and each other."""

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from lxml import etree

from broker import reference
from broker.documents import LabelPaths, parse_message
from broker.matching import Engine, ReferenceEngine, YFilter, patterns
from broker.matching.patterns import Predicates
from broker.query import Filter, check, parse
from tests.oracles.strategies import PROLOG, QueryMaker, random_message

SWITCHES: dict[str, Callable[[], Engine]] = {
    "inline": lambda: YFilter(predicates=Predicates.INLINE),
    "sp": lambda: YFilter(predicates=Predicates.SP),
    "inline, not determinised": lambda: YFilter(predicates=Predicates.INLINE, determinise=False),
    "sp, not determinised": lambda: YFilter(predicates=Predicates.SP, determinise=False),
    "inline, a tiny cache": lambda: YFilter(predicates=Predicates.INLINE, max_cache_bytes=20_000),
    "sp, a tiny cache": lambda: YFilter(predicates=Predicates.SP, max_cache_bytes=20_000),
    "reference": ReferenceEngine,
}


def parse_filter(text: str) -> Filter:
    query = parse(text)
    assert isinstance(query, Filter)
    return query


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[bytes], list[str]]:
    """Messages of one feed, and filters made around any of them."""
    rng = draw(st.randoms(use_true_random=False))
    data = [random_message(rng) for _ in range(rng.randint(1, 4))]
    messages = [parse_message(each) for each in data]
    makers = [QueryMaker(message, rng) for message in messages]
    queries = [PROLOG + rng.choice(makers).filter() for _ in range(rng.randint(1, 12))]
    return data, queries


@pytest.mark.parametrize("make", SWITCHES.values(), ids=SWITCHES.keys())
def test_engine_takes_what_the_reference_takes(make: Callable[[], Engine]) -> None:
    @given(workloads())
    def compare(workload: tuple[list[bytes], list[str]]) -> None:
        data, texts = workload
        engine = make()
        queries = [parse_filter(text) for text in texts]
        numbers = [engine.add(query) for query in queries]
        labels = LabelPaths()
        for each in data:
            message = parse_message(each, labels=labels)
            expected = {
                number
                for number, query in zip(numbers, queries, strict=True)
                if reference.matches(query, message)
            }
            assert list(engine.match(message)) == sorted(expected)

    compare()


def test_crowded_keys_take_what_the_reference_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many clauses of one key are indexed by a second mark; here one is many."""
    monkeypatch.setattr(patterns, "_CROWD", 0)
    test_engine_takes_what_the_reference_takes(YFilter)


class ChangingFilters(RuleBasedStateMachine):
    """Filters come and go while messages are matched, against a dictionary of filters."""

    make: Callable[[], Engine] = staticmethod(lambda: YFilter(settle_above=2))

    @initialize(rng=st.randoms(use_true_random=False))
    def start(self, rng: random.Random) -> None:
        self.engine = type(self).make()
        self.labels = LabelPaths(limit=rng.choice((5, 60)))
        self.rng = rng
        self.added: list[tuple[int, Filter]] = []
        self.data = [random_message(rng) for _ in range(3)]

    @rule()
    def add(self) -> None:
        maker = QueryMaker(parse_message(self.rng.choice(self.data)), self.rng)
        query = parse_filter(PROLOG + maker.filter())
        self.added.append((self.engine.add(query), query))

    @rule()
    def add_again(self) -> None:
        if self.added:
            number, query = self.rng.choice(self.added)
            assert self.engine.add(query) == number
            self.added.append((number, query))

    @rule()
    def remove(self) -> None:
        if self.added:
            number, _ = self.added.pop(self.rng.randrange(len(self.added)))
            self.engine.remove(number)

    @rule()
    def fold(self) -> None:
        if isinstance(self.engine, YFilter):
            self.engine.fold()

    @rule()
    def other_traffic(self) -> None:
        self.data[self.rng.randrange(3)] = random_message(self.rng)

    @invariant()
    def matches_like_a_dictionary_of_filters(self) -> None:
        if not hasattr(self, "engine"):
            return
        for data in self.data:
            self.labels = self.labels.renewed()
            message = parse_message(data, labels=self.labels)
            expected = {number for number, query in self.added if reference.matches(query, message)}
            assert list(self.engine.match(message)) == sorted(expected)
        assert self.engine.describe().queries == len({query for _, query in self.added})


class ChangingFiltersNotDeterminised(ChangingFilters):
    """The same without determinising."""

    make = staticmethod(lambda: YFilter(determinise=False, settle_above=1))


class ChangingFiltersTinyCache(ChangingFilters):
    """The same with a cache that turns over within a message."""

    make = staticmethod(lambda: YFilter(max_cache_bytes=6_000, settle_above=2))


class ChangingFiltersPostponed(ChangingFilters):
    """The same with Selection Postponed."""

    make = staticmethod(lambda: YFilter(predicates=Predicates.SP, settle_above=2))


TestChangingFilters = ChangingFilters.TestCase
TestChangingFilters.settings = settings(max_examples=60, stateful_step_count=25)
TestChangingFiltersTinyCache = ChangingFiltersTinyCache.TestCase
TestChangingFiltersTinyCache.settings = settings(max_examples=60, stateful_step_count=25)
TestChangingFiltersPostponed = ChangingFiltersPostponed.TestCase
TestChangingFiltersPostponed.settings = settings(max_examples=30, stateful_step_count=25)
TestChangingFiltersNotDeterminised = ChangingFiltersNotDeterminised.TestCase
TestChangingFiltersNotDeterminised.settings = settings(max_examples=30, stateful_step_count=25)


@pytest.mark.parametrize("suite", ["simple-paths", "simple-predicates"])
def test_nitf_suite(nitf: Path, suite: str) -> None:
    engine = YFilter()
    lines = (nitf / suite / "queries.txt").read_text(encoding="utf-8").splitlines()
    numbers = [engine.add(parse_filter(line)) for line in lines]
    labels = LabelPaths()
    for line in (nitf / suite / "expected.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        message = parse_message(
            (nitf / "documents" / record["document"]).read_bytes(), labels=labels
        )
        taken = engine.match(message)
        matches = [index for index, number in enumerate(numbers, start=1) if number in taken]
        assert matches == record["matches"], record["document"]


def test_nitf_queries_against_libxml2(nitf: Path) -> None:
    """A sample of the 153,928 distinct queries, on a sample of the messages."""
    text = gzip.decompress((nitf / "queries-153928-distinct.txt.gz").read_bytes()).decode()
    sample = random.Random(7).sample(text.splitlines(), 2000)
    engine = YFilter()
    numbers = []
    for line in sample:
        query = check(line)
        assert isinstance(query, Filter)
        numbers.append(engine.add(query))
    compiled = [etree.XPath(line) for line in sample]
    labels = LabelPaths()
    for file in sorted((nitf / "documents").glob("*.xml"))[::20]:
        data = file.read_bytes()
        tree = etree.fromstring(data).getroottree()
        expected = [n for n, xpath in zip(numbers, compiled, strict=True) if xpath(tree)]
        assert list(engine.match(parse_message(data, labels=labels))) == sorted(expected)

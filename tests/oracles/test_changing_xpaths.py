"""Filters come and go while messages are matched, against a dictionary of lxml XPaths."""

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from lxml import etree

from broker.documents import LabelPaths, parse_message
from broker.matching import YFilter
from broker.matching.patterns import Predicates
from tests.oracles.test_engines import parse_filter


def random_xpath(rng: random.Random, nesting: int = 1) -> str:
    """A filter that XPath 1.0 and the language understand alike."""
    return "".join(
        rng.choice(("/", "/", "//")) + rng.choice("abc*") + random_predicates(rng, nesting)
        for _ in range(rng.randint(1, 3))
    )


def random_predicates(rng: random.Random, nesting: int) -> str:
    if nesting < 0 or rng.random() < 0.5:
        return ""
    inner = random_xpath(rng, nesting - 1)
    relative = f".{inner}" if inner.startswith("//") else inner[1:]
    simple = rng.choice(("@x = 1", "@x != '2'", "@y", "text() = 'u'", ". = 'v'", "@x > 1"))
    predicate = rng.choice(
        (
            simple,
            relative,
            f"{simple} or {relative}",
            f"not({relative})",
            f"{relative} and {simple}",
        )
    )
    position = rng.choice(("", "", "", "[1]", "[2]", "[last()]"))
    return f"{position}[{predicate}]"


def random_data(rng: random.Random, depth: int = 0) -> str:
    name = rng.choice("abc")
    attributes = "".join(
        f' {each}="{rng.choice(("1", "2", "10"))}"' for each in "xy" if rng.random() < 0.4
    )
    count = rng.choice((0, 1, 2, 2, 3)) if depth < 4 else 0
    inner = "".join(random_data(rng, depth + 1) for _ in range(count))
    return f"<{name}{attributes}>{rng.choice(('', 'u', 'v'))}{inner}</{name}>"


class ChangingXPaths(RuleBasedStateMachine):
    """A set of filters that changes, and the same XPaths in a dictionary."""

    @initialize(rng=st.randoms(use_true_random=False))
    def start(self, rng: random.Random) -> None:
        self.rng = rng
        self.engine = YFilter(
            predicates=rng.choice(list(Predicates)), settle_above=rng.choice((1, 4))
        )
        self.labels = LabelPaths()
        self.xpaths: dict[int, etree.XPath] = {}

    @rule(count=st.integers(1, 6))
    def add(self, count: int) -> None:
        for _ in range(count):
            text = random_xpath(self.rng)
            number = self.engine.add(parse_filter(text))
            if number in self.xpaths:
                self.engine.remove(number)
            self.xpaths[number] = etree.XPath(text)

    @rule()
    def remove(self) -> None:
        if self.xpaths:
            number = self.rng.choice(list(self.xpaths))
            self.engine.remove(number)
            del self.xpaths[number]

    @invariant()
    def takes_what_the_xpaths_select(self) -> None:
        if not hasattr(self, "engine"):
            return
        for _ in range(2):
            data = random_data(self.rng).encode()
            tree = etree.fromstring(data).getroottree()
            expected = sorted(number for number, xpath in self.xpaths.items() if xpath(tree))
            assert self.engine.match(parse_message(data, labels=self.labels)).to_list() == expected


TestChangingXPaths = ChangingXPaths.TestCase
TestChangingXPaths.settings = settings(max_examples=80, stateful_step_count=20)

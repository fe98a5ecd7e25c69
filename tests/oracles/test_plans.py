"""The plans of BROKER: every strategy and optimisation gives the groups of the reference."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from broker import reference
from broker.documents import parse_message
from broker.documents.dtd import ElementGraph
from broker.limits import ResultLimits
from broker.plan.build import NotPlannedError, Strategy
from broker.plan.optimise import Optimisation
from broker.query import Flwr, parse
from broker.runtime.planned import Planned
from tests.oracles.strategies import PROLOG, Case, QueryMaker, random_message, transformations

LIMITS = ResultLimits()


def parse_flwr(text: str) -> Flwr:
    query = parse(text)
    assert isinstance(query, Flwr)
    return query


@pytest.mark.parametrize("optimisation", [Optimisation.NONE, Optimisation.Q])
@pytest.mark.parametrize("strategy", Strategy)
def test_without_dtd(strategy: Strategy, optimisation: Optimisation) -> None:
    @given(transformations())
    def compare(case: Case) -> None:
        query = parse_flwr(case.query)
        message = parse_message(case.data)
        try:
            planned = Planned(query, strategy, optimisation)
        except NotPlannedError:
            return
        assert planned.run(message, LIMITS) == reference.transform(query, message)

    compare()


def dtd_of(data: bytes) -> ElementGraph:
    """A DTD that allows what a message does, and no more."""
    message = parse_message(data)
    children: dict[str, dict[str, None]] = {}
    for node in range(1, message.last + 1):
        children.setdefault(message.name(node).local, {})
        parent = message.parent(node)
        if parent > 0:
            children.setdefault(message.name(parent).local, {})[message.name(node).local] = None
    models = (
        f"<!ELEMENT {name} ({' | '.join(names)})*>" if names else f"<!ELEMENT {name} EMPTY>"
        for name, names in children.items()
    )
    return ElementGraph.parse("\n".join(models).encode())


def layered(data: bytes) -> bytes:
    """A message with other names at each depth, so that fewer of them are on loops."""
    root = etree.fromstring(data)
    for element in root.iter(etree.Element):
        depth = sum(1 for _ in element.iterancestors())
        element.tag = f"{element.tag!s}{min(depth, 3)}"
    return etree.tostring(root)


@st.composite
def with_dtds(draw: st.DrawFn) -> tuple[Case, list[bytes], ElementGraph]:
    """A query, messages of which some conform, and the DTD of one of them."""
    rng: random.Random = draw(st.randoms(use_true_random=False))
    data = [random_message(rng, namespaces=False) for _ in range(3)]
    if rng.random() < 0.7:
        data = [layered(each) for each in data]
    query = PROLOG + QueryMaker(parse_message(data[0]), rng).flwr()
    return Case(data[0], query), data, dtd_of(data[0])


@pytest.mark.parametrize("strategy", Strategy)
def test_with_dtd_whether_messages_conform_or_not(strategy: Strategy) -> None:
    seen = {"dtd": 0, "fallback": 0}

    @given(with_dtds())
    def compare(workload: tuple[Case, list[bytes], ElementGraph]) -> None:
        case, data, graph = workload
        query = parse_flwr(case.query)
        try:
            planned = Planned(query, strategy, Optimisation.Q_DTD, graph)
        except NotPlannedError:
            return
        for each in data:
            message = parse_message(each)
            assert planned.run(message, LIMITS) == reference.transform(query, message)
        seen["fallback"] += planned.fallbacks
        seen["dtd"] += planned.plan != planned.fallback

    compare()
    assert seen["fallback"]
    assert seen["dtd"]

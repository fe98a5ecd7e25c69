"""The plans of BROKER: every strategy and optimisation gives the groups of Saxon."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker import reference
from broker.documents import parse_message
from broker.documents.dtd import ElementGraph
from broker.limits import ResultLimits
from broker.plan.build import NotPlannedError
from broker.plan.operators import Strategy
from broker.plan.optimise import Optimisation
from broker.query import Flwr, parse
from broker.runtime.planned import Planned
from tests.oracles.dtds import dtd_of, layered
from tests.oracles.engines import SaxonDocument
from tests.oracles.saxon_groups import saxon_groups, shown
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
        result = planned.run(message, LIMITS)
        assert result == reference.transform(query, message)
        expected = saxon_groups(SaxonDocument(case.data), query)
        assert shown(result.groups, query, message) == expected

    compare()


@st.composite
def with_dtds(draw: st.DrawFn) -> tuple[Case, list[bytes], ElementGraph]:
    """A query, messages of which some conform, and the DTD of one of them."""
    rng: random.Random = draw(st.randoms(use_true_random=False))
    data = [random_message(rng, namespaces=rng.random() < 0.5) for _ in range(3)]
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
            result = planned.run(message, LIMITS)
            assert result == reference.transform(query, message)
            expected = saxon_groups(SaxonDocument(each), query)
            assert shown(result.groups, query, message) == expected
        seen["fallback"] += planned.fallbacks
        seen["dtd"] += planned.plan != planned.fallback

    compare()
    assert seen["fallback"]
    assert seen["dtd"]

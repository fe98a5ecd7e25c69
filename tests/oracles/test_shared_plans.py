"""Shared plans: many queries at once get what Saxon, and the reference, give each of them.

All strategies and optimisations, messages that conform to the DTD and that don't, queries that come
and go.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker import reference
from broker.documents import Message, parse_message
from broker.errors import ResultError
from broker.limits import ResultLimits
from broker.plan.build import NotPlannedError
from broker.plan.operators import Strategy
from broker.plan.optimise import Optimisation
from broker.query import Flwr, parse
from broker.runtime.planned import PlannedTogether
from tests.oracles.dtds import dtd_of, layered
from tests.oracles.engines import SaxonDocument
from tests.oracles.saxon_groups import saxon_groups, shown
from tests.oracles.strategies import PROLOG, QueryMaker, random_message

LIMITS = ResultLimits()


def random_queries(rng: random.Random, message: Message, count: int) -> list[Flwr]:
    """Queries of which several have parts of each other."""
    maker = QueryMaker(message, rng)
    texts = [maker.flwr() for _ in range(count)]
    for text in list(texts):
        head, found, tail = text.partition(" return ")
        if found and not text.startswith("<") and rng.random() < 0.5:
            content = tail if tail.startswith(("<", "{")) else f"{{{tail}}}"
            texts.append(f"{head} return <other>{content}</other>")
    queries = []
    for text in texts:
        query = parse(PROLOG + text)
        assert isinstance(query, Flwr)
        queries.append(query)
    return queries


@pytest.mark.parametrize("optimisation", Optimisation)
@pytest.mark.parametrize("strategy", Strategy)
def test_shared(strategy: Strategy, optimisation: Optimisation) -> None:
    seen = {"groups": 0, "fallback": 0, "shared": 0}

    @settings(max_examples=40)
    @given(st.randoms(use_true_random=False))
    def compare(rng: random.Random) -> None:
        data = [random_message(rng, namespaces=rng.random() < 0.5) for _ in range(3)]
        if rng.random() < 0.7:
            data = [layered(each) for each in data]
        messages = [parse_message(each) for each in data]
        together: PlannedTogether[int] = PlannedTogether(strategy, optimisation, dtd_of(data[0]))
        queries: dict[int, Flwr] = {}
        for number, query in enumerate(random_queries(rng, messages[0], 5)):
            try:
                together.add(number, query)
            except NotPlannedError:
                continue
            queries[number] = query
        operators = together.shared.operators
        seen["shared"] += sum(count > 1 for count in together.shared._uses.values())
        seen["groups"] += check(together, queries, messages)
        check_with_saxon(together, queries, rng.choice(data))
        for number in rng.sample(sorted(queries), len(queries) // 2):
            together.remove(number)
            gone = queries.pop(number)
            check(together, queries, messages[:1])
            if rng.random() < 0.3:
                together.add(number, gone)
                queries[number] = gone
        check(together, queries, messages)
        for number in list(queries):
            together.remove(number)
        assert together.shared.operators == together.fallback.operators == 0
        assert not operators or not list(together.run(messages[0], LIMITS))
        seen["fallback"] += together.fallbacks

    compare()
    assert seen["groups"]
    assert seen["shared"]
    assert bool(seen["fallback"]) == (optimisation is Optimisation.Q_DTD)


def check_with_saxon(together: PlannedTogether[int], queries: dict[int, Flwr], data: bytes) -> None:
    message, document = parse_message(data), SaxonDocument(data)
    got = {}
    for number, outcome in together.run(message, LIMITS):
        assert not isinstance(outcome, ResultError)
        got[number] = shown(outcome.groups, queries[number], message)
    for number, query in queries.items():
        assert got.get(number, []) == saxon_groups(document, query)


def check(together: PlannedTogether[int], queries: dict[int, Flwr], messages: list[Message]) -> int:
    total = 0
    for message in messages:
        wanted = {
            number: result.groups
            for number, query in queries.items()
            if (result := reference.transform(query, message)).groups
        }
        got = {}
        for number, outcome in together.run(message, LIMITS):
            assert not isinstance(outcome, ResultError)
            assert number not in got
            got[number] = outcome.groups
        assert got == wanted
        total += len(got)
    return total

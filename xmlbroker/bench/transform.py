"""`xmlbroker bench transform`: FLWR queries on recursive Book messages, against bare parsing.

What is timed is the groups, not the XML made of them, of all queries that a message matches, with
parsing. The message factory is timed apart.
"""

import time
from collections.abc import Callable
from dataclasses import asdict

from lxml import etree

from broker.documents import LabelPaths, Message
from broker.documents.dtd import ElementGraph
from broker.engine import Engine
from broker.limits import ResultLimits
from broker.message_factory import make_output
from broker.names import ExpandedName
from broker.plan.build import Strategy
from broker.plan.optimise import Optimisation
from broker.query import Flwr, parse
from broker.runtime.executor import Executor
from broker.runtime.planned import Planned
from xmlbroker.bench import books
from xmlbroker.bench.measure import compare, progress
from xmlbroker.bench.parse import bare_parser

_SIZES = ((10_000, 2_000), (100_000, 20_000), (100_000, 1_000))
"""Numbers of queries, and of values: with few values many queries match."""


def run(rounds: int) -> dict[str, object]:
    """The figures for each number of queries."""
    parts = [measure(count, values, rounds) for count, values in _SIZES]
    return {
        "bench": "transform",
        "workload": "books",
        "parts": parts,
        "factory": factory(),
        "strategies": strategies(rounds),
    }


def strategies(rounds: int, count: int = 500, values: int = 100) -> list[dict[str, object]]:
    """The plans of BROKER 3 on flat bibs, each query's run by itself on shared path streams.

    After BROKER's Table 3, with fewer queries: its ratios are 915 : 272 : 91 for fwr without
    optimisation, with Opt(q), and with Opt(q+dtd).
    """
    graph = ElementGraph.parse(books.BIB_DTD, roots=[ExpandedName("", "bib")])
    queries = [parse(text) for text in books.bib_queries(count, values)]
    messages = [Message.parse(data) for data in books.bib_messages(4, values)]
    limits = ResultLimits()
    contestants: dict[str, Callable[[Message], object]] = {}
    for strategy in (Strategy.FWR, Strategy.FW, Strategy.F):
        for optimisation in Optimisation:
            plans = [
                Planned(query, strategy, optimisation, graph)
                for query in queries
                if isinstance(query, Flwr)
            ]

            def run_all(message: Message, plans: list[Planned] = plans) -> None:
                executor = Executor(message, limits)
                for plan in plans:
                    plan.run(message, limits, executor)

            contestants[f"{strategy}, {optimisation}"] = run_all
    timings = compare(contestants, lambda _: messages, max(1, rounds // 3))
    return [asdict(each) for each in timings]


def measure(count: int, values: int, rounds: int) -> dict[str, object]:
    """The figures for one number of queries."""
    messages = books.book_messages(100, values)
    engine, loading = load(books.book_queries(count, values))
    labels = LabelPaths()
    matches = groups = 0
    for data in messages:
        for result in engine.results(Message.parse(data, labels=labels)):
            matches += 1
            groups += len(result.groups)
    parser = bare_parser()

    def make_groups(data: bytes) -> None:
        for _ in engine.results(Message.parse(data, labels=labels)):
            pass

    timings = compare(
        {
            "bare lxml parsing": lambda data: etree.fromstring(data, parser),
            "match": lambda data: engine.matcher.match(Message.parse(data, labels=labels)),
            "groups": make_groups,
        },
        lambda number: books.book_messages(100, values, seed=100 + number),
        rounds,
    )
    return {
        "queries": count,
        "values": values,
        "matching_queries": matches / len(messages),
        "groups": groups / len(messages),
        "loading_seconds": loading,
        "timings": [asdict(each) for each in timings],
    }


def load(queries: list[str]) -> tuple[Engine, float]:
    """An engine with these queries, and the seconds that it took to load them."""
    engine = Engine()
    started = time.perf_counter()
    for number, text in enumerate(queries):
        if number % 1000 == 0:
            progress(f"loading query {number:,} of {len(queries):,}")
        engine.add(f"s{number}", parse(text))
    return engine, time.perf_counter() - started


def factory() -> dict[str, float]:
    """Bytes a second of the message factory, against `lxml.tostring` of the same nodes."""
    limits = ResultLimits()
    ours = theirs = 0.0
    written = copied = 0
    engine, _ = load(["for $v in //section return <r>{$v/title}{$v//figure}</r>"])
    for data in books.book_messages(200, 100):
        message = Message.parse(data)
        for result in engine.results(message):
            started = time.perf_counter()
            output = make_output(result, message, limits=limits)
            ours += time.perf_counter() - started
            written += len(output or b"")
            nodes = [node for group in result.groups for items in group for node in items]
            elements = [message.elements[node] for node in nodes if isinstance(node, int)]
            started = time.perf_counter()
            copied += sum(len(etree.tostring(each, with_tail=False)) for each in elements)
            theirs += time.perf_counter() - started
    return {
        "megabytes_per_second": written / ours / 1e6,
        "tostring_megabytes_per_second": copied / theirs / 1e6,
        "ratio": (written / ours) / (copied / theirs),
    }

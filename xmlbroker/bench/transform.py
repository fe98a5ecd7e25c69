"""`xmlbroker bench transform`: FLWR queries on recursive Book messages, against bare parsing.

What is timed, with parsing: finding the queries that a message matches and the elements that they
bind, and making all their groups. The message factory is timed apart, so are the strategies of
BROKER 3 and the sharing of BROKER 5.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict

from lxml import etree

from broker.documents import LabelPaths, parse_message
from broker.documents.dtd import ElementGraph
from broker.engine import Engine
from broker.limits import ResultLimits
from broker.loading import uncollected
from broker.message_factory import MessageFactory, OutputFormat
from broker.names import ExpandedName
from broker.plan.operators import Operator, Strategy, inputs
from broker.plan.optimise import Optimisation
from broker.query import Flwr, parse
from broker.runtime.executor import Executor
from broker.runtime.planned import Planned, PlannedTogether
from xmlbroker.bench import books
from xmlbroker.bench.measure import compare, progress, settle
from xmlbroker.bench.parse import bare_parser

_SIZES = ((10_000, 5_000), (100_000, 50_000), (100_000, 1_000))
"""Numbers of queries, and of values: with few values many queries match."""

_PLANNED_ALONE = (1_000, 2_500, 5_000)
"""Numbers of queries with plans of their own; BROKER's Table 3 has 5,000."""

_ADDED = 1_000


def run(rounds: int) -> dict[str, object]:
    """The figures for each number of queries."""
    parts = [measure(count, values, rounds) for count, values in _SIZES]
    return {
        "bench": "transform",
        "workload": "books",
        "parts": parts,
        "factory": factory(),
        "strategies": [strategies(count, rounds) for count in _PLANNED_ALONE],
        "sharing": [sharing(count) for count in (1_000, 10_000, 100_000)],
    }


def sharing(count: int, values: int = 1_000) -> dict[str, object]:
    """Plans of their own against one shared plan, both fwr with Opt(q+dtd), on books."""
    graph = ElementGraph.parse(books.BOOK_DTD.encode(), roots=[ExpandedName("", "book")])
    limits = ResultLimits()
    together: PlannedTogether[int] = PlannedTogether(Strategy.FWR, Optimisation.Q_DTD, graph)
    alone: list[Planned] = []
    for number, text in enumerate(books.book_queries(count, values)):
        if number % 1000 == 0:
            progress(f"planning query {number:,} of {count:,}")
        query = parse(text)
        assert isinstance(query, Flwr)
        together.add(number, query)
        alone.append(Planned(query, Strategy.FWR, Optimisation.Q_DTD, graph))

    def run_alone(data: bytes) -> None:
        message = parse_message(data)
        executor = Executor(message, limits)
        for plan in alone:
            plan.run(message, limits, executor)

    def run_together(data: bytes) -> None:
        for _ in together.run(parse_message(data), limits):
            pass

    timings = compare(
        {"shared": run_together, "alone": run_alone},
        lambda number: books.book_messages(2, values, seed=300 + number),
        rounds=3 if count < 100_000 else 1,
    )
    return {
        "queries": count,
        "operators": sum(_size(plan.plan.root) for plan in alone),
        "shared_operators": together.shared.operators,
        "rules": {name: asdict(count) for name, count in together.rules.items()},
        "timings": [asdict(each) for each in timings],
    }


def _size(operator: Operator) -> int:
    return 1 + sum(map(_size, inputs(operator)))


def strategies(count: int, rounds: int, values: int = 100) -> dict[str, object]:
    """The plans of BROKER 3 on flat bibs, each query's run by itself on shared path streams.

    BROKER's Table 3 has 915 : 272 : 91 for fwr without optimisation, with Opt(q), and with
    Opt(q+dtd).
    """
    graph = ElementGraph.parse(books.BIB_DTD, roots=[ExpandedName("", "bib")])
    queries = [parse(text) for text in books.bib_queries(count, values)]
    limits = ResultLimits()
    contestants: dict[str, Callable[[bytes], object]] = {}
    for strategy in (Strategy.FWR, Strategy.FW, Strategy.F):
        for optimisation in Optimisation:
            progress(f"planning {count:,} queries: {strategy}, {optimisation}")
            plans = [
                Planned(query, strategy, optimisation, graph)
                for query in queries
                if isinstance(query, Flwr)
            ]

            def run_all(data: bytes, plans: list[Planned] = plans) -> None:
                # Parsed anew: what a message remembers would be the first one's to find.
                message = parse_message(data)
                executor = Executor(message, limits)
                for plan in plans:
                    plan.run(message, limits, executor)

            contestants[f"{strategy}, {optimisation}"] = run_all

    timings = compare(
        contestants,
        lambda number: books.bib_messages(2, values, seed=200 + number),
        max(3, rounds // 3),
    )
    return {"queries": count, "timings": [asdict(each) for each in timings]}


def measure(count: int, values: int, rounds: int) -> dict[str, object]:
    """The figures for one number of queries."""
    messages = books.book_messages(100, values)
    queries = books.book_queries(count + _ADDED, values)
    engine, loading = load(queries[:count])
    labels = LabelPaths()
    matches = groups = 0
    for data in messages:
        for result in engine.results(parse_message(data, labels=labels)):
            matches += 1
            groups += len(result.groups)
    parser = bare_parser()

    def find(data: bytes) -> None:
        for _ in engine.bindings(parse_message(data, labels=labels)):
            pass

    def make_groups(data: bytes) -> None:
        for _ in engine.results(parse_message(data, labels=labels)):
            pass

    timings = compare(
        {
            "bare lxml parsing": lambda data: etree.fromstring(data, parser),
            "node table": lambda data: parse_message(data, labels=labels),
            "found": find,
            "groups made": make_groups,
            "delivered as XML": lambda data: engine.deliveries(parse_message(data, labels=labels)),
        },
        lambda number: books.book_messages(100, values, seed=100 + number),
        rounds,
    )
    found, made, delivered = (each.microseconds for each in timings[2:])
    adding = statistics.median(_seconds_to_add(engine, queries[count:]) for _ in range(5))
    return {
        "queries": count,
        "values": values,
        "matching_queries": matches / len(messages),
        "groups": groups / len(messages),
        "microseconds_per_group": (made - found) / (groups / len(messages)),
        "adds": _ADDED,
        "microseconds_per_add": adding * 1e6 / _ADDED,
        "adds_in_messages": adding * 1e6 / delivered,
        "adds_in_messages_found": adding * 1e6 / found,
        "loading_seconds": loading,
        "timings": [asdict(each) for each in timings],
    }


def _seconds_to_add(engine: Engine, texts: list[str]) -> float:
    """How long it takes to add queries; they are removed again."""
    parsed = [parse(text) for text in texts]
    settle()
    started = time.perf_counter()
    for number, query in enumerate(parsed):
        engine.add(f"added{number}", query)
    spent = time.perf_counter() - started
    for number in range(len(parsed)):
        engine.remove(f"added{number}")
    return spent


def load(queries: list[str]) -> tuple[Engine, float]:
    """An engine with these queries, and the seconds that it took to load them."""
    engine = Engine()
    started = time.perf_counter()
    with uncollected():
        for number, text in enumerate(queries):
            if number % 1000 == 0:
                progress(f"loading query {number:,} of {len(queries):,}")
            engine.add(f"s{number}", parse(text))
    return engine, time.perf_counter() - started


def factory() -> dict[str, float]:
    """Bytes a second of the message factory, against `lxml.tostring` of the same nodes."""
    most = ResultLimits().max_output
    ours = theirs = 0.0
    written = copied = 0
    engine, _ = load(["for $v in //section return <r>{$v/title}{$v//figure}</r>"])
    made: dict[Flwr, MessageFactory] = {}
    for data in books.book_messages(200, 100):
        message = parse_message(data)
        tree = list(etree.fromstring(data).iter())
        for result in engine.results(message):
            of_query = made.setdefault(result.query, MessageFactory(result.query))
            started = time.perf_counter()
            output = of_query.make(result.groups, message, OutputFormat.XML, most)
            ours += time.perf_counter() - started
            written += len(output)
            nodes = [node for group in result.groups for items in group for node in items]
            elements = [tree[node - 1] for node in nodes if isinstance(node, int)]
            started = time.perf_counter()
            copied += sum(len(etree.tostring(each, with_tail=False)) for each in elements)
            theirs += time.perf_counter() - started
    return {
        "megabytes_per_second": written / ours / 1e6,
        "tostring_megabytes_per_second": copied / theirs / 1e6,
        "ratio": (written / ours) / (copied / theirs),
    }

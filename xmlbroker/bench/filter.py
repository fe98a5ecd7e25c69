"""`xmlbroker bench filter`: matching predicate-free filters, parsing included.

Against bare lxml parsing of the same messages, and against lxml's XPath one by one. The messages
differ from each other; what the engine remembers of their shapes is warm, as in a feed.
"""

import random
import time
from collections.abc import Callable
from dataclasses import asdict

from lxml import etree

from broker.documents import LabelPaths, parse_message
from broker.matching import YFilter
from broker.matching.patterns import Predicates
from broker.query import Filter, parse
from xmlbroker.bench import workload
from xmlbroker.bench.measure import Timing, compare, progress
from xmlbroker.bench.parse import bare_parser

_TRIED_ONE_BY_ONE = 5_000


def run(rounds: int) -> dict[str, object]:
    """The figures for each number of queries."""
    source, messages, queries = workload.load(20_000)
    random.Random(3).shuffle(queries)
    sizes = [size for size in (1_000, 10_000) if size < len(queries)] + [len(queries)]
    parts = [measure(messages, queries[:size], rounds) for size in sizes]
    return {"bench": "filter", "workload": source, "parts": parts}


def measure(messages: list[bytes], queries: list[str], rounds: int) -> dict[str, object]:
    """The figures for one set of queries."""
    started = time.perf_counter()
    engine = make_engine(queries)
    loading = time.perf_counter() - started
    labels = LabelPaths()
    matches = sum(len(engine.match(parse_message(data, labels=labels))) for data in messages)
    description = engine.describe()
    return {
        "queries": len(queries),
        "messages": len(messages),
        "matches_per_message": matches / len(messages),
        "loading_seconds": loading,
        "states": description.states,
        "cached_states": description.cached_states,
        "cached_bytes": description.cached_bytes,
        "timings": [asdict(each) for each in time_engine(engine, messages, labels, rounds)],
        "one_by_one": one_by_one(engine, messages, queries, labels),
    }


def make_engine(queries: list[str], predicates: Predicates = Predicates.INLINE) -> YFilter:
    """An engine with these filters."""
    engine = YFilter(predicates=predicates)
    for done, text in enumerate(queries):
        if done % 1000 == 0:
            progress(f"loading query {done:,} of {len(queries):,}")
        query = parse(text)
        assert isinstance(query, Filter)
        engine.add(query)
    return engine


def time_engine(
    engine: YFilter, messages: list[bytes], labels: LabelPaths, rounds: int
) -> list[Timing]:
    """Time matching against bare parsing."""
    parser = bare_parser()
    return compare(
        {
            "bare lxml parsing": lambda data: etree.fromstring(data, parser),
            "parse and match": contestant(engine, labels),
            "parse, match and list the numbers": lambda data: engine.match(
                parse_message(data, labels=labels)
            ).to_list(),
        },
        workload.Feed(messages).renewed,
        rounds,
    )


def contestant(engine: YFilter, labels: LabelPaths) -> Callable[[bytes], object]:
    """An engine to be timed, parsing included."""
    return lambda data: engine.match(parse_message(data, labels=labels))


def one_by_one(
    engine: YFilter, messages: list[bytes], queries: list[str], labels: LabelPaths
) -> dict[str, float]:
    """How many times faster than lxml, query by query, on some of the messages.

    Once with XPaths that were compiled before, once with texts as an application has them.
    """
    texts = queries[:_TRIED_ONE_BY_ONE]
    compiled = [etree.XPath(text) for text in texts]
    scale = len(queries) / len(texts)
    seconds = {"ours": 0.0, "compiled": 0.0, "texts": 0.0}
    for data in messages[:3]:
        started = time.perf_counter()
        tree = etree.fromstring(data).getroottree()
        parsing = time.perf_counter() - started
        for xpath in compiled:
            xpath(tree)
        evaluating = time.perf_counter() - started - parsing
        started = time.perf_counter()
        for text in texts:
            tree.xpath(text)
        with_texts = time.perf_counter() - started
        seconds["compiled"] += parsing + evaluating * scale
        seconds["texts"] += parsing + with_texts * scale
        started = time.perf_counter()
        engine.match(parse_message(data, labels=labels))
        seconds["ours"] += time.perf_counter() - started
    return {name: seconds[name] / seconds["ours"] for name in ("compiled", "texts")}

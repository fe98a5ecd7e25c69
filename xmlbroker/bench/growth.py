"""`xmlbroker bench growth`: the same messages and matches, ever more filters.

Filters are distinct paths with a value predicate each; most ask for values that no message has, so
that about twenty match a message however many there are. Loading and memory are measured on the
way: each size in a process of its own.
"""

import gc
import itertools
import random
import time
from multiprocessing import get_context
from pathlib import Path

from lxml import etree

from broker.documents import LabelPaths, parse_message
from broker.matching import YFilter
from broker.query import Filter, parse
from xmlbroker.bench import workload
from xmlbroker.bench.filter import contestant
from xmlbroker.bench.measure import compare, progress, settle
from xmlbroker.bench.parse import bare_parser

_WANTED = 20
_NAMES = 400
_VALUES = 50


def run(rounds: int, sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)) -> dict[str, object]:
    """The figures for each number of filters."""
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        parts = pool.starmap(measure, [(size, rounds) for size in sizes], chunksize=1)
    for part in parts:
        part["growth"] = part["ratio"] / parts[0]["ratio"]
    return {"bench": "growth", "workload": "generated", "parts": parts}


def measure(count: int, rounds: int) -> dict[str, float]:
    """The figures for one number of filters."""
    messages = make_messages(100)
    texts = make_queries(count)
    before = resident_bytes()
    started = time.perf_counter()
    engine = YFilter()
    gc.disable()
    for done, text in enumerate(texts):
        if done % 10_000 == 0:
            progress(f"loading query {done:,} of {count:,}")
        query = parse(text)
        assert isinstance(query, Filter)
        engine.add(query)
    gc.enable()
    loading = time.perf_counter() - started
    settle()
    labels = LabelPaths()
    matches = sum(len(engine.match(parse_message(data, labels=labels))) for data in messages)
    parser = bare_parser()
    _, timing = compare(
        {
            "bare lxml parsing": lambda data: etree.fromstring(data, parser),
            "parse and match": contestant(engine, labels),
        },
        workload.Feed(messages).renewed,
        rounds,
    )
    used = resident_bytes() - before
    repeated = duplicate_bytes(engine)
    progress("")
    return {
        "queries": count,
        "matches_per_message": matches / len(messages),
        "microseconds": timing.microseconds,
        "ratio": timing.ratio,
        "loading_seconds": loading,
        "megabytes": used / 1e6,
        "bytes_per_query": used / count,
        "cached_megabytes": engine.describe().cached_bytes / 1e6,
        "bytes_per_duplicate": repeated,
    }


def make_messages(count: int, seed: int = 8) -> list[bytes]:
    """Messages of about seventy elements over a vocabulary of some hundred names."""
    rng = random.Random(seed)
    messages = []
    for _ in range(count):
        parts = []
        for _ in range(14):
            names = [f"n{rng.randrange(_NAMES)}" for _ in range(5)]
            opened = "".join(f'<{name} k="{rng.randrange(_VALUES)}">' for name in names)
            parts.append(opened + "text" + "".join(f"</{name}>" for name in reversed(names)))
        messages.append(f"<feed>{''.join(parts)}</feed>".encode())
    return messages


def make_queries(count: int, seed: int = 9) -> list[str]:
    """Distinct filters of which about twenty match a message, however many there are."""
    rng = random.Random(seed)
    queries: dict[str, None] = {}
    # Of the filters that ask for values that there are, one message matches about one in 300.
    likely = _WANTED * 300
    while len(queries) < count:
        if len(queries) < likely:
            queries[f"//n{rng.randrange(_NAMES)}[@k = {rng.randrange(_VALUES)}]"] = None
            continue
        steps = [f"n{rng.randrange(_NAMES)}" for _ in range(rng.randint(1, 4))]
        steps[rng.randrange(len(steps))] += f"[@k = {rng.randrange(_VALUES, 10_000)}]"
        queries["//" + rng.choice(("/", "//")).join(steps)] = None
    return list(queries)


def duplicate_bytes(engine: YFilter) -> float:
    """What each of a number of subscriptions takes that equal another."""
    again = list(itertools.islice(engine.numbering.queries.values(), 100_000))
    before = resident_bytes()
    for query in again:
        engine.add(query)
    return max(0, resident_bytes() - before) / len(again)


def resident_bytes() -> int:
    """What the process takes in memory."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096

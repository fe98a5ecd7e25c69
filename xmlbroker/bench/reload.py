"""`xmlbroker bench reload`: filters come and go between two messages of an engine at rest.

What a thousand filters added and a thousand removed cost, in messages of matching, and how long the
messages after it take: each against its own time with filters that don't change, since messages
differ in size.
"""

import random
import statistics
import time

from broker.documents import LabelPaths, parse_message
from broker.matching import YFilter
from broker.query import Filter, parse
from xmlbroker.bench import workload
from xmlbroker.bench.filter import make_engine
from xmlbroker.bench.measure import progress, settle


def run(rounds: int, count: int = 100_000, changes: int = 1_000) -> dict[str, object]:
    """The figures."""
    source, messages, queries = workload.load(count + rounds * changes)
    count = min(count, len(queries) - rounds * changes)
    random.Random(6).shuffle(queries)
    engine = make_engine(queries[:count])
    fresh = [query for text in queries[count:] if isinstance(query := parse(text), Filter)]
    numbers = [*engine.numbering.queries]
    random.Random(7).shuffle(numbers)
    labels = LabelPaths()
    feed = workload.Feed(messages)
    time_each(engine, messages, labels)
    settle()
    results = []
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        while engine.folding is not None:
            time_each(engine, messages, labels)
        sample = feed.renewed()
        usual = [
            min(times)
            for times in zip(*(time_each(engine, sample, labels) for _ in range(3)), strict=True)
        ]
        added = [fresh.pop() for _ in range(changes)]
        removed = [numbers.pop() for _ in range(changes)]
        started = time.perf_counter()
        for query in added:
            engine.add(query)
        for each in removed:
            engine.remove(each)
        spent = time.perf_counter() - started
        after = time_each(engine, sample, labels)
        results.append(
            {
                "message_microseconds": statistics.mean(usual) * 1e6,
                "change_in_messages": spent / statistics.mean(usual),
                "later_in_messages": (sum(after) - sum(usual)) / statistics.mean(usual),
                "slowest": max(a / b for a, b in zip(after, usual, strict=True)),
                "median": statistics.median(a / b for a, b in zip(after, usual, strict=True)),
            }
        )
    progress("")
    return {
        "bench": "reload",
        "workload": source,
        "queries": count,
        "changes": changes,
        **{key: statistics.median(each[key] for each in results) for key in results[0]},
    }


def time_each(engine: YFilter, messages: list[bytes], labels: LabelPaths) -> list[float]:
    """The seconds that each message takes, parsing included."""
    times = []
    for data in messages:
        started = time.perf_counter()
        engine.match(parse_message(data, labels=labels))
        times.append(time.perf_counter() - started)
    return times

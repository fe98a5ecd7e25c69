"""`xmlbroker bench nested`: filters with nested paths, against the same paths flattened.

A filter with a nested path, `/a/b[c//d]/e`, is compared with the two paths that it is made of,
`/a/b/e` and `/a/b/c//d`, as filters of their own.
"""

import random
from dataclasses import asdict

from broker.documents import LabelPaths, parse_message
from xmlbroker.bench import workload
from xmlbroker.bench.filter import contestant, make_engine
from xmlbroker.bench.measure import compare


def run(rounds: int, count: int = 50_000) -> dict[str, object]:
    """The figures for one, two and three nested paths."""
    source, messages, paths = workload.load(count * 2)
    parts = [measure(messages, paths, count, nested, rounds) for nested in (1, 2, 3)]
    return {"bench": "nested", "workload": source, "parts": parts}


def measure(
    messages: list[bytes], paths: list[str], count: int, nested: int, rounds: int
) -> dict[str, object]:
    """The figures for one number of nested paths."""
    rng = random.Random(nested)
    queries, flat = [], []
    for path in rng.sample(paths, min(count, len(paths))):
        query, parts = with_nested(path, paths, nested, rng)
        queries.append(query)
        flat += parts
    engines = {"flattened": make_engine(flat), "nested": make_engine(queries)}
    labels = LabelPaths()
    matches = sum(
        len(engines["nested"].match(parse_message(data, labels=labels))) for data in messages
    )
    contestants = {name: contestant(engine, labels) for name, engine in engines.items()}
    timings = compare(contestants, workload.Feed(messages).renewed, rounds)
    return {
        "queries": len(queries),
        "nested_paths": nested,
        "matches_per_message": matches / len(messages),
        "timings": [asdict(each) for each in timings],
    }


def with_nested(
    path: str, paths: list[str], nested: int, rng: random.Random
) -> tuple[str, list[str]]:
    """A path with nested paths on its steps, and the paths that it is made of.

    What is nested are the last steps of other paths that share the steps before them.
    """
    steps = split(path)
    flat = [path]
    predicates: dict[int, str] = {}
    for _ in range(nested):
        place = rng.randrange(len(steps))
        tail = split(rng.choice(paths))[-rng.randint(1, 2) :]
        inner = "".join(tail)
        relative = "." + inner if inner.startswith("//") else inner[1:]
        predicates[place] = predicates.get(place, "") + f"[{relative}]"
        flat.append("".join(steps[: place + 1]) + inner)
    text = "".join(step + predicates.get(index, "") for index, step in enumerate(steps))
    return text, flat


def split(path: str) -> list[str]:
    """The steps of a path, each with its separator."""
    return ["/" + step.replace("\0", "/") for step in path.replace("//", "/\0").split("/")[1:]]

"""`xmlbroker bench predicates`: filters with one value predicate each.

Against the same filters without their predicates, on the same messages. Constants come from a pool
of ten thousand, of which the messages' own values are a part.
"""

import random
from dataclasses import asdict

from broker.documents import LabelPaths, parse_message
from broker.matching.patterns import Predicates
from xmlbroker.bench import workload
from xmlbroker.bench.filter import contestant, make_engine
from xmlbroker.bench.measure import compare


def run(rounds: int, count: int = 100_000) -> dict[str, object]:
    """The figures."""
    source, messages, bare = workload.load(count)
    rng = random.Random(5)
    rng.shuffle(bare)
    bare = bare[:count]
    attributes = workload.attribute_names(messages)
    guarded = [with_predicate(path, attributes, rng) for path in bare]
    engines = {
        "without predicates": make_engine(bare),
        "with predicates, inline": make_engine(guarded, Predicates.INLINE),
        "with predicates, sp": make_engine(guarded, Predicates.SP),
    }
    labels = LabelPaths()
    matches = {
        name: sum(len(engine.match(parse_message(data, labels=labels))) for data in messages)
        for name, engine in engines.items()
    }
    contestants = {name: contestant(engine, labels) for name, engine in engines.items()}
    timings = compare(contestants, workload.Feed(messages).renewed, rounds)
    return {
        "bench": "predicates",
        "workload": source,
        "queries": len(guarded),
        "matches_per_message": {name: n / len(messages) for name, n in matches.items()},
        "timings": [asdict(timing) for timing in timings],
    }


def with_predicate(path: str, attributes: list[str], rng: random.Random) -> str:
    """A path with a value predicate on one of its steps."""
    steps = path.replace("//", "/\0").split("/")[1:]
    place = rng.randrange(len(steps))
    attribute = rng.choice(attributes)
    operator = rng.choice(["=", "=", "=", "=", "<", ">"])
    constant = rng.randint(1, 10_000)
    if operator == "<":
        constant = rng.randint(1, 5)  # most values of the messages are between 1 and 20
    steps[place] += f"[@{attribute} {operator} {constant}]"
    return "".join("/" + step.replace("\0", "/") for step in steps)

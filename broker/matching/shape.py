"""The shape of a set of filters: how much of them is shared, and by what."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from broker.matching.compile import bare_steps
from broker.query import Filter, cost
from broker.query.syntax import Path, Step
from broker.query.unparse import fragment
from broker.query.validate import outer_paths

_SHOWN = 8


@dataclass(frozen=True)
class Shape:
    """What filters have in common."""

    filters: int
    distinct: int
    steps: int
    """The steps of the distinct filters' paths, to the first `..`, predicates aside."""
    shared_steps: int
    """The states that those steps lead to: equal beginnings are there once."""
    states_by_depth: list[int]
    active_states: int
    cache_demand: int
    shared_beginnings: list[tuple[str, int]]
    """The beginnings of paths that most filters share, with how many."""


def shape_of(filters: Iterable[Filter]) -> Shape:
    """The shape of filters, before they are in an engine."""
    given = list(filters)
    distinct = list(dict.fromkeys(given))
    beginnings: Counter[tuple[Step, ...]] = Counter()
    steps = 0
    start = None
    for query in distinct:
        for path in outer_paths(query):
            start = path.start
            bare = bare_steps(path)
            steps += len(bare)
            beginnings.update(bare[:length] for length in range(1, len(bare) + 1))
    by_depth = Counter(map(len, beginnings))
    charges = [cost(query) for query in distinct]
    shared = [(each, count) for each, count in beginnings.items() if count > 1]
    shared.sort(key=lambda pair: (-pair[1], -len(pair[0])))
    return Shape(
        filters=len(given),
        distinct=len(distinct),
        steps=steps,
        shared_steps=len(beginnings),
        states_by_depth=[by_depth[depth] for depth in sorted(by_depth)],
        active_states=sum(charge.active_states for charge in charges),
        cache_demand=sum(charge.cache_bytes for charge in charges),
        shared_beginnings=[
            (fragment(Path(start, each, None)), count)
            for each, count in shared[:_SHOWN]
            if start is not None
        ],
    )

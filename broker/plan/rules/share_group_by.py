"""Group each return path's tuples once for all queries (BROKER 5.2, "Shared GroupBy").

Condition: a list of an OuterJoin-Select is made of a path's stream, with a DupElim or without.

Safe: a group holds the same last fields, in the same order, as the join would collect. It scans if
the join merges, since then the stream is ordered by the binding field, and eliminates duplicates
itself where there was a DupElim.
"""

from dataclasses import replace

from broker.plan.operators import (
    DupElim,
    GroupBy,
    Grouped,
    Method,
    Operator,
    OuterJoinSelect,
    PathStream,
    Searched,
    Streamed,
)
from broker.plan.rules import Given


def apply(operator: Operator, _given: Given) -> tuple[Operator, str] | str | None:
    """The same OuterJoin-Select above GroupBys."""
    if not isinstance(operator, OuterJoinSelect):
        return None
    streamed = sum(isinstance(each, Streamed) for each in operator.lists)
    if not streamed:
        return "no return path has a stream"
    lists = tuple(_grouped(each, operator) for each in operator.lists)
    paths = "1 return path is" if streamed == 1 else f"{streamed} return paths are"
    return replace(operator, lists=lists), f"{paths} grouped once for all"


def _grouped(each: Searched | Streamed | Grouped, join: OuterJoinSelect) -> Searched | Grouped:
    if not isinstance(each, Streamed):
        return each
    source = each.source
    stream = source.source if isinstance(source, DupElim) else source
    assert isinstance(stream, PathStream)
    method = Method.SCAN if join.method is Method.MERGE else Method.HASH
    return Grouped(GroupBy(stream, join.field, method, isinstance(source, DupElim)), each.end)

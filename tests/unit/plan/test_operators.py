"""Operators check themselves: a plan that makes no sense can't be built."""

from collections.abc import Callable

import pytest

from broker.plan.operators import (
    DupElim,
    FieldTest,
    GroupBy,
    Method,
    Operator,
    OuterJoinSelect,
    Output,
    PathStream,
    PlanError,
    Selection,
    SemiJoin,
    SharedJoin,
    SharedSelection,
    Streamed,
    width,
)
from broker.query import Filter, parse
from broker.query.syntax import Exists


def stream(text: str) -> PathStream:
    query = parse(text)
    assert isinstance(query, Filter)
    assert isinstance(query.condition, Exists)
    return PathStream(query.condition.path.steps)


ONE, TWO = stream("//a"), stream("//a/b")
JOIN = SharedJoin(ONE, TWO, 1, Method.MERGE)


@pytest.mark.parametrize(
    "make",
    [
        lambda: stream("//a[b]"),
        lambda: Selection(ONE, (FieldTest(2, None),)),
        lambda: DupElim(ONE, (1,), Method.MERGE),
        lambda: DupElim(ONE, (2,), Method.SCAN),
        lambda: DupElim(ONE, (), Method.SCAN),
        lambda: SemiJoin(ONE, TWO, 1, Method.SCAN),
        lambda: SemiJoin(ONE, TWO, 2, Method.HASH),
        lambda: SemiJoin(ONE, TWO, 0, Method.HASH),
        lambda: SharedJoin(ONE, TWO, 1, Method.SCAN),
        lambda: SharedJoin(TWO, ONE, 2, Method.HASH),
        lambda: SharedJoin(DupElim(Selection(ONE, ()), (1,), Method.SCAN), TWO, 1, Method.HASH),
        lambda: SharedSelection(JOIN, 3, None, None),
        lambda: GroupBy(TWO, 1, Method.MERGE, eliminates=False),
        lambda: GroupBy(TWO, 3, Method.SCAN, eliminates=False),
        lambda: OuterJoinSelect(ONE, (), 1, Method.SCAN),
        lambda: OuterJoinSelect(ONE, (), 2, Method.HASH),
        lambda: OuterJoinSelect(TWO, (Streamed(ONE, None),), 2, Method.HASH),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], Operator]) -> None:
    with pytest.raises(PlanError):
        make()


def test_the_width_of_what_is_given_on() -> None:
    output = Output(SharedSelection(JOIN, 2, None, None), None)
    assert (width(ONE), width(TWO), width(output)) == (1, 2, 1)
    assert width(SemiJoin(TWO, TWO, 1, Method.HASH)) == 2
    assert width(DupElim(TWO, (1, 2), Method.HASH)) == 2

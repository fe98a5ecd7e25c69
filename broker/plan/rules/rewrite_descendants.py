"""Rewrite `//` that the DTD makes superfluous (BROKER 5.1).

A `//` before a name is superfluous if the DTD has one way down to it from the element before it, or
from the document: it becomes the `/` steps of that way. Paths that mean the same so become the same
and share a stream, and claims 1 and 4 hold for more of them.

Conditions:
1. The operator is the root of a plan: all of its paths have to be rewritten together, since fields
   are numbered by steps;
2. both steps have one name each, and the DTD has just one way between them.

Safe: in a message that conforms to the DTD, the two lead to the same elements. Others are answered
by the plan of the query as it was written.
"""

from broker.plan.build import build
from broker.plan.operators import Operator, OuterJoinSelect, PathStream, ReturnSelect, inputs
from broker.plan.rules import Given
from broker.query.syntax import ROOT, Axis, Path
from broker.query.unparse import fragment


def apply(operator: Operator, given: Given) -> tuple[Operator, str] | str | None:
    """The root of the same plan with rewritten paths."""
    if not isinstance(operator, ReturnSelect | OuterJoinSelect) or given.graph is None:
        return None
    rewritten = build(given.plan.query, given.plan.strategy, given.graph).root
    changed: dict[str, None] = {}
    unchanged: dict[str, None] = {}
    for before, after in zip(_streams(operator), _streams(rewritten), strict=True):
        if before != after:
            changed[f"{_text(before)} is {_text(after)}"] = None
        if any(step.axis is Axis.DESCENDANT for step in after.steps):
            unchanged[_text(after)] = None
    stays = f"the DTD has several ways down, or none, for {', '.join(unchanged)}"
    if not changed:
        return stays if unchanged else None
    reason = f"the DTD has one way down: {', '.join(changed)}"
    return rewritten, f"{reason}; {stays}" if unchanged else reason


def _streams(operator: Operator) -> list[PathStream]:
    if isinstance(operator, PathStream):
        return [operator]
    return [stream for each in inputs(operator) for stream in _streams(each)]


def _text(stream: PathStream) -> str:
    return fragment(Path(ROOT, stream.steps, None))

"""The five claims of BROKER 4.1: when a stream of tuples has no duplicates, and when it is ordered.

A path of m steps has a stream of tuples with the fields 1 … m, ordered by field m. Claims 1 and 4
need the query alone, 2 and 5 a DTD, 3 uses 1 and 2 twice. A `*`, or a name that is given in part,
may be on any loop (BROKER 7). Claims 2, 3 with 2, and 5 hold for messages that conform to the DTD.
"""

from typing import NamedTuple

from broker.documents.dtd import ElementGraph
from broker.plan.rewrite import one_name
from broker.query.syntax import Axis, Step


class Claim(NamedTuple):
    """A claim that holds for a path, and why."""

    number: int
    reason: str
    needs_dtd: bool


def no_duplicates(steps: tuple[Step, ...], graph: ElementGraph | None) -> Claim | None:
    """Claims 1 and 2: no two tuples have the same last field."""
    descendants = [step for step in steps if step.axis is Axis.DESCENDANT]
    if len(descendants) <= 1:
        return Claim(1, "at most one // axis", needs_dtd=False)
    if graph is not None and not any(_may_loop(step, graph) for step in descendants[:-1]):
        return Claim(2, "no element after a //, but the last, is on a loop", needs_dtd=True)
    return None


def no_duplicate_pairs(
    steps: tuple[Step, ...], field: int, graph: ElementGraph | None
) -> Claim | None:
    """Claim 3: no two tuples have the same field `field` and the same last field."""
    first = no_duplicates(steps[:field], graph)
    second = no_duplicates(steps[field:], graph)
    if first is None or second is None:
        return None
    reason = f"claim {first.number} for the steps to {field}, {second.number} for those after"
    return Claim(3, reason, first.needs_dtd or second.needs_dtd)


def ordered_by(steps: tuple[Step, ...], field: int, graph: ElementGraph | None) -> Claim | None:
    """Claims 4 and 5: the stream is in increasing order of a field."""
    before = steps[:field]
    descendants = [step for step in before if step.axis is Axis.DESCENDANT]
    if not descendants:
        return Claim(4, f"no // axis up to step {field}", needs_dtd=False)
    if graph is not None and not any(
        _may_share_loop(step, before[-1], graph) for step in descendants
    ):
        reason = f"no element after a // is on a loop with that of step {field}"
        return Claim(5, reason, needs_dtd=True)
    return None


def _may_loop(step: Step, graph: ElementGraph) -> bool:
    name = one_name(step)
    return name is None or graph.on_loop(name)


def _may_share_loop(one: Step, other: Step, graph: ElementGraph) -> bool:
    first, second = one_name(one), one_name(other)
    if first is None or second is None:
        return True
    return second in graph.descendants(first) and first in graph.descendants(second)

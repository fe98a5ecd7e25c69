"""Rewriting of superfluous `//` by the DTD (BROKER 5.1).

A `//` before a name is superfluous if the DTD has one way down to it from the element before it, or
from the document: it becomes the `/` steps of that way. Paths that mean the same so become the same
and share a stream, and claims 1 and 4 hold for more of them.

Conditions:
1. both steps have one name each;
2. the message conforms to the DTD: others are answered by the plan of the query as it was written.
"""

from broker.documents.dtd import ElementGraph
from broker.names import ExpandedName
from broker.plan.operators import Operator, PathStream, Plan, inputs
from broker.query.syntax import ROOT, Axis, NameTest, Path, Step
from broker.query.unparse import fragment


def rewrite_steps(
    steps: tuple[Step, ...], graph: ElementGraph, above: Step | None
) -> tuple[Step, ...]:
    """Steps without superfluous `//`, after another step, or None for the document."""
    rewritten: list[Step] = []
    for step in steps:
        name = one_name(step)
        is_known = above is None or one_name(above) is not None
        if step.axis is Axis.DESCENDANT and name is not None and is_known:
            way = graph.only_path(None if above is None else one_name(above), name)
            if way is not None:
                between = [Step(Axis.CHILD, NameTest(*each)) for each in way[:-1]]
                rewritten += [*between, Step(Axis.CHILD, step.test, step.predicates)]
                above = step
                continue
        rewritten.append(step)
        above = step
    return tuple(rewritten)


def rewritings(written: Plan, rewritten: Plan) -> tuple[list[str], list[str]]:
    """What was rewritten in a plan, and what not, in words: each path of a stream once."""
    fired: dict[str, None] = {}
    stayed: dict[str, None] = {}
    for before, after in zip(_streams(written.root), _streams(rewritten.root), strict=True):
        old, new = (fragment(Path(ROOT, each.steps, None)) for each in (before, after))
        if before != after:
            fired[f"{old} is {new}: the DTD has one way down"] = None
        if any(step.axis is Axis.DESCENDANT for step in after.steps):
            stayed[f"{new}: the DTD has several ways down, or none"] = None
    return list(fired), list(stayed)


def _streams(operator: Operator) -> list[PathStream]:
    if isinstance(operator, PathStream):
        return [operator]
    return [stream for each in inputs(operator) for stream in _streams(each)]


def one_name(step: Step) -> ExpandedName | None:
    """The name of a step that accepts just one."""
    if not isinstance(step.test, NameTest):
        return None
    namespace, local = step.test
    return None if namespace is None or local is None else ExpandedName(namespace, local)

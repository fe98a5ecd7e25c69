"""Paths without the `//` that a DTD makes superfluous: `rules/rewrite_descendants.py` says when."""

from broker.documents.dtd import ElementGraph
from broker.names import ExpandedName
from broker.query.syntax import Axis, NameTest, Step


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


def one_name(step: Step) -> ExpandedName | None:
    """The name of a step that accepts just one."""
    if not isinstance(step.test, NameTest):
        return None
    namespace, local = step.test
    return None if namespace is None or local is None else ExpandedName(namespace, local)

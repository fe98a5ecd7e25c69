"""Which label paths a path leads to from another: the same for all messages of a feed.

So it is kept with the path, for as long as the table of label paths does not grow. In a table that
hostile messages have filled, looking through it would cost more than it saves: then each message
looks at its own label paths (`groups.py`).
"""

from broker.documents.labels import LabelPaths
from broker.plan.group_plan import PlainPath, PlanStep, Reached

LARGEST_TABLE = 2_000
"""In larger tables nothing is kept."""


def reached_labels(path: PlainPath, table: LabelPaths, size: int, label: int) -> frozenset[int]:
    """The label paths of a table of some size that a path leads to from one of them."""
    kept = path.reached
    if kept.table is not table or kept.size != size:
        kept = path.reached = Reached(table, size, {})
    found = kept.labels.get(label)
    if found is None:
        labels = {label}
        for step in path.steps:
            labels = _step(step, labels, table)
        found = kept.labels[label] = frozenset(labels)
    return found


def _step(step: PlanStep, labels: set[int], table: LabelPaths) -> set[int]:
    found = {child for label in labels for child in table.children[label].values()}
    if step.is_descendant:
        waiting = list(found)
        while waiting:
            below = table.children[waiting.pop()].values()
            waiting += [child for child in below if child not in found]
            found.update(below)
    return {label for label in found if step.test.accepts(table.name(label))}

"""Which elements above another are those that it is on a path of: arithmetic on label paths."""

from broker.documents.labels import ROOT_LABEL, LabelPaths
from broker.plan.group_plan import PlainPath, PlanStep


def bound_above(
    labels: LabelPaths, label: int, binding: PlainPath, path: PlainPath
) -> tuple[int, ...]:
    """The label paths above one, or itself, that a binding path selects and a path leads on from.

    With the binding path `//section` and the path `//p`, for `book/section/section/p`:
    `book/section` and `book/section/section`.
    """
    above = [label]
    while above[-1] != ROOT_LABEL:
        above.append(labels.parents[above[-1]])
    line = above[::-1]
    last = len(line) - 1
    return tuple(
        line[place]
        for place in sorted(_reached(labels, line, 0, binding.steps))
        if last in _reached(labels, line, place, path.steps)
    )


def _reached(
    labels: LabelPaths, line: list[int], start: int, steps: tuple[PlanStep, ...]
) -> set[int]:
    """The places in a line of label paths, each below the one before it, that steps lead to."""
    places = {start}
    for step in steps:
        below = {place + 1 for place in places}
        if step.is_descendant:
            below.update(range(min(places) + 1, len(line)))
        below.discard(len(line))
        places = {place for place in below if step.test.accepts(labels.name(line[place]))}
        if not places:
            break
    return places

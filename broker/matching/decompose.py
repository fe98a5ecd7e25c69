"""A filter in the parts that the automaton can decide, and the parts it can't.

- A *guarded path* is a path from the root whose predicates look at the element they stand on, its
  attributes, its text, its string value, its position, or down a bare path below it. The automaton
  decides it alone.
- Every other condition has *needed paths*: bare paths from the root without which it can't hold.
  When a message has them, the condition is verified on the node table.
"""

from typing import NamedTuple

from broker.query.syntax import (
    CONTEXT,
    PARENT,
    And,
    Axis,
    Comparison,
    Condition,
    EndKind,
    Exists,
    LastTest,
    Not,
    Or,
    Path,
    PositionTest,
    Predicate,
    Step,
    StringTest,
)


class Nested(NamedTuple):
    """A guard that looks below its element."""

    prefix: tuple[Step, ...]
    """The bare steps that lead to the element."""
    steps: tuple[Step, ...]
    """The bare steps that lead on from it."""
    last: Comparison | Exists | None
    """What must hold of the element at their end."""


Guard = Comparison | Exists | StringTest | PositionTest | LastTest | Nested
"""A predicate that is decided by the element that it stands on, or by what is below it."""


class GuardedStep(NamedTuple):
    """A step without its predicates, and those as guards, the most selective first."""

    step: Step
    guards: tuple[Guard, ...]


def guarded_path(condition: Condition) -> tuple[GuardedStep, ...] | None:
    """The steps of a condition that is one guarded path, else None."""
    if not isinstance(condition, Exists):
        return None
    path = condition.path
    steps: list[GuardedStep] = []
    prefix: tuple[Step, ...] = ()
    for step in path.steps:
        prefix += (Step(step.axis, step.test),)
        guards = _guards_of(step.predicates, prefix)
        if step.test is PARENT or guards is None:
            return None
        steps.append(GuardedStep(prefix[-1], guards))
    if path.end is not None:
        if path.end.axis is Axis.DESCENDANT or not steps:
            return None
        last = steps[-1]
        ending = Exists(Path(CONTEXT, (), path.end))
        steps[-1] = GuardedStep(last.step, (*last.guards, ending))
    return tuple(steps)


def _guards_of(
    predicates: tuple[Predicate, ...], prefix: tuple[Step, ...]
) -> tuple[Guard, ...] | None:
    guards: list[Guard] = []
    for index, predicate in enumerate(predicates):
        if isinstance(predicate, PositionTest | LastTest):
            if index:
                return None  # counts only what passed the predicates before it
            guards.append(predicate)
            continue
        for part in predicate.operands if isinstance(predicate, And) else (predicate,):
            if _looks_at_its_element(part):
                guards.append(part)  # type: ignore[arg-type]  # tried in the line above
            elif (nested := _nested(part, prefix)) is not None:
                guards.append(nested)
            else:
                return None
    return tuple(sorted(guards, key=_selectivity))


def _looks_at_its_element(condition: Condition) -> bool:
    match condition:
        case Exists(path):
            pass
        case StringTest(path=path, literal=literal):
            # Of several text nodes only the first counts, and nothing contains nothing.
            if not literal or (path.end is not None and path.end.kind is EndKind.TEXT):
                return False
        case Comparison(operand=Path() as path):
            pass
        case _:
            return False
    is_near = path.end is None or path.end.axis is Axis.CHILD
    return path.start is CONTEXT and not path.steps and is_near


def _nested(condition: Condition, prefix: tuple[Step, ...]) -> Nested | None:
    """A condition on a bare path below the element, as a guard."""
    match condition:
        case Exists(path):
            last: Comparison | Exists | None = None
            if path.end is not None:
                last = Exists(Path(CONTEXT, (), path.end))
        case Comparison(operand=Path() as path, operator=operator, literal=literal):
            last = Comparison(Path(CONTEXT, (), path.end), operator, literal)
        case _:
            return None
    is_bare = all(step.test is not PARENT and not step.predicates for step in path.steps)
    is_near = path.end is None or path.end.axis is Axis.CHILD
    if path.start is CONTEXT and path.steps and is_bare and is_near:
        return Nested(prefix, path.steps, last)
    return None


def _selectivity(guard: Guard) -> tuple[int, str]:
    """Predicate sorting (YFILTER 5.2): what rarely holds, and is cheap to look up, goes first.

    Positions stay first, where the language has them.
    """
    if isinstance(guard, PositionTest | LastTest):
        return (0, "")
    if isinstance(guard, Nested):
        return (5, repr(guard.steps))
    if isinstance(guard, Comparison):
        return (1 if guard.operator.value == "=" else 2, repr(guard.literal))
    return (3 if isinstance(guard, StringTest) else 4, "")


def needed_paths(condition: Condition) -> list[tuple[Step, ...]] | None:
    """Bare paths of which at least one is in every message that the condition takes.

    None if there may be messages without any: such a condition is verified on all messages.
    """
    match condition:
        case Exists(path):
            bare = _bare_steps(path)
            return [bare] if bare else None
        case And(operands):
            # One operand's paths are enough; the longest says most.
            needed = [paths for each in operands if (paths := needed_paths(each)) is not None]
            return max(needed, key=lambda paths: min(map(len, paths)), default=None)
        case Or(operands):
            union: list[tuple[Step, ...]] = []
            for each in operands:
                paths = needed_paths(each)
                if paths is None:
                    return None
                union += paths
            return union
        case Not():
            return None
    return None


def _bare_steps(path: Path) -> tuple[Step, ...]:
    """The steps of a path up to the first `..`, without predicates."""
    steps: list[Step] = []
    for step in path.steps:
        if step.test is PARENT:
            break
        steps.append(Step(step.axis, step.test))
    return tuple(steps)

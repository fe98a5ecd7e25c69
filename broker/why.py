"""Why a filter takes a message, or where it stopped matching.

The reference engine is asked for the steps of a path one after the other, and at the step where
nothing is left for its predicates one after the other. This is for people, one message at a time.
"""

from typing import NamedTuple

from broker import reference
from broker.documents import Message
from broker.query.syntax import (
    PARENT,
    And,
    Axis,
    Condition,
    EndKind,
    Exists,
    Filter,
    Not,
    Or,
    Path,
    Step,
)
from broker.query.unparse import fragment


class Verdict(NamedTuple):
    """Whether a filter takes a message, and why."""

    matches: bool
    reason: str


def why(query: Filter, message: Message) -> Verdict:
    """What decides a filter on a message."""
    return _decide(query.condition, message)


def _decide(condition: Condition, message: Message) -> Verdict:
    match condition:
        case Exists(path):
            return _path(path, message)
        case Not(operand):
            verdict = _decide(operand, message)
            return Verdict(not verdict.matches, f"not({verdict.reason})")
        case And(operands):
            verdicts = [_decide(operand, message) for operand in operands]
            failed = [verdict for verdict in verdicts if not verdict.matches]
            return Verdict(not failed, " and ".join(each.reason for each in failed or verdicts))
        case Or(operands):
            verdicts = [_decide(operand, message) for operand in operands]
            held = [verdict for verdict in verdicts if verdict.matches]
            return Verdict(bool(held), " or ".join(each.reason for each in held or verdicts))
    raise AssertionError(f"no condition of a filter: {condition}")


def _path(path: Path, message: Message) -> Verdict:
    matched = Path(path.start, (), None)
    for index, step in enumerate(path.steps):
        so_far = Path(path.start, path.steps[: index + 1], None)
        if not reference.select(so_far, message):
            return Verdict(False, f"{_matched(matched)}{_missing(matched, step, message)}")
        matched = so_far
    found = reference.select(path, message)
    if not found:
        assert path.end is not None
        at_end = fragment(Path(path.start, (), path.end)).lstrip("/")
        kind = "attribute" if path.end.kind is EndKind.ATTRIBUTE else "node"
        below = " or anything below it" if path.end.axis is Axis.DESCENDANT else ""
        who = f"matched {fragment(matched)}, it" if matched.steps else "the document"
        return Verdict(False, f"{who}{below} has no {kind} `{at_end}`")
    times = "once" if len(found) == 1 else f"{len(found)} times"
    return Verdict(True, f"matched {fragment(path)}, {times}")


def _matched(path: Path) -> str:
    return f"matched {fragment(path)}, " if path.steps else ""


def _missing(matched: Path, step: Step, message: Message) -> str:
    """What a step looks for and doesn't find, below what the steps before it have matched."""
    where = " below it" if matched.steps else " at the root"
    if step.axis is Axis.CHILD and matched.steps:
        where = " directly below it"
    elif step.axis is Axis.DESCENDANT and not matched.steps:
        where = " anywhere"
    name = fragment(Path(matched.start, (Step(step.axis, step.test),), None)).lstrip("/")
    what = "no parent" if step.test is PARENT else f"no element `{name}`{where}"
    passed = ""
    for count, predicate in enumerate(step.predicates):
        tried = Step(step.axis, step.test, step.predicates[: count + 1])
        bare = Step(step.axis, step.test, step.predicates[:count])
        if not reference.select(Path(matched.start, (*matched.steps, bare), None), message):
            break
        if not reference.select(Path(matched.start, (*matched.steps, tried), None), message):
            return f"{what} with {passed}[{fragment(predicate)}]"
        passed += f"[{fragment(predicate)}]"
    return what

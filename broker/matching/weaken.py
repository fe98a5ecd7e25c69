"""Weaker conditions that the automaton can decide, for those that it can't.

A filter that the automaton can't decide is verified by the reference engine, which walks the
message. That is dear, so it is done only for messages that pass a weaker filter: one that holds
wherever the given one does, and that the automaton decides for all filters at once.
`//item[contains(title, "x")]` asks for the first title; the weaker one asks for any.
"""

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
    StringFunction,
    StringTest,
)


def weaker_steps(path: Path) -> tuple[Step, ...]:
    """The steps of a path up to the first `..`, with weaker predicates."""
    steps: list[Step] = []
    for step in path.steps:
        if step.test is PARENT:
            break
        predicates = [_weaker_predicate(each, index) for index, each in enumerate(step.predicates)]
        kept = tuple(each for each in predicates if each is not None)
        steps.append(Step(step.axis, step.test, kept))
    return tuple(steps)


def _weaker_predicate(predicate: Predicate, index: int) -> Predicate | None:
    if isinstance(predicate, PositionTest | LastTest):
        return predicate if index == 0 else None
    return weaker(predicate)


def weaker(condition: Condition) -> Condition | None:
    """A condition of an element that holds wherever the given one does; None: nothing is known."""
    match condition:
        case And(operands):
            kept = tuple(each for operand in operands if (each := weaker(operand)) is not None)
            return And(kept) if len(kept) > 1 else (kept[0] if kept else None)
        case Or(operands):
            weakened = [weaker(operand) for operand in operands]
            known = tuple(each for each in weakened if each is not None)
            return Or(known) if len(known) == len(operands) else None
        case Not():
            return condition if is_decided(condition) else None
        case Exists(path):
            return _leads(path)
        case Comparison(Path() as path, operator, literal):
            steps = weaker_steps(path)
            if path.start is not CONTEXT or len(steps) < len(path.steps) or _ends_below(path):
                return _leads(path)
            return Comparison(Path(CONTEXT, steps, path.end), operator, literal)
        case StringTest():
            return _any_string(condition)
    return None


def _leads(path: Path) -> Condition | None:
    """That the path leads somewhere, as far as it can be said."""
    if path.start is not CONTEXT:
        return None
    steps = weaker_steps(path)
    is_whole = len(steps) == len(path.steps) and not _ends_below(path)
    if not steps and not is_whole:
        return None
    return Exists(Path(CONTEXT, steps, path.end if is_whole else None))


def _any_string(test: StringTest) -> Condition | None:
    """That any of the nodes passes, where the first should."""
    path = test.path
    steps = weaker_steps(path)
    is_text = path.end is not None and path.end.kind is EndKind.TEXT
    if (
        not test.literal
        or path.start is not CONTEXT
        or len(steps) < len(path.steps)
        or _ends_below(path)
        or (is_text and test.function is not StringFunction.CONTAINS)
    ):
        return None if not test.literal else _leads(path)
    # An element contains what one of its text nodes contains.
    own = StringTest(test.function, Path(CONTEXT, (), None if is_text else path.end), test.literal)
    if not steps:
        return own
    *before, last = steps
    last = Step(last.axis, last.test, (*last.predicates, own))
    return Exists(Path(CONTEXT, (*before, last), None))


def _ends_below(path: Path) -> bool:
    return path.end is not None and path.end.axis is Axis.DESCENDANT


def is_decided(condition: Condition) -> bool:
    """Whether the automaton decides a condition of an element just as it is."""
    match condition:
        case And(operands) | Or(operands):
            return all(is_decided(operand) for operand in operands)
        case Not(operand):
            return is_decided(operand)
        case Exists(path) | Comparison(operand=Path() as path):
            return _is_decided_path(path)
        case StringTest(path=path, literal=literal):
            is_text = path.end is not None and path.end.kind is EndKind.TEXT
            return bool(literal) and not path.steps and not is_text and _is_decided_path(path)
    return False


def _is_decided_path(path: Path) -> bool:
    if path.start is not CONTEXT or _ends_below(path):
        return False
    for step in path.steps:
        if step.test is PARENT:
            return False
        for index, predicate in enumerate(step.predicates):
            if isinstance(predicate, PositionTest | LastTest):
                if index > 0:
                    return False
            elif not is_decided(predicate):
                return False
    return True

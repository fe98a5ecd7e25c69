"""The filter without which a transformation has no result.

A transformation makes a group for each node of its binding path that passes `where`. So it has a
result if its binding path, with `where` as one more predicate, selects a node: a filter, which the
shared automaton decides for all transformations at once. What a predicate can't say is left out;
then the filter takes some messages that the transformation makes nothing of.
"""

from typing import NamedTuple

from broker.query import Filter, Flwr
from broker.query.syntax import (
    CONTEXT,
    PARENT,
    And,
    Comparison,
    Condition,
    Count,
    EndKind,
    Exists,
    Not,
    Operand,
    Or,
    Path,
    Step,
    StringLength,
    StringTest,
    Variable,
)


class Candidates(NamedTuple):
    """A filter, and whether it takes just the messages that the transformation has a result for."""

    filter: Filter
    is_exact: bool


def candidates_of(query: Flwr) -> Candidates:
    """The filter for a transformation."""
    binding = query.binding
    if query.where is None:
        return Candidates(Filter(Exists(binding)), is_exact=True)
    if binding.end is not None or not binding.steps or binding.steps[-1].test is PARENT:
        return Candidates(Filter(Exists(binding)), is_exact=False)
    condition, is_exact = _Converter(query).convert(query.where)
    if condition is not None:
        *steps, last = binding.steps
        last = Step(last.axis, last.test, (*last.predicates, condition))
        binding = Path(binding.start, (*steps, last), None)
    return Candidates(Filter(Exists(binding)), is_exact)


class _Converter:
    """Makes a predicate of a `where` clause, or of as much of it as there is one for."""

    def __init__(self, query: Flwr) -> None:
        self.query = query

    def convert(self, condition: Condition) -> tuple[Condition | None, bool]:
        """A condition that holds wherever the given one does, and whether they are the same."""
        if isinstance(condition, And):
            converted = [self.convert(operand) for operand in condition.operands]
            kept = tuple(each for each, _ in converted if each is not None)
            is_exact = all(each is not None and exact for each, exact in converted)
            if len(kept) < 2:
                return (kept[0] if kept else None), is_exact
            return And(kept), is_exact
        same = self._same(condition)
        return same, same is not None

    def _same(self, condition: Condition) -> Condition | None:
        """The same condition of the context node, if there is one."""
        match condition:
            case And(operands) | Or(operands):
                converted = [self._same(operand) for operand in operands]
                known = tuple(each for each in converted if each is not None)
                if len(known) < len(operands):
                    return None
                return And(known) if isinstance(condition, And) else Or(known)
            case Not(operand):
                negated = self._same(operand)
                return None if negated is None else Not(negated)
            case Exists(path):
                relative = self._path(path)
                return None if relative is None else Exists(relative)
            case StringTest(function, path, literal):
                relative = self._path(path)
                return None if relative is None else StringTest(function, relative, literal)
            case Comparison(operand, operator, literal):
                compared = self._operand(operand)
                return None if compared is None else Comparison(compared, operator, literal)

    def _operand(self, operand: Operand) -> Operand | None:
        if isinstance(operand, Path):
            return self._path(operand)
        path = self._path(operand.path)
        if path is None:
            return None
        return Count(path) if isinstance(operand, Count) else StringLength(path)

    def _path(self, path: Path) -> Path | None:
        """The path from the context node; None if predicates have no such paths."""
        if path.end is not None and path.end.kind is EndKind.POSITION:
            return None
        flat = without_let(path, self.query)
        if flat is None or not isinstance(flat.start, Variable):
            return None
        return Path(CONTEXT, flat.steps, flat.end)


def without_let(path: Path, query: Flwr) -> Path | None:
    """The same path from the `for` variable, or from the root; None if there is none."""
    while isinstance(path.start, Variable) and path.start.index > 0:
        let = query.lets[path.start.index - 1].path
        if let.end is None:
            path = Path(let.start, (*let.steps, *path.steps), path.end)
        elif path.steps or path.end is not None:
            return None
        else:
            path = let
    return path

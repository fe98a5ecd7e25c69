"""Patterns: what must hold of one element for a filter's branches to meet in it.

A filter with predicates is a tree. Every step with predicates is an *anchor*, and its *pattern*
says what an element there needs: *marks*, joined by and, or, not. A mark is either a test of the
element itself (an attribute, its text, its position) or "this path leads on from it", to an element
that may need a pattern of its own. So `/a/b[c//d][@e = 1]/f[g]` is the pattern of b: the marks
`c//d`, `@e = 1`, and `f` where f has the pattern: the mark `g`.

Patterns are decided from the leaves of a message up, so that all marks of an element are known when
its turn comes: NP-Filter (YFILTER 6) in one pass, for any nesting, and with `not`.
"""

from broker.matching.nfa import State

Formula = int | tuple["str | Formula", ...]
"""A mark, or ("and", …), ("or", …), ("not", …) of formulas."""


class Pattern:
    """A formula over the marks of an element, and what follows when it holds."""

    __slots__ = ("formula", "number", "others", "outcomes")

    def __init__(self, number: int, formula: Formula, others: frozenset[int] | None) -> None:
        self.number = number
        self.formula = formula
        self.others = others
        """For a conjunction: the marks it needs beside its key; None if it is no conjunction."""
        self.outcomes: list[int] = []
        """The queries and signals that it decides."""

    def holds(self, marks: set[int]) -> bool:
        """Whether it holds for an element with these marks, its key among them if it has one."""
        if self.others is not None:
            return self.others <= marks
        return evaluate(self.formula, marks)


class Patterns:
    """All patterns of an automaton, by the mark that is their key."""

    def __init__(self) -> None:
        self.by_key: dict[int, list[Pattern]] = {}
        self.without_key: dict[int, list[Pattern]] = {}
        """Patterns that need no single mark, by the number of the state of their anchor."""
        self._known: dict[tuple[int, Formula], Pattern] = {}

    def __len__(self) -> int:
        return len(self._known)

    def add(self, anchor: State, formula: Formula, rank: dict[int, int]) -> Pattern:
        """The pattern of a formula at an anchor; its key is the needed mark of the least rank."""
        pattern = self._known.get((anchor.number, formula))
        if pattern is not None:
            return pattern
        needed = needed_marks(formula)
        key = min(needed, key=lambda mark: (rank[mark], mark), default=None)
        is_conjunction = isinstance(formula, int) or (
            formula[0] == "and" and all(isinstance(part, int) for part in formula[1:])
        )
        others = frozenset(needed - {key}) if is_conjunction else None
        pattern = self._known[anchor.number, formula] = Pattern(len(self._known), formula, others)
        if key is None:
            self.without_key.setdefault(anchor.number, []).append(pattern)
        else:
            self.by_key.setdefault(key, []).append(pattern)
        return pattern


def conjunction(formulas: list[Formula]) -> Formula:
    """All of them, flat and in an order of their own."""
    parts: dict[Formula, None] = {}
    for formula in formulas:
        if isinstance(formula, tuple) and formula[0] == "and":
            parts.update(dict.fromkeys(formula[1:]))  # type: ignore[arg-type]  # parts are formulas
        else:
            parts[formula] = None
    if len(parts) == 1:
        return next(iter(parts))
    return ("and", *sorted(parts, key=repr))


def evaluate(formula: Formula, marks: set[int]) -> bool:
    """Whether a formula holds for a set of marks."""
    if isinstance(formula, int):
        return formula in marks
    kind, *parts = formula
    if kind == "and":
        return all(evaluate(part, marks) for part in parts)  # type: ignore[arg-type]
    if kind == "or":
        return any(evaluate(part, marks) for part in parts)  # type: ignore[arg-type]
    return not evaluate(parts[0], marks)  # type: ignore[arg-type]


def needed_marks(formula: Formula) -> set[int]:
    """The marks without which a formula can't hold."""
    if isinstance(formula, int):
        return {formula}
    kind, *parts = formula
    if kind == "and":
        return set().union(*(needed_marks(part) for part in parts))  # type: ignore[arg-type]
    if kind == "or":
        sets = [needed_marks(part) for part in parts]  # type: ignore[arg-type]
        return set.intersection(*sets)
    return set()

"""Patterns: what must hold of one element for a filter's branches to meet in it.

A filter with predicates is a tree. Every step with predicates is an *anchor*, and its *pattern*
says what an element there needs: *marks*, joined by and, or, not. A mark is either a test of the
element itself (an attribute, its text, its position) or "this path leads on from it", to an element
that may need a pattern of its own. So `/a/b[c//d][@e = 1]/f[g]` is the pattern of b: the marks
`c//d`, `@e = 1`, and `f` where f has the pattern: the mark `g`.

A pattern is kept as *clauses*, its alternatives, and a clause is looked at when its *key* is there.
The two ways of YFILTER 5 to evaluate value predicates are two ways to choose it:

- **Inline**: the key is a test, so that values are looked up as elements come, and the paths of the
  few clauses whose test was passed are verified.
- **Selection Postponed** (SP): the key are the paths, so that values are looked up only where all
  paths of some clauses are there. Clauses that differ in their constants alone have the same paths:
  they are one group, and one probe of a dictionary finds those that the element's values pass.

Where a clause needs several marks, the key is the one that is thought to be rarest (predicate
sorting, YFILTER 5.2).
"""

from enum import StrEnum

from broker.matching.marks import FIRST_PATH_RANK, Marks
from broker.matching.nfa import State
from broker.matching.path_groups import PathGroup

Formula = int | tuple["str | Formula", ...]
"""A mark, or ("and", …), ("or", …), ("not", …) of formulas."""

_CROWD = 32
"""So many clauses of one key are looked at one by one."""

_MOST_CLAUSES = 16
"""Formulas with more alternatives are evaluated as they are."""


class Predicates(StrEnum):
    """How value predicates are evaluated."""

    INLINE = "inline"
    SP = "sp"


class Pattern:
    """What follows when a formula holds for an element."""

    __slots__ = ("has_consequences", "number", "outcomes")

    def __init__(self, number: int) -> None:
        self.number = number
        self.outcomes: list[int] = []
        """The queries and signals that it decides."""
        self.has_consequences = False
        """Whether patterns of other elements ask for it."""


class Clause:
    """One alternative of a pattern: what it needs beside its key."""

    __slots__ = ("needs", "pattern", "rest")

    def __init__(self, pattern: Pattern, needs: frozenset[int], rest: tuple[Formula, ...]) -> None:
        self.pattern = pattern
        self.needs = needs
        """Marks that an element has to have."""
        self.rest = rest
        """Formulas that have to hold as well."""


class Patterns:
    """All patterns of an automaton, by the keys of their clauses."""

    def __init__(self, predicates: Predicates, marks: Marks) -> None:
        self.predicates = predicates
        self.last_names = marks.last_names
        self.alone: dict[int, list[Pattern]] = {}
        """The patterns that a mark decides by itself."""
        self.by_key: dict[int, list[Clause]] = {}
        """The clauses that need more than their key."""
        self.crowded: dict[int, dict[int, list[Clause]]] = {}
        """Where many clauses have one key: those that need a path, by the rarest that they need."""
        self.groups_by_path: dict[int, list[PathGroup]] = {}
        """The groups that need a path mark."""
        self.without_key: dict[int, list[Clause]] = {}
        """Clauses that need no single mark, by the number of the state of their anchor."""
        self.keyed_by_value: set[int] = set()
        """The numbers of the states that have clauses in `by_key` or `alone`."""
        self.with_groups: set[int] = set()
        """Likewise of those that have groups."""
        self._ranks = marks.ranks
        self._known: dict[tuple[int, Formula], Pattern] = {}
        self._groups: dict[frozenset[int], PathGroup] = {}

    def __len__(self) -> int:
        return len(self._known)

    def add(self, anchor: State, formula: Formula) -> Pattern:
        """The pattern of a formula at an anchor."""
        pattern = self._known.get((anchor.number, formula))
        if pattern is None:
            pattern = self._known[anchor.number, formula] = Pattern(len(self._known))
            for needs, rest in clauses(formula):
                self._place(anchor, pattern, needs, rest)
        return pattern

    def _place(
        self, anchor: State, pattern: Pattern, needs: frozenset[int], rest: tuple[Formula, ...]
    ) -> None:
        ranks = self._ranks
        paths = frozenset(mark for mark in needs if ranks[mark] >= FIRST_PATH_RANK)
        events = needs - paths
        key = min(events, key=lambda mark: (ranks[mark], mark)) if events else None
        if key is not None and (self.predicates is Predicates.INLINE or not paths):
            if len(needs) == 1 and not rest:
                self.alone.setdefault(key, []).append(pattern)
            else:
                self._add_keyed(key, Clause(pattern, needs - {key}, rest), paths)
            self.keyed_by_value.add(anchor.number)
        elif paths:
            self.with_groups.add(anchor.number)
            group = self._groups.get(paths) or self._new_group(paths)
            if key is not None:
                group.by_key.setdefault(key, []).append(Clause(pattern, events - {key}, rest))
            elif rest:
                group.others.append(Clause(pattern, events, rest))
            else:
                group.decided.append(pattern)
        else:
            clause = Clause(pattern, needs, rest)
            self.without_key.setdefault(anchor.number, []).append(clause)

    def _add_keyed(self, key: int, clause: Clause, paths: frozenset[int]) -> None:
        if key in self.crowded and paths:
            self._add_to_crowd(key, clause, paths)
            return
        clauses = self.by_key.setdefault(key, [])
        clauses.append(clause)
        if len(clauses) > _CROWD:
            ranks = self._ranks
            self.crowded.setdefault(key, {})
            self.by_key[key] = []
            for each in clauses:
                needed = frozenset(m for m in each.needs if ranks[m] >= FIRST_PATH_RANK)
                if needed:
                    self._add_to_crowd(key, each, needed)
                else:
                    self.by_key[key].append(each)

    def _add_to_crowd(self, key: int, clause: Clause, paths: frozenset[int]) -> None:
        path = min(paths, key=lambda mark: (self._ranks[mark], mark))
        self.crowded[key].setdefault(path, []).append(clause)

    def _new_group(self, paths: frozenset[int]) -> PathGroup:
        group = PathGroup(sorted(paths, key=lambda mark: (self._ranks[mark], mark)))
        self._groups[paths] = group
        for mark in paths:
            self.groups_by_path.setdefault(mark, []).append(group)
        return group


def conjunction(formulas: list[Formula]) -> Formula:
    """All of them, flat and in an order of their own."""
    if len(formulas) == 1:
        return formulas[0]
    parts: dict[Formula, None] = {}
    for formula in formulas:
        if isinstance(formula, tuple) and formula[0] == "and":
            parts.update(dict.fromkeys(formula[1:]))  # type: ignore[arg-type]  # parts are formulas
        else:
            parts[formula] = None
    if len(parts) == 1:
        return next(iter(parts))
    return ("and", *sorted(parts, key=repr))


def clauses(formula: Formula) -> list[tuple[frozenset[int], tuple[Formula, ...]]]:
    """The alternatives of a formula: the marks that each needs, and what else has to hold.

    >>> clauses(("and", 1, ("or", 2, ("not", 3))))
    [(frozenset({1, 2}), ()), (frozenset({1}), (('not', 3),))]
    """
    if isinstance(formula, int):
        return [(frozenset((formula,)), ())]
    kind, *parts = formula
    if kind == "or":
        found = [each for part in parts for each in clauses(part)]  # type: ignore[arg-type]
    elif kind == "and":
        found = [(frozenset[int](), ())]
        for part in parts:
            found = [
                (needs | more, rest + others)
                for needs, rest in found
                for more, others in clauses(part)  # type: ignore[arg-type]
            ]
            if len(found) > _MOST_CLAUSES:
                break
    else:
        return [(frozenset(), (formula,))]
    if len(found) > _MOST_CLAUSES:
        return [(frozenset(needed_marks(formula)), (formula,))]
    return list(dict.fromkeys(found))


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

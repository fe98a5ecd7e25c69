"""Paths: steps, predicates and what a path takes at its end."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NoReturn

from broker.names import ExpandedName
from broker.query.cursor import did_you_mean
from broker.query.literal_parser import LiteralParser
from broker.query.syntax import (
    CONTEXT,
    PARENT,
    ROOT,
    Axis,
    Condition,
    Context,
    End,
    EndKind,
    LastTest,
    NameTest,
    Operator,
    Parent,
    Path,
    PositionTest,
    Predicate,
    Root,
    Span,
    Step,
    Variable,
)
from broker.query.tokens import NCNAME, NUMBER, OPERATOR, PLAIN_STEP, PLAIN_STEPS

_MOST_INTERNED_STEPS = 100_000


class InternedSteps(dict[str, Step]):
    """Steps without predicates by their spelling, for one default namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def __missing__(self, spelling: str) -> Step:
        axis = Axis.DESCENDANT if spelling.startswith("//") else Axis.CHILD
        name = spelling.lstrip("/")
        test = NameTest(None, None) if name == "*" else NameTest(self.namespace, name)
        if len(self) >= _MOST_INTERNED_STEPS:
            self.clear()
        step = self[spelling] = Step(axis, test)
        return step


_steps_without_namespace = InternedSteps("")
"""Shared by all queries; queries with a default namespace have their own."""


class Place(Enum):
    """Where a condition or path stands, which decides how its paths may start."""

    FILTER = "a filter"
    PREDICATE = "a predicate"
    WHERE = "`where`"
    ORDER_BY = "`order by`"
    RETURN = "`return`"


class PathParser(LiteralParser, ABC):
    """Parses paths, given the namespaces and variables in scope."""

    variables: Mapping[str, Variable] = MappingProxyType({})
    default_namespace = ""
    interned = _steps_without_namespace

    # Paths

    def _parse_source_path(self, expected: str) -> Path:
        """SourcePath ::= (("document" | "doc") "(" String ")")? Path"""
        self.skip()
        start = self.pos
        if self.function_at(start) in ("document", "doc"):
            self.pos = self.text.index("(", start) + 1
            self.skip()
            if not self.text.startswith(('"', "'"), self.pos):
                self.unexpected_operand("a string")
            self._parse_string()
            if not self.accept(")"):
                self.unexpected_operator("`)`")
            self.skip()
        if not self.text.startswith("/", self.pos):
            help = None
            word = self.word_at(self.pos)
            if word is not None:
                help = "a path begins with / (from the root) or // (anywhere)"
                if keyword := did_you_mean(word, ("for", "declare", "not", "document")):
                    help = f"did you mean `{keyword}`?"
            self.unexpected_operand(expected, help=help)
        return self._parse_steps(ROOT, self.pos)

    def _parse_variable_path(self, place: Place) -> Path:
        """VariablePath ::= "$" name (("/" | "//") Step)*"""
        start = self.pos
        if not self.text.startswith("$", start):
            help = None
            if self.text.startswith("/", start) or (
                NCNAME.match(self.text, start) and self.function_at(start) is None
            ):
                help = f"paths in {place.value} begin with a variable; `let $w := /path` binds one"
            self.unexpected_operand("a variable", help=help)
        variable = self._parse_variable()
        return self._parse_steps(variable, start)

    def _parse_variable(self) -> Variable:
        start = self.pos
        name = self.word_at(start + 1)
        if name is None:
            self.pos += 1
            self.unexpected_operand("the name of a variable")
        end = start + 1 + len(name)
        variable = self.variables.get(name)
        if variable is None:
            close = did_you_mean(name, list(self.variables))
            self.fail_scope(
                "unbound-variable",
                f"the variable `${name}` is not bound"
                + (f"; did you mean `${close}`?" if close else ""),
                (start, end),
                help="bound here: " + ", ".join(f"${known}" for known in self.variables)
                if self.variables
                else None,
            )
        self.pos = end
        return variable

    def _parse_relative_path(self) -> Path:
        """RelPath ::= "." (("/" | "//") Step)* | Step (("/" | "//") Step)*"""
        start = self.pos
        text = self.text
        if text.startswith(".", start) and not text.startswith("..", start):
            self.pos += 1
            return self._parse_steps(CONTEXT, start)
        if text.startswith("$", start):
            self.fail_outside(
                "a variable in a predicate",
                self.found_at(start)[1],
                help="compare with a literal, or move the condition to `where`",
            )
        if self.function_at(start) == "position":
            self.unexpected_operand("a path", "a comparison of one")
        end = self._parse_end(Axis.CHILD)
        if end is not None:
            path = Path(CONTEXT, (), end, (start, self.pos))
            self._refuse_step_after(end)
            self.pos = path.span[1]
            return path
        step = self._parse_step(Axis.CHILD)
        return self._parse_steps(CONTEXT, start, step)

    def _parse_steps(
        self, origin: Root | Context | Variable, start: int, first: Step | None = None
    ) -> Path:
        """The steps that follow, each with its separator, up to one that only ends a path."""
        text = self.text
        pos = self.pos
        steps = [] if first is None else [first]
        end: End | None = None
        while True:
            run = PLAIN_STEPS.match(text, pos)
            if run is not None and run.end() > pos:
                spellings = PLAIN_STEP.findall(text, pos, run.end())
                steps.extend(map(self.interned.__getitem__, spellings))
                pos = run.end()
                if pos == len(text):
                    break
            self.pos = pos
            self.skip()
            if not text.startswith("/", self.pos):
                break
            axis = Axis.DESCENDANT if text.startswith("//", self.pos) else Axis.CHILD
            self.pos += len(axis.value)
            self.skip()
            end = self._parse_end(axis)
            if end is not None:
                pos = self.pos
                if end.kind is EndKind.POSITION and not isinstance(origin, Variable):
                    self._refuse_position(Path(origin, tuple(steps), end, (start, pos)))
                self._refuse_step_after(end)
                break
            steps.append(self._parse_step(axis))
            pos = self.pos
        self.pos = pos
        return Path(origin, tuple(steps), end, (start, pos))

    def _refuse_step_after(self, end: End) -> None:
        self.skip()
        if self.text.startswith(("/", "["), self.pos):
            self.fail_outside(
                f"a step or predicate after `{self._end_spelling(end)}`",
                self.found_at(self.pos)[1],
                help="@name, text() and position() end a path",
            )

    @staticmethod
    def _end_spelling(end: End) -> str:
        return f"@{end.name.local}" if end.name else f"{end.kind.value}()"

    def _parse_end(self, axis: Axis) -> End | None:
        """End ::= "@" QName | "text()" | "position()" """
        text = self.text
        start = self.pos
        if text.startswith("@", start):
            self.pos += 1
            self.skip()
            if text.startswith("*", self.pos) or self._prefix_wildcard_at(self.pos):
                self.pos = start
                self.unexpected_operand("an attribute")
            prefix, local = self._parse_qname("the name of an attribute")
            namespace = self._resolve_prefix(prefix, start + 1) if prefix else ""
            return End(axis, EndKind.ATTRIBUTE, ExpandedName(namespace, local))
        function = self.function_at(start)
        if function not in ("text", "position"):
            return None
        self.pos = text.index("(", start) + 1
        if not self.accept(")"):
            self.unexpected_operand("`)`")
        if function == "text":
            return End(axis, EndKind.TEXT)
        if axis is Axis.DESCENDANT:
            self.fail_outside(
                "`//position()`", (start, self.pos), help="position() follows a single /"
            )
        return End(axis, EndKind.POSITION)

    def _refuse_position(self, path: Path) -> None:
        """`position()` makes a number, which only comparisons, keys and returns can take."""
        if path.end is not None and path.end.kind is EndKind.POSITION:
            self.fail_outside(
                "a path that ends in `position()` in this place",
                path.span,
                help="use a predicate, a[2]; or compare it in `where`, or return it",
            )

    def _parse_step(self, axis: Axis) -> Step:
        """Step ::= (QName | "*" | prefix ":*" | "*:" name | "..") Predicate*"""
        text = self.text
        start = self.pos
        test: NameTest | Parent
        if text.startswith("..", start):
            self.pos += 2
            test = PARENT
        elif text.startswith("*", start):
            self.pos += 1
            test = NameTest(None, None)
            if text.startswith(":", self.pos):
                self.pos += 1
                local = self.word_at(self.pos)
                if local is None:
                    self.unexpected_operand("a name")
                self.pos += len(local)
                test = NameTest(None, local)
        else:
            test = self._parse_name_test()
        predicates: list[Predicate] = []
        while True:
            end = self.pos
            self.skip()
            if not text.startswith("[", self.pos):
                self.pos = end
                break
            predicates.append(self._parse_predicate())
        return Step(axis, test, tuple(predicates))

    def _parse_name_test(self) -> NameTest:
        start = self.pos
        word = self.word_at(start)
        follows = self.text[start + len(word) : start + len(word) + 2] if word else ""
        is_name = word is not None and follows != "::" and follows[:1] not in ("{", "#")
        if word is None or not is_name or self.function_at(start) is not None:
            self.unexpected_operand("a name", "`*`", "`..`", "`@`", "`text()`")
        after = self.pos + len(word)
        if follows == ":*":
            self.pos = after + 2
            return NameTest(self._resolve_prefix(word, start), None)
        prefix, local = self._parse_qname("a name")
        self._refuse_spaced_axis()
        namespace = self._resolve_prefix(prefix, start) if prefix else self.default_namespace
        return NameTest(namespace, local)

    def _refuse_spaced_axis(self) -> None:
        end = self.pos
        self.skip()
        if self.text.startswith("::", self.pos):
            self.fail_outside("an axis with `::`", (self.pos, self.pos + 2))
        self.pos = end

    def _prefix_wildcard_at(self, pos: int) -> bool:
        word = self.word_at(pos)
        return word is not None and self.text.startswith(":*", pos + len(word))

    # Predicates

    @abstractmethod
    def _parse_condition(self, place: Place) -> Condition:
        """A condition in a predicate; conditions hold paths in turn, so they are built on them."""

    def _parse_predicate(self) -> Predicate:
        """Predicate ::= "[" (n | "position()" op n | "last()" | Condition) "]" """
        start = self.pos
        self.enter(start)
        self.pos += 1
        predicate = self._parse_position_test(start) or self._parse_condition(Place.PREDICATE)
        self.skip()
        if not self.text.startswith("]", self.pos):
            self.unexpected_operator("`]`", "`and`", "`or`", "a comparison")
        self.pos += 1
        self.leave()
        return predicate

    def _parse_position_test(self, start: int) -> Predicate | None:
        self.skip()
        text = self.text
        match = NUMBER.match(text, self.pos)
        if match is not None:
            number = self._parse_number()
            self.skip()
            if OPERATOR.match(text, self.pos):
                self._refuse_literal_first(match.span())
            self._refuse_mixed_position()
            return PositionTest(Operator.EQ, number, (start, self.pos))
        function = self.function_at(self.pos)
        if function not in ("position", "last"):
            return None
        self.pos = text.index("(", self.pos) + 1
        if not self.accept(")"):
            self.unexpected_operand("`)`")
        self.skip()
        if function == "last":
            if match := OPERATOR.match(text, self.pos):
                self.fail_outside("a comparison of `last()`", match.span(), expected=("`]`",))
            self._refuse_mixed_position()
            return LastTest((start, self.pos))
        match = OPERATOR.match(text, self.pos)
        if match is None:
            self.unexpected_operator("a comparison with a number")
        self.pos = match.end()
        self.skip()
        if not NUMBER.match(text, self.pos):
            self.unexpected_operand("a number")
        number = self._parse_number()
        self._refuse_mixed_position()
        return PositionTest(Operator(match.group()), number, (start, self.pos))

    def _refuse_literal_first(self, span: Span) -> NoReturn:
        self.fail_outside(
            "a literal on the left of a comparison", span, help="write the path first: price > 5"
        )

    def _refuse_mixed_position(self) -> None:
        if self.at_word("and") or self.at_word("or"):
            self.fail_outside(
                "a position test joined with other conditions",
                self.found_at(self.pos)[1],
                expected=("`]`",),
                help="for `and`, write two predicates: a[position() < 3][@b]",
            )

"""Conditions: what a filter, a predicate and `where` are made of."""

from broker.query.path_parser import PathParser, Place
from broker.query.syntax import (
    ROOT,
    And,
    Comparison,
    Condition,
    Count,
    Exists,
    Literal,
    Not,
    Operand,
    Operator,
    Or,
    Path,
    StringFunction,
    StringLength,
    StringTest,
)
from broker.query.tokens import BINDING_EXPRESSION, NUMBER, OPERATOR, SPACE, STRING


class ConditionParser(PathParser):
    """Parses conditions, which hold paths, which hold conditions in their predicates."""

    def _parse_condition(self, place: Place) -> Condition:
        """Condition ::= Conjunction ("or" Conjunction)*"""
        self.skip()
        start = self.pos
        first = self._parse_conjunction(place)
        if not self.accept_word("or"):
            return first
        operands = [first, self._parse_conjunction(place)]
        while self.accept_word("or"):
            operands.append(self._parse_conjunction(place))
        flat: list[Condition] = []
        for operand in operands:
            flat.extend(operand.operands if isinstance(operand, Or) else (operand,))
        return Or(tuple(flat), (start, self.pos))

    def _parse_conjunction(self, place: Place) -> Condition:
        """Conjunction ::= Primary ("and" Primary)*"""
        self.skip()
        start = self.pos
        first = self._parse_primary(place)
        if not self.accept_word("and"):
            return first
        operands = [first, self._parse_primary(place)]
        while self.accept_word("and"):
            operands.append(self._parse_primary(place))
        flat: list[Condition] = []
        for operand in operands:
            flat.extend(operand.operands if isinstance(operand, And) else (operand,))
        return And(tuple(flat), (start, self.pos))

    def _parse_primary(self, place: Place) -> Condition:
        """Primary ::= "(" Condition ")" | "not(" Condition ")" | StringTest | Comparison"""
        self.skip()
        start = self.pos
        text = self.text
        if text.startswith("/", start):
            return self._parse_comparison(place)
        if BINDING_EXPRESSION.match(text, start):
            self.unexpected_operand("a condition")
        function = self.function_at(start)
        if function == "not":
            self.pos = text.index("(", start)
            return Not(self._parse_group(place), (start, self.pos))
        if function in ("contains", "starts-with") and place is not Place.FILTER:
            return self._parse_string_test(StringFunction(function), place)
        if text.startswith("(", start) and not self._at_other_parenthesis():
            return self._parse_group(place)
        return self._parse_comparison(place)

    def _at_other_parenthesis(self) -> bool:
        """Whether the parenthesis begins a pragma or an empty sequence."""
        if self.text.startswith("(#", self.pos):
            return True
        inside = SPACE.match(self.text, self.pos + 1)
        return inside is not None and self.text.startswith(")", inside.end())

    def _parse_group(self, place: Place) -> Condition:
        self.enter(self.pos)
        self.pos += 1
        condition = self._parse_condition(place)
        if not self.accept(")"):
            self.unexpected_operator("`)`", "`and`", "`or`")
        self.leave()
        self._refuse_step_after_group()
        return condition

    def _refuse_step_after_group(self) -> None:
        self.skip()
        if self.text.startswith(("[", "/"), self.pos):
            span = (self.pos, self.pos + 1)
            self.fail_outside("a step or predicate after parentheses", span)

    def _parse_string_test(self, function: StringFunction, place: Place) -> StringTest:
        """StringTest ::= ("contains" | "starts-with") "(" Path "," String ")" """
        start = self.pos
        self.pos = self.text.index("(", start) + 1
        path = self._parse_operand_path(place)
        self._refuse_position(path)
        if not self.accept(","):
            self.unexpected_operator("`,`")
        self.skip()
        literal_start = self.pos
        if not self.text.startswith(('"', "'"), literal_start):
            if NUMBER.match(self.text, literal_start):
                found, span = self.found_at(literal_start)
                detail = f"{function.value}() searches for a string, found the number {found}"
                self.fail_syntax(detail, span, found=found, help="put it in quotes")
            self.unexpected_operand("a string")
        literal = self._parse_string()
        if not self.accept(")"):
            self.unexpected_operator("`)`")
        return StringTest(function, path, literal, (start, self.pos))

    def _parse_comparison(self, place: Place) -> Condition:
        """Comparison ::= Operand (op Literal)?"""
        start = self.pos
        operand = self._parse_operand(place)
        end = self.pos
        self.skip()
        match = OPERATOR.match(self.text, self.pos)
        if match is None:
            return self._parse_truth(operand, place)
        if place is Place.FILTER:
            self.fail_outside(
                "a comparison outside a predicate",
                (self.pos, match.end()),
                expected=("`and`", "`or`", "the end of the query"),
                help=f"compare inside a predicate: {self.text[start:end].strip()}"
                f"[. {match.group()} …]",
            )
        if self.text.startswith("=<", self.pos):
            span = (self.pos, self.pos + 2)
            self.fail_syntax("`=<` is no comparison; did you mean `<=`?", span)
        self.pos = match.end()
        literal = self._parse_compared_literal()
        end = self.pos
        self.skip()
        if again := OPERATOR.match(self.text, self.pos):
            self.fail_syntax(
                "a comparison can't be compared again", again.span(), expected=("`and`", "`or`")
            )
        self.pos = end
        return Comparison(operand, Operator(match.group()), literal, (start, end))

    def _parse_truth(self, operand: Operand, place: Place) -> Condition:
        """An operand alone: a path that selects something, or a number that isn't zero."""
        if isinstance(operand, Path):
            self._refuse_position(operand)
            return Exists(operand)
        if place is Place.PREDICATE:
            # In XPath a number alone in a predicate means a position.
            found, span = self.found_at(self.pos)
            self.fail_syntax(
                f"a number alone in a predicate; expected a comparison, found {found}",
                span,
                found=found,
                expected=("`=`", "`!=`", "`<`", "`<=`", "`>`", "`>=`"),
                help=f"compare it: {self.text[slice(*operand.span)]} > 0",
            )
        return Comparison(operand, Operator.NE, 0.0, operand.span)

    def _parse_compared_literal(self) -> Literal:
        self.skip()
        text, pos = self.text, self.pos
        is_path = text.startswith(("$", "/", ".", "@", "*"), pos) or self.word_at(pos) is not None
        if is_path and not NUMBER.match(text, pos) and self.function_at(pos) is None:
            span = self.found_at(self.pos)[1]
            self.fail_outside("a comparison of two paths", span, expected=("a number", "a string"))
        return self._parse_literal()

    def _parse_operand(self, place: Place) -> Operand:
        """Operand ::= Path | "count(" Path ")" | "string-length(" Path ")" """
        self.skip()
        start = self.pos
        if not self.text.startswith("/", start):
            function = self.function_at(start)
            if function in ("count", "string-length") and place is not Place.FILTER:
                path = self._parse_argument(place)
                span = (start, self.pos)
                return Count(path, span) if function == "count" else StringLength(path, span)
            self._refuse_literal_operand(place)
        return self._parse_operand_path(place)

    def _refuse_literal_operand(self, place: Place) -> None:
        match = STRING.match(self.text, self.pos) or NUMBER.match(self.text, self.pos)
        if match and place is not Place.FILTER:
            after = SPACE.match(self.text, match.end())
            if after is not None and OPERATOR.match(self.text, after.end()):
                self._refuse_literal_first(match.span())
            self.fail_outside("a literal as a condition", match.span())

    def _parse_argument(self, place: Place) -> Path:
        """The path in the parentheses of a function whose name begins here."""
        self.pos = self.text.index("(", self.pos) + 1
        path = self._parse_operand_path(place)
        self._refuse_position(path)
        if not self.accept(")"):
            self.unexpected_operator("`)`")
        return path

    def _parse_operand_path(self, place: Place) -> Path:
        self.skip()
        if place is Place.FILTER:
            return self._parse_source_path("`/` or `//`")
        if place is Place.PREDICATE:
            if self.text.startswith("/", self.pos):
                return self._parse_steps(ROOT, self.pos)
            return self._parse_relative_path()
        return self._parse_variable_path(place)

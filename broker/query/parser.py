"""Query text to syntax tree: the prolog, the two kinds of query, the clauses of FLWR.

One method for each production of the grammar. Recursion is bounded by the limits on nesting, and
no place of the text is looked at more than a fixed number of times, so that hostile text costs
time linear in its length and never the stack.
"""

from broker.errors import QueryCostError, QuerySyntaxError
from broker.limits import QueryLimits
from broker.query import outside
from broker.query.path_parser import Place
from broker.query.syntax import (
    ROOT,
    ConstantElement,
    Count,
    EndKind,
    Exists,
    Filter,
    Flwr,
    Let,
    OrderKey,
    Path,
    Query,
    Span,
    StringLength,
    Variable,
    conditions_with_literals,
)
from broker.query.template_parser import TemplateParser
from broker.query.tokens import ILLEGAL

DEFAULT_LIMITS = QueryLimits()


def parse_whole(text: str, limits: QueryLimits = DEFAULT_LIMITS) -> Query:
    """The syntax tree of a text from `read_text`, all of it looked at.

    `broker.query.parse` is the same for less where similar queries came before.
    """
    return Parser(text, limits).parse_query()


def read_text(source: str | bytes, limits: QueryLimits) -> str:
    """The text of a query, or a `QueryError` if it is too long or no text."""
    text = _decode(source) if isinstance(source, bytes) else source
    if len(text) > limits.max_length or (
        not text.isascii() and len(text.encode("utf-8", "replace")) > limits.max_length
    ):
        raise QueryCostError(
            "query-too-long",
            f"the query is longer than {limits.max_length} bytes",
            source=text[: limits.max_length],
            span=(limits.max_length - 1, limits.max_length),
            help="the limit is the setting query.max_length",
        )
    if not text.isprintable() and (illegal := ILLEGAL.search(text)):
        raise QuerySyntaxError(
            "illegal-character",
            f"the character U+{ord(illegal.group()):04X} can't stand in XML",
            source=text,
            span=illegal.span(),
        )
    return text


def _decode(source: bytes) -> str:
    try:
        return source.decode("utf-8").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    except UnicodeDecodeError as error:
        before = source[: error.start].decode("utf-8")
        raise QuerySyntaxError(
            "not-utf-8",
            f"the query is not UTF-8: byte 0x{source[error.start]:02X} at offset {error.start}",
            source=before + "\N{REPLACEMENT CHARACTER}",
            span=(len(before), len(before) + 1),
        ) from None


class Parser(TemplateParser):
    """Parses one query; made for it and thrown away with it."""

    def parse_query(self) -> Query:
        """Query ::= Prolog? (Filter | Flwr)"""
        text = self.text
        if text.startswith("/"):
            # One path and nothing else, as nearly all filters are.
            path = self._parse_steps(ROOT, 0)
            if self.pos == len(text):
                return Filter(Exists(path), text)
            self.pos = 0
        else:
            self._parse_prolog()
            self.skip()
            if self._at_flwr():
                self.is_flwr = True
                if "&" in text[: self.pos]:
                    # References in the prolog's strings count only now that it is XQuery.
                    self.pos, self.default_namespace = 0, ""
                    self.namespaces = type(self).namespaces
                    self._parse_prolog()
                    self.skip()
                return self._parse_flwr()
        condition = self._parse_condition(Place.FILTER)
        if self.pos < len(text) and not self.at_end():
            self.unexpected_operator("`and`", "`or`", "the end of the query")
        return Filter(condition, text)

    def _at_flwr(self) -> bool:
        if self.text.startswith("<", self.pos):
            return True
        if not self.at_word("for"):
            return False
        after = self.pos + len("for")
        return self.text[after : after + 1] in ("", " ", "\t", "\r", "\n", "$") or (
            self.text.startswith("(:", after)
        )

    # Prolog

    def _parse_prolog(self) -> None:
        """Prolog ::= (NamespaceDeclaration ";")*"""
        declared: set[str] = set()
        while True:
            self.skip()
            construct = outside.prolog_at(self.text, self.pos)
            if construct is not None:
                span = (self.pos, self.pos + construct.length)
                self.fail_outside(construct.name, span, help=construct.help)
            if not self.accept_word("declare"):
                return
            self._parse_namespace_declaration(declared)
            if not self.accept(";"):
                self.unexpected_operator("`;`")

    def _parse_namespace_declaration(self, declared: set[str]) -> None:
        """("namespace" prefix "=" String) | ("default" "element" "namespace" String)"""
        prefix = ""
        self.skip()
        start = self.pos
        if self.accept_word("default"):
            if not self.accept_word("element"):
                self.unexpected_operator("`element`")
            if not self.accept_word("namespace"):
                self.unexpected_operator("`namespace`")
        elif self.accept_word("namespace"):
            self.skip()
            start = self.pos
            prefix = self.word_at(start) or ""
            if not prefix:
                self.unexpected_operand("a prefix")
            self.pos += len(prefix)
            if not self.accept("="):
                self.unexpected_operator("`=`")
        else:
            self.unexpected_operator("`namespace`", "`default`")
        span: Span = (start, self.pos)
        self.skip()
        if not self.text.startswith(('"', "'"), self.pos):
            self.unexpected_operand("a string")
        uri = self._parse_string()
        if prefix in declared:
            self.fail_scope("duplicate-prefix", "the namespace is declared twice", span)
        declared.add(prefix)
        self._declare(prefix, uri, span)

    # FLWR

    def _parse_flwr(self) -> Flwr:
        """Flwr ::= "<" tag ">" "{" Body "}" "</" tag ">" | Body"""
        wrapper: ConstantElement | None = None
        start = self.pos
        if self.text.startswith("<", start):
            wrapper = self._parse_open_tag()
            if self.text.startswith("/>", self.pos):
                self.unexpected_operator("`>` and `{ for … }`")
            self.pos += 1
            if not self.accept("{"):
                self.unexpected_operand("`{` and the query")
        body = self._parse_body(wrapper)
        if wrapper is not None:
            if not self.accept("}"):
                self.unexpected_operator("`}`")
            self.skip()
            if not self.text.startswith("</", self.pos):
                self.unexpected_operand(f"`</{wrapper.name.lexical}>`")
            self._parse_close_tag(wrapper.name.lexical, start)
        if not self.at_end():
            self.unexpected_operator("the end of the query")
        return body

    def _parse_body(self, wrapper: ConstantElement | None) -> Flwr:
        """Body ::= For Let* Where? OrderBy? "return" Template"""
        if not self.accept_word("for"):
            self.unexpected_operand("`for`")
        binding = self._parse_for()
        lets: list[Let] = []
        while self.accept_word("let"):
            lets.append(self._parse_let())
        where = self._parse_condition(Place.WHERE) if self.accept_word("where") else None
        order_by: tuple[OrderKey, ...] = ()
        if self.accept_word("order"):
            if not self.accept_word("by"):
                self.unexpected_operator("`by`")
            order_by = self._parse_order_by()
        if not self.accept_word("return"):
            clauses = ["`let`", "`where`", "`order by`", "`return`"]
            if order_by:
                clauses = ["`,`", "`ascending`", "`descending`", "`return`"]
            elif where is not None:
                clauses = ["`and`", "`or`", *clauses[2:]]
            self.unexpected_operator(*clauses)
        template = self._parse_template()
        literals = tuple([each.literal for each in conditions_with_literals(where)])
        return Flwr(
            binding,
            tuple(lets),
            where,
            order_by,
            template,
            wrapper,
            self.text,
            literals=literals,
        )

    def _parse_for(self) -> Path:
        """For ::= "for" $v "in" Source Path"""
        name, _ = self._parse_new_variable()
        if not self.accept_word("in"):
            self.unexpected_operator("`in`")
        self.skip()
        if self.text.startswith("$", self.pos):
            self.fail_outside(
                "a `for` over a variable",
                self.found_at(self.pos)[1],
                help="the path in `for` begins with / or //",
            )
        path = self._parse_source_path("a path that begins with `/` or `//`")
        self.variables = {name: Variable(0, name)}
        if self.accept(","):
            self.fail_outside(
                "a `for` with several variables",
                (self.pos - 1, self.pos),
                help="a query has one `for` variable; reach into its elements by paths",
            )
        return path

    def _parse_let(self) -> Let:
        """Let ::= "let" $w ":=" ($v RelPath | Source Path)"""
        name, start = self._parse_new_variable()
        if not self.accept(":="):
            self.unexpected_operator("`:=`")
        self.skip()
        if self.text.startswith("$", self.pos):
            path = self._parse_variable_path(Place.WHERE)
            self._refuse_position(path)
        else:
            path = self._parse_source_path("a variable or a path that begins with `/`")
        if self.accept(","):
            self.fail_outside(
                "a `let` with several variables",
                (self.pos - 1, self.pos),
                help="write `let` again for each",
            )
        self.variables = {**self.variables, name: Variable(len(self.variables), name)}
        return Let(path, name, (start, self.pos))

    def _parse_new_variable(self) -> tuple[str, int]:
        self.skip()
        start = self.pos
        name = self.word_at(start + 1)
        if not self.text.startswith("$", start) or name is None:
            self.unexpected_operator("a variable, as in `$v`")
        self.pos += 1 + len(name)
        if name in self.variables:
            self.fail_scope(
                "duplicate-variable", f"the variable `${name}` is bound already", (start, self.pos)
            )
        return name, start

    def _parse_order_by(self) -> tuple[OrderKey, ...]:
        """OrderBy ::= "order by" OrderKey ("," OrderKey)*"""
        keys = [self._parse_order_key()]
        while self.accept(","):
            keys.append(self._parse_order_key())
        return tuple(keys)

    def _parse_order_key(self) -> OrderKey:
        """OrderKey ::= (Operand | "number(" Operand ")") ("ascending" | "descending")?"""
        self.skip()
        start = self.pos
        is_number = self.function_at(start) == "number"
        if is_number:
            self.pos = self.text.index("(", start) + 1
        operand = self._parse_operand(Place.ORDER_BY)
        if is_number and not self.accept(")"):
            self.unexpected_operator("`)`")
        is_number = (
            is_number
            or isinstance(operand, Count | StringLength)
            or (operand.end is not None and operand.end.kind is EndKind.POSITION)
        )
        descending = self.accept_word("descending")
        if not descending:
            self.accept_word("ascending")
        return OrderKey(operand, is_number, descending, (start, self.pos))

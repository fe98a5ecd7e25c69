"""The smallest productions: qualified names, numbers, strings and the references in them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from broker.errors import QuerySyntaxError
from broker.names import XML_NAMESPACE
from broker.query.cursor import Cursor, did_you_mean
from broker.query.syntax import Literal, Span
from broker.query.tokens import ENTITY, ILLEGAL, NUMBER, NUMBER_TAIL, PREDEFINED_ENTITIES, STRING


class LiteralParser(Cursor):
    """Parses names and literals, given the namespaces in scope."""

    namespaces: Mapping[str, str] = MappingProxyType({"xml": XML_NAMESPACE})
    is_flwr = False

    # Names

    def _parse_qname(self, expected: str) -> tuple[str, str]:
        """QName ::= (prefix ":")? name, without white space inside; "" for no prefix."""
        word = self.word_at(self.pos)
        if word is None:
            self.unexpected_operand(expected)
        self.pos += len(word)
        if not self.text.startswith(":", self.pos) or self.text.startswith("::", self.pos):
            return "", word
        local = self.word_at(self.pos + 1)
        if local is None:
            self.pos += 1
            self.unexpected_operand("a name after the prefix")
        self.pos += 1 + len(local)
        return word, local

    def _resolve_prefix(self, prefix: str, start: int) -> str:
        namespace = self.namespaces.get(prefix)
        if namespace is None:
            close = did_you_mean(prefix, list(self.namespaces))
            self.fail_scope(
                "undeclared-prefix",
                f"the prefix `{prefix}` is not declared"
                + (f"; did you mean `{close}`?" if close else ""),
                (start, start + len(prefix)),
                help=f'declare it before the query: declare namespace {prefix} = "…";',
            )
        return namespace

    # Literals

    def _parse_literal(self) -> Literal:
        """Literal ::= String | Number"""
        self.skip()
        if self.text.startswith(('"', "'"), self.pos):
            return self._parse_string()
        if not NUMBER.match(self.text, self.pos):
            self.unexpected_operand("a number", "a string")
        return self._parse_number()

    def _parse_number(self) -> float:
        match = NUMBER.match(self.text, self.pos)
        assert match is not None
        tail = NUMBER_TAIL.match(self.text, match.end())
        if tail is not None:
            span = (match.start(), tail.end())
            help = None
            if tail.group()[:1] in "eE":
                help = "numbers are written without an exponent"
            self.fail_syntax("this is not a number", span, expected=("digits",), help=help)
        number = float(match.group())
        if number in (float("inf"), float("-inf")):
            self.fail(QuerySyntaxError, "number-too-large", "the number is too large", match.span())
        self.pos = match.end()
        return number + 0.0  # -0 is 0

    def _parse_string(self) -> str:
        start = self.pos
        match = STRING.match(self.text, start)
        if match is None:
            quote = self.text[start]
            self.fail_syntax(
                "the string is not closed", (start, start + 1), expected=(f"a closing {quote}",)
            )
        quote = self.text[start]
        self.pos = match.end()
        raw = match.group()[1:-1]
        if not self.is_flwr:
            # A filter is XPath, where & is a character like others; a FLWR query is XQuery.
            return raw.replace(quote + quote, quote)
        return self._decode(
            raw, start + 1, lambda piece: line_ends(piece).replace(quote + quote, quote)
        )

    def _decode(self, raw: str, start: int, clean: Callable[[str], str]) -> str:
        """XQuery text that begins at `start`: references replaced, what is between them cleaned."""
        if "&" not in raw:
            return clean(raw)
        pieces: list[str] = []
        done = 0
        while (at := raw.find("&", done)) >= 0:
            pieces.append(clean(raw[done:at]))
            match = ENTITY.match(raw, at)
            char = self._entity_char(match.groups()) if match else None
            if match is None or char is None:
                place: Span = (start + at, start + at + 1)
                self.fail_syntax(
                    "`&` begins no known entity",
                    place,
                    expected=("`&amp;`", "`&lt;`", "`&gt;`", "`&quot;`", "`&apos;`", "`&#…;`"),
                )
            pieces.append(char)
            done = match.end()
        pieces.append(clean(raw[done:]))
        return "".join(pieces)

    @staticmethod
    def _entity_char(groups: tuple[str | None, ...]) -> str | None:
        decimal, hexadecimal, name = groups
        if name is not None:
            return PREDEFINED_ENTITIES[name]
        code = int(decimal) if decimal is not None else int(hexadecimal or "0", 16)
        char = chr(code) if code <= 0x10FFFF else "\0"
        return None if ILLEGAL.match(char) else char


def line_ends(text: str) -> str:
    """Text with the line ends that XML and XQuery read: line feeds."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text

"""A place in the query's text, and the ways to move it forward or to fail at it.

The parser works on the text itself, one regular expression at a place, without a list of tokens:
what a character means depends on what is expected there, and most queries are short paths that
one expression takes a whole step at a time.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn

from broker.errors import (
    NotInLanguageError,
    QueryCostError,
    QueryError,
    QueryScopeError,
    QuerySyntaxError,
    printable,
)
from broker.limits import QueryLimits
from broker.query import outside
from broker.query.syntax import Span
from broker.query.tokens import FUNCTION_NAME, NCNAME, SPACE, WORD

_COMMENT_EDGE = re.compile(r"\(:|:\)")


class Cursor:
    """The text, the place reached in it, and how errors at a place are raised."""

    pos = 0
    nesting = 0

    def __init__(self, text: str, limits: QueryLimits) -> None:
        self.text = text
        self.limits = limits

    # Moving forward

    def skip(self) -> None:
        """Pass white space and comments."""
        text = self.text
        while True:
            match = SPACE.match(text, self.pos)
            assert match is not None
            self.pos = match.end()
            if not text.startswith("(:", self.pos):
                return
            self._skip_comment()

    def _skip_comment(self) -> None:
        start = self.pos
        depth = 0
        for edge in _COMMENT_EDGE.finditer(self.text, start):
            depth += 1 if edge.group() == "(:" else -1
            if depth == 0:
                self.pos = edge.end()
                return
        self.fail_syntax("a comment is not closed", (start, start + 2), expected=("`:)`",))

    def accept(self, token: str) -> bool:
        """Pass white space and then `token`, if it is there."""
        self.skip()
        if self.text.startswith(token, self.pos):
            self.pos += len(token)
            return True
        return False

    def accept_word(self, word: str) -> bool:
        """Pass white space and then a whole word, if it is there."""
        self.skip()
        if self.text.startswith(word, self.pos) and self.word_at(self.pos) == word:
            self.pos += len(word)
            return True
        return False

    def at_word(self, word: str) -> bool:
        """Whether the next word is this one; nothing is passed but white space."""
        self.skip()
        return self.word_at(self.pos) == word

    def word_at(self, pos: int) -> str | None:
        """The name that begins here, if one does."""
        match = NCNAME.match(self.text, pos)
        return match.group() if match else None

    def function_at(self, pos: int) -> str | None:
        """The name of the function that is called here, if one is."""
        match = FUNCTION_NAME.match(self.text, pos)
        return match.group(1) if match else None

    def at_end(self) -> bool:
        """Whether only white space is left."""
        self.skip()
        return self.pos >= len(self.text)

    # Nesting

    def enter(self, place: int) -> None:
        """Go one level deeper into predicates or parentheses; refuse past the limit."""
        self.nesting += 1
        if self.nesting > self.limits.max_nesting:
            raise QueryCostError(
                "query-too-deep",
                f"predicates and parentheses are nested more than {self.limits.max_nesting} deep",
                source=self.text,
                span=(place, place + 1),
                help="the limit is the setting query.max_nesting",
            )

    def leave(self) -> None:
        """Come back up one level."""
        self.nesting -= 1

    # Failing

    def found_at(self, pos: int) -> tuple[str, Span]:
        """What stands here, as an error names it, and its span."""
        if pos >= len(self.text):
            return "the end of the query", (pos, pos + 1)
        match = WORD.match(self.text, pos)
        word = match.group() if match else self.text[pos]
        shown = word if len(word) <= 40 else word[:40] + "…"
        return f"`{printable(shown)}`", (pos, pos + len(word))

    def unexpected_operand(self, *expected: str, help: str | None = None) -> NoReturn:
        """Fail where an operand, a step or a value was expected."""
        self.skip()
        self._refuse_function()
        self._refuse(outside.operand_at(self.text, self.pos), expected)
        self._unexpected(expected, help)

    def unexpected_operator(self, *expected: str, help: str | None = None) -> NoReturn:
        """Fail where an operator, a clause or the end was expected."""
        self.skip()
        self._refuse(outside.operator_at(self.text, self.pos), expected)
        self._unexpected(expected, help)

    def _unexpected(self, expected: Sequence[str], help: str | None) -> NoReturn:
        found, span = self.found_at(self.pos)
        words = [word.strip("`") for word in expected if word.startswith("`")]
        if close := did_you_mean(found.strip("`"), words):
            help = f"did you mean `{close}`?"
        detail = f"expected {' or '.join(expected)}, found {found}"
        self.fail_syntax(detail, span, found=found, expected=expected, help=help)

    def _refuse(self, construct: outside.Construct | None, expected: Sequence[str]) -> None:
        if construct is not None:
            span = (self.pos, self.pos + construct.length)
            self.fail_outside(construct.name, span, expected=expected, help=construct.help)

    def _refuse_function(self) -> None:
        """Fail if a function is called here: it is unknown, left out, or in the wrong place."""
        name = self.function_at(self.pos)
        if name is None or outside.operand_at(self.text, self.pos):
            return
        span = (self.pos, self.pos + len(name))
        if name in FUNCTION_PLACES:
            self.fail_outside(f"`{name}()` in this place", span, help=FUNCTION_PLACES[name])
        if name in outside.FUNCTIONS or ":" in name:
            self.fail_outside(f"the function `{name}()`", span)
        close = did_you_mean(name, FUNCTION_PLACES)
        self.fail(
            QuerySyntaxError,
            "unknown-function",
            f"unknown function `{name}`" + (f"; did you mean `{close}`?" if close else ""),
            span,
            found=f"`{name}(`",
            expected=() if close else [f"`{known}()`" for known in FUNCTION_PLACES],
        )

    def fail_outside(
        self, construct: str, span: Span, *, expected: Sequence[str] = (), help: str | None = None
    ) -> NoReturn:
        """Fail with a construct that XPath or XQuery has and the language has not."""
        self.fail(
            NotInLanguageError,
            "not-in-language",
            f"{construct} is not in the subscription language",
            span,
            found=f"`{printable(self.text[slice(*span)])}`",
            expected=expected,
            help=help,
        )

    def fail_syntax(
        self,
        detail: str,
        span: Span,
        *,
        found: str | None = None,
        expected: Sequence[str] = (),
        help: str | None = None,
    ) -> NoReturn:
        """Fail with text that follows no grammar."""
        self.fail(
            QuerySyntaxError, "syntax", detail, span, found=found, expected=expected, help=help
        )

    def fail_scope(
        self, code: str, detail: str, span: Span, *, help: str | None = None
    ) -> NoReturn:
        """Fail with a name that is not declared, or is declared twice."""
        self.fail(QueryScopeError, code, detail, span, help=help)

    def fail(
        self,
        error: type[QueryError],
        code: str,
        detail: str,
        span: Span,
        *,
        found: str | None = None,
        expected: Sequence[str] = (),
        help: str | None = None,
    ) -> NoReturn:
        """Raise an error at a place of this text."""
        raise error(
            code, detail, source=self.text, span=span, found=found, expected=expected, help=help
        )


FUNCTION_PLACES = {
    "contains": 'contains(path, "text") is a condition in a predicate or in `where`',
    "count": "count(path) is compared in a predicate or in `where`, or stands in {…}",
    "doc": 'doc("…") is the start of the path in `for` or `let`',
    "document": 'document("…") is the start of the path in `for` or `let`',
    "last": "last() stands alone in a predicate: [last()]",
    "not": "not(…) stands in a filter, a predicate or `where`",
    "number": "number(…) stands in `order by`; a comparison with a number needs none",
    "position": "position() stands in a predicate, [position() < 3], or ends a path: $v/position()",
    "starts-with": 'starts-with(path, "text") is a condition in a predicate or in `where`',
    "string": "string(path) stands in {…} after `return`",
    "string-length": "string-length(path) is compared in a predicate or in `where`",
    "text": "text() is the last step of a path",
}
"""The functions of the language, each with the place where it belongs."""


def did_you_mean(word: str, known: Sequence[str] | dict[str, str]) -> str | None:
    """The known word that this one is probably a misspelling of."""
    word_lower = word.lower()
    begun = [each for each in known if len(word) > 2 and each.startswith(word_lower)]
    matches = begun or get_close_matches(word_lower, known, n=1, cutoff=0.7)
    return matches[0] if matches and matches[0] != word else None

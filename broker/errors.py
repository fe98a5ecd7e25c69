"""Every error that the broker raises on purpose.

BrokerError                 has a stable `code`: programs test it, people look it up
├── QueryError              a subscription's text is refused; has its place in the text
│   ├── QuerySyntaxError    the text follows no grammar we know
│   ├── NotInLanguageError  XPath or XQuery, but outside the subscription language
│   ├── QueryScopeError     a variable or prefix that nothing declares
│   └── QueryCostError      within the language, beyond a limit
├── MessageError            a message is refused: not well-formed, or beyond a limit
├── DtdError                a DTD can't be used
└── ResultError             one subscription's result for one message can't be made
"""

from collections.abc import Sequence


class BrokerError(Exception):
    """Base of all errors that are an answer and not a defect."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"

    def as_record(self) -> dict[str, object]:
        """The error as JSON-ready data, for machines that read the command line or a topic."""
        return {"code": self.code, "detail": self.detail}


class QueryError(BrokerError):
    """A query was refused. `str()` shows the line of the query with a caret under the place."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        source: str,
        span: tuple[int, int],
        found: str | None = None,
        expected: Sequence[str] = (),
        help: str | None = None,
    ) -> None:
        super().__init__(code, detail)
        self.source = source
        self.span = span
        self.found = found
        self.expected = tuple(expected)
        self.help = help
        start = min(span[0], len(source))
        self.line = source.count("\n", 0, start) + 1
        self.column = start - (source.rfind("\n", 0, start) + 1) + 1

    def __str__(self) -> str:
        number = str(self.line)
        margin = " " * len(number)
        shown, caret = self._excerpt()
        lines = [
            f"error[{self.code}]: {self.detail}",
            f"{margin}--> line {self.line}, column {self.column}",
            f"{margin} |",
            f"{number} | {shown}",
            f"{margin} | {caret}",
        ]
        if self.found is not None:
            lines.append(f"{margin} = found: {self.found}")
        if self.expected:
            lines.append(f"{margin} = expected: {' or '.join(self.expected)}")
        if self.help is not None:
            lines.append(f"{margin} = help: {self.help}")
        return "\n".join(lines)

    def as_record(self) -> dict[str, object]:
        """The error with its place, as JSON-ready data."""
        record: dict[str, object] = {
            "code": self.code,
            "detail": self.detail,
            "line": self.line,
            "column": self.column,
        }
        if self.found is not None:
            record["found"] = self.found
        if self.expected:
            record["expected"] = list(self.expected)
        if self.help is not None:
            record["help"] = self.help
        return record

    def _excerpt(self, width: int = 100) -> tuple[str, str]:
        """The line of the query around the place, cut to `width`, and the carets below it."""
        start, end = self.span
        line_start = start - (self.column - 1)
        line_end = self.source.find("\n", line_start)
        if line_end < 0:
            line_end = len(self.source)
        left = max(line_start, start - width // 2)
        right = min(line_end, left + width)
        before = "…" if left > line_start else ""
        after = "…" if right < line_end else ""
        shown = before + printable(self.source[left:right]) + after
        padding = " " * (len(before) + start - left)
        return shown, padding + "^" * max(1, min(end, right) - start)


class QuerySyntaxError(QueryError):
    """The text follows no grammar we know."""


class NotInLanguageError(QueryError):
    """Valid XPath or XQuery as far as it was read, but outside the subscription language."""


class QueryScopeError(QueryError):
    """A variable or a namespace prefix that nothing declares, or that is declared twice."""


class QueryCostError(QueryError):
    """The query is in the language but costs more than the limits allow."""


class MessageError(BrokerError):
    """A message was refused; it goes to the dead letters with this code and detail."""


class DtdError(BrokerError):
    """A DTD can't be read or used as an element graph."""


class ResultError(BrokerError):
    """A subscription's result for one message can't be made; other subscriptions are unaffected."""


def printable(text: str) -> str:
    """Text as it may be shown on one line of a terminal: one column for each character."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else " " if char in "\t\r\n" else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )

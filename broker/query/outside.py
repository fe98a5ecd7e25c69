"""XPath and XQuery beyond the subscription language: each construct by name, so that it can be
refused by name.

Two tables, since the same characters mean different things where an operand is expected and where
an operator is: `*` is a name test in one place and a multiplication in the other. Each row has a
pattern, what the construct is called, and what to write instead, if there is something.
"""

import re
from typing import NamedTuple

from broker.query.tokens import NCNAME_PATTERN

_S = r"[ \t\r\n]*+"
_SS = r"[ \t\r\n]++"
_NAME = NCNAME_PATTERN


class Construct(NamedTuple):
    """Something of XPath or XQuery that the language leaves out."""

    name: str
    help: str | None
    length: int


def _table(
    rows: list[tuple[str, str, str | None]],
) -> list[tuple[re.Pattern[str], str, str | None]]:
    return [(re.compile(pattern), name, help) for pattern, name, help in rows]


_OPERANDS = _table(
    [
        (rf"{_NAME}{_S}::", "the axis `{0}`", "the axes are /, //, @ and .."),
        (
            rf"(?:node|comment|processing-instruction|element|attribute|document-node|item"
            rf"|schema-element|schema-attribute|namespace-node|empty-sequence){_S}\(",
            "the node test `{0})`",
            "the node tests are names, * and text()",
        ),
        (rf"if{_S}\(", "the conditional `if`", "put the condition into `where`"),
        (
            rf"(?:some|every){_SS}\$",
            "the quantified expression `{0}`",
            "comparisons are `some` already",
        ),
        (rf"for{_SS}\$", "`for` inside another expression", "a query has one `for`, at its start"),
        (rf"let{_SS}\$", "`let` in this place", "`let` follows the `for` clause"),
        (rf"typeswitch{_S}\(", "`typeswitch`", None),
        (rf"switch{_S}\(", "`switch`", None),
        (rf"try{_S}\{{", "`try`", None),
        (rf"validate(?:{_SS}\w+)?{_S}\{{", "`validate`", None),
        (rf"(?:ordered|unordered){_S}\{{", "the expression `{0}`", None),
        (
            rf"(?:element|attribute|processing-instruction|namespace){_SS}{_NAME}(?::{_NAME})?{_S}\{{",
            "the computed constructor `{0}`",
            "write the tag itself: <name>…</name>",
        ),
        (
            rf"(?:element|attribute|document|text|comment|processing-instruction|namespace){_S}\{{",
            "the computed constructor `{0}`",
            "write the tag itself: <name>…</name>",
        ),
        (rf"function{_S}\(", "an inline function", None),
        (rf"(?:map|array){_S}\{{", "the constructor `{0}`", None),
        (rf"%{_S}{_NAME}", "the annotation `{0}`", None),
        (
            r"Q\{[^}]*+\}",
            "the name with a URI `{0}`",
            'declare a prefix: declare namespace p = "…";',
        ),
        (r"``\[", "a string constructor", None),
        (r"\(#", "a pragma", None),
        (rf"\({_S}\)", "the empty sequence `()`", None),
        (rf"@{_S}\*:", "an attribute with a wildcard `@*:…`", "name the attribute and its prefix"),
        (rf"@{_S}\*", "the attribute wildcard `@*`", "name the attribute"),
        (rf"@{_S}{_NAME}:\*", "the attribute wildcard `{0}`", "name the attribute"),
        (rf"{_NAME}(?::{_NAME})?#[0-9]", "a function reference `{0}`", None),
        (r"[+-]", "arithmetic `{0}`", "only a number itself may have a sign: -5"),
        (r"<!--", "an XML comment", "leave it out, or write (: comment :)"),
        (r"<\?", "a processing instruction", None),
        (r"<!\[CDATA\[", "a CDATA section", "write the text with &lt; and &amp;"),
        (
            r"<",
            "an element constructor in this place",
            "elements stand after `return`, or around the query",
        ),
        (r"\$", "a variable in this place", None),
        (r"\?", "the lookup `?`", None),
        (r"\[", "the array constructor `[`", None),
        (r"\(", "a parenthesised expression in this place", None),
        (r"\.(?![.0-9])", "the step `.` inside a path", "leave it out: a/./b is a/b"),
    ]
)

_OPERATORS = _table(
    [
        (r"\|\|", "the string concatenation `||`", None),
        (r"\|", "the union `|`", "in a filter, join two paths by `or`"),
        (
            r"(?:union|intersect|except)\b",
            "the set operation `{0}`",
            "in a filter, join two paths by `or` or `and`",
        ),
        (r"=>", "the arrow operator `=>`", None),
        (r"!(?!=)", "the simple map `!`", None),
        (r"<<|>>", "the comparison of order `{0}`", None),
        (rf"is(?={_SS})", "the comparison of nodes `is`", None),
        (
            r"(?:eq|ne|lt|le|gt|ge)\b",
            "the value comparison `{0}`",
            "the comparisons are = != < <= > >=",
        ),
        (r"(?:div|idiv|mod)\b", "arithmetic `{0}`", None),
        (r"[+*-]", "arithmetic `{0}`", None),
        (rf"to(?={_SS})", "the range `to`", None),
        (rf"instance{_SS}of\b", "`instance of`", None),
        (rf"treat{_SS}as\b", "`treat as`", None),
        (rf"castable{_SS}as\b", "`castable as`", None),
        (rf"cast{_SS}as\b", "`cast as`", None),
        (r"otherwise\b", "`otherwise`", None),
        (rf"at{_SS}\$", "a positional variable `at`", "use $v/position() in the return"),
        (rf"allowing{_SS}empty\b", "`allowing empty`", None),
        (rf"as{_SS}{_NAME}", "a type declaration `as`", None),
        (rf"group{_SS}by\b", "the clause `group by`", "each binding is one group already"),
        (rf"stable{_SS}order{_SS}by\b", "`stable order by`", "`order by` is stable already"),
        (rf"empty{_SS}(?:greatest|least)\b", "`{0}` in `order by`", "a missing key sorts first"),
        (r"collation\b", "`collation` in `order by`", "strings compare by code point"),
        (rf"count{_SS}\$", "the clause `count`", None),
        (rf"(?:tumbling|sliding){_SS}window", "the window clause `{0}`", None),
        (
            rf"for{_SS}\$",
            "a second `for`",
            "a query has one `for`; reach into its elements by paths",
        ),
        (rf"let{_SS}\$", "`let` after `where` or `order by`", "`let` follows the `for` clause"),
        (r",", "the sequence `,`", None),
        (r"\[", "a predicate in this place", "predicates follow a name, * or .."),
        (r"\?", "the lookup `?`", None),
    ]
)

_PROLOG = _table(
    [
        (rf"xquery{_SS}(?:version|encoding)\b", "the version declaration `{0}`", "leave it out"),
        (rf"module{_SS}namespace\b", "a module declaration", None),
        (rf"import{_SS}(?:schema|module)\b", "`{0}`", None),
        (
            rf"declare{_SS}(?:%{_NAME}{_SS})?(?:variable|function|updating{_SS}function)\b",
            "`{0}`",
            None,
        ),
        (
            rf"declare{_SS}(?:boundary-space|construction|ordering|copy-namespaces|base-uri|option"
            rf"|decimal-format|context{_SS}item|revalidation)\b",
            "the setter `{0}`",
            None,
        ),
        (
            rf"declare{_SS}default{_SS}(?:collation|order|function{_SS}namespace|decimal-format)\b",
            "the setter `{0}`",
            None,
        ),
    ]
)

_FUNCTIONS = """
    abs adjust-date-to-timezone analyze-string apply avg base-uri boolean ceiling codepoint-equal
    codepoints-to-string collection compare concat contains-token current-date current-dateTime
    current-time data dateTime deep-equal default-collation distinct-values element-with-id empty
    encode-for-uri ends-with environment-variable error escape-html-uri exactly-one exists false
    filter floor fold-left fold-right for-each format-date format-dateTime format-integer
    format-number format-time function-arity function-lookup function-name generate-id has-children
    head id idref implicit-timezone in-scope-prefixes index-of innermost insert-before iri-to-uri
    json-doc json-to-xml key lang local-name local-name-from-QName lower-case matches max min name
    namespace-uri namespace-uri-for-prefix nilled node-name normalize-space normalize-unicode
    one-or-more outermost parse-json parse-xml parse-xml-fragment path prefix-from-QName QName
    remove replace resolve-QName resolve-uri reverse root round round-half-to-even serialize sort
    static-base-uri string-join string-to-codepoints subsequence substring substring-after
    substring-before sum tail tokenize trace translate true unordered unparsed-text upper-case
    uri-collection xml-to-json zero-or-one
"""

FUNCTIONS = frozenset(_FUNCTIONS.split())
"""Functions of XPath 1.0 and of XPath and XQuery Functions and Operators 3.1 that we leave out."""


def operand_at(text: str, pos: int) -> Construct | None:
    """The construct that begins here, where an operand or a step was expected."""
    return _look_up(_OPERANDS, text, pos)


def operator_at(text: str, pos: int) -> Construct | None:
    """The construct that begins here, where an operator or the end was expected."""
    return _look_up(_OPERATORS, text, pos)


def prolog_at(text: str, pos: int) -> Construct | None:
    """The declaration that begins here, in the place of the prolog."""
    return _look_up(_PROLOG, text, pos)


def _look_up(
    table: list[tuple[re.Pattern[str], str, str | None]], text: str, pos: int
) -> Construct | None:
    for pattern, name, help in table:
        if match := pattern.match(text, pos):
            return Construct(name.format(_shown(match.group())), help, len(match.group()))
    return None


def _shown(spelling: str) -> str:
    """The construct's characters as an error shows them: on one line, without what follows."""
    shown = " ".join(spelling.split())
    return shown[:-1].rstrip() if shown.endswith(("{", "$")) else shown

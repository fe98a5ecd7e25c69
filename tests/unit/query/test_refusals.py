"""Refused queries: the code, the place and the words of the error."""

import re
from typing import NamedTuple

import pytest

from broker.errors import QueryError
from broker.message_factory import check_template
from broker.query import Flwr, check
from tests.conftest import DATA

EXPANSIONS = {
    "{400 zeros}": "0" * 400,
    "{8200 letters}": "a" * 8200,
    "{33 steps}": "/a" * 33,
    "{17 keys}": ", ".join(["$v"] * 17),
    "{33 predicates}": "[1]" * 33,
    "{9 nested predicates}": "//a[" * 9,
    "{9 parentheses}": "(" * 9,
    "{33 elements}": "<x>" * 33,
    "{25 descendant steps}": "//a" * 25,
    "\\r": "\r",
    "\\n": "\n",
    "\\0": "\0",
    "\\ud800": "\ud800",
}


class Refusal(NamedTuple):
    code: str
    place: str
    says: str
    query: str


def read_cases() -> list[Refusal]:
    cases = []
    for line in (DATA / "refused_queries.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            code, place, says, query = re.split(r" \| ?", line, maxsplit=3)
            for written, meant in EXPANSIONS.items():
                query = query.replace(written, meant)
            cases.append(Refusal(code, place, says, query))
    return cases


CASES = read_cases()


def register(text: str) -> None:
    """What registering a query for XML output checks."""
    query = check(text)
    assert isinstance(query, Flwr), "accepted"
    check_template(query)


@pytest.mark.parametrize("case", CASES, ids=[repr(case.query[:60]) for case in CASES])
def test_refusal_has_code_place_and_words(case: Refusal) -> None:
    with pytest.raises(QueryError) as caught:
        register(case.query)
    error = caught.value
    assert (error.code, f"{error.line}:{error.column}") == (case.code, case.place), str(error)
    assert case.says in str(error)


def test_error_shows_the_line_with_a_caret() -> None:
    with pytest.raises(QueryError) as caught:
        check('for $b in //book\nwhere contain($b/title, "x")\nreturn $b')
    assert str(caught.value).splitlines()[:5] == [
        "error[unknown-function]: unknown function `contain`; did you mean `contains`?",
        " --> line 2, column 7",
        "  |",
        '2 | where contain($b/title, "x")',
        "  |       ^^^^^^^",
    ]


def test_error_of_a_long_line_shows_the_part_around_the_place() -> None:
    with pytest.raises(QueryError) as caught:
        check("//a[b = 1" + " and b = 1" * 20 + " & c]")
    shown, caret = str(caught.value).splitlines()[3:5]
    assert len(shown) < 120
    assert shown[caret.index("^")] == "&"


def test_error_as_a_record_is_what_a_program_needs() -> None:
    with pytest.raises(QueryError) as caught:
        check("//a[foo(b)]")
    record = caught.value.as_record()
    assert (record["code"], record["line"], record["column"]) == ("unknown-function", 1, 5)
    assert "`contains()`" in str(record["expected"])


def test_bytes_that_are_not_utf_8_are_refused_at_their_place() -> None:
    with pytest.raises(QueryError) as caught:
        check(b"//a\xff")
    assert (caught.value.code, caught.value.column) == ("not-utf-8", 4)

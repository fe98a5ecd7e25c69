"""Where filters stop matching."""

import pytest

from broker.documents import parse_message
from broker.query import Filter, parse
from broker.why import Verdict, why

MESSAGE = parse_message(
    b'<nitf xmlns:m="urn:m"><body n="1"><p>x</p><p><em/></p></body><m:end/></nitf>'
)

CASES = {
    "/nitf/body": (True, "matched /nitf/body, once"),
    "//p": (True, "matched //p, 2 times"),
    "/nitf/body/hedline": (False, "matched /nitf/body, no element `hedline` directly below it"),
    "/nitf//hedline": (False, "matched /nitf, no element `hedline` below it"),
    "/news": (False, "no element `news` at the root"),
    "//news": (False, "no element `news` anywhere"),
    "/nitf/body[@n = 2]/p": (
        False,
        "matched /nitf, no element `body` directly below it with [@n = 2]",
    ),
    "/nitf/body[@n = 1][p]/p[em][@k]": (
        False,
        "matched /nitf/body[@n = 1][p], no element `p` directly below it with [em][@k]",
    ),
    "//p[3]": (False, "no element `p` anywhere with [3]"),
    "//p/@k": (False, "matched //p, it has no attribute `@k`"),
    "//em/text()": (False, "matched //em, it has no node `text()`"),
    "//@k": (False, "the document or anything below it has no attribute `@k`"),
    "//em//@k": (False, "matched //em, it or anything below it has no attribute `@k`"),
    "/nitf/..": (True, "matched /nitf/.., once"),
    "/nitf/../../..": (False, "matched /nitf/.., no parent"),
    "/nitf and //news": (False, "no element `news` anywhere"),
    "/nitf and //p": (True, "matched /nitf, once and matched //p, 2 times"),
    "//em or //news": (True, "matched //em, once"),
    "/a or not(//p)": (False, "no element `a` at the root or not(matched //p, 2 times)"),
    'declare namespace q = "urn:m"; //q:end/q:x': (
        False,
        "matched //{urn:m}end, no element `{urn:m}x` directly below it",
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.items(), ids=CASES.keys())
def test_reason(text: str, expected: tuple[bool, str]) -> None:
    query = parse(text)
    assert isinstance(query, Filter)
    assert why(query, MESSAGE) == Verdict(*expected)

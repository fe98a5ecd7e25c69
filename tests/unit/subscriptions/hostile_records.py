"""Values of subscription records that are refused, by what is wrong with them, with the code."""

import json
from typing import NamedTuple


class Hostile(NamedTuple):
    what: str
    code: str
    value: bytes


def _record(**fields: object) -> bytes:
    return json.dumps({"query": "//a", **fields}).encode()


HOSTILE = [
    Hostile("empty, which is no deletion", "bad-json", b""),
    Hostile("random bytes", "bad-json", bytes(range(256))),
    Hostile("not UTF-8", "bad-json", b'{"query": "//\xe9"}'),
    Hostile("UTF-16", "bad-json", '{"query": "//a"}'.encode("utf-16")),
    Hostile("a surrogate in UTF-8", "bad-json", b'{"query": "//a[b=\'\xed\xa0\x80\']"}'),
    Hostile("a byte order mark", "bad-json", b'\xef\xbb\xbf{"query": "//a"}'),
    Hostile("NUL bytes", "bad-json", b"\0\0\0\0"),
    Hostile("NUL in a string", "bad-json", b'{"query": "//a\0"}'),
    Hostile("cut short", "bad-json", b'{"query": "//a"'),
    Hostile("something after it", "bad-json", b'{"query": "//a"} {}'),
    Hostile("single quotes", "bad-json", b"{'query': '//a'}"),
    Hostile("65,000 open brackets", "bad-json", b"[" * 65_000),
    Hostile("deep in a field", "bad-json", b'{"query":' + b'{"a":' * 10_000 + b"}" * 10_001),
    Hostile("nested 20,000 times", "bad-json", b"[" * 20_000 + b"]" * 20_000),
    Hostile("a name twice", "bad-json", b'{"query": "//a", "query": "//b"}'),
    Hostile("a name twice, deeper", "bad-json", b'{"query": "//a", "note": {"x": 1, "x": 1}}'),
    Hostile("NaN", "bad-json", b'{"query": NaN}'),
    Hostile("infinity", "bad-json", b'{"query": "//a", "note": -Infinity}'),
    Hostile("a number of 5,001 digits", "bad-json", b'{"query": 1' + b"0" * 5000 + b"}"),
    Hostile("one byte too many", "record-too-large", _record(note="x" * 65_536)[:65_537]),
    Hostile("10 MB", "record-too-large", b" " * 10_000_000),
    Hostile("a number", "bad-record", b"5"),
    Hostile("a huge float", "bad-record", b'{"query": 1e5000}'),
    Hostile("null", "bad-record", b"null"),
    Hostile("a list", "bad-record", b'[{"query": "//a"}]'),
    Hostile("a string", "bad-record", b'"//a"'),
    Hostile("no query", "bad-record", b"{}"),
    Hostile("query: null", "bad-record", _record(query=None)),
    Hostile("query: a number", "bad-record", _record(query=5)),
    Hostile("query: a list", "bad-record", _record(query=["//a"])),
    Hostile("query: half a surrogate pair", "bad-record", b'{"query": "//a[b=\'\\ud800\']"}'),
    Hostile("note: half a surrogate pair", "bad-record", b'{"query": "//a", "note": "\\udc00"}'),
    Hostile("a name with half a pair", "bad-record", b'{"query": "//a", "\\ud800": 1}'),
    Hostile("an unknown field", "bad-record", _record(colour="red")),
    Hostile("a field in capitals", "bad-record", _record(Paused=True)),
    Hostile("5,000 unknown fields", "bad-record", _record(**{f"f{n}": 0 for n in range(5000)})),
    Hostile("an unknown field of 60 kB", "bad-record", _record(**{"x\n" * 20_000: 0})),
    Hostile("format: unknown", "bad-record", _record(format="json")),
    Hostile("format: in capitals", "bad-record", _record(format="XML")),
    Hostile("format: null", "bad-record", _record(format=None)),
    Hostile("format: a list", "bad-record", _record(format=["xml"])),
    Hostile("paused: a number", "bad-record", _record(paused=1)),
    Hostile("paused: a string", "bad-record", _record(paused="true")),
    Hostile("paused: null", "bad-record", _record(paused=None)),
    Hostile("note: a number", "bad-record", _record(note=5)),
    Hostile("expires: no zone", "bad-record", _record(expires="2027-01-01T00:00:00")),
    Hostile("expires: a day", "bad-record", _record(expires="2027-01-01")),
    Hostile("expires: a number", "bad-record", _record(expires=1_800_000_000)),
    Hostile("expires: digits", "bad-record", _record(expires="1800000000")),
    Hostile("expires: no such day", "bad-record", _record(expires="2027-02-30T00:00:00Z")),
    Hostile("expires: no such zone", "bad-record", _record(expires="2027-02-03T00:00:00+99:99")),
    Hostile("expires: too early", "bad-record", _record(expires="0001-01-01T00:00:00+14:00")),
    Hostile("expires: too late", "bad-record", _record(expires="9999-12-31T23:59:59-14:00")),
    Hostile("expires: a newline", "bad-record", _record(expires="2027-01-01T00:00:00Z\n")),
    Hostile("expires: other digits", "bad-record", _record(expires="٢٠٢٧-01-01T00:00:00Z")),
    Hostile("an empty query", "syntax", _record(query="")),
    Hostile("a query with NUL", "illegal-character", _record(query="//a\0")),
    Hostile("a query too long", "query-too-long", _record(query="//a" * 5000)),
    Hostile("a query too deep", "query-too-deep", _record(query="//a[" * 60)),
    Hostile("too many steps", "query-too-many-steps", _record(query="/a" * 33)),
    Hostile(
        "too many keys",
        "query-too-many-keys",
        _record(query="for $v in //a order by $v" + ", $v" * 16 + " return <o/>"),
    ),
    Hostile("too many states", "query-too-many-states", _record(query="//a" * 25)),
    Hostile(
        "an attribute without place",
        "attribute-without-element",
        _record(query="for $b in //b return $b/@c"),
    ),
]

"""Records of the topic: what is accepted the engine takes, what is refused says why."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.engine import Engine
from broker.limits import QueryLimits
from broker.message_factory import OutputFormat
from broker.query import parse
from subscriptions.errors import RecordError
from subscriptions.records import RecordLimits, decode
from tests.conftest import DATA
from tests.unit.subscriptions.hostile_records import HOSTILE, Hostile

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = st.dictionaries(
    st.sampled_from(["query", "format", "paused", "expires", "note", "other"]),
    JSON_VALUES | st.sampled_from(["//a", "xml", "groups", "2027-01-01T00:00:00Z"]),
)


def register(value: bytes) -> str:
    """Decode a record and add it to an engine; the code if it is refused."""
    try:
        record = decode(b"acme/test", value).record
    except RecordError as error:
        refusal = error
    else:
        assert record is not None
        Engine().add("acme/test", parse(record.query), record.format)
        return ""
    assert len(json.dumps(refusal.as_record())) < 4000
    assert str(refusal)
    return refusal.code


@pytest.mark.parametrize("case", HOSTILE, ids=[case.what for case in HOSTILE])
def test_hostile_records(case: Hostile) -> None:
    assert register(case.value) == case.code


@given(st.binary(max_size=200))
@example(b'{"query":"//a"}')
def test_random_bytes(value: bytes) -> None:
    assert register(value) in ("", "bad-json", "bad-record")


@given(FIELDS)
@example({"query": "//a"})
def test_random_fields(fields: dict[str, object]) -> None:
    register(json.dumps(fields).encode())


@given(st.text(alphabet="/ab*@.[]()<>{}$:='\"&;! \n01 forinreturn", max_size=60))
@example("//a")
def test_random_queries(query: str) -> None:
    for format in OutputFormat:
        register(json.dumps({"query": query, "format": format.value}).encode())


def test_queries_that_are_known_are_known_here() -> None:
    """What the engine's own tests accept is accepted, and can be added."""
    lines = (DATA / "transformations.txt").read_text(encoding="utf-8").splitlines()
    queries = [line for line in lines if line.startswith("for ")]
    assert len(queries) > 3
    for query in queries:
        assert register(json.dumps({"query": query, "format": "groups"}).encode()) == ""


def test_null_deletes() -> None:
    decoded = decode(b"acme/books", None)
    assert (str(decoded.key), decoded.record) == ("acme/books", None)


@pytest.mark.parametrize("key", [None, b"", b"acme", b"ACME/books", b"\xff", b"acme/books\n"])
@pytest.mark.parametrize("value", [None, b'{"query": "//a"}'])
def test_a_record_needs_a_key(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(RecordError) as caught:
        decode(key, value)
    assert caught.value.code == "bad-key"


def test_a_refused_query_has_its_place_and_a_caret() -> None:
    with pytest.raises(RecordError) as caught:
        decode(b"acme/books", b'{"query": "//book[\\n  price <]"}')
    record = caught.value.as_record()
    assert (record["line"], record["column"]) == (2, 10)
    shown = str(record["shown"]).splitlines()
    assert shown[3].endswith("  price <]")
    assert shown[4].index("^") == shown[3].index("]")
    assert json.loads(json.dumps(record)) == record


def test_faults_are_named_without_what_was_sent() -> None:
    with pytest.raises(RecordError) as caught:
        decode(b"a/b", b'{"query": "//a", "paused": "secret", "colour": "secret"}')
    assert caught.value.detail == (
        "`paused`: Input should be a valid boolean; `colour`: Extra inputs are not permitted"
    )


def test_attributes_have_a_place_in_groups() -> None:
    query = "for $b in //b return $b/@c"
    assert register(json.dumps({"query": query, "format": "groups"}).encode()) == ""


def test_limits_are_settings() -> None:
    limits = RecordLimits(max_bytes=20, query=QueryLimits(max_steps=1))
    assert decode(b"a/b", b'{"query":"//a"}', limits).record is not None
    for value, code in [
        (b'{"query":"//a/b"}', "query-too-many-steps"),
        (b'{"query":"//a"}      ', "record-too-large"),
    ]:
        with pytest.raises(RecordError) as caught:
            decode(b"a/b", value, limits)
        assert caught.value.code == code

"""What the commands with Kafka answer without asking any."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streaming_jobs.history import Judged
from streaming_jobs.pins import Pin
from subscriptions.log import LogRecord
from subscriptions.model import State, Status
from tests.unit.command_line.conftest import Run
from tests.unit.command_line.test_match import write
from xmlbroker.commands.consume import as_data, pretty, without_duplicates
from xmlbroker.commands.dead_letters import choose, newest
from xmlbroker.commands.subscriptions import combine
from xmlbroker.commands.trace import earliest
from xmlbroker.topic_reader import Received

# Nobody listens there: a command that asks Kafka fails in another way than the tests expect.
NOWHERE = ("--bootstrap-servers", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("publish",), "Missing argument"),
        (("publish", "-", "-", *NOWHERE), "standard input can be only one"),
        (("publish", "-", "--rate", "0"), "--rate"),
        (("publish", "-", "--repeat", "0"), "--repeat"),
        (("publish", "-", "--header", "name"), "is no name=value"),
        (("publish", "-", "--header", "xb-id=1"), "names that start with xb- are the broker's"),
        (("publish", "-", "--header", "\udcff=1"), "the name of a header is UTF-8"),
        (("run", "--checkpoint", "x://["), "checkpoint: Value error, Invalid IPv6 URL"),
        (("publish", ".", *NOWHERE), "there is no .xml file"),
        (("publish", "-", "--bootstrap-servers", "kafka"), "`kafka` is no address"),
        (("publish", "-", "--bootstrap-servers", "kafka:9092,"), "`` is no address"),
        (("subscriptions", "--bootstrap-servers", "[::1"), "`[::1` is no address"),
        (("subscriptions", "--bootstrap-servers", "[::1:9092"), "`[::1:9092` is no address"),
        (("run", "--bootstrap-servers", "kafka:abc"), "`kafka:abc` is no address"),
        (("up", "--bootstrap-servers", "kafka:"), "`kafka:` is no address"),
        (("top", "--url", "http://["), "`http://[` is no address"),
        (("top", "--url", "http://127.0.0.1:PORT/metrics"), "is no address"),
        (("subscribe", "acme/books"), "Missing option '--query'"),
        (("subscribe", "books", "--query", "-"), "`books` is no subscriber/subscription"),
        (("subscribe", "Acme/books", "--query", "-"), "`Acme` is no id"),
        (("subscribe", "a/b", "--query", "-", "--expires", "tomorrow"), "2027-01-01T00:00:00Z"),
        (("subscribe", "a/b", "--query", "-", "--expires", "2027-01-01T00:00"), "needs its zone"),
        (("unsubscribe", "acme/"), "`` is no id"),
        (("subscriptions", "acme/books"), "an id is 1 to 63"),
        (("subscriptions", "--state", "odd"), "--state"),
        (("consume", "../acme"), "an id is 1 to 63"),
        (("consume", "acme", "--format", "yaml"), "--format"),
        (("dead-letters", "show", "messages/1"), "topic/partition/offset"),
        (("dead-letters", "republish", "--yes"), "give either SOURCEs or --code"),
        (("dead-letters", "republish", "m/0/1", "--code", "x", "--yes"), "give either"),
    ],
)
def test_usage_errors(run: Run, arguments: tuple[str, ...], says: str) -> None:
    ran = run(*arguments)
    assert ran.status == 2
    assert says in ran.err
    assert ran.out == ""


def test_who_republishes_confirms_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/null").open(encoding="utf-8") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        ran = run("dead-letters", "republish", "--code", "too-deep", *NOWHERE)
    assert ran.status == 2
    assert "give --yes" in ran.err


@pytest.mark.parametrize(
    ("query", "options", "says"),
    [
        (b"//book[", (), "1 | //book[\n  |        ^"),
        (b"for $b in //book retrun $b", (), "did you mean `return`?"),
        (b"//b\xff", (), "error[not-utf-8]"),
        (b"for $b in //book return $b/@lang", (), "error["),
        (b"//book", ("--note", "n" * 70_000), "record-too-large"),
    ],
)
def test_a_refused_query_is_not_sent(
    run: Run, tmp_path: Path, query: bytes, options: tuple[str, ...], says: str
) -> None:
    file = write(tmp_path, "query.xq", query)
    ran = run("subscribe", "acme/books", "--query", file, *options, *NOWHERE)
    assert ran.status == 1
    assert says in ran.err
    assert "kafka-unreachable" not in ran.err
    assert ran.out == ""


def test_other_commands_start_without_kafka() -> None:
    program = (
        "import sys, xmlbroker.cli\n"
        "print(sorted({each.split('.')[0] for each in sys.modules} & {'kafka', 'pyspark'}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"


# What is made of records


def received(offset: int, value: bytes | None = b"<a/>", time: int = 0, **headers: str) -> Received:
    named = [(name.replace("_", "-"), text.encode()) for name, text in headers.items()]
    return Received("topic", 0, offset, time, None, value, named)


def test_duplicates_are_told_by_their_id() -> None:
    def records() -> Iterator[Received]:
        for offset, id in enumerate(["1", "2", "1", "3", "1"]):
            yield received(offset, xb_id=id)
        yield received(5)
        yield received(6)

    assert [each.offset for each in without_duplicates(records())] == [0, 1, 3, 5, 6]
    # With a memory of two ids, the third makes it forget the first.
    assert [each.offset for each in without_duplicates(records(), 2)] == [0, 1, 3, 4, 5, 6]


def test_a_result_that_is_no_text() -> None:
    record = received(7, b"\xff", xb_version="12", xb_subscription="acme/books", tenant="t")
    data = as_data(record)
    assert data["value_base64"] == "/w=="
    assert "value" not in data
    assert (data["version"], data["subscription"], data["headers"]) == (
        12,
        "acme/books",
        {"tenant": "t"},
    )
    assert as_data(received(8, None, xb_version="odd"))["version"] is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"<a><b>1</b><b/></a>", b"<a>\n  <b>1</b>\n  <b/>\n</a>"),
        (b"<a>mixed <b>text</b></a>", b"<a>mixed <b>text</b></a>"),
        (b'{"lists": ["$b"]}', b'{\n  "lists": [\n    "$b"\n  ]\n}'),
        (b"<a/><b/>", b"<a/><b/>"),
        (b"{", b"{"),
        (b"", b""),
        (b"\xff", b"\xff"),
    ],
)
def test_pretty(value: bytes, shown: bytes) -> None:
    assert pretty(value) == shown


def letter(offset: int, source: str, time: int = 0, code: str = "too-deep") -> Received:
    return received(offset, time=time, xb_source=source, xb_error=code)


def test_the_newest_dead_letters() -> None:
    records = [
        letter(0, "m/0/0", time=5000),
        letter(1, "m/0/1", time=9000),
        letter(2, "m/0/1", time=9500),  # a batch that was done again
        letter(3, "m/1/0", time=1000),
        letter(4, "m/1/1", time=7000, code="not-well-formed"),
    ]
    found, total = newest(records, None, 2)
    assert ([each.source for each in found], total) == (["m/1/1", "m/0/1"], 4)
    found, total = newest(records, "too-deep", 10)
    assert ([each.source for each in found], total) == (["m/1/0", "m/0/0", "m/0/1"], 3)


def test_a_message_is_chosen_once() -> None:
    records = [
        letter(0, "m/0/0"),
        letter(1, "m/0/0"),
        letter(2, "m/0/1"),
        letter(3, "m/0/2", 0, "x"),
    ]
    chosen = choose(records, set(), "too-deep")
    assert {source: each.place for source, each in chosen.items()} == {
        "m/0/0": (0, 0),
        "m/0/1": (0, 2),
    }
    assert list(choose(records, {"m/0/2"}, None)) == ["m/0/2"]


def test_a_status_is_about_one_version() -> None:
    since = datetime(2027, 1, 1, tzinfo=UTC)
    records = [
        LogRecord(0, b"acme/old", b'{"query": "//a"}', 0),
        LogRecord(1, b"acme/answered", b'{"query": "//b"}', 0),
        LogRecord(2, b"acme/old", b'{"query": "//c", "deep": [[]]}', 0),
        LogRecord(3, b"acme/odd", b"\xff", 0),
        LogRecord(4, None, b"{}", 0),
        LogRecord(5, b"other/one", b"{}", 0),
    ]
    statuses = {
        b"acme/old": Status(State.ACTIVE, 0, since),
        b"acme/answered": Status(State.ACTIVE, 1, since),
        b"acme/gone": Status(State.REMOVED, 5, since),
        b"other/gone": Status(State.REMOVED, 5, since),
    }
    listed = {each.key: each for each in combine(records, statuses, b"acme/")}
    assert {key: (each.state, each.version) for key, each in listed.items()} == {
        "acme/old": ("pending", 2),
        "acme/answered": ("active", 1),
        "acme/odd": ("pending", 3),
        "acme/gone": ("removed", 5),
    }
    assert listed["acme/old"].record == {"query": "//c"}
    assert listed["acme/odd"].record is None


def test_results_are_looked_for_by_the_broker_s_clock() -> None:
    """That of the publisher may be ahead: then a result seems to be older than its message."""
    begun = datetime(2027, 1, 1, tzinfo=UTC)
    judged = Judged(batch=3, pin=Pin(7, "", begun.isoformat()), is_committed=True)
    written = int(begun.timestamp() * 1000)
    assert earliest(written + 5_000, judged) <= written
    assert earliest(written - 5_000_000, judged) == written - 5_000_000
    assert earliest(written + 5_000, None) <= written
    assert earliest(-(2**62), judged) == earliest(-1, None) == 0, "Kafka takes any time"

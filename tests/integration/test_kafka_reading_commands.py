"""The commands that read results and dead letters, which the tests write in place of the job."""

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

import pytest

from subscriptions.topics import TopicAdmin, TopicNames, TopicSettings
from tests.integration import test_kafka_commands as writing
from tests.integration.test_kafka_commands import Write, lines_of, records_of
from tests.unit.command_line.conftest import Run

run = writing.run
settings = writing.settings
names = writing.names
produce = writing.produce
_only_settings = writing._only_settings


# consume


@pytest.fixture
def output(names: TopicNames, settings: dict[str, object]) -> str:
    with TopicAdmin(settings, names, outputs=TopicSettings(partitions=2)) as admin:
        assert admin.ensure_outputs(["acme"]) == {}
    return names.output("acme")


def deliver(
    produce: Write, topic: str, number: int, id: str, subscription: str = "acme/books"
) -> None:
    produce(
        topic,
        f"<a><b>{number}</b></a>".encode(),
        key=b"k",
        xb_id=id,
        xb_subscription=subscription,
        xb_version="3",
        xb_source=f"m/0/{number}",
        content_type="application/xml",
        tenant="t",
    )


def test_consume_what_is_there(run: Run, output: str, produce: Write) -> None:
    for number, id in enumerate(["aa", "bb", "aa", "cc"]):
        deliver(produce, output, number, id)
    ran = run("consume", "acme", "--no-follow")
    assert ran.status == 0
    assert ran.out.splitlines() == [f"<a><b>{number}</b></a>" for number in (0, 1, 3)]
    assert "subscription acme/books, version 3, source m/0/0, id aa" in ran.err.splitlines()[0]
    ran = run("consume", "acme", "--from-start", "--count", "4", "--duplicates", "--format", "json")
    assert (ran.status, ran.err) == (0, "")
    lines = lines_of(ran.out)
    assert [each["id"] for each in lines] == ["aa", "bb", "aa", "cc"]
    assert lines[0]["value"] == "<a><b>0</b></a>"
    assert lines[0]["source"] == "m/0/0"
    assert lines[0]["headers"] == {"tenant": "t"}
    ran = run("consume", "acme", "--from-start", "--count", "4", "--timeout", "0.5")
    assert ran.status == 1
    assert "3 of 4 results came" in ran.err
    ran = run("consume", "acme", "--no-follow", "--count", "1", "--format", "pretty")
    assert ran.out == "<a>\n  <b>0</b>\n</a>\n"


def test_consume_from_a_shared_topic(
    run: Run,
    names: TopicNames,
    settings: dict[str, object],
    produce: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XMLBROKER_KAFKA__SHARED_TOPICS", "1")
    shared = TopicNames(names.prefix, shared=1)
    with TopicAdmin(settings, shared) as admin:
        assert admin.ensure_outputs(["acme"]) == {}
    for subscriber in ("acme", "acm", "acme-2"):
        deliver(produce, shared.output(subscriber), 0, subscriber, f"{subscriber}/books")
    ran = run("consume", "acme", "--no-follow", "--format", "json")
    assert [each["subscription"] for each in lines_of(ran.out)] == ["acme/books"]


def test_consume_begins_with_the_next_result(run: Run, output: str, produce: Write) -> None:
    deliver(produce, output, 0, "aa")
    stop = threading.Event()

    def keep_delivering() -> None:
        number = 1
        while not stop.wait(0.1):
            deliver(produce, output, number, f"id-{number}")
            number += 1

    thread = threading.Thread(target=keep_delivering)
    thread.start()
    try:
        ran = run("consume", "acme", "--count", "2")
    finally:
        stop.set()
        thread.join()
    assert ran.status == 0
    assert len(ran.out.splitlines()) == 2
    assert "<b>0</b>" not in ran.out


def test_ctrl_c_ends_consume_well(output: str, produce: Write) -> None:
    deliver(produce, output, 0, "aa")
    command = [sys.executable, "-m", "xmlbroker", "consume", "acme", "--from-start"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"<a><b>0</b></a>\n"
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0
    assert out == b""
    assert b"Traceback" not in err


def test_consume_without_a_topic(run: Run, names: TopicNames) -> None:
    ran = run("consume", "nobody")
    assert ran.status == 1
    assert f"topic-missing: there is no topic {names.output('nobody')}" in ran.err
    assert "xmlbroker subscribe nobody/NAME --query FILE" in ran.err


# dead-letters


def bury(produce: Write, names: TopicNames, offset: int, code: str, **more: str) -> None:
    produce(
        names.dead_letters,
        b"<a>%d\xff" % offset,
        key=b"k%d" % offset,
        xb_source=f"{names.messages}/0/{offset}",
        xb_error=code,
        xb_error_detail="[red]why[/red]\x1b",
        tenant="t",
        **more,
    )


def test_dead_letters(run: Run, names: TopicNames, produce: Write) -> None:
    assert run("dead-letters", "list").err == "there are none\n"
    started = time.time()
    bury(produce, names, 0, "not-well-formed")
    bury(produce, names, 0, "not-well-formed")
    bury(produce, names, 1, "budget-exceeded", xb_subscription="acme/books")
    ran = run("dead-letters", "list", "--json")
    assert ran.status == 0
    first, second = lines_of(ran.out)
    written = datetime.fromisoformat(first.pop("time")).timestamp()
    assert abs(written - started) < 60
    assert first == {
        "source": f"{names.messages}/0/0",
        "code": "not-well-formed",
        "detail": "[red]why[/red]\x1b",
        "subscription": None,
        "size": 5,
        "is_omitted": False,
        "lacks_headers": False,
    }
    assert second["subscription"] == "acme/books"
    ran = run("dead-letters", "list", "--limit", "1")
    assert "budget-exceeded" in ran.out
    assert "[red]why[/red]" in ran.out
    assert "\x1b" not in ran.out
    assert "not-well-formed" not in ran.out
    assert ran.err == "the newest 1 of 2\n"
    ran = run("dead-letters", "list", "--code", "not-well-formed")
    assert "budget-exceeded" not in ran.out
    ran = run("dead-letters", "show", f"{names.messages}/0/7")
    assert (ran.status, ran.out) == (1, "")
    assert "there is no dead letter of" in ran.err


def test_the_bytes_of_a_dead_letter(
    run: Run, names: TopicNames, produce: Write, tmp_path: Path
) -> None:
    bury(produce, names, 0, "not-well-formed")
    source = f"{names.messages}/0/0"
    command = [sys.executable, "-m", "xmlbroker", "dead-letters", "show", source]
    ran = subprocess.run(command, capture_output=True, check=True, env=os.environ)
    assert ran.stdout == b"<a>0\xff"
    assert b"not-well-formed: [red]why[/red]" in ran.stderr


def test_republish(
    run: Run, names: TopicNames, settings: dict[str, object], produce: Write
) -> None:
    for offset, code in enumerate(["too-deep", "not-well-formed", "too-deep"]):
        bury(produce, names, offset, code)
    bury(produce, names, 0, "too-deep")
    ran = run("dead-letters", "republish", "--code", "too-deep", "--yes", "--json")
    assert ran.status == 0
    assert ran.err == "2 published again\n"
    sources = {each["source"] for each in lines_of(ran.out)}
    assert sources == {f"{names.messages}/0/{offset}" for offset in (0, 2)}
    records = sorted(records_of(settings, names.messages), key=lambda each: each.key or b"")
    assert [each.key for each in records] == [b"k0", b"k2"]
    assert [each.value for each in records] == [b"<a>0\xff", b"<a>2\xff"]
    assert records[0].headers == [("tenant", b"t")]
    there, absent = f"{names.messages}/0/1", f"{names.messages}/0/9"
    ran = run("dead-letters", "republish", there, absent, "--yes")
    assert ran.status == 1
    assert f"there is no dead letter of {absent}" in ran.err
    assert "1 published again, 1 not" in ran.err
    assert len(records_of(settings, names.messages)) == 3
    produce(names.dead_letters, None, key=b"k", xb_source=there, xb_error="no-value")
    ran = run("dead-letters", "republish", "--code", "no-value", "--yes")
    assert (ran.status, ran.err) == (0, "1 published again\n")
    assert None in {each.value for each in records_of(settings, names.messages)}
    produce(names.dead_letters, b"<a", xb_source=there, xb_error="cut", xb_omitted_headers="3")
    ran = run("dead-letters", "republish", "--code", "cut", "--yes")
    assert ran.err.splitlines() == [
        "1 without their headers, which were too large to keep",
        "1 published again",
    ]
    ran = run("dead-letters", "republish", "--code", "other", "--yes")
    assert (ran.status, ran.err) == (0, "there is nothing to publish\n")


def test_a_message_that_did_not_fit_into_the_dead_letters(
    run: Run, names: TopicNames, settings: dict[str, object], produce: Write
) -> None:
    source = f"{names.messages}/0/3"
    said = {"xb_source": source, "xb_error": "too-large", "xb_error_detail": "too many bytes"}
    produce(names.dead_letters, None, key=b"k", xb_omitted_bytes="5000000", **said)
    (listed,) = lines_of(run("dead-letters", "list", "--json").out)
    assert (listed["size"], listed["is_omitted"]) == (5_000_000, True)
    for command in (("show", source), ("republish", source, "--yes")):
        ran = run("dead-letters", *command)
        assert (ran.status, ran.out) == (1, "")
        assert f"the message at {source} has 5,000,000 bytes" in ran.err
    assert records_of(settings, names.messages) == []


@pytest.mark.parametrize("topic", ["subscriptions", "out.acme", "shared-out.0"])
def test_a_dead_letter_does_not_choose_any_topic(
    run: Run, names: TopicNames, settings: dict[str, object], produce: Write, topic: str
) -> None:
    forged = f"{names.prefix}.{topic}/0/0"
    produce(names.dead_letters, b"{}", key=b"acme/books", xb_source=forged, xb_error="too-deep")
    ran = run("dead-letters", "republish", "--code", "too-deep", "--yes")
    assert ran.status == 1
    assert "bad-source" in ran.err
    assert records_of(settings, names.subscriptions) == []


def test_republish_asks(
    run: Run, names: TopicNames, settings: dict[str, object], produce: Write, tmp_path: Path
) -> None:
    bury(produce, names, 0, "budget-exceeded", xb_subscription="acme/books")
    source = f"{names.messages}/0/0"
    for reply, status in (("n\n", 1), ("y\n", 0)):
        parent, child = os.openpty()
        os.write(parent, reply.encode())
        command = [sys.executable, "-m", "xmlbroker", "dead-letters", "republish", source]
        try:
            ran = subprocess.run(
                command, stdin=child, capture_output=True, text=True, check=False, env=os.environ
            )
        finally:
            os.close(parent)
            os.close(child)
        assert ran.returncode == status
        assert "1 failed for one subscription only" in ran.stderr
        assert f"Publish again: 1 to {names.messages}?" in ran.stderr
    assert len(records_of(settings, names.messages)) == 1

"""`make demo`: `xmlbroker up`, a dozen subscriptions, some hundred messages, a change under way.

Ends with status 0 only if each subscriber got what Saxon says, and nothing else.
"""

import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

from samples.demo.expected import Expected
from samples.demo.feed import messages
from samples.demo.inbox import Inbox, latencies
from samples.demo.oracle import Wanted
from samples.demo.registrar import Registrar, expect_status
from samples.demo.view import View
from subscriptions.kafka_client import KafkaProducer, open_client
from subscriptions.model import State
from subscriptions.topics import TopicNames

HERE = Path(__file__).parent
HALF = 150
"""So many messages before a subscription changes, and as many after that."""

PATIENCE_SECONDS = 60.0
_STOP_SECONDS = 120.0
"""For the batch that is under way, Spark and Kafka, one after the other."""

_QUIET_MS = 1000
"""After so long, nothing more comes."""

_ASK_EVERY = 10
"""After so many messages the broker is asked whether the change is in force."""


def main() -> int:
    """Run the demo; 0 if what arrived is what was expected."""
    view, names, expected = View(), TopicNames(), Expected()
    with ExitStack() as stack:
        stack.callback(view.close)
        view.begin("xmlbroker up: Kafka, Spark and the broker, on this machine")
        started = time.monotonic()
        servers = stack.enter_context(running_broker())
        view.say(f"ready after {time.monotonic() - started:.0f} s; Kafka is at {servers}", "green")
        client: dict[str, object] = {"bootstrap_servers": servers}
        registrar = stack.enter_context(Registrar(client, names))
        wanted, changes = subscribe(registrar, view)
        subscribers = sorted({name.partition("/")[0] for name in wanted})
        topics = [*(names.output(each) for each in subscribers), names.dead_letters]
        inbox = Inbox(servers, topics)
        stack.callback(inbox.close)
        producer = open_client(KafkaProducer, client)
        stack.callback(producer.close)
        view.begin(f"{2 * HALF} messages, some of them bad, and a change under way")
        began = time.monotonic()
        change = Change(registrar, changes, wanted)
        times: dict[str, int] = {}
        for number, data in enumerate(chain(messages(HALF, seed=1), messages(HALF, seed=2))):
            if number == HALF:
                change.write(expected, view)
            elif number > HALF and number % _ASK_EVERY == 0:
                change.look(view)
            sent = producer.send(names.messages, data, key=b"demo").get(timeout=30)
            place = f"{sent.topic}/{sent.partition}/{sent.offset}"
            expected.add(place, data, wanted)
            times[place] = sent.timestamp
            inbox.poll(milliseconds=10)
            view.follow(inbox, names.prefix, times)
        change.look(view, is_last=True)
        expected.ask_oracle()
        wait_for(inbox, expected, view, names, times)
        view.say(f"all there {time.monotonic() - began:.1f} s after the first was published")
        view.rest(inbox, names.prefix, times)
        wrong = check(inbox, expected, view, names=names)
        median, slowest = latencies(inbox.letters, times)
        view.say(f"from published to delivered: {median:.0f} ms median, {slowest:.0f} ms p99")
    return 1 if wrong else 0


@contextmanager
def running_broker() -> Iterator[str]:
    """`xmlbroker up` in a process of its own; the address of its Kafka.

    With no settings but the usual ones, whatever there is for another broker.
    """
    command = str(Path(sys.executable).parent / "xmlbroker")
    process = subprocess.Popen(
        [command, "--config", os.devnull, "--log-level", "warning", "up"],
        env={name: each for name, each in os.environ.items() if not name.startswith("XMLBROKER_")},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit("xmlbroker up did not start; see above")
        yield json.loads(line)["bootstrap_servers"]
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def subscribe(
    registrar: Registrar, view: View
) -> tuple[dict[str, tuple[Wanted, ...]], dict[str, str]]:
    """Register all subscriptions; those that were accepted, and what some become later."""
    view.begin("Subscriptions")
    changes: dict[str, str] = {}
    records: dict[str, dict[str, str]] = {}
    refused: dict[str, str] = {}
    for subscriber, own in tomllib.loads((HERE / "subscriptions.toml").read_text()).items():
        for name, record in own.items():
            key = f"{subscriber}/{name}"
            if "changed" in record:
                changes[key] = record.pop("changed")
            if "refused" in record:
                refused[key] = record.pop("refused")
            records[key] = record
    registrar.write(records)
    wanted: dict[str, tuple[Wanted, ...]] = {}
    for key, status in registrar.await_told(*records).items():
        record = records[key]
        expect_status(key, status, refused.get(key))
        if status.state is State.ACTIVE:
            view.say(f"  {key}: active, {record['note']}")
            format = record.get("format", "xml")
            wanted[key] = (Wanted(key, status.version, record["query"], format),)
        else:
            view.say(f"  {key}: {status.state}, {record['note']}", "yellow")
            view.say((status.error or {}).get("shown", ""), "yellow")
    return wanted, changes


class Change:
    """What some subscriptions become while messages are on their way."""

    def __init__(
        self, registrar: Registrar, queries: dict[str, str], wanted: dict[str, tuple[Wanted, ...]]
    ) -> None:
        self._registrar = registrar
        self._queries = queries
        self._wanted = wanted
        """By which versions the next message may be judged."""
        self._is_awaited = False

    def write(self, expected: Expected, view: View) -> None:
        """Change them, and don't wait: messages that are there already may be judged by either
        version.
        """
        versions = self._registrar.write({key: {"query": q} for key, q in self._queries.items()})
        for key, version in versions.items():
            self._wanted[key] += (Wanted(key, version, self._queries[key]),)
            view.say(f"  {key} becomes, while messages come: {self._queries[key]}")
        expected.allow({key: self._wanted[key] for key in versions})
        self._is_awaited = True

    def look(self, view: View, *, is_last: bool = False) -> None:
        """Once the broker says that the change is in force, messages are judged by it alone."""
        if not self._is_awaited:
            return
        ask = self._registrar.await_told if is_last else self._registrar.told
        statuses = ask(*self._queries)
        for key, status in (statuses or {}).items():
            expect_status(key, status)
            self._wanted[key] = self._wanted[key][-1:]
            view.say(f"  {key}: {status.state}, version {status.version}")
            self._is_awaited = False


def wait_for(
    inbox: Inbox, expected: Expected, view: View, names: TopicNames, times: dict[str, int]
) -> None:
    """Until all has arrived that has to, and nothing more comes."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and expected.missing(inbox.letters):
        inbox.poll()
        view.follow(inbox, names.prefix, times)
    while inbox.poll(_QUIET_MS):
        view.follow(inbox, names.prefix, times)


def check(inbox: Inbox, expected: Expected, view: View, *, names: TopicNames) -> int:
    """How much of what arrived is not what it should be."""
    view.begin("Is it what Saxon says?")
    faults = expected.faults(inbox.letters, names)
    for what, which in faults.items():
        for place, name in which[:10]:
            view.say(f"{what}: {place} for {name or 'the dead letters'}", "red")
    wrong = sum(map(len, faults.values()))
    verdict = "yes" if not wrong else f"no, {wrong} are not"
    arrived = len(inbox.letters)
    view.say(
        f"{len(expected.required(inbox.letters))} records expected, {arrived} arrived: {verdict}",
        "bold",
    )
    return wrong


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

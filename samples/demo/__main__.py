"""`make demo`: `xmlbroker up`, a dozen subscriptions, some hundred messages, a change under way.

Ends with status 0 only if each subscriber got what Saxon says, and nothing else.
"""

import json
import os
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from samples.demo.feed import messages
from samples.demo.inbox import Inbox, latencies
from samples.demo.oracle import Oracle, Wanted
from samples.demo.view import View
from subscriptions.kafka_client import KafkaProducer, open_client
from subscriptions.kafka_log import KafkaStatusLog, KafkaSubscriptionLog
from subscriptions.model import State, Status, SubscriptionKey
from subscriptions.topics import TopicNames

HERE = Path(__file__).parent
ROUND = 150
PATIENCE_SECONDS = 60.0
_STOP_SECONDS = 120.0
"""For the batch that is under way, Spark and Kafka, one after the other."""
Published = dict[str, tuple[bytes, list[Wanted]]]
"""Each message by its place, with the subscriptions that there were for it."""


def main() -> int:
    """Run the demo; 0 if what arrived is what was expected."""
    view, names = View(), TopicNames()
    with ExitStack() as stack:
        stack.callback(view.close)
        view.begin("xmlbroker up: Kafka, Spark and the broker, on this machine")
        started = time.monotonic()
        servers = stack.enter_context(running_broker())
        view.say(f"ready after {time.monotonic() - started:.0f} s; Kafka is at {servers}", "green")
        client: dict[str, object] = {"bootstrap_servers": servers}
        wanted, changes = subscribe(client, names, view)
        subscribers = sorted({each.name.partition("/")[0] for each in wanted.values()})
        topics = [*(names.output(each) for each in subscribers), names.dead_letters]
        inbox = Inbox(servers, topics)
        stack.callback(inbox.close)
        producer = open_client(KafkaProducer, client)
        stack.callback(producer.close)
        published: Published = {}
        times: dict[str, int] = {}
        oracle = Oracle()
        for number in (1, 2):
            if number == 2:
                wanted.update(change(client, names, changes, view))
            view.begin(f"{ROUND} messages, some of them bad")
            began = time.monotonic()
            for data in messages(ROUND, seed=number):
                sent = producer.send(names.messages, data, key=b"demo").get(timeout=30)
                place = f"{sent.topic}/{sent.partition}/{sent.offset}"
                published[place] = (data, list(wanted.values()))
                times[place] = sent.timestamp
                inbox.poll(milliseconds=10)
                view.follow(inbox, names.prefix, times)
            expected = expectations(published, oracle)
            wait_for(inbox, expected, view, names, times)
            view.say(f"all there {time.monotonic() - began:.1f} s after the first was published")
        view.rest(inbox, names.prefix, times)
        wrong = check(inbox, published, expected, oracle, view, names=names)
        median, slowest = latencies(inbox.letters, times)
        view.say(f"from published to delivered: {median:.0f} ms median, {slowest:.0f} ms p99")
    return 1 if wrong else 0


@contextmanager
def running_broker() -> Iterator[str]:
    """`xmlbroker up` in a process of its own; the address of its Kafka.

    With no settings but the usual ones, whatever there is for another broker.
    """
    command = [Path(sys.executable).parent / "xmlbroker", "--config", os.devnull]
    process = subprocess.Popen(
        [*command, "--log-level", "warning", "up"],
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
    client: dict[str, object], names: TopicNames, view: View
) -> tuple[dict[str, Wanted], dict[str, str]]:
    """Register all subscriptions; those that were accepted, and what some become later."""
    view.begin("Subscriptions")
    wanted: dict[str, Wanted] = {}
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
    statuses = write_records(client, names, records)
    for key, status in statuses.items():
        record = records[key]
        expect_status(key, status, refused.get(key))
        if status.state is State.ACTIVE:
            view.say(f"  {key}: active, {record['note']}")
            wanted[key] = Wanted(key, record["query"], record.get("format", "xml"))
        else:
            view.say(f"  {key}: {status.state}, {record['note']}", "yellow")
            view.say((status.error or {}).get("shown", ""), "yellow")
    return wanted, changes


def change(
    client: dict[str, object], names: TopicNames, changes: dict[str, str], view: View
) -> dict[str, Wanted]:
    """Change subscriptions while the broker runs."""
    view.begin("A subscription changes while the broker runs")
    statuses = write_records(
        client, names, {key: {"query": query} for key, query in changes.items()}
    )
    for key, status in statuses.items():
        expect_status(key, status)
        view.say(f"  {key}: {status.state}, version {status.version}: {changes[key]}")
    return {key: Wanted(key, query, "xml") for key, query in changes.items()}


def write_records(
    client: dict[str, object], names: TopicNames, records: dict[str, dict[str, str]]
) -> dict[str, Status]:
    """Write subscription records, and wait for what the broker says of them."""
    keys = {SubscriptionKey.parse(key).to_bytes(): key for key in records}
    with (
        KafkaSubscriptionLog(client, names.subscriptions) as log,
        KafkaStatusLog(client, names.status) as status_log,
    ):
        values = [json.dumps(record).encode() for record in records.values()]
        offsets = log.append_all(zip(keys, values, strict=True))
        versions = dict(zip(keys, offsets, strict=True))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            statuses = status_log.read_all()
            found = {
                keys[key]: statuses[key]
                for key, version in versions.items()
                if key in statuses and statuses[key].version == version
            }
            if len(found) == len(keys):
                return found
            time.sleep(0.1)
    raise SystemExit("the broker did not say what became of the subscriptions")


def expect_status(key: str, status: Status, refused: str | None = None) -> None:
    """End the demo if a subscription is not accepted, or not refused with the code it should."""
    code = None if status.error is None else status.error.get("code")
    state = State.ACTIVE if refused is None else State.REJECTED
    if (status.state, code) != (state, refused):
        raise SystemExit(f"{key} is {status.state} ({code}), and should be {state} ({refused})")


def expectations(published: Published, oracle: Oracle) -> set[tuple[str, str]]:
    """Who should get something of which message; dead letters have no subscription."""
    expected = set()
    for place, (data, wanted) in published.items():
        if oracle.is_refused(data):
            expected.add((place, ""))
            continue
        expected |= {(place, each.name) for each in wanted if oracle.wants(each, data)}
    return expected


def wait_for(
    inbox: Inbox,
    expected: set[tuple[str, str]],
    view: View,
    names: TopicNames,
    times: dict[str, int],
) -> None:
    """Until so much has arrived, and nothing more comes."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(inbox.letters) < len(expected) and time.monotonic() < deadline:
        inbox.poll()
        view.follow(inbox, names.prefix, times)
    for _ in range(5):
        inbox.poll()


def check(
    inbox: Inbox,
    published: Published,
    expected: set[tuple[str, str]],
    oracle: Oracle,
    view: View,
    *,
    names: TopicNames,
) -> int:
    """How much of what arrived is not what it should be."""
    view.begin("Is it what Saxon says?")
    arrived = {(each.source, each.subscription): each for each in inbox.letters}
    count = Counter((each.source, each.subscription) for each in inbox.letters)
    twice = [each for each, number in count.items() if number > 1]
    astray = [each for each, letter in arrived.items() if letter.topic != topic_of(each[1], names)]
    missing, foreign = expected - arrived.keys(), arrived.keys() - expected
    different = []
    for (place, name), letter in arrived.items():
        data, wanted = published[place]
        asked = next((each for each in wanted if each.name == name), None)
        if asked is not None and not oracle.agrees(asked, data, letter.value or b""):
            different.append((place, name))
    found = {
        "missing": missing,
        "not expected": foreign,
        "different": different,
        "twice": twice,
        "in another topic": astray,
    }
    for what, which in found.items():
        for place, name in sorted(which)[:10]:
            view.say(f"{what}: {place} for {name or 'the dead letters'}", "red")
    wrong = sum(map(len, found.values()))
    verdict = "yes" if not wrong else f"no, {wrong} are not"
    view.say(f"{len(expected)} records expected, {len(arrived)} arrived: {verdict}", "bold")
    return wrong


def topic_of(subscription: str, names: TopicNames) -> str:
    """Where results of a subscription belong, and messages that are refused."""
    return names.output(subscription.partition("/")[0]) if subscription else names.dead_letters


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

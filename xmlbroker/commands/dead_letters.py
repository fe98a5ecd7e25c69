"""`xmlbroker dead-letters`: the messages that the broker could not process, and another try."""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import click

from broker.errors import printable
from subscriptions.errors import TopicError
from subscriptions.model import moment_of, written
from subscriptions.topic_names import TopicNames
from xmlbroker.context import Context, print_json
from xmlbroker.kafka_access import (
    BOOTSTRAP_SERVERS,
    KafkaAccess,
    print_foreign_table,
)

if TYPE_CHECKING:
    from xmlbroker.topic_reader import Received, TopicReader
    from xmlbroker.topic_writer import Answer

_SOURCE = re.compile(r"([A-Za-z0-9._-]{1,249})/[0-9]{1,10}/[0-9]{1,19}")


def parse_source(text: str) -> str:
    """The place of a message, as an argument of a command."""
    if not _SOURCE.fullmatch(text):
        raise click.BadParameter("a source is topic/partition/offset, as `list` shows it")
    return text


@dataclass(frozen=True)
class DeadLetter:
    """What is said about a message that could not be processed."""

    source: str
    code: str
    detail: str
    subscription: str | None
    """The one whose result can't be made; None if the fault is the message's."""
    size: int
    """That of the message, also if it was too large to be here."""
    is_omitted: bool
    """Whether it is where it was published, and not here."""
    lacks_headers: bool
    """Whether its headers are there only, which did not fit in here with it."""
    time: datetime

    @classmethod
    def of(cls, record: "Received") -> "DeadLetter":
        """The dead letter that a record of the topic is."""
        omitted = record.header("xb-omitted-bytes") or ""
        is_omitted = re.fullmatch("[0-9]{1,19}", omitted) is not None
        return cls(
            source=record.header("xb-source") or "",
            code=record.header("xb-error") or "",
            detail=record.header("xb-error-detail") or "",
            subscription=record.header("xb-subscription"),
            size=int(omitted) if is_omitted else len(record.value or b""),
            is_omitted=is_omitted,
            lacks_headers=record.header("xb-omitted-headers") is not None,
            time=moment_of(record.timestamp_ms),
        )

    @property
    def fault(self) -> tuple[str, str, str | None]:
        """What is equal where a batch was done again and wrote its dead letters twice."""
        return self.source, self.code, self.subscription

    @property
    def topic(self) -> str | None:
        """Where the message was published; None if the record does not say it."""
        found = _SOURCE.fullmatch(self.source)
        return None if found is None else found[1]


@click.group("dead-letters")
def dead_letters() -> None:
    """Look at messages that could not be processed, and publish them again."""


@dead_letters.command("list")
@click.option("--code", help="Only those with this error, such as not-well-formed.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="The newest so many.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON line for each.")
@BOOTSTRAP_SERVERS
@click.pass_obj
def list_dead_letters(
    context: Context, *, code: str | None, limit: int, as_json: bool, servers: str | None
) -> None:
    """List dead letters, the newest last."""
    kafka = KafkaAccess.of(context, servers)
    with kafka.advised(), open_reader(kafka) as reader:
        letters, total = newest(scan(reader, reader.ends()), code, limit)
    if as_json:
        for each in letters:
            print_json({**asdict(each), "time": written(each.time)})
    elif letters:
        columns = ("time", "source", "error", "subscription", "bytes", "detail")
        print_foreign_table(columns, (_row(each) for each in letters))
    else:
        click.echo("there are none", err=True)
    if total > len(letters):
        click.echo(f"the newest {len(letters)} of {total:,}", err=True)


def newest(
    records: Iterable["Received"], code: str | None, limit: int
) -> tuple[list[DeadLetter], int]:
    """The newest dead letters, oldest first, and how many there are in all. Partitions are read one
    after the other, so the newest are told by their time.
    """
    kept: list[tuple[datetime, int, DeadLetter]] = []
    faults: set[tuple[str, str, str | None]] = set()
    total = 0
    for record in records:
        letter = DeadLetter.of(record)
        if code not in {None, letter.code} or letter.fault in faults:
            continue
        total += 1
        faults.add(letter.fault)
        heappush(kept, (letter.time, total, letter))
        if len(kept) > limit:
            faults.discard(heappop(kept)[2].fault)
    return [letter for _, _, letter in sorted(kept)], total


def _row(letter: DeadLetter) -> list[str]:
    time = letter.time.strftime("%Y-%m-%dT%H:%M:%SZ")
    size = f"{letter.size:,}"
    return [time, letter.source, letter.code, letter.subscription or "", size, letter.detail]


@dead_letters.command("show")
@click.argument("source", type=parse_source)
@BOOTSTRAP_SERVERS
@click.pass_obj
def show_dead_letter(context: Context, *, source: str, servers: str | None) -> None:
    """Print the bytes of the message that was published at SOURCE, topic/partition/offset.

    What is wrong with it is said on standard error.
    """
    kafka = KafkaAccess.of(context, servers)
    faults: dict[tuple[str, str, str | None], DeadLetter] = {}
    data: bytes | None = None
    with kafka.advised(), open_reader(kafka) as reader:
        for record in scan(reader, reader.ends()):
            if record.header("xb-source") == source:
                letter = DeadLetter.of(record)
                faults[letter.fault] = letter
                data = record.value
    if not faults:
        click.echo(_absent(source), err=True)
        sys.exit(1)
    for letter in faults.values():
        whose = "" if letter.subscription is None else f" ({letter.subscription})"
        click.echo(printable(f"{letter.code}: {letter.detail}{whose}"), err=True)
    if any(letter.is_omitted for letter in faults.values()):
        click.echo(_not_here(source, letter.size), err=True)
        sys.exit(1)
    if data is None:
        click.echo("the message has no value", err=True)
    else:
        # A file gets the bytes and nothing else.
        click.echo(data, nl=sys.stdout.isatty())


@dead_letters.command("republish")
@click.argument("sources", type=parse_source, nargs=-1)
@click.option("--code", help="All with this error.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON line for each message.")
@BOOTSTRAP_SERVERS
@click.pass_obj
def republish_dead_letters(
    context: Context,
    *,
    sources: tuple[str, ...],
    code: str | None,
    yes: bool,
    as_json: bool,
    servers: str | None,
) -> None:
    """Publish messages again, each to the topic it came from: those of SOURCEs, or of a --code.

    A message that still can't be processed becomes a dead letter again. The dead letters stay where
    they are.
    """
    from xmlbroker.topic_writer import TopicWriter  # noqa: PLC0415 - imports Kafka's client

    if bool(sources) == (code is not None):
        raise click.UsageError("give either SOURCEs or --code")
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to confirm it on: give --yes")
    kafka = KafkaAccess.of(context, servers)
    published = failed = 0

    def report(answer: "Answer") -> None:
        nonlocal published, failed
        if answer.error is not None:
            failed += 1
            click.echo(f"{answer.name}: {answer.error}", err=True)
            return
        published += 1
        if as_json:
            where = {"topic": answer.topic, "partition": answer.partition, "offset": answer.offset}
            print_json({"source": answer.name, **where})

    with kafka.advised(), open_reader(kafka) as reader:
        ends = reader.ends()
        found = choose(scan(reader, ends), set(sources), code)
        chosen = {source: each for source, each in found.items() if not each.letter.is_omitted}
        for source, each in found.items():
            if source not in chosen:
                failed += 1
                click.echo(_not_here(source, each.letter.size), err=True)
        for source in sources:
            if source not in found:
                failed += 1
                click.echo(_absent(source), err=True)
        if not chosen:
            click.echo("there is nothing to publish", err=True)
            sys.exit(1 if failed else 0)
        bare = sum(each.letter.lacks_headers for each in chosen.values())
        if bare:
            click.echo(f"{bare} without their headers, which were too large to keep", err=True)
        topics = Counter(_check_topic(each.letter, kafka.names) for each in chosen.values())
        if not yes:
            _confirm(chosen, topics)
        places = {each.place for each in chosen.values()}
        with TopicWriter(kafka.client_settings, report) as writer:
            for topic in topics:
                writer.require(topic)
            # A second pass, so that the messages are never in memory all at once.
            for record in scan(reader, ends):
                if (record.partition, record.offset) in places:
                    letter = DeadLetter.of(record)
                    own = [each for each in record.headers if not each[0].startswith("xb-")]
                    topic = letter.topic or ""
                    writer.send(letter.source, topic, record.value, key=record.key, headers=own)
            writer.finish()
    click.echo(f"{published} published again" + (f", {failed} not" if failed else ""), err=True)
    sys.exit(1 if failed else 0)


@dataclass(frozen=True)
class Chosen:
    """A message to publish again, and the place of one of its dead letters."""

    letter: DeadLetter
    place: tuple[int, int]


def choose(records: Iterable["Received"], sources: set[str], code: str | None) -> dict[str, Chosen]:
    """The messages of some sources, or with an error, by source: each once, however many dead
    letters it has.
    """
    chosen: dict[str, Chosen] = {}
    for record in records:
        letter = DeadLetter.of(record)
        if letter.source in sources or (code is not None and letter.code == code):
            chosen.setdefault(letter.source, Chosen(letter, (record.partition, record.offset)))
    return chosen


def _check_topic(letter: DeadLetter, names: TopicNames) -> str:
    """The topic that a message came from. Whoever can write dead letters could name any, and what
    is published here is published with other rights than theirs.
    """
    topic = letter.topic
    own = {names.subscriptions, names.status, names.dead_letters}
    outputs = (f"{names.prefix}.out.", f"{names.prefix}.shared-out.")
    if topic is None or topic in own or topic.startswith(outputs):
        source = printable(letter.source)
        raise TopicError("bad-source", f"`{source}` is no place where messages are published")
    return topic


def _confirm(chosen: dict[str, Chosen], topics: Counter[str]) -> None:
    one_sided = sum(each.letter.subscription is not None for each in chosen.values())
    if one_sided:
        click.echo(
            f"{one_sided} failed for one subscription only: all others get their results again.",
            err=True,
        )
    places = ", ".join(f"{count} to {topic}" for topic, count in topics.items())
    if not click.confirm(f"Publish again: {places}?", err=True):
        click.echo("nothing was published", err=True)
        sys.exit(1)


def open_reader(kafka: KafkaAccess) -> "TopicReader":
    """The topic of dead letters."""
    from xmlbroker.topic_reader import TopicReader  # noqa: PLC0415 - imports Kafka's client

    return TopicReader(kafka.client_settings, kafka.names.dead_letters)


def scan(reader: "TopicReader", ends: dict[int, int]) -> Iterator["Received"]:
    """All dead letters, up to where the topic ended."""
    reader.seek(reader.starts())
    return reader.until(ends)


def _not_here(source: str, size: int) -> str:
    return printable(
        f"the message at {source} has {size:,} bytes, more than the topic of dead letters takes: "
        "it is only there, as long as that topic keeps it"
    )


def _absent(source: str) -> str:
    return f"there is no dead letter of {source}; `xmlbroker dead-letters list` shows all"

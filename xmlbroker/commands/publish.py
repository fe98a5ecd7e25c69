"""`xmlbroker publish`: messages to Kafka, as they are."""

import io
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from broker.errors import BrokerError, MessageError
from subscriptions.model import is_encodable
from xmlbroker.context import (
    DOCUMENT,
    Context,
    find_documents,
    print_json,
    read_document,
    with_progress,
)
from xmlbroker.kafka_access import BOOTSTRAP_SERVERS, KafkaAccess

if TYPE_CHECKING:
    from xmlbroker.topic_writer import Answer


def _parse_headers(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> list[tuple[str, bytes]]:
    headers = []
    for each in given:
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"`{each}` is no name=value")
        if not is_encodable(name):
            raise click.BadParameter("the name of a header is UTF-8")
        if name.startswith("xb-"):
            raise click.BadParameter(f"`{name}`: names that start with xb- are the broker's")
        headers.append((name, value.encode("utf-8", "surrogateescape")))
    return headers


@click.command()
@click.argument("documents", type=DOCUMENT, nargs=-1, required=True)
@click.option("--lines", is_flag=True, help="Every line is a message; empty ones don't count.")
@click.option("--topic", help="The topic to write to; without it, the first that the broker reads.")
@click.option("--key", help="The key of the messages: those of one key keep their order.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_parse_headers,
    help="A header for every message; results carry it too.",
)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Messages a second at most."
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Publish everything so many times.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON line for each message.")
@BOOTSTRAP_SERVERS
@click.pass_obj
def publish(
    context: Context,
    *,
    documents: tuple[Path, ...],
    lines: bool,
    topic: str | None,
    key: str | None,
    headers: list[tuple[str, bytes]],
    rate: float | None,
    repeat: int,
    as_json: bool,
    servers: str | None,
) -> None:
    """Publish DOCUMENTs: files, directories of .xml files, or `-` for standard input.

    The bytes are sent as they are. Whether a message is well-formed is for the broker to find out:
    it moves those that are not to the dead letters.
    """
    from xmlbroker.topic_writer import TopicWriter  # noqa: PLC0415 - imports Kafka's client

    if [str(each) for each in documents].count("-") > 1:
        raise click.UsageError("standard input can be only one of the files")
    files = find_documents(documents)
    kafka = KafkaAccess.of(context, servers)
    if topic is None:
        topic = kafka.names.inputs(context.settings.job.input_topics)[0]
    key_bytes = None if key is None else key.encode("utf-8", "surrogateescape")
    report = _Report(topic, as_json)
    with kafka.advised(), TopicWriter(kafka.client_settings, report.take) as writer:
        writer.require(topic)
        try:
            try:
                for message in _paced(_Inputs(files, repeat, lines, report).messages(), rate):
                    writer.send(message.name, topic, message.data, key=key_bytes, headers=headers)
            except KeyboardInterrupt:
                report.interrupted = True
            writer.finish()
        finally:
            report.unanswered = writer.unanswered
            report.show_summary()
    sys.exit(1 if report.failed or report.interrupted else 0)


class _Message(NamedTuple):
    name: str
    data: bytes


@dataclass
class _Report:
    """What became of the messages so far."""

    topic: str
    as_json: bool
    published: int = 0
    failed: int = 0
    unanswered: int = 0
    interrupted: bool = False
    _refused: set[str] = field(default_factory=set)

    def take(self, answer: "Answer") -> None:
        """Count and show a message that Kafka has answered."""
        if answer.error is not None:
            self.refuse(answer.name, answer.error)
            return
        self.published += 1
        if self.as_json:
            where = {"topic": answer.topic, "partition": answer.partition, "offset": answer.offset}
            print_json({"document": answer.name, **where})

    def refuse(self, name: str, error: BrokerError) -> None:
        """Count a message that is not there; with --repeat, say why only once."""
        self.failed += 1
        if self.as_json:
            print_json({"document": name, "error": error.as_record()})
        elif name not in self._refused:
            self._refused.add(name)
            click.echo(f"{name}: {error}", err=True)

    def show_summary(self) -> None:
        """Say how it ended."""
        parts = [f"{_counted(self.published)} published to {self.topic}"]
        if self.failed:
            parts.append(f"{self.failed} not")
        if self.unanswered:
            parts.append(f"{self.unanswered} without an answer: they may be there or not")
        click.echo(", ".join(parts), err=True)


def _counted(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"


@dataclass
class _Inputs:
    """Messages from files and from standard input."""

    files: list[Path]
    repeat: int
    lines: bool
    report: _Report
    _standard_input: bytes | None = None

    def messages(self) -> Iterator[_Message]:
        """All messages; a file without any is reported, and the rest go on."""
        for file in with_progress(self.files * self.repeat, "Publishing"):
            try:
                if self.lines:
                    yield from self._lines_of(file)
                else:
                    data = self._read(file)
                    if not data:
                        raise MessageError("empty", "there is nothing to publish")
                    yield _Message(file.name, data)
            except MessageError as error:
                self.report.refuse(file.name, error)

    def _lines_of(self, file: Path) -> Iterator[_Message]:
        number = 0
        for number, line in enumerate(self._open(file), start=1):
            if data := line.rstrip(b"\r\n"):
                yield _Message(f"{file.name}:{number}", data)
        if number == 0:
            raise MessageError("empty", "there is nothing to publish")

    def _open(self, file: Path) -> Iterable[bytes]:
        """The lines of a file. Those of a pipe that stays open are published as they come."""
        if str(file) == "-" and self.repeat == 1:
            return sys.stdin.buffer
        return io.BytesIO(self._read(file))

    def _read(self, file: Path) -> bytes:
        if str(file) != "-":
            return read_document(file)
        if self._standard_input is None:
            self._standard_input = read_document(file)
        return self._standard_input


def _paced(messages: Iterable[_Message], rate: float | None) -> Iterator[_Message]:
    """The messages, each not before its time. A delay is made up for, so the rate holds on the
    whole.
    """
    start = time.monotonic()
    for number, message in enumerate(messages):
        if rate is not None and (early := start + number / rate - time.monotonic()) > 0:
            time.sleep(early)
        yield message

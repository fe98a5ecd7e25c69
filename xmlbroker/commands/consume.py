"""`xmlbroker consume`: a subscriber's results, as they come."""

import json
import re
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import click
from lxml import etree

from broker.errors import printable
from subscriptions.model import moment_of, written
from xmlbroker.context import Context, print_json
from xmlbroker.kafka_access import (
    BOOTSTRAP_SERVERS,
    KafkaAccess,
    subscriber_id,
)

if TYPE_CHECKING:
    from xmlbroker.topic_reader import Received

_IDS_REMEMBERED = 200_000
"""A batch that is done again comes soon after the first time, so older ids can be forgotten."""


@click.command()
@click.argument("subscriber", type=subscriber_id)
@click.option(
    "--from-start", is_flag=True, help="Begin with the oldest result, not with the next one."
)
@click.option(
    "--follow/--no-follow",
    default=True,
    help="Go on until Ctrl-C, or show what is there (from the start) and stop.",
)
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many results.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    help="Stop when no result has come for so many seconds.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["raw", "json", "pretty"]),
    default="raw",
    show_default=True,
    help="raw: the result as it is; json: a line with its headers; pretty: indented.",
)
@click.option("--duplicates", is_flag=True, help="Show a result again that was delivered again.")
@BOOTSTRAP_SERVERS
@click.pass_obj
def consume(
    context: Context,
    *,
    subscriber: str,
    from_start: bool,
    follow: bool,
    count: int | None,
    timeout: float | None,
    format_name: str,
    duplicates: bool,
    servers: str | None,
) -> None:
    """Print the results of SUBSCRIBER. Where each comes from is said on standard error.

    The status is 1 if fewer results came than --count asks for.
    """
    from xmlbroker.topic_reader import TopicReader  # noqa: PLC0415 - imports Kafka's client

    kafka = KafkaAccess.of(context, servers)
    advice = (
        "It is made when the broker accepts the first subscription: see `xmlbroker subscriptions "
        f"{subscriber}`, or `xmlbroker subscribe {subscriber}/NAME --query FILE`."
    )
    shown = 0
    try:
        with (
            kafka.advised(missing_topic=advice),
            TopicReader(kafka.client_settings, kafka.names.output(subscriber)) as reader,
        ):
            ends = reader.ends()
            reader.seek(reader.starts() if from_start or not follow else ends)
            records = reader.follow(timeout) if follow else reader.until(ends)
            wanted = owned(records, subscriber)
            if not duplicates:
                wanted = without_duplicates(wanted)
            for record in islice(wanted, count):
                _show(record, format_name)
                shown += 1
    except KeyboardInterrupt:
        click.echo(err=True)
    if count is not None and shown < count:
        click.echo(f"{shown} of {count} results came", err=True)
        sys.exit(1)


def owned(records: Iterable["Received"], subscriber: str) -> Iterator["Received"]:
    """The records that are for a subscriber: topics can be shared."""
    for record in records:
        subscription = record.header("xb-subscription")
        if subscription is None or subscription.startswith(f"{subscriber}/"):
            yield record


def without_duplicates(
    records: Iterable["Received"], remembered: int = _IDS_REMEMBERED
) -> Iterator["Received"]:
    """The records whose delivery id has not been seen; one without an id is no duplicate."""
    seen: dict[str, None] = {}
    for record in records:
        id = record.header("xb-id")
        if id is not None:
            if id in seen:
                continue
            seen[id] = None
            if len(seen) > remembered:
                del seen[next(iter(seen))]
        yield record


def _show(record: "Received", format_name: str) -> None:
    if format_name == "json":
        print_json(as_data(record))
        return
    origin = {
        "offset": f"{record.partition}/{record.offset}",
        "subscription": record.header("xb-subscription"),
        "version": record.header("xb-version"),
        "source": record.header("xb-source"),
        "id": record.header("xb-id"),
    }
    line = ", ".join(f"{name} {value}" for name, value in origin.items() if value is not None)
    click.echo(printable(line), err=True)
    value = record.value or b""
    click.echo(pretty(value) if format_name == "pretty" else value)


def as_data(record: "Received") -> dict[str, object]:
    """The line of `--format json`. A value that is no text is in base64, under another name."""
    version = record.header("xb-version") or ""
    own = {"xb-id", "xb-subscription", "xb-version", "xb-source", "content-type"}
    data: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "time": written(moment_of(record.timestamp_ms)),
        "key": None if record.key is None else record.key.decode("utf-8", "replace"),
        "id": record.header("xb-id"),
        "subscription": record.header("xb-subscription"),
        "version": int(version) if re.fullmatch("[0-9]{1,19}", version) else None,
        "source": record.header("xb-source"),
        "content_type": record.header("content-type"),
        "headers": {
            name: value.decode("utf-8", "replace")
            for name, value in record.headers
            if name not in own
        },
    }
    try:
        data["value"] = None if record.value is None else record.value.decode("utf-8")
    except UnicodeDecodeError:
        data["value_base64"] = b64encode(record.value or b"").decode("ascii")
    return data


def pretty(value: bytes) -> bytes:
    """XML or JSON with a line for each part; whatever else it is, as it is.

    >>> print(pretty(b"<a><b/><c>text</c></a>").decode())
    <a>
      <b/>
      <c>text</c>
    </a>
    """
    if value.lstrip()[:1] == b"{":
        try:
            return json.dumps(json.loads(value), ensure_ascii=False, indent=2).encode()
        except (ValueError, RecursionError):
            return value
    parser = etree.XMLParser(remove_blank_text=True, resolve_entities=False, no_network=True)
    try:
        root = etree.fromstring(value, parser)
    except etree.XMLSyntaxError:
        return value
    return etree.tostring(root, encoding="utf-8", pretty_print=True).rstrip(b"\n")

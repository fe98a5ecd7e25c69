"""`xmlbroker subscribe` and `unsubscribe`: write a record, and hear what the broker says to it."""

import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import TypeAdapter, ValidationError

from broker.errors import printable
from broker.message_factory import OutputFormat
from broker.query import check
from subscriptions.errors import RecordError
from subscriptions.model import (
    Moment,
    State,
    Status,
    SubscriptionKey,
    SubscriptionRecord,
    is_encodable,
    written,
)
from subscriptions.records import RecordLimits, decode_value, encode
from xmlbroker.context import QUERY_FILE, Context, print_json, read_query
from xmlbroker.kafka_access import (
    BOOTSTRAP_SERVERS,
    KafkaAccess,
    subscription_key,
)

if TYPE_CHECKING:
    from xmlbroker.topic_reader import TopicReader

KEY = click.argument("key", type=subscription_key, metavar="SUBSCRIBER/NAME")
TIMEOUT = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Seconds to wait for the broker's answer.",
)
WAIT = click.option("--wait/--no-wait", default=True, help="Wait for the broker's answer.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the answer as a JSON line.")


def _parse_moment(
    _context: click.Context, _parameter: click.Parameter, given: str | None
) -> datetime | None:
    if given is None:
        return None
    moment: TypeAdapter[datetime] = TypeAdapter(Moment)
    try:
        return moment.validate_python(given)
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise click.BadParameter(reason) from None


def _refuse_broken_text(
    _context: click.Context, _parameter: click.Parameter, given: str | None
) -> str | None:
    if given is not None and not is_encodable(given):
        raise click.BadParameter("the text is not UTF-8")
    return given


@click.command()
@KEY
@click.option("--query", "file", type=QUERY_FILE, required=True, help="A file with one query.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice([each.value for each in OutputFormat]),
    default=OutputFormat.XML.value,
    show_default=True,
    help="The form of a transformation's results.",
)
@click.option("--paused", is_flag=True, help="Register it without results for the time being.")
@click.option(
    "--expires",
    metavar="TIME",
    callback=_parse_moment,
    help="When it ends by itself, such as 2027-01-01T00:00:00Z.",
)
@click.option("--note", callback=_refuse_broken_text, help="A text that is kept with it.")
@WAIT
@TIMEOUT
@AS_JSON
@BOOTSTRAP_SERVERS
@click.pass_obj
def subscribe(
    context: Context,
    *,
    key: SubscriptionKey,
    file: Path,
    format_name: str,
    paused: bool,
    expires: datetime | None,
    note: str | None,
    wait: bool,
    timeout: float,
    as_json: bool,
    servers: str | None,
) -> None:
    """Register a query under SUBSCRIBER/NAME, in place of the one that is there.

    A query that is refused here is not sent. Results go to the topic <prefix>.out.SUBSCRIBER.
    """
    limits = RecordLimits(query=context.settings.query)
    # The broker checks text, and a file is bytes that need not be any.
    query = check(read_query(file), limits.query)
    record = SubscriptionRecord(
        query=query.source.rstrip(),
        format=OutputFormat(format_name),
        paused=paused,
        expires=expires,
        note=note,
    )
    value = encode(record)
    decode_value(value, limits)
    answer = _write(context, servers, key, value, timeout if wait else None)
    _show(answer, key, {State.ACTIVE, State.PAUSED}, timeout, as_json=as_json, wait=wait)


@click.command()
@KEY
@WAIT
@TIMEOUT
@AS_JSON
@BOOTSTRAP_SERVERS
@click.pass_obj
def unsubscribe(
    context: Context,
    *,
    key: SubscriptionKey,
    wait: bool,
    timeout: float,
    as_json: bool,
    servers: str | None,
) -> None:
    """Remove the subscription SUBSCRIBER/NAME. Results that are in its topic stay there."""
    if not _is_registered(context, servers, key):
        click.echo(
            f"there is no subscription {key}; `xmlbroker subscriptions {key.subscriber}` lists "
            "those that there are",
            err=True,
        )
        sys.exit(1)
    answer = _write(context, servers, key, None, timeout if wait else None)
    _show(answer, key, {State.REMOVED}, timeout, as_json=as_json, wait=wait)


def _is_registered(context: Context, servers: str | None, key: SubscriptionKey) -> bool:
    """Whether there is something to remove: a misspelt name should not seem to be gone."""
    from subscriptions.kafka_log import KafkaSubscriptionLog  # noqa: PLC0415 - Kafka's client

    kafka = KafkaAccess.of(context, servers)
    name, found = key.to_bytes(), False
    with (
        kafka.advised(),
        KafkaSubscriptionLog(kafka.client_settings, kafka.names.subscriptions) as log,
    ):
        for record in log.read():
            if record.key == name:
                found = record.value is not None
    return found


def _write(
    context: Context,
    servers: str | None,
    key: SubscriptionKey,
    value: bytes | None,
    timeout: float | None,
) -> tuple[int, Status | None]:
    """Write a record; its version, and what the broker says about it in time."""
    from subscriptions.kafka_log import KafkaSubscriptionLog  # noqa: PLC0415 - Kafka's client
    from xmlbroker.topic_reader import TopicReader  # noqa: PLC0415

    kafka = KafkaAccess.of(context, servers)
    settings, names = kafka.client_settings, kafka.names
    with kafka.advised(), KafkaSubscriptionLog(settings, names.subscriptions) as log:
        if timeout is None:
            return log.append(key.to_bytes(), value), None
        with TopicReader(settings, names.status) as statuses:
            # What was said before the record was written is not about the record.
            statuses.seek(statuses.ends())
            version = log.append(key.to_bytes(), value)
            try:
                return version, await_status(statuses, key, version, timeout)
            except KeyboardInterrupt:
                return version, None


def await_status(
    statuses: "TopicReader", key: SubscriptionKey, version: int, timeout: float
) -> Status | None:
    """What the broker says about a version of a key, or about a later one: of several records that
    come at once it answers the last.
    """
    deadline = time.monotonic() + timeout
    while (left := deadline - time.monotonic()) > 0:
        for record in statuses.poll(min(left, 0.5)):
            if record.key != key.to_bytes() or record.value is None:
                continue
            try:
                status = Status.parse(record.value)
            except RecordError:
                continue
            if status.version >= version:
                return status
    return None


def _show(
    answer: tuple[int, Status | None],
    key: SubscriptionKey,
    good: set[State],
    timeout: float,
    *,
    as_json: bool,
    wait: bool,
) -> None:
    """Show the answer and end the command."""
    version, status = answer
    if status is None:
        if as_json:
            print_json({"subscription": str(key), "state": None, "version": version})
        else:
            click.echo(f"{key}: version {version}")
        if wait:
            click.echo(
                f"The record is written, but no broker answered within {timeout:g} s, or before "
                "you stopped waiting. Is one running? Its answer is shown by `xmlbroker "
                f"subscriptions {key.subscriber}` later.",
                err=True,
            )
        sys.exit(1 if wait else 0)
    since = written(status.since)
    if as_json:
        said = {"state": status.state.value, "version": status.version, "since": since}
        error = {} if status.error is None else {"error": status.error}
        print_json({"subscription": str(key), **said, **error})
    else:
        click.echo(f"{key}: {status.state.value}, version {status.version}, since {since}")
    if status.error is not None:
        click.echo(error_text(status.error), err=True)
    if status.active_version is not None:
        click.echo(f"Version {status.active_version} stays as it was.", err=True)
    if status.version != version:
        click.echo(
            f"This is about a later record: version {version}, written here, was replaced at once.",
            err=True,
        )
    sys.exit(0 if status.state in good and status.version == version else 1)


def error_text(error: dict[str, object]) -> str:
    """The error of a status for people: with the caret, where it has one."""
    shown = error.get("shown")
    if isinstance(shown, str):
        return "\n".join(printable(line) for line in shown.splitlines())
    return printable(f"{error.get('code', 'error')}: {error.get('detail', '')}")

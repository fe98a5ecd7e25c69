"""`xmlbroker subscriptions`: what is registered, and what the broker says about it."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from subscriptions.model import State, Status, written
from xmlbroker.context import Context, print_json
from xmlbroker.kafka_access import (
    BOOTSTRAP_SERVERS,
    KafkaAccess,
    print_foreign_table,
    subscriber_id,
)

if TYPE_CHECKING:
    from subscriptions.log import LogRecord

PENDING = "pending"
"""The state of a record that the broker has not answered."""

_LONGEST_QUERY = 60


@dataclass(frozen=True)
class Listed:
    """A key with its last record and its last status."""

    key: str
    state: str
    version: int
    status: Status | None
    record: dict[str, Any] | None
    """None if it was removed, or is no JSON object."""

    def as_data(self) -> dict[str, object]:
        """The line of `--json`."""
        data: dict[str, object] = {
            "subscription": self.key,
            "state": self.state,
            "version": self.version,
            "record": self.record,
        }
        if self.status is not None:
            data["since"] = written(self.status.since)
            if self.status.error is not None:
                data["error"] = self.status.error
            if self.status.active_version is not None:
                data["active_version"] = self.status.active_version
            if self.status.active_record is not None:
                data["active_record"] = self.status.active_record.to_data()
        return data

    def as_row(self) -> list[str]:
        """The row of the table."""
        since = error = ""
        if self.status is not None:
            since = written(self.status.since).partition(".")[0].removesuffix("Z") + "Z"
            if self.status.error is not None:
                error = f"{self.status.error.get('code')}: {self.status.error.get('detail')}"
            if self.status.active_version is not None:
                error += f" (version {self.status.active_version} stays as it was)"
        query = "" if self.record is None else " ".join(str(self.record.get("query", "")).split())
        if len(query) > _LONGEST_QUERY:
            query = query[: _LONGEST_QUERY - 1] + "…"
        return [self.key, self.state, str(self.version), since, query, error]


@click.command()
@click.argument("subscriber", type=subscriber_id, required=False)
@click.option(
    "--state",
    type=click.Choice([*(each.value for each in State), PENDING]),
    help="Only those in this state; removed ones are shown only so.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON line for each.")
@BOOTSTRAP_SERVERS
@click.pass_obj
def subscriptions(
    context: Context,
    *,
    subscriber: str | None,
    state: str | None,
    as_json: bool,
    servers: str | None,
) -> None:
    """List subscriptions, all or those of SUBSCRIBER, with what the broker says about each.

    A record that the broker has not answered is `pending`.
    """
    from subscriptions.kafka_log import (  # noqa: PLC0415 - imports Kafka's client
        KafkaStatusLog,
        KafkaSubscriptionLog,
    )

    kafka = KafkaAccess.of(context, servers)
    settings, names = kafka.client_settings, kafka.names
    prefix = b"" if subscriber is None else f"{subscriber}/".encode()
    with (
        kafka.advised(),
        KafkaStatusLog(settings, names.status) as status_log,
        KafkaSubscriptionLog(settings, names.subscriptions) as log,
    ):
        # Statuses first: one must not be about a record that was not read.
        statuses = status_log.read_all()
        found = sorted(
            (each for each in combine(log.read(), statuses, prefix) if _is_wanted(each, state)),
            key=lambda each: each.key,
        )
    if as_json:
        for each in found:
            print_json(each.as_data())
        return
    if not found:
        click.echo("there are none", err=True)
        return
    columns = ("subscription", "state", "version", "since", "query", "error")
    print_foreign_table(columns, (each.as_row() for each in found))


def _is_wanted(listed: Listed, state: str | None) -> bool:
    if state is None:
        return listed.state != State.REMOVED.value
    return listed.state == state


def combine(
    records: Iterable["LogRecord"], statuses: Mapping[bytes, Status], prefix: bytes = b""
) -> Iterator[Listed]:
    """The last record of each key that starts so, with its status."""
    last: dict[bytes, tuple[int, bytes | None]] = {}
    for record in records:
        if record.key is not None and record.key.startswith(prefix):
            last[record.key] = record.offset, record.value
    for key, (offset, value) in last.items():
        status = statuses.get(key)
        name = key.decode("utf-8", "replace")
        if status is not None and status.version == offset:
            yield Listed(name, status.state.value, offset, status, _parsed(value))
        else:
            yield Listed(name, PENDING, offset, None, _parsed(value))
    for key, status in statuses.items():
        # Compaction drops the record of a removal, and its status stays.
        if key not in last and key.startswith(prefix):
            name = key.decode("utf-8", "replace")
            yield Listed(name, status.state.value, status.version, status, None)


def _parsed(value: bytes | None) -> dict[str, Any] | None:
    try:
        parsed = None if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    # No field of a record is deeper, and what others wrote may be too deep to print.
    plain = (str, bool, int, type(None))
    return {name: field for name, field in parsed.items() if isinstance(field, plain)}

"""`xmlbroker admin`: topics, access rules and quotas on Kafka, as a file wants them."""

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import ValidationError

from subscriptions.errors import KafkaError, RecordError
from subscriptions.model import SubscriptionRecord
from subscriptions.records import decode_value, encode
from xmlbroker.context import Context, print_json
from xmlbroker.kafka_access import BOOTSTRAP_SERVERS, KafkaAccess, print_foreign_table

if TYPE_CHECKING:
    from subscriptions.access import WantedAccess
    from subscriptions.access_admin import AccessAdmin
    from subscriptions.access_plan import Plan

_SETTLE_SECONDS = 10.0
"""Kafka's brokers learn of a change a moment after it is made."""


@click.group()
def admin() -> None:
    """Set up Kafka for the broker: topics, who may do what, and how much of it."""


@admin.command()
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="A TOML file with users by role, quotas and topics: deploy/kafka/access.toml is one.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option(
    "--topics-only",
    is_flag=True,
    help="Neither rules nor quotas: also for a Kafka that has no authorizer.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON line for each change.")
@BOOTSTRAP_SERVERS
@click.pass_obj
def apply(
    context: Context,
    *,
    file: Path,
    dry_run: bool,
    topics_only: bool,
    as_json: bool,
    servers: str | None,
) -> None:
    """Make Kafka's topics, access rules and quotas what a file wants; a second time does nothing.

    Rules for the broker's topics that the file does not want are removed, whoever made them. It is
    for a super user of Kafka the first time, later for an admin of the file.
    """
    from subscriptions.access import (  # noqa: PLC0415 - imports Kafka's client
        topics_alone,
        wanted_access,
    )
    from subscriptions.access_admin import AccessAdmin  # noqa: PLC0415
    from subscriptions.access_file import read_access_file  # noqa: PLC0415
    from subscriptions.access_plan import plan_access, refuse_lock_out  # noqa: PLC0415

    kafka = KafkaAccess.of(context, servers)
    wanted = wanted_access(read_access_file(file), kafka.names, context.settings.job.input_topics)
    if topics_only:
        wanted = topics_alone(wanted)
    with kafka.advised(), AccessAdmin(kafka.client_settings) as access:
        plan = plan_access(wanted, access.found(wanted))
        _show(plan, as_json=as_json)
        count = f"{len(plan.changes)} change{'' if len(plan.changes) == 1 else 's'}"
        if not plan.changes:
            click.echo("nothing to do: Kafka is as the file wants it", err=True)
        elif dry_run:
            click.echo(f"{count} to make; nothing was done", err=True)
        else:
            refuse_lock_out(plan, kafka.settings.sasl_username)
            try:
                access.apply(plan.changes)
            except KafkaError as error:
                made = len(plan.changes) - len(_await_settled(access, wanted, 1.0).changes)
                error.detail += f"\n{made} of {count} were made; apply it again when that is mended"
                raise
            left = _await_settled(access, wanted)
            if left.changes:
                click.echo(f"Kafka took {count}, but shows these as not made:", err=True)
                _show(left, as_json=as_json)
                sys.exit(1)
            click.echo(f"{count} made", err=True)


@admin.command()
@click.argument("user")
@BOOTSTRAP_SERVERS
@click.pass_obj
def password(context: Context, *, user: str, servers: str | None) -> None:
    """Set the password of USER for SCRAM-SHA-512. It is asked for, or read from standard input."""
    from subscriptions.access_admin import AccessAdmin  # noqa: PLC0415 - imports Kafka's client

    kafka = KafkaAccess.of(context, servers)
    if sys.stdin.isatty():
        given: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        given = sys.stdin.readline().rstrip("\r\n")
    if not given:
        raise click.UsageError("there is no password on standard input")
    with kafka.advised(), AccessAdmin(kafka.client_settings) as access:
        access.set_password(user, given)
    click.echo(f"{user} has a password", err=True)


@admin.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@BOOTSTRAP_SERVERS
@click.pass_obj
def restore(context: Context, *, file: Path, dry_run: bool, servers: str | None) -> None:
    """Write the subscriptions of FILE, which `xmlbroker subscriptions --json` made, again.

    Those that are there as FILE has them are left alone, those that it lacks stay. Where the last
    record had been refused, it is the earlier one, which was in force, that is written.
    """
    from subscriptions.kafka_log import KafkaSubscriptionLog  # noqa: PLC0415 - Kafka's client

    wanted, left_out = read_copy(file)
    kafka = KafkaAccess.of(context, servers)
    topic = kafka.names.subscriptions
    with kafka.advised(), KafkaSubscriptionLog(kafka.client_settings, topic) as log:
        there = {record.key: canonical(record.value) for record in log.read()}
        missing = {key: value for key, value in wanted.items() if there.get(key) != value}
        if not dry_run:
            log.append_all(missing.items())
    if dry_run:
        for key in missing:
            click.echo(key.decode())
    verb = "to write; nothing was done" if dry_run else "written"
    click.echo(f"{len(missing):,} of {len(wanted):,} subscriptions {verb}", err=True)
    if left_out:
        click.echo(f"left out, since they are no records: {', '.join(left_out)}", err=True)


def canonical(value: bytes | None) -> bytes | None:
    """A record as we would write it; None if it is no record, or a removal."""
    try:
        return None if value is None else encode(decode_value(value))
    except RecordError:
        return None


def read_copy(file: Path) -> tuple[dict[bytes, bytes], list[str]]:
    """The records of a copy, as they are written to the topic, by their keys; and the keys of what
    was malformed then, and never in force.
    """
    records: dict[bytes, bytes] = {}
    malformed: list[str] = []
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                listed = json.loads(line)
                key: str = listed["subscription"]
                record = listed.get("active_record") or listed["record"]
                if record is not None:
                    records[key.encode()] = encode(SubscriptionRecord.model_validate(record))
            except ValidationError:
                malformed.append(key)
            except (ValueError, KeyError, AttributeError, TypeError):
                raise click.UsageError(
                    f"{file}, line {number}: this is no line of `xmlbroker subscriptions --json`"
                ) from None
    return records, malformed


def _await_settled(
    access: "AccessAdmin", wanted: "WantedAccess", seconds: float = _SETTLE_SECONDS
) -> "Plan":
    """What is left to do, once Kafka shows what was done."""
    from subscriptions.access_plan import plan_access  # noqa: PLC0415 - imports Kafka's client

    deadline = time.monotonic() + seconds
    while True:
        left = plan_access(wanted, access.found(wanted))
        if not left.changes or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def _show(plan: "Plan", *, as_json: bool) -> None:
    from subscriptions.access_plan import show_change  # noqa: PLC0415 - imports Kafka's client

    shown = [show_change(change) for change in plan.changes]
    if as_json:
        _print_lines(each._asdict() for each in shown)
        _print_lines({"note": note} for note in plan.notes)
        return
    if shown:
        print_foreign_table(("action", "what", "detail"), shown)
    for note in plan.notes:
        click.echo(f"note: {note}", err=True)


def _print_lines(records: Iterable[dict[str, str]]) -> None:
    for record in records:
        print_json(record)

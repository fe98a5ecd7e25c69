"""`xmlbroker admin`: topics, access rules and quotas on Kafka, as a file wants them."""

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

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
@click.option("--json", "as_json", is_flag=True, help="Print a JSON line for each change.")
@BOOTSTRAP_SERVERS
@click.pass_obj
def apply(
    context: Context, *, file: Path, dry_run: bool, as_json: bool, servers: str | None
) -> None:
    """Make Kafka's topics, access rules and quotas what a file wants; a second time does nothing.

    Rules for the broker's topics that the file does not want are removed, whoever made them. It is
    for a super user of Kafka the first time, later for an admin of the file.
    """
    from subscriptions.access import wanted_access  # noqa: PLC0415 - imports Kafka's client
    from subscriptions.access_admin import AccessAdmin  # noqa: PLC0415
    from subscriptions.access_file import read_access_file  # noqa: PLC0415
    from subscriptions.access_plan import plan_access, refuse_lock_out  # noqa: PLC0415

    kafka = KafkaAccess.of(context, servers)
    wanted = wanted_access(read_access_file(file), kafka.names, context.settings.job.input_topics)
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
            access.apply(plan.changes)
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


def _await_settled(access: "AccessAdmin", wanted: "WantedAccess") -> "Plan":
    """What is left to do, once Kafka shows what was done."""
    from subscriptions.access_plan import plan_access  # noqa: PLC0415 - imports Kafka's client

    deadline = time.monotonic() + _SETTLE_SECONDS
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

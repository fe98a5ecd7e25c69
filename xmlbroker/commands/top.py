"""`xmlbroker top`: a running broker at a glance, refreshing."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import click
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from broker.errors import BrokerError, printable
from streaming_jobs.settings import JobSettings
from xmlbroker.context import Context, print_json

_ANSWER_SECONDS = 5.0


class BrokerUnreachableError(BrokerError):
    """No broker answers at an address."""


@click.command()
@click.option(
    "--url",
    help="The metrics_url that `up` and `run` print; without it, what the settings "
    "job.metrics_host and job.metrics_port say.",
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option("--once", is_flag=True, help="Show it once and end.")
@click.option("--json", "as_json", is_flag=True, help="Print what the broker says as JSON lines.")
@click.pass_obj
def top(context: Context, *, url: str | None, interval: float, once: bool, as_json: bool) -> None:
    """Watch a running broker: rates, lag, latency, who is slow, what was refused. Until Ctrl-C."""
    address = address_of(url, context.settings.job)
    with suppress(KeyboardInterrupt):
        _show(look(address, interval, once=once), once=once, as_json=as_json)


def _show(looks: Iterator[dict[str, Any]], *, once: bool, as_json: bool) -> None:
    if as_json:
        for data in looks:
            print_json(data)
        return
    console = Console(highlight=False)
    if once or not console.is_terminal:
        for data in looks:
            console.print(picture(data))
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for data in looks:
            live.update(picture(data), refresh=True)


def address_of(url: str | None, job: JobSettings) -> str:
    """Where the broker answers `/top`."""
    if url is None:
        if not job.metrics_port:
            raise click.UsageError(
                "name the broker's metrics_url with --url: `up` and `run` print it when they are "
                "ready. With the setting job.metrics_port it is always the same."
            )
        url = f"http://{job.metrics_host}:{job.metrics_port}"
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        is_address = parts.scheme in {"http", "https"} and parts.netloc and parts.port != 0
    except ValueError:  # half an IPv6 address, or a port that is no number
        is_address = False
    if not is_address:
        raise click.UsageError(f"`{url}` is no address: http://host:port")
    path = parts.path.rstrip("/").removesuffix("/metrics")
    return urlunsplit((parts.scheme, parts.netloc, f"{path}/top", "", ""))


def look(address: str, interval: float, *, once: bool) -> Iterator[dict[str, Any]]:
    """What the broker says, time after time; the first answer must come, later ones may not."""
    data = ask(address)
    while True:
        yield data
        if once:
            return
        time.sleep(interval)
        try:
            data = ask(address)
        except BrokerUnreachableError as error:
            data = {**data, "not_ready": error.detail}


def ask(address: str) -> dict[str, Any]:
    """What the broker says now."""
    try:
        # The scheme was checked: it is HTTP.
        with urllib.request.urlopen(address, timeout=_ANSWER_SECONDS) as answer:
            data = json.load(answer)
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise BrokerUnreachableError(
            "broker-unreachable", f"no broker answers at {address}: {reason}"
        ) from None
    if not isinstance(data, dict):
        raise BrokerUnreachableError("broker-unreachable", f"{address} is no broker's")
    return data


def picture(data: Mapping[str, Any]) -> RenderableType:
    """The whole screen."""
    not_ready = data.get("not_ready")
    state = Text("ready", "bold green") if not_ready is None else Text(str(not_ready), "bold red")
    head = Text.assemble(
        state,
        f"   up {_duration(data.get('uptime_seconds', 0))}",
        f"   batch {data.get('batch', '-')}",
        f"   version {data.get('version', '-')}",
    )
    return Group(
        head,
        Columns([_rates(data), _times(data), _subscriptions(data)], padding=(0, 4)),
        _listed(
            "most time of their own",
            ("subscription", "ms a second"),
            ((each["subscription"], f"{each['ms_per_second']:.2f}") for each in data["slowest"]),
        ),
        _listed(
            "most output",
            ("subscription", "bytes a second"),
            (
                (each["subscription"], f"{each['bytes_per_second']:,.0f}")
                for each in data["largest"]
            ),
        ),
        _listed(
            "subscriptions refused last",
            ("subscription", "version", "why"),
            (
                (each["key"], str(each["version"]), f"{each['code']}: {each['detail']}")
                for each in reversed(data.get("rejections", [])[-5:])
            ),
        ),
        _listed(
            "dead letters last",
            ("source", "why", "of subscription"),
            (
                (each["source"], each["code"], each["subscription"])
                for each in reversed(data["dead_letters"][-5:])
            ),
        ),
    )


def _rates(data: Mapping[str, Any]) -> Table:
    table = Table("a second", "", box=None, pad_edge=False)
    for name, amount in data["per_second"].items():
        table.add_row(name.replace("_", " "), f"{amount:,.1f}")
    return table


def _times(data: Mapping[str, Any]) -> Table:
    table = Table("times", "", box=None, pad_edge=False)
    for name, milliseconds in (data["latency_milliseconds"] or {}).items():
        table.add_row(f"latency {name}", f"{milliseconds:,.0f} ms")
    trigger = data.get("batch_milliseconds", {}).get("triggerExecution")
    if trigger is not None:
        table.add_row("last batch", f"{trigger:,} ms")
    for stage, share in data["stage_share"].items():
        table.add_row(f"workers: {stage}", f"{100 * share:.0f} %")
    for topic, lag in data.get("lag", {}).items():
        table.add_row(f"lag of {printable(topic)}", f"{lag:,}")
    return table


def _subscriptions(data: Mapping[str, Any]) -> Table:
    table = Table("subscriptions", "", box=None, pad_edge=False)
    for state, number in data.get("subscriptions", {}).items():
        table.add_row(state, f"{number:,}")
    return table


def _listed(
    title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]
) -> RenderableType:
    table = Table(*columns, title=title, title_justify="left", box=None, pad_edge=False)
    for row in rows:
        # What others wrote: nothing in it is markup or moves the cursor.
        table.add_row(*(Text(printable(each), overflow="ellipsis", no_wrap=True) for each in row))
    return table if table.row_count else Text()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"

"""The entry point: options that all commands share, and the promise that no traceback is shown.

Exit status: 0 done; 1 some input was refused or did not match what was asked; 2 usage.
"""

import sys
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError
from pydantic_settings import SettingsError

from broker.errors import BrokerError
from xmlbroker.commands.admin import admin
from xmlbroker.commands.bench import bench
from xmlbroker.commands.check import check
from xmlbroker.commands.consume import consume
from xmlbroker.commands.dead_letters import dead_letters
from xmlbroker.commands.explain import explain
from xmlbroker.commands.match import match
from xmlbroker.commands.publish import publish
from xmlbroker.commands.run import run, up
from xmlbroker.commands.settings import settings
from xmlbroker.commands.subscribe import subscribe, unsubscribe
from xmlbroker.commands.subscriptions import subscriptions
from xmlbroker.commands.top import top
from xmlbroker.commands.trace import trace
from xmlbroker.commands.transform import transform
from xmlbroker.context import Context
from xmlbroker.logs import configure_logging
from xmlbroker.settings import describe_error, load_settings


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="xmlbroker")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="XMLBROKER_CONFIG",
    help="A TOML file with settings; without it, xmlbroker.toml in this directory, if it is there.",
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]))
@click.option("--log-format", type=click.Choice(["auto", "text", "json"]))
@click.pass_context
def cli(
    context: click.Context, config: Path | None, log_level: str | None, log_format: str | None
) -> None:
    """xmlbroker: XPath filters and FLWR transformations over streams of XML messages."""
    log = {"level": log_level, "format": log_format}
    given: dict[str, Any] = {"log": {name: value for name, value in log.items() if value}}
    if not given["log"]:
        given = {}
    try:
        loaded = load_settings(config, given)
    except ValidationError as error:
        raise click.UsageError(describe_error(error)) from None
    except (SettingsError, ValueError) as error:
        raise click.UsageError(f"the settings can't be read: {error}") from None
    configure_logging(loaded.log)
    context.obj = Context(loaded, config, given)


for command in (
    *(bench, check, explain, match, settings, transform, run, up),
    *(publish, subscribe, unsubscribe, subscriptions, consume, dead_letters, top, trace),
    admin,
):
    cli.add_command(command)


def main() -> None:
    """Run the command line; an error that is an answer is shown as one."""
    try:
        cli(prog_name="xmlbroker")
    except BrokerError as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    except OSError as error:
        click.echo(f"{error.filename or 'xmlbroker'}: {error.strerror or error}", err=True)
        sys.exit(1)

"""`xmlbroker settings`: every setting, its value, and where that comes from."""

import click
from rich.console import Console
from rich.table import Table

from xmlbroker.context import Context, print_json
from xmlbroker.settings import describe_settings


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON line for each setting.")
@click.pass_obj
def settings(context: Context, as_json: bool) -> None:
    """Show all settings with their values and sources; secrets are masked."""
    shown = list(describe_settings(context.settings, context.config, context.command_line))
    if as_json:
        for setting in shown:
            print_json(setting._asdict())
        return
    table = Table("setting", "value", "from", "what it is", box=None, pad_edge=False)
    for setting in shown:
        table.add_row(*setting)
    Console(width=None if Console().is_terminal else 160).print(table)

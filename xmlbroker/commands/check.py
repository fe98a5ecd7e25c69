"""`xmlbroker check`: would this query be accepted, and if not, why."""

import sys
from dataclasses import asdict
from pathlib import Path

import click

from broker.errors import QueryError
from broker.message_factory import OutputFormat, check_template
from broker.query import Filter, Flwr, Query, cost, unparse
from broker.query import check as check_query
from xmlbroker.context import (
    QUERY_FILE,
    Context,
    QueryLine,
    print_json,
    read_query,
    read_query_lines,
)


@click.command()
@click.option("--query", type=QUERY_FILE, help="A file with one query, a filter or FLWR.")
@click.option("--queries", type=QUERY_FILE, help="A file with one query a line.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice([each.value for each in OutputFormat]),
    default=OutputFormat.XML.value,
    show_default=True,
    help="The form of output that a FLWR query would be registered for.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON line for each query.")
@click.pass_obj
def check(
    context: Context, query: Path | None, queries: Path | None, format_name: str, as_json: bool
) -> None:
    """Accept or refuse queries, as registering them would; a refusal shows the place."""
    if (query is None) == (queries is None):
        raise click.UsageError("give either --query or --queries")
    file = query or queries
    assert file is not None
    texts = read_query_lines(file) if query is None else [QueryLine(1, 1, read_query(file))]
    refused = 0
    for number, line, text in texts:
        name = file.name if query is not None else f"{file.name}, line {line}"
        try:
            parsed = check_query(text, context.settings.query)
            if isinstance(parsed, Flwr) and format_name == OutputFormat.XML.value:
                check_template(parsed)
        except QueryError as error:
            refused += 1
            if as_json:
                print_json({"query": number, "accepted": False, "error": error.as_record()})
            else:
                click.echo(f"{name}: refused\n{error}", err=True)
        else:
            _show_accepted(parsed, number, name, as_json=as_json)
    if queries is not None and not as_json:
        click.echo(f"{len(texts) - refused} accepted, {refused} refused", err=True)
    sys.exit(1 if refused else 0)


def _show_accepted(query: Query, number: int, name: str, *, as_json: bool) -> None:
    kind = "filter" if isinstance(query, Filter) else "transformation"
    charge = cost(query)
    canonical = unparse(query)
    if as_json:
        record = {"query": number, "accepted": True, "kind": kind, "canonical": canonical}
        print_json({**record, "cost": asdict(charge)})
        return
    click.echo(f"{name}: accepted, a {kind}")
    click.echo(f"  canonical: {canonical}")
    click.echo(
        f"  cost: {charge.steps} steps, {charge.predicates} predicates, "
        f"{charge.active_states} active states"
    )

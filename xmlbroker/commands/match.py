"""`xmlbroker match`: which filters take which documents."""

import sys
from pathlib import Path

import click

from broker import reference
from broker.documents import LabelPaths, Message
from broker.errors import BrokerError, QueryError
from broker.query import Filter, check
from xmlbroker.context import (
    DOCUMENT,
    QUERY_FILE,
    Context,
    error_record,
    find_documents,
    print_json,
    read_document,
    read_query_lines,
    with_progress,
)


@click.command()
@click.option(
    "--queries", "file", type=QUERY_FILE, required=True, help="A file with one XPath filter a line."
)
@click.option(
    "--engine",
    type=click.Choice(["reference"]),
    default="reference",
    show_default=True,
    help="reference: each query on its own, a walk over the document.",
)
@click.argument("documents", type=DOCUMENT, nargs=-1, required=True)
@click.pass_obj
def match(context: Context, file: Path, engine: str, documents: tuple[Path, ...]) -> None:
    """Match DOCUMENTs (files, or directories of .xml files) against the filters of a file.

    Prints a JSON line for each document with the numbers, from 1, of the filters that take it.
    """
    del engine  # there is one so far
    filters, refused = _read_filters(file, context)
    labels = LabelPaths()
    for document in with_progress(find_documents(documents), "Matching"):
        labels = labels.renewed()
        try:
            message = Message.parse(read_document(document), context.settings.message, labels)
        except BrokerError as error:
            print_json(error_record(document, error))
            refused = True
            continue
        numbers = [n for n, query in filters if reference.matches(query, message)]
        print_json({"document": document.name, "matches": numbers})
    sys.exit(1 if refused else 0)


def _read_filters(file: Path, context: Context) -> tuple[list[tuple[int, Filter]], bool]:
    """The filters with their numbers, and whether any was refused; those are shown."""
    filters: list[tuple[int, Filter]] = []
    refused = False
    for number, line in enumerate(read_query_lines(file), start=1):
        try:
            query = check(line, context.settings.query)
        except QueryError as error:
            click.echo(f"{file.name}: query {number} is refused\n{error}", err=True)
            refused = True
            continue
        if isinstance(query, Filter):
            filters.append((number, query))
        else:
            detail = "is a transformation, not a filter; run it with `xmlbroker transform`"
            click.echo(f"{file.name}: query {number} {detail}", err=True)
            refused = True
    return filters, refused

"""`xmlbroker transform`: what a FLWR query makes of documents."""

import sys
from pathlib import Path

import click

from broker import reference
from broker.documents import LabelPaths, Message
from broker.errors import BrokerError
from broker.message_factory import OutputFormat, check_template, groups_as_data, make_output
from broker.query import Flwr, check
from xmlbroker.context import (
    DOCUMENT,
    QUERY_FILE,
    Context,
    error_record,
    find_documents,
    print_json,
    read_document,
    read_query,
    refuse_two_inputs,
    with_progress,
)


@click.command()
@click.option("--query", "file", type=QUERY_FILE, required=True, help="A file with a FLWR query.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice([each.value for each in OutputFormat]),
    default=OutputFormat.XML.value,
    show_default=True,
    help="xml: in the tags of the query; groups: the groups and lists, as a JSON line.",
)
@click.option(
    "--strategy",
    type=click.Choice(["reference"]),
    default="reference",
    show_default=True,
    help="reference: a walk over the document.",
)
@click.argument("documents", type=DOCUMENT, nargs=-1, required=True)
@click.pass_obj
def transform(
    context: Context, file: Path, format_name: str, strategy: str, documents: tuple[Path, ...]
) -> None:
    """Run a FLWR query over DOCUMENTs (files, or directories of .xml files).

    Prints the result for each document; one without a binding gives none.
    """
    del strategy  # there is one so far
    refuse_two_inputs(file, documents)
    format = OutputFormat(format_name)
    query = check(read_query(file), context.settings.query)
    if not isinstance(query, Flwr):
        raise click.UsageError(f"{file}: this is a filter; run it with `xmlbroker match`")
    if format is OutputFormat.XML:
        check_template(query)
    refused = False
    labels = LabelPaths()
    for document in with_progress(find_documents(documents), "Transforming"):
        labels = labels.renewed()
        try:
            _transform_one(query, document, format, labels, context)
        except BrokerError as error:
            refused = True
            if format is OutputFormat.GROUPS:
                print_json(error_record(document, error))
            else:
                click.echo(f"{document.name}: {error}", err=True)
    sys.exit(1 if refused else 0)


def _transform_one(
    query: Flwr, document: Path, format: OutputFormat, labels: LabelPaths, context: Context
) -> None:
    limits = context.settings.result
    message = Message.parse(read_document(document), context.settings.message, labels)
    result = reference.transform(query, message, limits)
    if not result.groups:
        return
    if format is OutputFormat.XML:
        click.echo(make_output(result, message, format, limits))
    else:
        groups = groups_as_data(result, message, limits)
        lists = list(query.list_names())
        print_json({"document": document.name, "lists": lists, "groups": groups})

"""`xmlbroker transform`: what a FLWR query makes of documents."""

import sys
from pathlib import Path

import click

from broker.documents import LabelPaths, parse_message
from broker.documents.dtd import ElementGraph
from broker.errors import BrokerError
from broker.message_factory import MessageFactory, OutputFormat, check_template, groups_as_data
from broker.plan.optimise import Optimisation
from broker.query import Flwr, check
from broker.runtime.transformer import Choice, Transformer
from xmlbroker.context import (
    DOCUMENT,
    DTD_FILE,
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

STRATEGY = click.option(
    "--strategy",
    type=click.Choice([each.value for each in Choice]),
    default=Choice.AUTO.value,
    show_default=True,
    help="group: by label paths; f, fw, fwr: by path streams and joins; reference: a walk over the "
    "document; auto: the first of these that can answer the query.",
)

OPTIMISE = click.option(
    "--optimise",
    type=click.Choice([each.value for each in Optimisation]),
    default=Optimisation.Q_DTD.value,
    show_default=True,
    help="What f, fw and fwr may use to simplify their plans: nothing, the query, a DTD as well.",
)

DTD = click.option("--dtd", type=DTD_FILE, help="The DTD that most documents conform to.")


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
@STRATEGY
@OPTIMISE
@DTD
@click.argument("documents", type=DOCUMENT, nargs=-1, required=True)
@click.pass_obj
def transform(
    context: Context,
    *,
    file: Path,
    format_name: str,
    strategy: str,
    optimise: str,
    dtd: Path | None,
    documents: tuple[Path, ...],
) -> None:
    """Run a FLWR query over DOCUMENTs (files, or directories of .xml files).

    Prints the result for each document; one without a binding gives none.
    """
    refuse_two_inputs(file, documents)
    format = OutputFormat(format_name)
    query = check(read_query(file), context.settings.query)
    if not isinstance(query, Flwr):
        raise click.UsageError(f"{file}: this is a filter; run it with `xmlbroker match`")
    if format is OutputFormat.XML:
        check_template(query)
    graph = None if dtd is None else ElementGraph.load(dtd)
    transformer = Transformer(query, Choice(strategy), Optimisation(optimise), graph)
    factory = MessageFactory(query)
    refused = False
    labels = LabelPaths()
    for document in with_progress(find_documents(documents), "Transforming"):
        labels = labels.renewed()
        try:
            _transform_one(transformer, factory, document, format, labels=labels, context=context)
        except BrokerError as error:
            refused = True
            if format is OutputFormat.GROUPS:
                print_json(error_record(document, error))
            else:
                click.echo(f"{document.name}: {error}", err=True)
    sys.exit(1 if refused else 0)


def _transform_one(
    transformer: Transformer,
    factory: MessageFactory,
    document: Path,
    format: OutputFormat,
    *,
    labels: LabelPaths,
    context: Context,
) -> None:
    limits = context.settings.result
    message = parse_message(read_document(document), context.settings.message, labels)
    result = transformer.run(message, limits)
    if not result.groups:
        return
    most = limits.max_output_bytes(len(message.data))
    if format is OutputFormat.XML:
        click.echo(factory.make(result.groups, message, format, most))
    else:
        groups = groups_as_data(result, message, most)
        lists = list(transformer.query.list_names())
        print_json({"document": document.name, "lists": lists, "groups": groups})

"""`xmlbroker match`: which filters take which documents."""

import sys
from pathlib import Path

import click

from broker.documents import LabelPaths, parse_message
from broker.errors import BrokerError, QueryError
from broker.matching import ENGINES, Engine, YFilter
from broker.matching.patterns import Predicates
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
    refuse_two_inputs,
    with_progress,
)


@click.command()
@click.option(
    "--queries", "file", type=QUERY_FILE, required=True, help="A file with one XPath filter a line."
)
@click.option(
    "--engine",
    "engine_name",
    type=click.Choice(list(ENGINES)),
    default="yfilter",
    show_default=True,
    help="yfilter: one automaton for all filters; reference: each filter on its own.",
)
@click.option(
    "--determinise/--no-determinise",
    default=True,
    help="yfilter: keep what the automaton does, or step it for every document.",
)
@click.option(
    "--predicates",
    type=click.Choice([each.value for each in Predicates]),
    default=Predicates.INLINE.value,
    show_default=True,
    help="yfilter: look up values as elements come, or only where a filter's paths are all there.",
)
@click.argument("documents", type=DOCUMENT, nargs=-1, required=True)
@click.pass_obj
def match(
    context: Context,
    *,
    file: Path,
    engine_name: str,
    determinise: bool,
    predicates: str,
    documents: tuple[Path, ...],
) -> None:
    """Match DOCUMENTs (files, or directories of .xml files) against the filters of a file.

    Prints a JSON line for each document with the numbers, from 1, of the filters that take it.
    """
    engine: Engine = (
        YFilter(determinise=determinise, predicates=Predicates(predicates))
        if engine_name == "yfilter"
        else ENGINES[engine_name]()
    )
    refuse_two_inputs(file, documents)
    filters, refused = read_filters(file, context)
    numbers_of: dict[int, list[int]] = {}
    for number, query in with_progress(filters, "Adding filters"):
        numbers_of.setdefault(engine.add(query), []).append(number)
    labels = LabelPaths()
    for document in with_progress(find_documents(documents), "Matching"):
        labels = labels.renewed()
        try:
            message = parse_message(read_document(document), context.settings.message, labels)
        except BrokerError as error:
            print_json(error_record(document, error))
            refused = True
            continue
        matches = sorted(each for found in engine.match(message) for each in numbers_of[found])
        print_json({"document": document.name, "matches": matches})
    sys.exit(1 if refused else 0)


def read_filters(file: Path, context: Context) -> tuple[list[tuple[int, Filter]], bool]:
    """The filters of a file with their numbers, and whether any query was refused."""
    filters: list[tuple[int, Filter]] = []
    refused = False
    lines = read_query_lines(file)
    for number, line, text in with_progress(lines, "Reading queries"):
        name = f"{file.name}, line {line}: query {number}"
        try:
            query = check(text, context.settings.query)
        except QueryError as error:
            click.echo(f"{name} is refused\n{error}", err=True)
            refused = True
            continue
        if isinstance(query, Filter):
            filters.append((number, query))
        else:
            detail = "is a transformation, not a filter; run it with `xmlbroker transform`"
            click.echo(f"{name} {detail}", err=True)
            refused = True
    return filters, refused

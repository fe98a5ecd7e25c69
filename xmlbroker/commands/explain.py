"""`xmlbroker explain`: what filters share, how an engine has them, and why one matched or not."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from broker import reference
from broker.documents import Message, parse_message
from broker.documents.dtd import ElementGraph
from broker.engine import Engine
from broker.errors import ResultError
from broker.matching import YFilter
from broker.matching.shape import shape_of
from broker.plan.build import NotPlannedError
from broker.plan.candidates import candidates_of
from broker.plan.drawing import plan_graph
from broker.plan.operators import Strategy
from broker.plan.optimise import Optimisation
from broker.plan.text import shared_plan_text
from broker.query import Filter, Flwr, check
from broker.runtime.planned import Planned, PlannedTogether
from broker.runtime.transformer import Choice, Transformer
from broker.why import why
from xmlbroker.commands.match import read_filters
from xmlbroker.commands.transform import DTD, OPTIMISE, STRATEGY
from xmlbroker.context import (
    DOCUMENT,
    QUERY_FILE,
    Context,
    print_json,
    read_document,
    read_query,
)


@click.command()
@click.option("--queries", "file", type=QUERY_FILE, help="A file with one XPath filter a line.")
@click.option(
    "--query",
    "query_files",
    type=QUERY_FILE,
    multiple=True,
    help="A file with one FLWR query. Several: what their plans share.",
)
@click.option(
    "--dot",
    "as_graph",
    is_flag=True,
    help="Draw the shared plan with path streams, in Graphviz's language.",
)
@STRATEGY
@OPTIMISE
@DTD
@click.option(
    "--document",
    type=DOCUMENT,
    help="Say for each filter why it takes this document, or not; for a FLWR query, how many "
    "groups it makes and why.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
@click.pass_obj
def explain(
    context: Context,
    *,
    file: Path | None,
    query_files: tuple[Path, ...],
    as_graph: bool,
    strategy: str,
    optimise: str,
    dtd: Path | None,
    document: Path | None,
    as_json: bool,
) -> None:
    """Show what filters share and why they take a document, or the plan of a FLWR query."""
    if query_files and file is not None:
        raise click.UsageError("give either --queries or --query")
    if query_files:
        graph = None if dtd is None else ElementGraph.load(dtd)
        queries = [read_flwr(each, context) for each in query_files]
        choice, optimisation = Choice(strategy), Optimisation(optimise)
        if as_graph:
            lines = [plan_graph(plan_together(queries, choice, optimisation, graph).plans())]
        elif len(queries) > 1:
            lines = explain_together(queries, choice, optimisation, graph)
        else:
            engine = Engine(choice=choice, optimisation=optimisation, graph=graph)
            engine.add("query", queries[0])
            lines = engine.explain("query")
        if document is not None and not as_graph:
            message = parse_message(read_document(document), context.settings.message)
            lines += [
                f"query {number}: {explain_result(query, message, context)}"
                for number, query in enumerate(queries, start=1)
            ]
        if as_json:
            print_json({"plan": lines})
        else:
            click.echo("\n".join(lines))
        return
    if file is None:
        raise click.UsageError("give --queries or --query")
    filters, refused = read_filters(file, context)
    if document is None:
        figures = describe([query for _, query in filters])
        print_json(figures) if as_json else show(figures)
    else:
        message = parse_message(read_document(document), context.settings.message)
        for number, query in filters:
            verdict = why(query, message)
            if as_json:
                print_json({"query": number, **verdict._asdict()})
            else:
                answer = "yes" if verdict.matches else "no "
                click.echo(f"{number}: {answer} {query.source.strip()}\n     {verdict.reason}")
    sys.exit(1 if refused else 0)


def read_flwr(file: Path, context: Context) -> Flwr:
    """The FLWR query of a file."""
    query = check(read_query(file), context.settings.query)
    if not isinstance(query, Flwr):
        raise click.UsageError(f"{file}: this is a filter; use --queries")
    return query


def explain_result(query: Flwr, message: Message, context: Context) -> str:
    """What a query makes of a message, or why nothing."""
    try:
        groups = len(reference.transform(query, message, context.settings.result).groups)
    except ResultError as error:
        return f"an error, {error}"
    verdict = why(candidates_of(query).filter, message)
    return f"{groups} group{'' if groups == 1 else 's'}, {verdict.reason}"


def explain_together(
    queries: list[Flwr], choice: Choice, optimisation: Optimisation, graph: ElementGraph | None
) -> list[str]:
    """The shared plan of queries, and for each the rules that fired on its own plan or did not."""
    together = plan_together(queries, choice, optimisation, graph)
    lines = [shared_plan_text(together.plans())]
    for number, query in enumerate(queries, start=1):
        planned = Planned(query, together.strategy, optimisation, graph, sharing=True)
        lines += [f"query {number}: {line}" for line in planned.explain()]
        if choice is Choice.AUTO and Transformer(query, choice).groups is not None:
            lines.append(
                f"query {number}: the broker groups it in the matcher instead; "
                "explain it alone to see that plan"
            )
    return lines


def plan_together(
    queries: list[Flwr], choice: Choice, optimisation: Optimisation, graph: ElementGraph | None
) -> PlannedTogether[int]:
    """One shared plan, with path streams: fwr's if the strategy is left to us."""
    if choice in {Choice.GROUP, Choice.REFERENCE}:
        raise click.UsageError(
            f"{choice} has no plan with path streams, which queries could share and --dot could "
            "draw; give --strategy f, fw or fwr, or explain one query without --dot"
        )
    strategy = Strategy.FWR if choice is Choice.AUTO else Strategy(choice.value)
    together: PlannedTogether[int] = PlannedTogether(strategy, optimisation, graph)
    for number, query in enumerate(queries):
        try:
            together.add(number, query)
        except NotPlannedError as error:
            raise click.UsageError(f"query {number + 1} has no plan to share: {error}") from None
    return together


def describe(filters: list[Filter]) -> dict[str, Any]:
    """The shape of filters, and the size of the automaton that has them."""
    engine = YFilter()
    for query in filters:
        engine.add(query)
    automaton = engine.young
    indexes = automaton.tests.by_value
    return {
        **asdict(shape_of(filters)),
        "states": automaton.nfa.states,
        "patterns": len(automaton.patterns),
        "tests": {where: index.size() for where, index in sorted(indexes.items())},
        "positions": sum(map(len, automaton.tests.positions.values())),
        "verified": len(automaton.verified),
    }


def show(figures: dict[str, Any]) -> None:
    """Print the figures for people."""
    console = Console(highlight=False, markup=False)
    steps, shared = figures["steps"], figures["shared_steps"]
    table = Table(show_header=False, box=None)
    rows = {
        "filters": f"{figures['filters']:,}, {figures['distinct']:,} distinct",
        "steps of their paths": f"{steps:,}, as {shared:,} states: {1 - shared / steps:.0%} shared"
        if steps
        else "0",
        "states by depth": " ".join(f"{count:,}" for count in figures["states_by_depth"]),
        "states in all": f"{figures['states']:,}, with those of nested paths",
        "patterns": f"{figures['patterns']:,}, for predicates and nested paths",
        "verified": f"{figures['verified']:,}, which the automaton can't decide by itself",
        "active at once": f"{figures['active_states']:,} states at most",
        "cache demanded": f"{figures['cache_demand']:,} bytes a label path at most",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)
    if figures["tests"] or figures["positions"]:
        tests = Table("value tests on", "=", "order", "other", box=None)
        for where, (equal, ordered, other) in figures["tests"].items():
            name = where if where in {".", "text()"} else f"@{where}"
            tests.add_row(name, f"{equal:,}", f"{ordered:,}", f"{other:,}")
        if figures["positions"]:
            tests.add_row("position()", "", "", f"{figures['positions']:,}")
        console.print(tests)
    if figures["shared_beginnings"]:
        beginnings = Table("shared beginning", "paths", box=None)
        for text, count in figures["shared_beginnings"]:
            beginnings.add_row(text, f"{count:,}")
        console.print(beginnings)

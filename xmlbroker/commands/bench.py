"""`xmlbroker bench`: the figures of the documentation, measured on this machine."""

from typing import Any

import click
from rich.console import Console
from rich.table import Table

from xmlbroker.bench import filter as filter_bench
from xmlbroker.bench import growth as growth_bench
from xmlbroker.bench import nested as nested_bench
from xmlbroker.bench import parse as parse_bench
from xmlbroker.bench import predicates as predicates_bench
from xmlbroker.bench import reload as reload_bench
from xmlbroker.bench import transform as transform_bench
from xmlbroker.context import print_json

ROUNDS = click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=15,
    show_default=True,
    help="How often each is timed.",
)

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the figures as a JSON line.")


@click.group()
def bench() -> None:
    """Measure. Every figure is a ratio to something timed in the same run."""


@bench.command("parse")
@ROUNDS
@AS_JSON
def bench_parse(rounds: int, as_json: bool) -> None:
    """Queries against lxml's XPath compiler, node tables against bare parsing."""
    figures = parse_bench.run(rounds)
    if as_json:
        print_json(figures)
        return
    show(figures, ("queries", "messages"))
    memory: Any = figures["memory"]
    click.echo(
        f"memory per message: bare tree {memory['bare_tree_kb']:.1f} kB, "
        f"node table {memory['node_table_kb']:.1f} kB, ratio {memory['ratio']:.2f}"
    )


@bench.command("filter")
@ROUNDS
@AS_JSON
def bench_filter(rounds: int, as_json: bool) -> None:
    """Predicate-free filters against bare parsing and against lxml's XPath one by one."""
    figures: Any = filter_bench.run(rounds)
    if as_json:
        print_json(figures)
        return
    table = Table("queries", "matches", "µs", "ratio to parsing", "listed", "to XPaths", "to texts")
    for part in figures["parts"]:
        _, matched, listed = part["timings"]
        table.add_row(
            f"{part['queries']:,}",
            f"{part['matches_per_message']:.0f}",
            f"{matched['microseconds']:.0f}",
            f"{matched['ratio']:.2f} ({matched['ratio_low']:.2f} … {matched['ratio_high']:.2f})",
            f"{listed['ratio']:.2f}",
            f"{part['one_by_one']['compiled']:.0f}x",
            f"{part['one_by_one']['texts']:.0f}x",
        )
    Console().print(table)


@bench.command("predicates")
@ROUNDS
@AS_JSON
def bench_predicates(rounds: int, as_json: bool) -> None:
    """100,000 filters with one value predicate each, against the same without."""
    figures: Any = predicates_bench.run(rounds)
    if as_json:
        print_json(figures)
        return
    show_pairs(figures["workload"], [(f"{figures['queries']:,}", figures)])


@bench.command("nested")
@ROUNDS
@AS_JSON
def bench_nested(rounds: int, as_json: bool) -> None:
    """50,000 filters with one, two and three nested paths, against the same flattened."""
    figures: Any = nested_bench.run(rounds)
    if as_json:
        print_json(figures)
        return
    rows = [(f"{part['queries']:,} x {part['nested_paths']}", part) for part in figures["parts"]]
    show_pairs(figures["workload"], rows)


@bench.command("reload")
@ROUNDS
@AS_JSON
def bench_reload(rounds: int, as_json: bool) -> None:
    """1,000 filters added and 1,000 removed between two messages, at 100,000."""
    figures: Any = reload_bench.run(rounds)
    if as_json:
        print_json(figures)
        return
    table = Table("", "messages of matching", title=f"{figures['workload']}, medians")
    changes = f"{figures['changes']:,}"
    table.add_row(
        f"{changes} adds and {changes} removes at {figures['queries']:,} filters",
        f"{figures['change_in_messages']:.1f}",
    )
    table.add_row("what the 100 messages after it take more", f"{figures['later_in_messages']:.1f}")
    table.add_row("the slowest of them, against its usual time", f"{figures['slowest']:.1f}")
    table.add_row("their median, likewise", f"{figures['median']:.2f}")
    Console().print(table)


@bench.command("growth")
@ROUNDS
@AS_JSON
def bench_growth(rounds: int, as_json: bool) -> None:
    """10,000, 100,000 and 1,000,000 filters of which twenty match a message; memory, loading."""
    figures: Any = growth_bench.run(rounds)
    if as_json:
        print_json(figures)
        return
    columns = "queries matches µs to_parsing growth loading memory per_query again"
    table = Table(*(each.replace("_", " ") for each in columns.split()), title=figures["workload"])
    for part in figures["parts"]:
        table.add_row(
            f"{part['queries']:,}",
            f"{part['matches_per_message']:.0f}",
            f"{part['microseconds']:.0f}",
            f"{part['ratio']:.2f}",
            f"{part['growth']:.2f}",
            f"{part['loading_seconds']:.1f} s",
            f"{part['megabytes']:,.0f} MB",
            f"{part['bytes_per_query']:,.0f} B",
            f"{part['bytes_per_duplicate']:.0f} B",
        )
    Console().print(table)


@bench.command("transform")
@ROUNDS
@AS_JSON
def bench_transform(rounds: int, as_json: bool) -> None:
    """FLWR queries on recursive messages, against bare parsing; the message factory."""
    figures: Any = transform_bench.run(rounds)
    if as_json:
        print_json(figures)
        return
    table = Table(
        "queries",
        "matching",
        "µs",
        "found, to parsing",
        "groups",
        "µs a group",
        "delivered, to parsing",
        "1,000 adds",
    )
    for part in figures["parts"]:
        found, delivered = part["timings"][2], part["timings"][4]
        table.add_row(
            f"{part['queries']:,}",
            f"{part['matching_queries']:.0f}",
            f"{found['microseconds']:.0f}",
            f"{found['ratio']:.2f} ({found['ratio_low']:.2f} … {found['ratio_high']:.2f})",
            f"{part['groups']:.0f}",
            f"{part['microseconds_per_group']:.2f}",
            f"{delivered['ratio']:.2f}",
            f"{part['adds_in_messages']:.1f} messages",
        )
    Console().print(table)
    shared = Table("queries", "operators", "shared", "ms shared", "ms alone", "ratio")
    for part in figures["sharing"]:
        together, alone = part["timings"]
        shared.add_row(
            f"{part['queries']:,}",
            f"{part['operators']:,}",
            f"{part['shared_operators']:,}",
            f"{together['microseconds'] / 1000:.1f}",
            f"{alone['microseconds'] / 1000:.0f}",
            f"{alone['ratio']:.0f}",
        )
    Console().print(shared)
    parts = figures["strategies"]
    plans = Table("plan, each query alone, bibs", *(f"{part['queries']:,}" for part in parts))
    for timings in zip(*(part["timings"] for part in parts), strict=True):
        plans.add_row(
            timings[0]["name"],
            *(f"{each['microseconds'] / 1000:.0f} ms, {each['ratio']:.2f}" for each in timings),
        )
    Console().print(plans)
    factory = figures["factory"]
    click.echo(
        f"message factory: {factory['megabytes_per_second']:.0f} MB/s, "
        f"{factory['ratio']:.2f} of lxml.tostring of the same nodes"
    )


def show_pairs(workload: str, rows: list[tuple[str, dict[str, Any]]]) -> None:
    """Print what was timed against its yardstick, a row each."""
    table = Table("queries", "against", "µs", "", "µs", "ratio", title=workload)
    for queries, part in rows:
        base, *others = part["timings"]
        for own in others:
            table.add_row(
                queries,
                base["name"],
                f"{base['microseconds']:.0f}",
                own["name"],
                f"{own['microseconds']:.0f}",
                f"{own['ratio']:.2f} ({own['ratio_low']:.2f} … {own['ratio_high']:.2f})",
            )
    Console().print(table)


def show(figures: dict[str, Any], sections: tuple[str, ...]) -> None:
    """Print the timings of a benchmark as tables."""
    console = Console()
    for section in sections:
        part = figures[section]
        title = f"{part['count']} {section} ({figures['workload']})"
        table = Table("", "µs each", "ratio", "10 % … 90 % of rounds", title=title)
        for timing in part["timings"]:
            spread = f"{timing['ratio_low']:.2f} … {timing['ratio_high']:.2f}"
            table.add_row(
                timing["name"], f"{timing['microseconds']:.1f}", f"{timing['ratio']:.2f}", spread
            )
        console.print(table)


@bench.command("metrics")
@ROUNDS
@click.option(
    "--messages", default=80_000, show_default=True, help="Messages for the pipeline; 0: not there."
)
@AS_JSON
def bench_metrics(rounds: int, messages: int, as_json: bool) -> None:
    """What counting costs, a worker and the whole pipeline: with all of it, against none."""
    from xmlbroker.bench import metrics  # noqa: PLC0415 - imports Spark

    figures: Any = metrics.run(rounds)
    if messages:
        figures["pipeline"] = metrics.in_pipeline(messages)
    if as_json:
        print_json(figures)
        return
    show(figures, ("batches",))
    if messages:
        pipeline = figures["pipeline"]
        click.echo(
            f"pipeline, {pipeline['batches']} batches of {pipeline['messages_a_batch']:,}: "
            f"{pipeline['counted_seconds']:.3f} s counted, {pipeline['uncounted_seconds']:.3f} s "
            f"not; ratio {pipeline['ratio']:.3f} ({pipeline['ratio_low']:.3f} … "
            f"{pipeline['ratio_high']:.3f}), the median and the middle half of "
            f"{pipeline['pairs']} batches against their neighbours"
        )


@bench.command("soak")
@click.option("--subscriptions", default=10_000, show_default=True, help="How many there are.")
@click.option("--rate", default=500, show_default=True, help="Messages a second.")
@click.option("--minutes", default=60.0, show_default=True, help="How long.")
@AS_JSON
def bench_soak(*, subscriptions: int, rate: int, minutes: float, as_json: bool) -> None:
    """A steady load with changing subscriptions for long: whether anything grows."""
    from xmlbroker.bench import soak  # noqa: PLC0415 - imports Spark

    figures: Any = soak.run(subscriptions, rate, minutes)
    if as_json:
        print_json(figures)
        return
    samples = figures["samples"]
    table = Table("", "first", "last", "last quarter to first", title=f"{minutes:g} minutes")
    for name, growth in figures["growth"].items():
        first, last = samples[0][name], samples[-1][name]
        table.add_row(name, f"{first:,.0f}", f"{last:,.0f}", f"{growth:.2f}")
    Console().print(table)


@bench.command("pipeline")
@click.option("--subscriptions", default=10_000, show_default=True, help="How many there are.")
@click.option(
    "--filters",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="The share of them that are filters.",
)
@click.option("--messages", default=20_000, show_default=True, help="The backlog to be read.")
@click.option(
    "--seconds",
    default=20.0,
    show_default=True,
    help="How long to measure latency; with --changes, how long there are none in between.",
)
@click.option("--rounds", default=3, show_default=True, help="How often the jobs take turns.")
@click.option(
    "--changes", default=0, help="Instead: make so many changes under load, and see what they do."
)
@click.option("--rate", default=200, show_default=True, help="Messages a second with --changes.")
@AS_JSON
def bench_pipeline(
    *,
    subscriptions: int,
    filters: float,
    messages: int,
    seconds: float,
    rounds: int,
    changes: int,
    rate: int,
    as_json: bool,
) -> None:
    """The broker on Spark and Kafka, against an identity job with as many output records."""
    from xmlbroker.bench import pipeline, pipeline_changes  # noqa: PLC0415 - imports Spark

    if changes:
        changing = pipeline_changes.run(
            subscriptions, filters, changes, rate, seconds=seconds, rounds=rounds
        )
        print_json(changing)
        return
    figures: Any = pipeline.run(subscriptions, filters, messages, seconds, rounds)
    if as_json:
        print_json(figures)
        return
    table = Table("", "broker", "identity job", "ratio", title=f"{subscriptions:,} subscriptions")
    measured = figures["throughput"]
    rates = measured["messages_a_second"]
    kinds = (
        ("identity", "as many whole messages"),
        ("same_bytes", "as many bytes"),
        ("once", "each message once"),
    )
    for name, what in kinds:
        table.add_row(
            f"messages a second, {what}",
            f"{rates['broker']:,.0f}",
            f"{rates[name]:,.0f}",
            f"{measured[f'to_{name}']['ratio']:.2f}",
        )
    for which in ("p50", "p99") if "latency" in figures else ():
        part = figures["latency"][which]
        for name, what in kinds:
            table.add_row(
                f"{which} at {figures['latency']['messages_a_second']} messages a second, {what}",
                f"{part['broker']:.0f} ms",
                f"{part[name]:.0f} ms",
                f"{part[f'to_{name}']['ratio']:.2f}",
            )
    Console().print(table)
    click.echo(
        f"{figures['throughput']['records_a_message']:.1f} records a message; "
        f"start with these subscriptions {sum(figures['start_seconds'].values()):.1f} s"
    )

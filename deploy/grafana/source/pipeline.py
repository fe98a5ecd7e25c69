"""Where does the time go? Batches by phase, workers by stage, and what a message costs."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from deploy.grafana.source import panels
from deploy.grafana.source.expressions import mean, quantile, rate, share
from deploy.grafana.source.panels import Panel, Query, lines, spread

_PHASES = 'phase!="triggerExecution"'
"""Spark's name for the whole, beside its parts."""


def _batches() -> list[Panel]:
    phases = rate("batch_phase_seconds_total", _PHASES, by="phase")
    return [
        lines(
            "Where does the time of a batch go?",
            "s",
            "The mean batch by Spark's phases. addBatch is the work itself: reading, matching, "
            "writing. The others are what Spark and Kafka need for each batch.",
            Query(f"{phases} / ignoring (phase) group_left {rate('batches_total')}", "{{phase}}"),
            stacked=True,
        ),
        lines(
            "How long does a batch take?",
            "s",
            "Half of all batches, and 95 of 100, took at most so long.",
            Query(quantile(0.5, "batch_seconds"), "p50"),
            Query(quantile(0.95, "batch_seconds"), "p95"),
        ),
        lines(
            "How many messages does a batch have?",
            "short",
            "Few, at a low rate. The setting job.max_messages_per_batch is the most.",
            Query(mean("messages_total", "batches_total"), "messages"),
        ),
        spread(
            "How are the latencies spread?",
            "s",
            "How many messages took how long from published to written.",
            rate("latency_seconds_bucket", by="le"),
        ),
    ]


def _workers() -> list[Panel]:
    spent = rate("stage_seconds_total", by="stage")
    return [
        lines(
            "Where does the time of the workers go?",
            "percentunit",
            "Time of all workers' engines by stage: 100 % is one core, all the time.",
            Query(spent, "{{stage}}"),
            stacked=True,
        ),
        lines(
            "What does a message cost?",
            "s",
            "Time of the engines for a message, by stage.",
            Query(f"{spent} / ignoring (stage) group_left {rate('messages_total')}", "{{stage}}"),
            stacked=True,
        ),
        lines(
            "How long does each stage take, once?",
            "s",
            "A message is parsed and matched once; each distinct transformation that it has "
            "results for is answered once, and each of its outputs is made once.",
            Query(mean("stage_seconds_total", "stage_runs_total", by="stage"), "{{stage}}"),
        ),
        lines(
            "How often is a label path in the cache?",
            "percentunit",
            "The share of look-ups that the determinised automaton answers. Near 100 % unless "
            "shapes of messages or subscriptions change all the time.",
            Query("1 - " + share(rate("cache_misses_total"), rate("cache_look_ups_total")), "hits"),
        ),
    ]


def _messages() -> list[Panel]:
    return [
        lines(
            "How much does a message match?",
            "short",
            "Distinct queries with a result, groups that transformations make, and records that "
            "are written, for a message.",
            Query(mean("matches_total", "messages_total"), "queries"),
            Query(mean("bindings_total", "messages_total"), "groups"),
            Query(mean("deliveries_total", "messages_total"), "records"),
        ),
        lines(
            "How large are messages and results?",
            "bytes",
            "Mean sizes of the values.",
            Query(mean("input_bytes_total", "messages_total"), "message"),
            Query(mean("output_bytes_total", "deliveries_total"), "result"),
        ),
        lines(
            "How many messages come in?",
            "mps",
            "Messages that batches had, of the chosen topics.",
            Query(rate("messages_total", by="topic"), "{{topic}}"),
        ),
        lines(
            "How many bytes go in and out?",
            "Bps",
            "Of the values of messages, and of results.",
            Query(rate("input_bytes_total"), "in"),
            Query(rate("output_bytes_total"), "out"),
        ),
    ]


def dashboard() -> Dashboard:
    """The dashboard *Pipeline*."""
    return panels.dashboard(
        "xmlbroker-pipeline",
        "xmlbroker: Pipeline",
        "Where does the time go?",
        [("Batches", _batches()), ("Workers", _workers()), ("Messages and results", _messages())],
    )

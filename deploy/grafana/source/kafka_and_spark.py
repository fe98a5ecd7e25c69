"""What is below the broker: is Kafka read, does Spark keep up, how much memory do they have?"""

from grafana_foundation_sdk.models.dashboard import Dashboard

from deploy.grafana.source import panels
from deploy.grafana.source.expressions import RATE, increase, metric, rate
from deploy.grafana.source.panels import Limits, Panel, Query, lines, number, yes_or_no

_OVERHEAD = 'phase!~"triggerExecution|addBatch"'
"""The phases of a batch that are not the work itself."""


def _now() -> list[Panel]:
    return [
        yes_or_no(
            "Does Prometheus reach it?",
            "Whether the last scrape of /metrics was answered.",
            'min(up{job="$job"})',
        ),
        number(
            "How long is this batch under way?",
            "s",
            "0 between batches. One that hangs is seen here, and nowhere else.",
            f"max({metric('batch_running_seconds')})",
            Limits(60, 300),
        ),
        number(
            "How long ago was the last batch?",
            "s",
            "Batches are made when messages come: without messages this grows, and is no fault.",
            f"time() - max({metric('batch_timestamp_seconds')} > 0)",
        ),
        number(
            "How many batches were written again?",
            "short",
            "For a topic's sake, in the time that is shown: an output topic was gone, refused us, "
            "or took no records of that size.",
            increase("retried_writes_total"),
            Limits(1, 10),
        ),
        number(
            "How many workers built an engine?",
            "short",
            "In the time that is shown. A worker that dies or idles for long is replaced, and "
            "builds its engine before its first message.",
            increase("engine_builds_total"),
        ),
        number(
            "How long does a scrape take?",
            "s",
            "The answer of /metrics, as Prometheus sees it.",
            'max(scrape_duration_seconds{job="$job"})',
            Limits(0.5, 2),
        ),
    ]


def _kafka() -> list[Panel]:
    return [
        lines(
            "Is each topic read?",
            "mps",
            "Messages that batches had, by topic.",
            Query(rate("messages_total", by="topic"), "{{topic}}"),
        ),
        lines(
            "How far behind is each topic?",
            "short",
            "Messages that were not read yet when the last batch was planned.",
            Query(f"sum by (topic) ({metric('lag_messages', by_topic=True)})", "{{topic}}"),
        ),
        lines(
            "How many records are written?",
            "recps",
            "Results and dead letters.",
            Query(rate("deliveries_total"), "results"),
            Query(rate("dead_letters_total"), "dead letters"),
        ),
        lines(
            "How many bytes does Kafka take and give?",
            "Bps",
            "Of the values of messages, and of results.",
            Query(rate("input_bytes_total"), "read"),
            Query(rate("output_bytes_total"), "written"),
        ),
    ]


def _spark() -> list[Panel]:
    overhead = rate("batch_phase_seconds_total", _OVERHEAD, by="phase")
    return [
        lines(
            "How busy is the stream?",
            "percentunit",
            "The share of time in which a batch is under way, and in which it does the work "
            "itself. While messages come all the time one batch follows the other: 100 % alone is "
            "no trouble, full batches are.",
            Query(rate("batch_phase_seconds_total", 'phase="triggerExecution"'), "batch"),
            Query(rate("batch_phase_seconds_total", 'phase="addBatch"'), "work"),
        ),
        lines(
            "What does a batch cost beside the work?",
            "s",
            "Asking Kafka for offsets, planning, writing the checkpoint: for each batch, however "
            "many messages it has.",
            Query(f"{overhead} / ignoring (phase) group_left {rate('batches_total')}", "{{phase}}"),
            stacked=True,
        ),
        lines(
            "How many batches are there?",
            "cps",
            "Batches that were committed.",
            Query(rate("batches_total"), "batches"),
        ),
        lines(
            "Do workers have to build engines?",
            "short",
            "Engines that were built from the beginning, in each interval: at the start, and when "
            "workers are replaced.",
            Query(increase("engine_builds_total", within=RATE), "built"),
        ),
    ]


def _memory() -> list[Panel]:
    return [
        lines(
            "How much memory does each process have?",
            "bytes",
            "Resident memory of the driver's Python, of its JVM, and of the largest worker.",
            Query(f"max by (process) ({metric('memory_bytes')})", "{{process}}"),
        ),
        lines(
            "How near is the limit?",
            "bytes",
            "All that is in use in the driver's container, or on its machine, and how much there "
            "is.",
            Query(f"max({metric('memory_used_bytes')})", "in use"),
            Query(f"max({metric('memory_limit_bytes')})", "limit"),
        ),
    ]


def dashboard() -> Dashboard:
    """The dashboard *Kafka and Spark*."""
    return panels.dashboard(
        "xmlbroker-kafka-and-spark",
        "xmlbroker: Kafka and Spark",
        "Is what is below the broker well?",
        [("Now", _now()), ("Kafka", _kafka()), ("Spark", _spark()), ("Memory", _memory())],
    )

"""Is it healthy? What an operator looks at first, and what the alerts are about."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from deploy.grafana.source import panels
from deploy.grafana.source.expressions import increase, mean, metric, quantile, rate, share
from deploy.grafana.source.panels import Limits, Panel, Query, bars, lines, number, yes_or_no
from streaming_jobs.metrics import RESULT_CODES

REFUSED_FOR_ALL = f'code!~"{"|".join(RESULT_CODES)}"'
"""The dead letters that the message is to blame for, not one subscription."""


def _now() -> list[Panel]:
    return [
        yes_or_no(
            "Is it ready?",
            "Subscriptions are replayed, the stream runs, Kafka answers. If not, the endpoint "
            "/ready has the reason.",
            f"min({metric('ready')})",
        ),
        number(
            "How many alerts fire?",
            "short",
            "Of the rules in deploy/prometheus/alerts.yml; each links to what to do.",
            'count(ALERTS{job="$job", alertstate="firing"}) or vector(0)',
            Limits(1, 3),
        ),
        number(
            "How long do 99 of 100 messages take?",
            "s",
            "From the timestamp of the source record until the output of its batch was "
            "acknowledged.",
            quantile(0.99, "latency_seconds"),
            Limits(2, 5),
        ),
        number(
            "How many messages wait?",
            "short",
            "Not read yet when the last batch was planned, in the chosen topics.",
            f"sum({metric('lag_messages', by_topic=True)})",
            Limits(4_000, 10_000),
        ),
        number(
            "What share of messages is refused?",
            "percentunit",
            "Dead letters that the message is to blame for: not well-formed, too large, too deep.",
            share(rate("dead_letters_total", REFUSED_FOR_ALL), rate("messages_total")),
            Limits(0.01, 0.05),
        ),
        number(
            "How full are the batches?",
            "percentunit",
            "Mean messages of a batch, of the most that it may have. When they are full, messages "
            "wait for the next one: more come than can be processed.",
            f"{mean('messages_total', 'batches_total')} / max({metric('batch_limit_messages')})",
            Limits(0.5, 0.9),
        ),
    ]


def _flow() -> list[Panel]:
    return [
        lines(
            "What goes in, and what comes out?",
            "cps",
            "Messages that were read, records that were written to output topics, dead letters.",
            Query(rate("messages_total", by="topic"), "in: {{topic}}"),
            Query(rate("deliveries_total"), "results"),
            Query(rate("dead_letters_total"), "dead letters"),
        ),
        lines(
            "How long do messages take?",
            "s",
            "From published to written, of half, of 95 and of 99 of 100 messages. No line: there "
            "were none.",
            *(Query(quantile(each, "latency_seconds"), f"p{each * 100:g}") for each in _QUANTILES),
        ),
        lines(
            "Does the lag grow?",
            "short",
            "Messages of each topic that were not read yet when the last batch was planned.",
            Query(f"sum by (topic) ({metric('lag_messages', by_topic=True)})", "{{topic}}"),
        ),
        bars(
            "Why are there dead letters?",
            "short",
            "Dead letters in the time that is shown, by reason, the ten most frequent.",
            Query(f"topk(10, {increase('dead_letters_total', by='code')})", "{{code}}"),
        ),
    ]


def _state() -> list[Panel]:
    return [
        number(
            "How many subscriptions are active?",
            "short",
            "Those that messages are matched with.",
            f"sum({metric('subscriptions', _state_is('active'))})",
        ),
        number(
            "How many are refused?",
            "short",
            "Keys whose last record was refused. The status topic has the reasons.",
            f"sum({metric('subscriptions', _state_is('rejected'))})",
        ),
        number(
            "How many get nothing?",
            "short",
            "Subscriptions that are suspended: their output topic is gone or can't be written.",
            f"sum({metric('subscriptions', _state_is('suspended'))})",
            Limits(1, 10),
        ),
        number(
            "How many results were over budget?",
            "short",
            "Results of one subscription for one message that were refused for their size, in the "
            "time that is shown.",
            increase("budget_overruns_total"),
            Limits(1, 100),
        ),
        number(
            "How long ago was the last batch?",
            "s",
            "Batches are made when messages come: without messages this grows, and is no fault.",
            f"time() - max({metric('batch_timestamp_seconds')} > 0)",
        ),
        number(
            "How full is the memory?",
            "percentunit",
            "Of the container or machine of the driver, by all its processes.",
            f"max({metric('memory_used_bytes')} / {metric('memory_limit_bytes')})",
            Limits(0.8, 0.9),
        ),
    ]


_QUANTILES = (0.5, 0.95, 0.99)


def _state_is(state: str) -> str:
    return f'state="{state}"'


def dashboard() -> Dashboard:
    """The dashboard *Overview*."""
    return panels.dashboard(
        "xmlbroker-overview",
        "xmlbroker: Overview",
        "Is it healthy?",
        [("Now", _now()), ("Messages", _flow()), ("Subscriptions and memory", _state())],
    )

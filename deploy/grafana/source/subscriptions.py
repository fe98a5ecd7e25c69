"""What do the subscriptions do to the broker: changes, rejections, cost.

Who among them is slow or large is no question for Prometheus, which would have to know each by
name: `xmlbroker top` answers it.
"""

from grafana_foundation_sdk.models.dashboard import Dashboard

from deploy.grafana.source import panels
from deploy.grafana.source.expressions import RATE, increase, mean_since_start, metric, rate
from deploy.grafana.source.panels import Limits, Panel, Query, lines, number


def _now() -> list[Panel]:
    return [
        number(
            "How many are active?",
            "short",
            "Subscriptions that messages are matched with.",
            f"sum({metric('subscriptions', _ACTIVE)})",
        ),
        number(
            "Which version is in force?",
            "none",
            "The offset of the last record of the subscription topic that was taken.",
            f"max({metric('subscription_version')})",
        ),
        number(
            "How many records were refused?",
            "short",
            "Subscription records, in the time that is shown. The status topic has the reasons, "
            "and `xmlbroker top` the last of them.",
            increase("rejected_records_total"),
            Limits(1, 100),
        ),
        number(
            "How many records have no usable key?",
            "short",
            "Nobody can be told about them: there is no key to put a status under.",
            f"max({metric('unusable_subscription_records')})",
            Limits(1, 100),
        ),
        number(
            "How long does a change take?",
            "s",
            "The mean time in which a worker's engine takes the changes that came since its last "
            "batch, since the start.",
            mean_since_start("reload_seconds_total", "reloads_total"),
            Limits(0.1, 1),
        ),
        number(
            "What does building an engine take?",
            "s",
            "A new worker builds its engine from all subscriptions; the mean since the start.",
            mean_since_start("engine_build_seconds_total", "engine_builds_total"),
        ),
    ]


def _changes() -> list[Panel]:
    return [
        lines(
            "In which states are they?",
            "short",
            "Rejected are keys whose last record was refused: an earlier one may be in force.",
            Query(f"sum by (state) ({metric('subscriptions')})", "{{state}}"),
        ),
        lines(
            "How often do they change?",
            "short",
            "Records of the subscription topic in each interval, those that were refused, and how "
            "often workers took changes. A restart reads all records again.",
            Query(f"clamp_min(max(delta({metric('subscription_version')}[{RATE}])), 0)", "records"),
            Query(increase("rejected_records_total", within=RATE), "refused"),
            Query(increase("reloads_total", within=RATE), "taken by workers"),
        ),
    ]


def _cost() -> list[Panel]:
    spent = rate("stage_seconds_total", 'stage!="parse"', by="stage")
    return [
        lines(
            "What do they cost a message?",
            "s",
            "Time of the engines for a message, beyond parsing it.",
            Query(f"{spent} / ignoring (stage) group_left {rate('messages_total')}", "{{stage}}"),
            stacked=True,
        ),
        lines(
            "How many messages do they look at?",
            "mps",
            "Each is matched with all of them, at once.",
            Query(rate("messages_total", by="topic"), "{{topic}}"),
        ),
        lines(
            "How many results are over their budget?",
            "cps",
            "A result that would be too large for its message is refused, and the message is a "
            "dead letter for that subscription.",
            Query(rate("budget_overruns_total"), "over budget"),
        ),
        lines(
            "How much do they ask for?",
            "Bps",
            "Bytes of results; `xmlbroker top` says who gets most of them.",
            Query(rate("output_bytes_total"), "results"),
        ),
    ]


def _size() -> list[Panel]:
    return [
        lines(
            "How large is the automaton?",
            "short",
            "States of the NFA, what is determinised of it, and the states that all filters can "
            "keep active at once.",
            Query(f"max by (kind) ({metric('automaton_states')})", "{{kind}}"),
            Query(f"max({metric('active_states_bound')})", "active at most"),
        ),
        lines(
            "How many distinct queries are there?",
            "short",
            "Equal queries are one. Filters are counted with those that transformations need; "
            "transformations by how they are answered.",
            Query(f"max({metric('matcher_queries')})", "filters"),
            Query(f"max by (way) ({metric('transformations')})", "transformations: {{way}}"),
        ),
        lines(
            "How much memory does the determinised automaton take?",
            "bytes",
            "In each worker. It is bounded; past the bound the NFA is stepped.",
            Query(f"max({metric('automaton_cache_bytes')})", "cache"),
        ),
        lines(
            "Are plans put aside for want of a DTD?",
            "cps",
            "Plans that lean on a DTD, for messages that don't conform to it: the slower plan "
            "answers them.",
            Query(rate("dtd_fallbacks_total"), "fall-backs"),
        ),
    ]


_ACTIVE = 'state="active"'


def dashboard() -> Dashboard:
    """The dashboard *Subscriptions*."""
    return panels.dashboard(
        "xmlbroker-subscriptions",
        "xmlbroker: Subscriptions",
        "What changes, what is refused, what do they cost?",
        [("Now", _now()), ("Changes", _changes()), ("Cost", _cost()), ("Size", _size())],
    )

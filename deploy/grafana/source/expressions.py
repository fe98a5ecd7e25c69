"""PromQL of the panels, with the dashboards' variables where they belong.

One job is looked at, `$job`. Topics are chosen, `$topic`, only where something is told by topic:
the time of the workers, say, is not known by topic, and to divide it by the messages of some topics
would be wrong.
"""

RATE = "$__rate_interval"
RANGE = "$__range"


def metric(name: str, *where: str, by_topic: bool = False) -> str:
    """The series of a metric; `where` has more matchers.

    >>> metric("lag_messages", by_topic=True)
    'xmlbroker_lag_messages{job="$job", topic=~"$topic"}'
    """
    matchers = ['job="$job"', *(['topic=~"$topic"'] if by_topic else []), *where]
    return f"xmlbroker_{name}{{{', '.join(matchers)}}}"


def rate(name: str, *where: str, by: str = "", within: str = RATE) -> str:
    """How fast a counter rises in a second.

    >>> rate("stage_seconds_total", by="stage")
    'sum by (stage) (rate(xmlbroker_stage_seconds_total{job="$job"}[$__rate_interval]))'
    """
    series = metric(name, *where, by_topic=by == "topic")
    grouped = f"sum by ({by}) " if by else "sum"
    return f"{grouped}(rate({series}[{within}]))"


def increase(name: str, *where: str, by: str = "", within: str = RANGE) -> str:
    """By how much a counter rose in the time that is shown."""
    return rate(name, *where, by=by, within=within).replace("(rate(", "(increase(", 1)


def mean(total: str, count: str, *, by: str = "") -> str:
    """The mean of something whose sum and number are counted; no value when there was none."""
    return f"{rate(total, by=by)} / {rate(count, by=by)}"


def mean_since_start(total: str, count: str) -> str:
    """The mean of something that is rare; 0 if there was none of it yet."""
    return f"sum({metric(total)}) / clamp_min(sum({metric(count)}), 1)"


def share(part: str, whole: str) -> str:
    """How much of something; 0, and not "no value", when there was nothing of it.

    >>> share("a", "b")
    'a / clamp_min(b, 1e-9)'
    """
    return f"{part} / clamp_min({whole}, 1e-9)"


def quantile(share_below: float, name: str) -> str:
    """The value of a histogram that so many are below."""
    buckets = rate(f"{name}_bucket", by="le")
    return f"histogram_quantile({share_below}, {buckets})"

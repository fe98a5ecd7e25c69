"""The dashboards as Grafana reads them, and their expressions as it would send them."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARDS = DEPLOY / "grafana" / "dashboards"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"

_COMPARISON = re.compile(r" (==|!=|<=|>=|<|>) ")


class Target(NamedTuple):
    """One expression of a panel."""

    dashboard: str
    panel: str
    expression: str
    is_instant: bool


def dashboards() -> dict[str, dict[str, Any]]:
    """All files that are provisioned, by name."""
    return {each.name: json.loads(each.read_text()) for each in sorted(DASHBOARDS.glob("*.json"))}


def panels(board: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The panels of a dashboard, rows left out."""
    return [each for each in board["panels"] if each["type"] != "row"]


def targets() -> Iterator[Target]:
    """All expressions of all dashboards."""
    for name, board in dashboards().items():
        for panel in panels(board):
            for each in panel["targets"]:
                is_instant = bool(each.get("instant"))
                yield Target(name, panel["title"], each["expr"], is_instant)


def substituted(expression: str, job: str, topic: str = ".*") -> str:
    """With values for the variables."""
    values = {"$__rate_interval": "10s", "$__range": "5m", "$job": job, "$topic": topic}
    for name, value in values.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


def alerts() -> list[dict[str, Any]]:
    """All rules."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def undecided(expression: str) -> list[str]:
    """A rule's expression with 0 or 1 for its comparisons, so that it has data when it is quiet;
    its alternatives apart, so that none hides behind another.

    >>> undecided('a{b!="c"} > 0.5 and d == 1 or (e < 2) or absent(f)')
    ['a{b!="c"} > bool 0.5 and d == bool 1', '(e < bool 2)']
    """
    parts = re.split(r"\s+or\s+", expression.strip())
    return [_COMPARISON.sub(r" \1 bool ", each) for each in parts if not each.startswith("absent(")]

"""The dashboards are those that the code makes, and each panel has what a reader needs."""

import re
from itertools import combinations
from typing import Any

import pytest
import yaml

from deploy.grafana.source.__main__ import written
from streaming_jobs.metrics import Metrics
from tests.monitoring.boards import DASHBOARDS, DEPLOY, dashboards, panels, targets

BOARDS = dashboards()
EVERY_PANEL = [
    pytest.param(panel, id=f"{name}-{panel['id']}")
    for name, board in BOARDS.items()
    for panel in panels(board)
]
EVERY_BOARD = [pytest.param(board, id=name) for name, board in BOARDS.items()]
SELECTOR = re.compile(r"(\w+)\{([^}]*)\}")
ENDINGS = {"gauge": [""], "counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}
FROM_PROMETHEUS = {"up", "scrape_duration_seconds", "ALERTS"}


def test_the_files_are_those_that_the_code_makes() -> None:
    files = {each.name: each.read_text(encoding="utf-8") for each in DASHBOARDS.iterdir()}
    assert files == written(), "run `python -m deploy.grafana.source`"


def test_there_are_four() -> None:
    titles = {board["title"] for board in BOARDS.values()}
    assert titles == {
        f"xmlbroker: {each}"
        for each in ("Overview", "Pipeline", "Subscriptions", "Kafka and Spark")
    }


@pytest.mark.parametrize("panel", EVERY_PANEL)
def test_a_panel_says_what_it_shows(panel: dict[str, Any]) -> None:
    assert panel["title"].endswith("?"), "a panel answers a question"
    assert len(panel["title"]) <= 9 * panel["gridPos"]["w"], "it is cut off"
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["description"].endswith(".")
    assert panel["targets"]
    legends = [each["legendFormat"] for each in panel["targets"]]
    assert all(legends)
    assert len(set(legends)) == len(legends)


@pytest.mark.parametrize("board", EVERY_BOARD)
def test_panels_have_places_and_numbers_of_their_own(board: dict[str, Any]) -> None:
    numbers = [each["id"] for each in board["panels"]]
    assert len(set(numbers)) == len(numbers)
    titles = [each["title"] for each in panels(board)]
    assert len(set(titles)) == len(titles)
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
    for one, other in combinations(board["panels"], 2):
        assert not overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    def meet(start: str, size: str) -> bool:
        return one[start] < other[start] + other[size] and other[start] < one[start] + one[size]

    return meet("x", "w") and meet("y", "h")


def test_overlaps_are_found() -> None:
    """Else the test above could not fail."""
    place = {"x": 0, "y": 0, "w": 12, "h": 8}
    assert overlap(place, {**place, "x": 11, "y": 7})
    assert not overlap(place, {**place, "x": 12})
    assert not overlap(place, {**place, "y": 8})


@pytest.mark.parametrize("board", EVERY_BOARD)
def test_variables_are_there_and_used(board: dict[str, Any]) -> None:
    names = [each["name"] for each in board["templating"]["list"]]
    assert names == ["datasource", "job", "topic"]
    text = " ".join(each["expr"] for panel in panels(board) for each in panel["targets"])
    assert "$job" in text
    assert "$topic" in text
    for panel in panels(board):
        sources = [panel["datasource"], *(each["datasource"] for each in panel["targets"])]
        assert {each["uid"] for each in sources} == {"${datasource}"}


def test_every_series_is_chosen_by_the_variables_and_exists() -> None:
    known = FROM_PROMETHEUS | {
        f"{family.name}{ending}"
        for family in Metrics().registry.collect()
        for ending in ENDINGS[family.type]
    }
    for target in targets():
        selectors = SELECTOR.findall(target.expression)
        assert selectors, target
        bare = re.findall(r"\bxmlbroker_\w+\b(?!\{)", target.expression)
        assert not bare, f"{target.panel}: {bare} of all jobs"
        for name, matchers in selectors:
            assert 'job="$job"' in matchers, target
            assert name in known, target
        if "by (topic)" in target.expression:
            assert 'topic=~"$topic"' in target.expression, target


def test_every_metric_is_on_some_panel() -> None:
    """What nobody looks at need not be measured."""
    shown = {name for each in targets() for name, _ in SELECTOR.findall(each.expression)}
    for family in Metrics().registry.collect():
        assert any(name.startswith(family.name) for name in shown), family.name


def test_grafana_is_told_where_they_are() -> None:
    provisioning = DEPLOY / "grafana" / "provisioning"
    compose = yaml.safe_load((DEPLOY.parent / "docker-compose.yml").read_text())
    mounted = dict(each.split(":")[:2] for each in compose["services"]["grafana"]["volumes"])
    (provider,) = yaml.safe_load((provisioning / "dashboards/xmlbroker.yml").read_text())[
        "providers"
    ]
    assert mounted["./deploy/grafana/dashboards"] == provider["options"]["path"]
    assert mounted["./deploy/grafana/provisioning"] == "/etc/grafana/provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in compose["services"]
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert source["jsonData"]["timeInterval"] == scraped["global"]["scrape_interval"]

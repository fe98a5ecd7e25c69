"""The alert rules: each is right by promtool, fires when it should, and leads to a runbook."""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from streaming_jobs.metrics import RESULT_CODES
from tests.monitoring.boards import ALERTS, DEPLOY, alerts
from tests.monitoring.prometheus_server import program

RULE_TESTS = sorted((DEPLOY / "prometheus" / "tests").glob("*.yml"))
INSTALL = DEPLOY / "install-prometheus.sh"
EVERY_ALERT = [pytest.param(each, id=each["alert"]) for each in alerts()]


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [program("promtool"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_promtool_takes_the_configuration() -> None:
    checked = promtool("check", "config", DEPLOY / "prometheus" / "prometheus.yml")
    assert checked.returncode == 0, checked.stderr
    assert f"{len(alerts())} rules found" in checked.stdout


def test_alerts_fire_when_they_should_and_only_then() -> None:
    assert len(RULE_TESTS) == 3
    checked = promtool("test", "rules", *RULE_TESTS)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("SUCCESS") == 3


def cases() -> Iterator[tuple[str, bool]]:
    """Each alert of each case, and whether it is expected to fire."""
    for file in RULE_TESTS:
        for test in yaml.safe_load(file.read_text())["tests"]:
            for case in test["alert_rule_test"]:
                yield case["alertname"], bool(case.get("exp_alerts"))


def test_each_alert_has_a_case_that_fires_and_a_quiet_one() -> None:
    names = {each["alert"] for each in alerts()}
    assert set(cases()) == {(name, fires) for name in names for fires in (True, False)}


@pytest.mark.parametrize(
    ("expression", "noticed_by"), [("vector(0) > 1", {True}), ("vector(1)", {True, False})]
)
def test_the_cases_notice_rules_that_are_wrong(
    expression: str, noticed_by: set[bool], tmp_path: Path
) -> None:
    """Alerts that never fire fail the cases that fire; those that always do fail all."""
    rules = yaml.safe_load(ALERTS.read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["expr"] = expression
            rule.pop("for", None)
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(rules))
    (tmp_path / "tests").mkdir()
    copies = [tmp_path / "tests" / each.name for each in RULE_TESTS]
    for file, copy in zip(RULE_TESTS, copies, strict=True):
        copy.write_text(file.read_text())
    checked = promtool("test", "rules", *copies)
    assert checked.returncode != 0
    failed = Counter(re.findall(r"alertname: (\w+),", checked.stdout + checked.stderr))
    assert failed == Counter(name for name, fires in cases() if fires in noticed_by)


@pytest.mark.parametrize("alert", EVERY_ALERT)
def test_an_alert_says_what_and_where_to_read_on(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    notes = alert["annotations"]
    assert notes["summary"].endswith(".")
    assert notes["description"].endswith(".")
    anchor = re.sub(r"(?<!^)(?=[A-Z])", "-", alert["alert"]).lower()
    assert notes["runbook_url"] == f"docs/operations.md#{anchor}"


def test_each_runbook_is_written() -> None:
    document = (DEPLOY.parent / "docs" / "operations.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", document, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}
    wanted = {each["annotations"]["runbook_url"].partition("#")[2] for each in alerts()}
    assert wanted - anchors == set()


def test_dead_letters_of_one_subscription_are_no_share_of_messages() -> None:
    (rule,) = [each for each in alerts() if each["alert"] == "XmlbrokerDeadLetterShareHigh"]
    (codes,) = re.findall(r'code!~"([^"]*)"', rule["expr"])
    assert codes.split("|") == list(RESULT_CODES)


def test_prometheus_reads_the_broker_of_the_compose_file() -> None:
    compose = yaml.safe_load((DEPLOY.parent / "docker-compose.yml").read_text())
    port = compose["services"]["xmlbroker"]["environment"]["XMLBROKER_JOB__METRICS_PORT"]
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (scraped,) = config["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": [f"xmlbroker:{port}"]}]
    assert scraped["metrics_path"] == "/metrics"


# Where Prometheus is missing


def run_install(tmp_path: Path, *programs: str) -> subprocess.CompletedProcess[str]:
    """Run the script where there are only these programs, as whoever is no root."""
    for name in programs:
        (tmp_path / name).write_text(f"#!/bin/sh\necho {'1000' if name == 'id' else name}\n")
        (tmp_path / name).chmod(0o755)
    return subprocess.run(
        ["/bin/sh", INSTALL],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_nothing_is_said_where_it_is_there(tmp_path: Path) -> None:
    done = run_install(tmp_path, "prometheus", "promtool")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("programs", "advice"),
    [
        (("prometheus",), "install Prometheus for them."),
        (("apt-get", "id"), "run 'sudo apt-get install prometheus' for them."),
    ],
)
def test_one_sentence_where_it_can_t_be_installed(
    tmp_path: Path, programs: tuple[str, ...], advice: str
) -> None:
    done = run_install(tmp_path, *programs)
    assert done.returncode == 0
    assert done.stderr.startswith("Tests of dashboards and alerts need prometheus and promtool")
    assert "are skipped" in done.stderr
    assert done.stderr.endswith(f"{advice}\n")
    assert done.stderr.count("\n") == 1

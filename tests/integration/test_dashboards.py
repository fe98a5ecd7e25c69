"""Every expression of every panel and alert has data: a real Prometheus reads a real broker."""

import uuid
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from kafka import KafkaAdminClient
from pyspark.sql import SparkSession

from tests.faults.traffic import wait_until
from tests.live import RunningKafka
from tests.monitoring.boards import alerts, dashboards, substituted, targets, undecided
from tests.monitoring.load import IN_A_BATCH, LoadedBroker, wait_for
from tests.monitoring.prometheus_server import PrometheusServer, Series

LOAD_SECONDS = 14.0
LOOKED_BACK_SECONDS = 8.0
PREFIX = f"dashboards-{uuid.uuid4().hex[:12]}"


class Watched(NamedTuple):
    broker: LoadedBroker
    prometheus: PrometheusServer

    def asked(self, expression: str) -> list[Series]:
        """What an expression gives: series with values, while the load goes on."""
        filled = substituted(expression, self.prometheus.job)
        found = self.prometheus.lately(filled, LOOKED_BACK_SECONDS)
        return [each for each in found if each.values]

    def last(self, expression: str) -> float:
        """The value of an expression that gives one series."""
        (series,) = self.asked(expression)
        return series.values[-1]


@pytest.fixture(scope="module")
def watched(
    kafka: RunningKafka,
    spark: SparkSession,
    admin: KafkaAdminClient,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Watched]:
    directory = tmp_path_factory.mktemp("watched")
    servers = kafka.bootstrap_servers
    with (
        LoadedBroker(spark, servers, PREFIX, directory / "checkpoint") as broker,
        PrometheusServer(directory, broker.target) as prometheus,
    ):
        watched = Watched(broker, prometheus)
        wait_until(lambda: prometheus.now("xmlbroker_ready") != [], "the first scrape")
        broker.press()
        wait_for(LOAD_SECONDS, broker)
        yield watched
        assert broker.failure is None
    admin.delete_topics([each for each in admin.list_topics() if each.startswith(f"{PREFIX}.")])


def test_every_expression_of_every_panel_has_data(watched: Watched) -> None:
    lacking = []
    for target in targets():
        found = watched.asked(target.expression)
        shown = ", ".join(f"{each.values[-1]:.4g}" for each in found[:6])
        print(f"{target.dashboard} | {target.panel} | {target.expression} | {shown}")
        if not found:
            lacking.append(target)
    assert lacking == []


def test_every_expression_of_every_alert_has_data(watched: Watched) -> None:
    for rule in alerts():
        for expression in undecided(rule["expr"]):
            found = watched.asked(expression)
            print(f"{rule['alert']} | {expression} | {[each.values[-1] for each in found]}")
            assert found, rule["alert"]


def test_the_choices_of_the_variables(watched: Watched) -> None:
    for board in dashboards().values():
        queries = {each["name"]: each["query"] for each in board["templating"]["list"]}
        assert queries["job"] == "label_values(xmlbroker_ready, job)"
        assert queries["topic"] == 'label_values(xmlbroker_messages_total{job="$job"}, topic)'
    prometheus = watched.prometheus
    assert prometheus.label_values("job", "xmlbroker_ready") == [prometheus.job]
    selector = f'xmlbroker_messages_total{{job="{prometheus.job}"}}'
    assert prometheus.label_values("topic", selector) == [f"{PREFIX}.messages"]


def test_what_the_load_does_is_seen(watched: Watched) -> None:
    """The numbers are those of the load, not just some."""
    assert watched.last("min(xmlbroker_ready)") == 1
    assert watched.last("xmlbroker_rejected_records_total") > 1
    assert watched.last("xmlbroker_budget_overruns_total") > 1
    assert watched.last('xmlbroker_subscriptions{state="active"}') > 13
    # Whether any is left over when Prometheus looks is up to the machine.
    assert watched.asked("xmlbroker_lag_messages"), "the lag of each topic"
    assert watched.last("xmlbroker_batch_limit_messages") == IN_A_BATCH
    assert watched.last("xmlbroker_reloads_total") > 0
    assert watched.last("xmlbroker_engine_builds_total") > 0
    for code in ("not-well-formed", "empty", "doctype-refused", "too-deep", "budget-exceeded"):
        assert watched.last(f'xmlbroker_dead_letters_total{{code="{code}"}}') > 0, code
    for stage in ("parse", "match", "transform", "serialise"):
        assert watched.last(f'xmlbroker_stage_seconds_total{{stage="{stage}"}}') > 0, stage
    for process in ("driver", "jvm", "worker"):
        memory = watched.last(f'xmlbroker_memory_bytes{{process="{process}"}}')
        assert 10**7 < memory < watched.last("xmlbroker_memory_limit_bytes"), process
    assert max(watched.asked("xmlbroker_batch_running_seconds")[0].values) > 0


def test_alerts_fire_on_a_real_broker(watched: Watched) -> None:
    expected = {"XmlbrokerBudgetOverruns", "XmlbrokerSubscriptionsRejected"}
    wait_until(lambda: expected <= watched.prometheus.firing(), "alerts without delay", 60)
    assert not watched.prometheus.firing() & {"XmlbrokerDown", "XmlbrokerNotReady"}

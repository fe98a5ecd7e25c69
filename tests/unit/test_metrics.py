"""Metrics and health: what is told, and in which form."""

import json
import urllib.error
import urllib.request

from streaming_jobs.health import HealthServer
from streaming_jobs.metrics import Metrics


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_a_batch_is_counted() -> None:
    metrics = Metrics()
    metrics.count_batch(
        {
            "messages": 10,
            "deliveries": 4,
            "dead_letters:too-deep": 2,
            "stage_seconds:parse": 0.5,
            "published_ms:1000": 7,
            "published_ms:1800": 3,
            "worker_memory": 5.0,
            "seconds": 1.0,
        },
        written_ms=2000,
    )
    assert value(metrics, "xmlbroker_messages_total") == 10
    assert value(metrics, "xmlbroker_dead_letters_total", code="too-deep") == 2
    assert value(metrics, "xmlbroker_stage_seconds_total", stage="parse") == 0.5
    assert value(metrics, "xmlbroker_latency_seconds_count") == 10
    assert value(metrics, "xmlbroker_latency_seconds_sum") == 7 * 1.0 + 3 * 0.2
    assert value(metrics, "xmlbroker_latency_seconds_bucket", le="0.2") == 3
    assert value(metrics, "xmlbroker_latency_seconds_bucket", le="1.0") == 10
    assert value(metrics, "xmlbroker_memory_bytes", process="worker") == 5


def test_latencies_beyond_all_bounds_and_below_zero() -> None:
    metrics = Metrics()
    metrics.latency.observe(1e6, 1)
    metrics.latency.observe(-3, 1)
    assert value(metrics, "xmlbroker_latency_seconds_bucket", le="60.0") == 1
    assert value(metrics, "xmlbroker_latency_seconds_bucket", le="+Inf") == 2
    assert value(metrics, "xmlbroker_latency_seconds_sum") == 1e6


def test_units_are_in_the_names_and_no_subscriber_is_a_label() -> None:
    allowed = {"code", "stage", "phase", "state", "process", "le"}
    for family in Metrics().registry.collect():
        assert family.name.startswith("xmlbroker_")
        assert {label for sample in family.samples for label in sample.labels} <= allowed


def test_endpoints() -> None:
    reasons: dict[str, str | None] = {"live": None, "ready": "the subscriptions are being read"}
    metrics = Metrics()
    server = HealthServer(
        metrics.registry, lambda: reasons["live"], lambda: reasons["ready"], "127.0.0.1", 0
    )
    with server:
        assert get(f"{server.address}/live") == (200, {"ok": True, "reason": None})
        status, body = get(f"{server.address}/ready")
        assert (status, body["reason"]) == (503, "the subscriptions are being read")
        reasons["ready"] = None
        assert get(f"{server.address}/ready")[0] == 200
        with urllib.request.urlopen(f"{server.address}/metrics") as answer:
            assert b"xmlbroker_messages_total 0.0" in answer.read()


def get(address: str) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(address) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)

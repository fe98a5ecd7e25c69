"""Metrics and health: what is told, and in which form."""

import ast
import json
import socket
import struct
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge

from streaming_jobs.health import HealthServer
from streaming_jobs.memory import MemoryUse
from streaming_jobs.metrics import (
    MESSAGE_CODES,
    RESULT_CODES,
    MachineMemory,
    Metrics,
    Running,
)
from streaming_jobs.progress import lag_by_topic

ROOT = Path(__file__).parents[2]


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_a_batch_is_counted() -> None:
    metrics = Metrics()
    metrics.count_batch(
        {
            "messages": 10,
            "read:in": 10,
            "deliveries": 4,
            "matches": 6,
            "engine:states": 30,
            "transformations:indexed": 3,
            "bytes_of:a/b": 7,
            "dead_letters:too-deep": 2,
            "stage_seconds:parse": 0.5,
            "published_ms:1000": 7,
            "published_ms:1800": 3,
            "worker_memory": 5.0,
            "seconds": 1.0,
        },
        written_ms=2000,
    )
    assert value(metrics, "xmlbroker_messages_total", topic="in") == 10
    assert value(metrics, "xmlbroker_matches_total") == 6
    assert value(metrics, "xmlbroker_automaton_states", kind="nfa") == 30
    assert value(metrics, "xmlbroker_transformations", way="indexed") == 3
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
    allowed = {"code", "stage", "phase", "state", "process", "le", "topic", "kind", "way"}
    metrics = Metrics()
    metrics.count_batch({"bytes_of:a/b": 1, "seconds_of:a/b": 1, "dead_letter:c p/0/1 a/b": 1}, 0)
    for family in metrics.registry.collect():
        assert family.name.startswith("xmlbroker_")
        assert "a/b" not in str(family.samples)
        assert {label for sample in family.samples for label in sample.labels} <= allowed


def test_endpoints() -> None:
    reasons: dict[str, str | None] = {"live": None, "ready": "the subscriptions are being read"}
    metrics = Metrics()
    server = HealthServer(
        metrics.registry,
        lambda: reasons["live"],
        lambda: reasons["ready"],
        lambda: {"version": 7},
    )
    with server:
        assert get(f"{server.address}/live") == (200, {"ok": True, "reason": None})
        status, body = get(f"{server.address}/ready")
        assert (status, body["reason"]) == (503, "the subscriptions are being read")
        reasons["ready"] = None
        assert get(f"{server.address}/ready")[0] == 200
        with urllib.request.urlopen(f"{server.address}/metrics") as answer:
            assert b"xmlbroker_deliveries_total 0.0" in answer.read()
        assert get(f"{server.address}/top") == (200, {"version": 7, "not_ready": None})
        assert get_text(f"{server.address}/other")[0] == 404


def test_checks_that_fail_and_clients_that_leave(capfd: pytest.CaptureFixture[str]) -> None:
    """A check that can't be made is a no, and nothing is printed among the lines of the log."""

    def fail() -> str | None:
        raise ConnectionError("the JVM has ended")

    with HealthServer(Metrics().registry, lambda: None, fail, dict) as server:
        status, body = get(f"{server.address}/ready")
        assert (status, body["reason"]) == (503, "it can't be found out: ConnectionError")
        host, _, port = server.address.removeprefix("http://").rpartition(":")
        for _ in range(5):
            with socket.create_connection((host, int(port))) as leaving:
                leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                leaving.sendall(b"GET /met")
        assert get(f"{server.address}/live")[0] == 200
    assert capfd.readouterr().err == ""


def get(address: str) -> tuple[int, dict[str, object]]:
    status, text = get_text(address)
    return status, json.loads(text)


def get_text(address: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(address) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_lag_is_counted_by_topic() -> None:
    read = {"a": {"0": 5, "1": 7}, "b": {"0": 1}}
    latest = {"a": {"0": 9, "1": 7}, "b": {"0": 3}}
    assert lag_by_topic([(read, latest)]) == {"a": 4, "b": 2}
    assert lag_by_topic([(read, None), (None, None)]) == {"a": 0, "b": 0}


def test_a_first_dead_letter_or_message_is_a_rise() -> None:
    metrics = Metrics(["in"])
    assert value(metrics, "xmlbroker_messages_total", topic="in") == 0
    assert value(metrics, "xmlbroker_dead_letters_total", code="not-well-formed") == 0


def codes_raised(error: str) -> set[str]:
    """The codes that errors of a kind are made with, in the sources that make dead letters."""
    found: set[str] = set()
    for file in (*(ROOT / "broker").rglob("*.py"), ROOT / "streaming_jobs" / "transform.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == error:
                code = node.args[0]
                ways = (code.body, code.orelse) if isinstance(code, ast.IfExp) else (code,)
                found |= {str(ast.literal_eval(each)) for each in ways}
    return found


def test_all_codes_are_known() -> None:
    assert codes_raised("MessageError") == set(MESSAGE_CODES)
    assert codes_raised("ResultError") | codes_raised("BrokerError") == set(RESULT_CODES)


def test_a_batch_that_hangs_is_seen() -> None:
    now = 100.0
    registry = CollectorRegistry()
    running = Running(Gauge("running", "…", registry=registry), lambda: now)
    assert registry.get_sample_value("running") == 0
    with suppress(RuntimeError), running:
        now = 170.0
        assert registry.get_sample_value("running") == 70
        raise RuntimeError
    assert registry.get_sample_value("running") == 0


def test_memory_of_the_machine() -> None:
    registry = CollectorRegistry()
    use: MemoryUse | None = MemoryUse(30, 40)
    MachineMemory(registry, lambda: use)
    assert registry.get_sample_value("xmlbroker_memory_used_bytes") == 30
    assert registry.get_sample_value("xmlbroker_memory_limit_bytes") == 40
    use = None
    assert registry.get_sample_value("xmlbroker_memory_used_bytes") is None

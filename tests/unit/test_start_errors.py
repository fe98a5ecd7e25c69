"""What keeps a job from starting says what to do about it."""

import socket
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry

from broker.errors import BrokerError
from streaming_jobs import health
from streaming_jobs.checkpoint_lock import CheckpointLock
from streaming_jobs.health import HealthServer
from subscriptions.connection import KafkaSettings
from subscriptions.errors import TopicError
from subscriptions.topic_names import TopicNames


def test_a_metrics_port_that_is_taken() -> None:
    registry = CollectorRegistry()
    with HealthServer(registry, lambda: None, lambda: None, dict) as first:
        port = int(first.address.rpartition(":")[2])
        with pytest.raises(BrokerError) as raised:
            HealthServer(registry, lambda: None, lambda: None, dict, port=port)
    assert raised.value.code == "metrics-address"
    assert f"127.0.0.1:{port}" in raised.value.detail
    assert "job.metrics_port" in raised.value.detail


def test_idle_connections_to_the_metrics_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_MOST_CONNECTIONS", 2)
    monkeypatch.setattr(health, "_IDLE_SECONDS", 0.5)
    with HealthServer(CollectorRegistry(), lambda: None, lambda: None, dict) as server:
        address = ("127.0.0.1", int(server.address.rpartition(":")[2]))
        idle = [socket.create_connection(address, 10) for _ in range(3)]
        # One more than may wait is told so, the others after they were silent for too long.
        assert [each.recv(1) for each in idle] == [b"", b"", b""]
        for each in idle:
            each.close()
        assert _is_live(server)


def _is_live(server: HealthServer) -> bool:
    """Tried again while those that leave have not left."""
    for _ in range(100):
        with suppress(OSError), urlopen(f"{server.address}/live", timeout=10) as answer:
            return bool(answer.status == 200)
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    "topic", ["x.subscriptions", "x.subscription-status", "x.dead-letters", "x.out.acme"]
)
def test_an_input_topic_that_the_broker_writes_to(topic: str) -> None:
    names = TopicNames("x")
    with pytest.raises(TopicError) as raised:
        names.inputs(("orders", topic))
    assert raised.value.code == "bad-input"
    assert topic in raised.value.detail
    assert names.inputs(("orders", "x.messages")) == ("orders", "x.messages")
    assert names.inputs(()) == ("x.messages",)


def test_a_checkpoint_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BrokerError) as raised, CheckpointLock(tmp_path / "file" / "checkpoint"):
        pass
    assert raised.value.code == "checkpoint-not-made"
    assert "job.checkpoint" in raised.value.detail


def test_certificates_that_can_not_be_read(tmp_path: Path) -> None:
    """Kafka's client would say that no Kafka answers."""
    absent, wrong = tmp_path / "absent.pem", tmp_path / "wrong.pem"
    wrong.write_text("no certificate", encoding="utf-8")
    for name in ("ssl_ca_file", "ssl_certificate_file"):
        for file in (absent, wrong):
            settings = KafkaSettings.model_validate({"security_protocol": "SSL", name: str(file)})
            with pytest.raises(BrokerError) as raised:
                settings.client_settings()
            assert raised.value.code == "kafka-certificates"
            assert f"kafka.{name}, {file}: " in raised.value.detail

"""What keeps a job from starting says what to do about it."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from broker.errors import BrokerError
from streaming_jobs.checkpoint_lock import CheckpointLock
from streaming_jobs.health import HealthServer
from subscriptions.connection import KafkaSettings


def test_a_metrics_port_that_is_taken() -> None:
    registry = CollectorRegistry()
    with HealthServer(registry, lambda: None, lambda: None, dict) as first:
        port = int(first.address.rpartition(":")[2])
        with pytest.raises(BrokerError) as raised:
            HealthServer(registry, lambda: None, lambda: None, dict, port=port)
    assert raised.value.code == "metrics-address"
    assert f"127.0.0.1:{port}" in raised.value.detail
    assert "job.metrics_port" in raised.value.detail


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

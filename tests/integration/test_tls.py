"""Connections that are encrypted: the commands, the registry and Spark all trust one file."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from streaming_jobs.local.java import find_java
from streaming_jobs.local.kafka_broker import EmbeddedKafka
from streaming_jobs.local.kafka_security import LISTENER, KafkaSecurity
from tests.faults.jobs import JobProcess
from tests.unit.command_line import conftest as command_line
from tests.unit.command_line.conftest import Run

run = command_line.run

PASSWORD = "of the key store"


@dataclass(frozen=True)
class Encrypted(KafkaSecurity):
    """No users and no rules, but a certificate."""

    users: dict[str, str] = field(default_factory=dict)
    directory: Path = Path()

    @property
    def store(self) -> Path:
        return self.directory / "kafka.p12"

    @property
    def trusted(self) -> Path:
        return self.directory / "trusted.pem"

    def make_certificate(self) -> None:
        keytool = Path(find_java()).with_name("keytool")
        store = ("-alias", "kafka", "-keystore", str(self.store), "-storepass", PASSWORD)
        names = ("-dname", "CN=kafka", "-ext", "san=ip:127.0.0.1", "-ext", "bc=ca:true")
        for command in (
            ("-genkeypair", "-keyalg", "RSA", "-validity", "2", "-storetype", "PKCS12", *names),
            ("-exportcert", "-rfc", "-file", str(self.trusted)),
        ):
            subprocess.run([str(keytool), *command, *store], check=True, capture_output=True)

    def properties(self) -> dict[str, str]:
        return {
            "listener.security.protocol.map": f"{LISTENER}:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": LISTENER,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.store),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
        }

    def client_settings(self) -> dict[str, object]:
        return {"security_protocol": "SSL", "ssl_cafile": str(self.trusted)}


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[tuple[str, Encrypted]]:
    security = Encrypted(directory=tmp_path)
    security.make_certificate()
    with EmbeddedKafka(tmp_path / "kafka", security=security) as kafka:
        yield kafka.bootstrap_servers, security


def test_a_message_goes_the_whole_way(
    run: Run,
    encrypted: tuple[str, Encrypted],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    servers, security = encrypted
    environment = {
        "XMLBROKER_KAFKA__BOOTSTRAP_SERVERS": servers,
        "XMLBROKER_KAFKA__PREFIX": "tls",
        "XMLBROKER_KAFKA__SECURITY_PROTOCOL": "SSL",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    # In a process of its own: kafka-python leaves the sockets behind whose handshake fails.
    command = [sys.executable, "-m", "xmlbroker", "subscriptions"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (1, ""), "nobody says whom to trust"
    assert refused.stderr.startswith("kafka-")
    assert "Traceback" not in refused.stderr
    environment["XMLBROKER_KAFKA__SSL_CA_FILE"] = str(security.trusted)
    monkeypatch.setenv("XMLBROKER_KAFKA__SSL_CA_FILE", str(security.trusted))
    query, message = tmp_path / "q.xp", tmp_path / "m.xml"
    query.write_text("//m", encoding="utf-8")
    message.write_text("<m/>", encoding="utf-8")
    with JobProcess(servers, "tls", tmp_path / "c", tmp_path / "log", environment) as job:
        assert job.await_ready(), job.log()
        ran = run("subscribe", "a/x", "--query", query, "--timeout", "60")
        assert ran.out.startswith("a/x: active"), ran.err
        assert run("publish", message).status == 0
        assert (
            run("consume", "a", "--from-start", "--count", "1", "--timeout", "60").out == "<m/>\n"
        )
        assert job.stop() == 0, job.log()

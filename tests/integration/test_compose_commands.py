"""What docker-compose.yml runs, run: the broker, its health check, and a shorter demo."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from tests.deploy.test_compose import DEMO, SERVICES, on_this_machine
from tests.integration.test_cluster import free_port
from tests.live import RunningKafka

BIN = Path(sys.executable).parent
PATIENCE_SECONDS = 120.0


class Containers:
    """The services as processes: what is elsewhere here is replaced in commands and variables."""

    def __init__(self, kafka: RunningKafka, topic_prefix: str, directory: Path) -> None:
        self._directory = directory
        self._prefix = topic_prefix
        self._elsewhere = {
            "kafka:9092": kafka.bootstrap_servers,
            "/var/lib/xmlbroker": str(directory),
            "8080": str(free_port()),
            "3600": "2",  # how often the demo publishes its files
        }

    def start(self, name: str, output: IO[bytes]) -> subprocess.Popen[bytes]:
        service = SERVICES[name]
        command = [self._here(on_this_machine(each, service)) for each in service["command"]]
        return subprocess.Popen(
            [BIN / "xmlbroker", *command],
            env=self._environment(service["environment"]),
            cwd=self._directory,
            stdout=output,
            stderr=output,
        )

    def run(self, name: str) -> str:
        """Run a service to its end, which has to be a good one."""
        log = self._directory / f"{name}.log"
        with log.open("wb") as output:
            status = self.start(name, output).wait(PATIENCE_SECONDS)
        assert status == 0, log.read_text()
        return log.read_text()

    def is_healthy(self, name: str) -> bool:
        _, _, *arguments = SERVICES[name]["healthcheck"]["test"]
        command = [sys.executable, *map(self._here, arguments)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _here(self, text: str) -> str:
        for there, here in self._elsewhere.items():
            text = text.replace(there, here)
        return text

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        own = {name: self._here(value) for name, value in variables.items()}
        return {**os.environ, **own, "XMLBROKER_KAFKA__PREFIX": self._prefix}


def test_the_broker_becomes_healthy_and_the_demo_delivers(
    kafka: RunningKafka, topic_prefix: str, tmp_path: Path
) -> None:
    containers = Containers(kafka, topic_prefix, tmp_path)
    with ExitStack() as stack:
        output = stack.enter_context((tmp_path / "xmlbroker.log").open("wb"))
        broker = containers.start("xmlbroker", output)
        stack.callback(broker.wait, 60)
        stack.callback(broker.terminate)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not containers.is_healthy("xmlbroker"):
            assert broker.poll() is None, (tmp_path / "xmlbroker.log").read_text()
            assert time.monotonic() < deadline
        for name, service in DEMO.items():
            if service["command"][0] == "subscribe":
                assert ": active, " in containers.run(name)

        results = stack.enter_context((tmp_path / "results.log").open("wb"))
        reader = containers.start("demo-results", results)
        stack.callback(reader.wait, 60)
        stack.callback(reader.terminate)
        # It reads what comes after its start, and when that is, only messages can tell.
        while (tmp_path / "results.log").read_text().count("</figures>") < 2:
            assert "10 messages published" in containers.run("demo-messages")
            assert reader.poll() is None, (tmp_path / "results.log").read_text()
            assert time.monotonic() < deadline
        assert broker.poll() is None
    assert broker.returncode == 0

"""A real Prometheus for tests, with the configuration that is deployed, on another target."""

import json
import math
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest
import yaml

DEPLOYED = Path(__file__).parents[2] / "deploy" / "prometheus"
START_SECONDS = 30.0


def program(name: str) -> str:
    """Where a program of Prometheus is; without it nothing here can be tested."""
    found = shutil.which(name)
    if found is None:
        reason = f"{name} is not installed: run `sh deploy/install-prometheus.sh`"
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    return found


class Series(NamedTuple):
    """What an expression gave for one set of labels: finite values, the oldest first."""

    labels: dict[str, str]
    values: list[float]


class PrometheusServer:
    """A process with a directory of its own; ended with the context."""

    def __init__(self, directory: Path, target: str, interval: str = "1s") -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._directory = directory
        self._log = (directory / "prometheus.log").open("wb")
        config = yaml.safe_load((DEPLOYED / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": interval, "evaluation_interval": interval}
        config["rule_files"] = [str(DEPLOYED / each) for each in config["rule_files"]]
        (scraped,) = config["scrape_configs"]
        scraped["static_configs"] = [{"targets": [target]}]
        self.job = scraped["job_name"]
        (directory / "prometheus.yml").write_text(yaml.safe_dump(config))

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={self._directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={self._directory / 'data'}",
                f"--web.listen-address={urllib.parse.urlsplit(self.url).netloc}",
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise AssertionError((self._directory / "prometheus.log").read_text())
            time.sleep(0.1)
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._log.close()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2):
                return True
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    # Asking

    def now(self, expression: str) -> list[Series]:
        """What an expression is now."""
        data = self._get("query", query=expression)
        assert data["resultType"] == "vector", expression
        return [series_of(each["metric"], [each["value"]]) for each in data["result"]]

    def lately(self, expression: str, seconds: float, step: float = 1.0) -> list[Series]:
        """What an expression was in the last seconds, step by step."""
        end = time.time()
        data = self._get("query_range", query=expression, start=end - seconds, end=end, step=step)
        return [series_of(each["metric"], each["values"]) for each in data["result"]]

    def label_values(self, label: str, selector: str) -> list[str]:
        """The values of a label, as Grafana asks for the choices of a variable."""
        values = self._get(f"label/{label}/values", **{"match[]": selector})
        return [str(each) for each in values]

    def firing(self) -> set[str]:
        """The alerts that fire."""
        alerts = self._get("alerts")["alerts"]
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}

    def _get(self, path: str, **parameters: object) -> Any:  # noqa: ANN401 - as JSON has it
        asked = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{parameters}: {error.read().decode()}") from None


def series_of(labels: dict[str, str], samples: list[tuple[float, str]]) -> Series:
    """Without the samples that are no numbers: Grafana draws none of them."""
    values = [float(value) for _, value in samples]
    return Series(labels, [each for each in values if math.isfinite(each)])


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

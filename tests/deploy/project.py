"""What the tests here share: where files are, and what the code says about variables and paths."""

import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from streaming_jobs.health import HealthServer
from streaming_jobs.local.java import find_java
from xmlbroker.cli import cli
from xmlbroker.settings import ENVIRONMENT_PREFIX, ShownSetting, describe_settings, load_settings

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
IMAGE = f"xmlbroker:{VERSION}"
USER = 10001


def search_path(*first: Path) -> str:
    """A PATH with these directories, and with the Java of the tests wherever it is."""
    return os.pathsep.join([*map(str, first), str(find_java().parent), os.environ["PATH"]])


def read_yaml(file: Path) -> list[Any]:
    """The documents of a YAML file."""
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


def shown_settings(variables: Mapping[str, str], config: Path | None = None) -> list[ShownSetting]:
    """The settings that `xmlbroker` has with these variables; raises if one is none of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [each for each in os.environ if each.startswith(ENVIRONMENT_PREFIX)]:
            patch.delenv(name)
        for name, value in variables.items():
            if name != f"{ENVIRONMENT_PREFIX}CONFIG":  # the command line's own
                patch.setenv(name, value)
        settings = load_settings(config, {})
        return list(describe_settings(settings, config, {}))


def from_environment(settings: list[ShownSetting]) -> dict[str, str]:
    """Settings that come from a variable, by the variable's name."""
    return {
        ENVIRONMENT_PREFIX + each.name.upper().replace(".", "__"): each.value
        for each in settings
        if each.source == "environment"
    }


def broker_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Those variables that are for `xmlbroker`."""
    return {name: value for name, value in variables.items() if name.startswith(ENVIRONMENT_PREFIX)}


def parse_command(arguments: list[str]) -> tuple[str, dict[str, Any]]:
    """What click makes of a command line: the command, and its parameters. Nothing is run."""
    taken: list[tuple[str, dict[str, Any]]] = []
    command = cli.commands[arguments[0]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            command,
            "callback",
            lambda *_, **parameters: taken.append((arguments[0], parameters)),
        )
        cli.main(arguments, prog_name="xmlbroker", standalone_mode=False)
    ((name, parameters),) = taken
    return name, parameters


@contextmanager
def health_server(ready: str | None = None) -> Iterator[HealthServer]:
    """The job's own server, without a job."""
    with HealthServer(CollectorRegistry(), lambda: None, lambda: ready, dict) as server:
        yield server

"""The systemd unit, against the code that it starts."""

import configparser
import shlex

from tests.deploy.project import ROOT, broker_variables, parse_command, shown_settings

FILE = ROOT / "deploy" / "systemd" / "xmlbroker.service"


def read_unit() -> dict[str, dict[str, list[str]]]:
    """The values of a unit file; a name may be there more than once."""
    sections: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            section.setdefault(name, []).append(value)
    return sections


def test_it_is_a_unit_file() -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read(FILE)
    assert parser.sections() == ["Unit", "Service", "Install"]


def test_what_it_runs_is_a_command_of_ours() -> None:
    (command,) = read_unit()["Service"]["ExecStart"]
    program, *arguments = shlex.split(command)
    assert program == "/opt/xmlbroker/bin/xmlbroker"
    name, parameters = parse_command(arguments)
    assert name == "run"
    assert parameters["checkpoint"] == "%S/xmlbroker/checkpoint"
    operations = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert "python3 -m venv /opt/xmlbroker" in operations
    assert "deploy/systemd/xmlbroker.service" in operations


def test_its_variables_are_settings_of_ours() -> None:
    variables = dict(each.split("=", 1) for each in read_unit()["Service"]["Environment"])
    ours = broker_variables(variables)
    assert ours == {"XMLBROKER_JOB__METRICS_PORT": "8080"}
    assert shown_settings(ours)


def test_it_has_time_to_finish_a_batch_and_the_driver_alone_is_asked_to() -> None:
    service = read_unit()["Service"]
    assert service["KillMode"] == ["mixed"]
    assert int(service["TimeoutStopSec"][0]) > 60

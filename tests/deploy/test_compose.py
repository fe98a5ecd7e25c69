"""docker-compose.yml against the Compose specification, and against the code that it starts."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

from streaming_jobs.local.jars import jars
from streaming_jobs.local.java import find_java
from streaming_jobs.local.kafka_broker import MAX_RECORD_BYTES
from tests.deploy.dockerfile import environment
from tests.deploy.project import (
    IMAGE,
    ROOT,
    broker_variables,
    from_environment,
    health_server,
    parse_command,
    read_yaml,
    shown_settings,
)

FILE = ROOT / "docker-compose.yml"
(COMPOSE,) = read_yaml(FILE)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: each for name, each in SERVICES.items() if each["image"] == IMAGE}
DEMO = {name: each for name, each in OURS.items() if "demo" in each.get("profiles", [])}
STAYING = {name: each for name, each in SERVICES.items() if name not in DEMO}


def check_schema(file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    return subprocess.run([*command, file], capture_output=True, text=True, check=False)


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """What is mounted, by the place in the container."""
    return {
        target: source
        for source, target, *_ in (each.split(":") for each in service.get("volumes", []))
    }


def on_this_machine(path: str, service: dict[str, Any]) -> str:
    """A path of a container, where it is mounted from; other arguments as they are."""
    if not path.startswith("/"):
        return path
    (place,) = (
        ROOT / source / Path(path).relative_to(target)
        for target, source in mounts(service).items()
        if Path(path).is_relative_to(target)
    )
    return str(place)


def test_the_file_follows_the_specification(tmp_path: Path) -> None:
    checked = check_schema(FILE)
    assert checked.returncode == 0, checked.stdout
    wrong = tmp_path / "compose.yml"
    wrong.write_text(FILE.read_text().replace("healthcheck:", "health_check:"))
    assert "health_check" in check_schema(wrong).stdout, "the schema would let anything pass"


def test_there_is_what_there_should_be() -> None:
    assert STAYING.keys() == {"kafka", "xmlbroker", "prometheus", "grafana"}
    assert len(DEMO) >= 3


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned(name: str) -> None:
    assert re.fullmatch(r"[a-z/]+:v?\d+\.\d+\.\d+", SERVICES[name]["image"])


@pytest.mark.parametrize("name", SERVICES)
def test_services_have_few_rights(name: str) -> None:
    service = SERVICES[name]
    assert service["user"].split(":")[0] not in {"0", "root"}
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is (name != "kafka")
    assert "privileged" not in service
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", SERVICES)
def test_services_that_stay_have_a_health_check(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    if name in DEMO:
        assert check == {"disable": True}
        assert SERVICES[name]["restart"] == "no"
    else:
        assert check["test"][0] in {"CMD", "CMD-SHELL"}
        assert SERVICES[name]["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_mounted_exists(name: str) -> None:
    for source in mounts(SERVICES[name]).values():
        if source.startswith("."):
            assert (ROOT / source).exists(), f"{source} is mounted"
        else:
            assert source in COMPOSE["volumes"]


def test_every_volume_is_used() -> None:
    used = {source for service in SERVICES.values() for source in mounts(service).values()}
    assert COMPOSE["volumes"].keys() <= used


@pytest.mark.parametrize("name", OURS)
def test_variables_are_settings(name: str) -> None:
    ours = broker_variables(OURS[name]["environment"])
    assert from_environment(shown_settings(ours)) == ours
    assert ours == OURS[name]["environment"]


@pytest.mark.parametrize("name", OURS)
def test_commands_are_real(name: str) -> None:
    """click parses them, with the files that they name."""
    service = OURS[name]
    command = [on_this_machine(each, service) for each in service["command"]]
    assert parse_command(command)[0] == service["command"][0]


def test_the_demo_ends() -> None:
    """Each of its commands stops by itself."""
    for service in DEMO.values():
        name, parameters = parse_command(
            [on_this_machine(each, service) for each in service["command"]]
        )
        assert name in {"subscribe", "publish", "consume"}
        if name == "publish":
            files = sum(len(list(each.glob("*.xml"))) for each in parameters["documents"])
            assert files * parameters["repeat"] / parameters["rate"] == 15 * 60
        if name == "consume":
            assert parameters["timeout"] is not None


@pytest.mark.parametrize("name", SERVICES)
def test_dependencies_can_be_met(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        wanted = "service_completed_successfully" if other in DEMO else "service_healthy"
        assert how["condition"] == wanted


def test_the_broker_keeps_its_checkpoint() -> None:
    service = SERVICES["xmlbroker"]
    kept = [target for target, source in mounts(service).items() if source == "checkpoint"]
    assert kept == [str(Path(service["environment"]["XMLBROKER_JOB__CHECKPOINT"]).parent)]
    assert environment()["XMLBROKER_JOB__CHECKPOINT"].startswith(kept[0] + "/")


@pytest.mark.parametrize(("reason", "status"), [(None, 0), ("Kafka is away", 1)])
def test_the_broker_is_healthy_when_it_is_ready(reason: str | None, status: int) -> None:
    service = SERVICES["xmlbroker"]
    _, python, *arguments = service["healthcheck"]["test"]
    assert python == "python"
    port = service["environment"]["XMLBROKER_JOB__METRICS_PORT"]
    with health_server(reason) as server:
        own = server.address.rpartition(":")[2]
        asked = subprocess.run(
            [sys.executable, *(each.replace(f":{port}/", f":{own}/") for each in arguments)],
            capture_output=True,
            check=False,
            timeout=30,
        )
    assert asked.returncode == status


# Kafka


def kafka_properties() -> dict[str, str]:
    """The properties that the image makes of its variables."""
    variables = SERVICES["kafka"]["environment"]
    return {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in variables.items()
        if name.startswith("KAFKA_") and name != "KAFKA_HEAP_OPTS"
    }


def test_kafka_takes_its_settings(tmp_path: Path) -> None:
    """Kafka's own tool reads them and formats a directory; it is the Kafka of the tests."""
    ivy = ET.parse(ROOT / "streaming_jobs" / "local" / "ivy.xml")
    (tested,) = ivy.iterfind(".//dependency[@name='kafka_2.13']")
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{tested.get('rev')}"
    properties = kafka_properties()
    assert properties["log.dirs"] in mounts(SERVICES["kafka"])
    file = tmp_path / "server.properties"
    lines = {**properties, "log.dirs": str(tmp_path / "data")}
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    classes = ":".join(str(jar) for jar in jars("kafka"))
    cluster = SERVICES["kafka"]["environment"]["CLUSTER_ID"]
    command = [str(find_java()), "-cp", classes, "kafka.tools.StorageTool", "format"]
    made = subprocess.run(
        [*command, "-t", cluster, "-c", str(file)], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert (tmp_path / "data" / "meta.properties").exists()


def test_kafka_takes_what_the_broker_may_send() -> None:
    assert kafka_properties()["message.max.bytes"] == str(MAX_RECORD_BYTES)


def test_kafka_is_where_the_broker_looks() -> None:
    advertised = kafka_properties()["advertised.listeners"].split(",")
    for service in OURS.values():
        servers = service["environment"]["XMLBROKER_KAFKA__BOOTSTRAP_SERVERS"]
        assert f"INSIDE://{servers}" in advertised


# Prometheus and Grafana


def test_prometheus_reads_the_broker_and_the_alerts() -> None:
    (config,) = read_yaml(ROOT / "deploy" / "prometheus" / "prometheus.yml")
    targets = {
        target
        for job in config["scrape_configs"]
        for group in job["static_configs"]
        for target in group["targets"]
    }
    port = SERVICES["xmlbroker"]["environment"]["XMLBROKER_JOB__METRICS_PORT"]
    assert f"xmlbroker:{port}" in targets
    rules = [Path("/etc/prometheus") / each for each in config["rule_files"]]
    assert {str(each) for each in rules} <= mounts(SERVICES["prometheus"]).keys()


def test_grafana_finds_prometheus_and_the_dashboards() -> None:
    provisioning = ROOT / "deploy" / "grafana" / "provisioning"
    urls = {
        source["url"]
        for file in (provisioning / "datasources").glob("*.y*ml")
        for source in yaml.safe_load(file.read_text())["datasources"]
    }
    assert urls == {"http://prometheus:9090"}
    paths = {
        provider["options"]["path"]
        for file in (provisioning / "dashboards").glob("*.y*ml")
        for provider in yaml.safe_load(file.read_text())["providers"]
    }
    assert paths <= mounts(SERVICES["grafana"]).keys()
    assert paths

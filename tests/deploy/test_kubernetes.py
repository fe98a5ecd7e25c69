"""The Kubernetes manifests against Kubernetes' schemas, and against the code that they start."""

import json
import re
import tomllib
import urllib.request
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from tests.deploy.dockerfile import environment
from tests.deploy.kustomize import Resource, build, find, of_kind
from tests.deploy.project import (
    IMAGE,
    ROOT,
    USER,
    broker_variables,
    from_environment,
    health_server,
    parse_command,
    read_yaml,
    shown_settings,
)

OVERLAYS = ROOT / "deploy" / "kubernetes" / "overlays"
NAMES = ["single-node", "spark-on-kubernetes"]
SPARK = OVERLAYS / "spark-on-kubernetes"
VERSIONS = ["1.30", "1.33", kubernetes_validate.latest_version()]

BUILT = {name: build(OVERLAYS / name) for name in NAMES}
(EXECUTOR,) = read_yaml(SPARK / "executor.yaml")


def broker_of(overlay: str) -> Resource:
    return find(BUILT[overlay], "StatefulSet", "xmlbroker")


def container_of(overlay: str) -> Resource:
    (container,) = broker_of(overlay)["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def pods_of(overlay: str) -> list[Resource]:
    """The pod of the broker and, if it makes some, that of its executors."""
    broker = broker_of(overlay)["spec"]["template"]
    return [broker] if overlay == "single-node" else [broker, EXECUTOR]


def variables_of(overlay: str) -> dict[str, str]:
    """What the broker's container finds in its environment."""
    container = container_of(overlay)
    variables = dict(environment())
    for source in container["envFrom"]:
        variables |= find(BUILT[overlay], "ConfigMap", source["configMapRef"]["name"])["data"]
    own = {"metadata.name": "xmlbroker-0", "metadata.namespace": "xmlbroker"}
    for each in container["env"]:
        source = each.get("valueFrom", {})
        if "fieldRef" in source:
            value = own[source["fieldRef"]["fieldPath"]]
        elif "secretKeyRef" in source:
            value = "secret"
        else:
            value = re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], each["value"])
        variables[each["name"]] = value
    return variables


def settings_of(overlay: str) -> dict[str, str]:
    """All settings of the broker."""
    variables = broker_variables(variables_of(overlay))
    config = variables.get("XMLBROKER_CONFIG")
    file = None
    if config is not None:
        (mounted,) = (
            each["mountPath"]
            for each in container_of(overlay)["volumeMounts"]
            if each["name"] == "config"
        )
        file = SPARK / Path(config).relative_to(mounted)
    return {each.name: each.value for each in shown_settings(variables, file)}


def spark_settings() -> dict[str, str]:
    settings = tomllib.loads((SPARK / "xmlbroker.toml").read_text())["job"]["spark"]
    assert isinstance(settings, dict)
    return settings


# Schemas


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", NAMES)
def test_manifests_follow_the_schemas(overlay: str, version: str) -> None:
    for resource in BUILT[overlay]:
        kubernetes_validate.validate(resource, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_executors_pod_follows_the_schema(version: str) -> None:
    kubernetes_validate.validate(EXECUTOR, version, strict=True)


def test_the_schemas_refuse_what_is_wrong() -> None:
    wrong = deepcopy(broker_of("single-node"))
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="livenesProbe"):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("overlay", NAMES)
def test_there_is_what_there_should_be(overlay: str) -> None:
    kinds = {each["kind"] for each in BUILT[overlay]}
    assert kinds >= {"StatefulSet", "ConfigMap", "PodDisruptionBudget", "NetworkPolicy", "Service"}
    assert "Secret" not in kinds, "secrets are named here, and made elsewhere"
    spaces = {
        each["metadata"].get("namespace") for each in BUILT[overlay] if each["kind"] != "Namespace"
    }
    assert spaces == {"xmlbroker"}


# Pods


@pytest.mark.parametrize("overlay", NAMES)
def test_images_are_this_version(overlay: str) -> None:
    for pod in pods_of(overlay):
        assert [each["image"] for each in pod["spec"]["containers"]] == [IMAGE]
    assert spark_settings()["spark.kubernetes.container.image"] == IMAGE


@pytest.mark.parametrize("overlay", NAMES)
def test_pods_have_few_rights(overlay: str) -> None:
    for pod in pods_of(overlay):
        security = pod["spec"]["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["runAsUser"] == security["runAsGroup"] == security["fsGroup"] == USER
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["spec"]["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "/tmp" in {each["mountPath"] for each in container["volumeMounts"]}


@pytest.mark.parametrize("overlay", NAMES)
def test_the_variables_of_services_stay_away(overlay: str) -> None:
    """Those of a service named xmlbroker would be refused."""
    for pod in pods_of(overlay):
        assert pod["spec"]["enableServiceLinks"] is False
    with pytest.raises(ValueError, match="XMLBROKER_PORT is no setting"):
        shown_settings({"XMLBROKER_PORT": "tcp://10.0.0.1:8080"})


@pytest.mark.parametrize("overlay", NAMES)
def test_mounts_have_volumes(overlay: str) -> None:
    claims = {
        each["metadata"]["name"] for each in broker_of(overlay)["spec"]["volumeClaimTemplates"]
    }
    for pod in pods_of(overlay):
        volumes = {each["name"] for each in pod["spec"]["volumes"]}
        for container in pod["spec"]["containers"]:
            mounted = {each["name"] for each in container["volumeMounts"]}
            assert mounted - claims == volumes


@pytest.mark.parametrize("overlay", NAMES)
def test_references_exist(overlay: str) -> None:
    maps = {each["metadata"]["name"] for each in of_kind(BUILT[overlay], "ConfigMap")}
    spec = broker_of(overlay)["spec"]["template"]["spec"]
    mounted = {each["configMap"]["name"] for each in spec["volumes"] if "configMap" in each}
    read = {each["configMapRef"]["name"] for each in container_of(overlay)["envFrom"]}
    assert mounted | read == maps
    accounts = {each["metadata"]["name"] for each in of_kind(BUILT[overlay], "ServiceAccount")}
    assert spec["serviceAccountName"] in accounts
    assert broker_of(overlay)["spec"]["serviceName"] in {
        each["metadata"]["name"] for each in of_kind(BUILT[overlay], "Service")
    }


@pytest.mark.parametrize("overlay", NAMES)
def test_the_command_is_real(overlay: str) -> None:
    assert parse_command(container_of(overlay)["args"])[0] == "run"


@pytest.mark.parametrize("overlay", NAMES)
def test_there_is_one_broker_with_time_to_stop(overlay: str) -> None:
    spec = broker_of(overlay)["spec"]
    assert spec["replicas"] == 1
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] > 90


# Settings


@pytest.mark.parametrize("overlay", NAMES)
def test_variables_are_settings(overlay: str) -> None:
    variables = broker_variables(variables_of(overlay))
    config = variables.pop("XMLBROKER_CONFIG", None)
    assert (config is None) == (overlay == "single-node")
    found = from_environment(shown_settings(variables))
    assert found.keys() == variables.keys()


@pytest.mark.parametrize(
    ("overlay", "master"),
    [
        ("single-node", "local[2,4]"),
        ("spark-on-kubernetes", "k8s://https://kubernetes.default.svc"),
    ],
)
def test_the_master(overlay: str, master: str) -> None:
    settings = settings_of(overlay)
    assert settings["job.master"] == master
    if overlay == "single-node":
        cores = container_of(overlay)["resources"]["requests"]["cpu"]
        assert master == f"local[{cores},4]"


@pytest.mark.parametrize("overlay", NAMES)
def test_secrets_are_references(overlay: str) -> None:
    secret = {
        each["name"]: each["valueFrom"]["secretKeyRef"]
        for each in container_of(overlay)["env"]
        if "secretKeyRef" in each.get("valueFrom", {})
    }
    assert secret.keys() == {"XMLBROKER_KAFKA__SASL_USERNAME", "XMLBROKER_KAFKA__SASL_PASSWORD"}
    assert settings_of(overlay)["kafka.sasl_password"] == "*" * 8
    for each in of_kind(BUILT[overlay], "ConfigMap"):
        assert "password" not in json.dumps(each).lower()


@pytest.mark.parametrize("overlay", NAMES)
def test_paths_are_on_volumes(overlay: str) -> None:
    settings = settings_of(overlay)
    for pod in pods_of(overlay):
        (container,) = pod["spec"]["containers"]
        places = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
        assert places[str(Path(settings["kafka.ssl_ca_file"]).parent)] == "kafka-ca"
    places = {each["mountPath"]: each["name"] for each in container_of(overlay)["volumeMounts"]}
    assert places[str(Path(settings["job.checkpoint"]).parent)] == "checkpoint"


def test_spark_hears_from_the_file_and_from_the_pod() -> None:
    """The environment adds to the file's table, and does not take its place."""
    known = settings_of("spark-on-kubernetes")["job.spark"]
    for name, value in spark_settings().items():
        assert f"'{name}': '{value}'" in known
    assert "'spark.driver.host': 'xmlbroker-driver.xmlbroker.svc'" in known
    assert "'spark.kubernetes.driver.pod.name': 'xmlbroker-0'" in known


# Probes and ports


@pytest.mark.parametrize("overlay", NAMES)
def test_probes_ask_what_the_broker_answers(overlay: str) -> None:
    container = container_of(overlay)
    paths = {
        probe: container[probe]["httpGet"]["path"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert paths == {
        "startupProbe": "/live",
        "livenessProbe": "/live",
        "readinessProbe": "/ready",
    }
    with health_server() as server:
        for path in paths.values():
            with urllib.request.urlopen(server.address + path, timeout=10) as answer:
                assert answer.status == 200
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    for probe in paths:
        port = ports[container[probe]["httpGet"]["port"]]
        assert str(port) == settings_of(overlay)["job.metrics_port"]


@pytest.mark.parametrize("overlay", NAMES)
def test_services_lead_to_the_broker_before_it_is_ready(overlay: str) -> None:
    labels = broker_of(overlay)["spec"]["template"]["metadata"]["labels"]
    ports = {each["name"]: each["containerPort"] for each in container_of(overlay)["ports"]}
    for service in of_kind(BUILT[overlay], "Service"):
        spec = service["spec"]
        assert spec["selector"].items() <= labels.items()
        assert spec["clusterIP"] == "None"
        assert spec["publishNotReadyAddresses"] is True
        for port in spec["ports"]:
            assert ports[port["targetPort"]] == port["port"]


def selectors(overlay: str) -> Iterator[dict[str, str]]:
    """Which pods budgets and policies speak of."""
    for budget in of_kind(BUILT[overlay], "PodDisruptionBudget"):
        yield budget["spec"]["selector"]["matchLabels"]
    for policy in of_kind(BUILT[overlay], "NetworkPolicy"):
        spec = policy["spec"]
        yield spec["podSelector"]["matchLabels"]
        peers = [
            peer
            for rule in [*spec["ingress"], *spec["egress"]]
            for peer in [*rule.get("from", []), *rule.get("to", [])]
        ]
        yield from (peer["podSelector"]["matchLabels"] for peer in peers if "podSelector" in peer)


@pytest.mark.parametrize("overlay", NAMES)
def test_budgets_and_policies_speak_of_our_pods(overlay: str) -> None:
    labels = [pod["metadata"]["labels"] for pod in pods_of(overlay)]
    found = list(selectors(overlay))
    assert found
    for selector in found:
        assert any(selector.items() <= each.items() for each in labels), selector
    for each in labels:
        assert any(selector.items() <= each.items() for selector in found), each


def allows(overlay: str, policy: str, direction: str, port: int) -> bool:
    rules = find(BUILT[overlay], "NetworkPolicy", policy)["spec"][direction]
    ports: list[dict[str, Any]] = [each for rule in rules for each in rule["ports"]]
    return any(each["port"] <= port <= each.get("endPort", each["port"]) for each in ports)


@pytest.mark.parametrize("overlay", NAMES)
def test_the_broker_may_talk_to_kafka_and_be_asked(overlay: str) -> None:
    settings = settings_of(overlay)
    kafka = int(settings["kafka.bootstrap_servers"].rpartition(":")[2])
    assert allows(overlay, "xmlbroker", "egress", kafka)
    assert allows(overlay, "xmlbroker", "ingress", int(settings["job.metrics_port"]))
    assert not allows(overlay, "xmlbroker", "ingress", kafka)


def test_driver_and_executors_may_talk() -> None:
    overlay, spark = "spark-on-kubernetes", spark_settings()
    kafka = int(settings_of(overlay)["kafka.bootstrap_servers"].rpartition(":")[2])
    driver = int(spark["spark.driver.port"])
    driver_blocks = int(spark["spark.driver.blockManager.port"])
    blocks = int(spark["spark.blockManager.port"])
    for port in (driver, driver_blocks):
        assert allows(overlay, "xmlbroker-driver", "ingress", port)
        assert allows(overlay, "xmlbroker-executors", "egress", port)
    for policy in ("xmlbroker-driver", "xmlbroker-executors"):
        assert allows(overlay, policy, "egress", blocks)
    assert allows(overlay, "xmlbroker-executors", "ingress", blocks)
    assert allows(overlay, "xmlbroker-executors", "egress", kafka)
    assert allows(overlay, "xmlbroker-driver", "egress", 443)
    (service,) = (
        each
        for each in of_kind(BUILT[overlay], "Service")
        if each["metadata"]["name"] == "xmlbroker-driver"
    )
    assert {each["port"] for each in service["spec"]["ports"]} == {driver, driver_blocks}


@pytest.mark.parametrize("overlay", NAMES)
def test_only_a_driver_may_ask_kubernetes(overlay: str) -> None:
    spec = broker_of(overlay)["spec"]["template"]["spec"]
    roles = of_kind(BUILT[overlay], "Role")
    assert spec["automountServiceAccountToken"] is bool(roles)
    assert bool(roles) == (overlay == "spark-on-kubernetes")
    assert EXECUTOR["spec"]["automountServiceAccountToken"] is False
    for binding in of_kind(BUILT[overlay], "RoleBinding"):
        assert [each["name"] for each in binding["subjects"]] == [spec["serviceAccountName"]]
        assert binding["roleRef"]["name"] in {each["metadata"]["name"] for each in roles}

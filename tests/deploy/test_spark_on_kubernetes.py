"""Spark on Kubernetes, with the image's files and the overlay's settings, and executors for real.

There is no cluster: `kubernetes_api` answers the driver, and pods are processes. So images,
networks and volumes are not tried; what Spark makes of our settings, what a pod runs and what the
driver asks of Kubernetes are.
"""

import json
import subprocess
import textwrap
from pathlib import Path

import pytest

from streaming_jobs.settings import JobSettings
from tests.deploy.kubernetes_api import Asked, KubernetesApi
from tests.deploy.kustomize import find
from tests.deploy.project import search_path
from tests.deploy.test_kubernetes import BUILT, EXECUTOR, SPARK, spark_settings, variables_of
from xmlbroker.commands.run import spark_settings as as_run_gives_them

DRIVER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "xmlbroker-0", "namespace": "xmlbroker", "uid": "driver"},
    "spec": {"containers": [{"name": "broker"}]},
    # It is not ready before its executors are.
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]},
}

# Which executor each of eight tasks ran on, and which settings Spark has never heard of.
PROGRAM = """
    import json, os, sys
    import pyarrow as pa
    from streaming_jobs.local.jars import jars
    from streaming_jobs.session import spark_session, stop_spark

    def name_executor(batches):
        for batch in batches:
            names = pa.array([os.environ["SPARK_EXECUTOR_ID"]] * batch.num_rows)
            yield pa.RecordBatch.from_arrays([names], names=["executor"])

    master, settings = sys.argv[1], json.loads(sys.argv[2])
    spark = spark_session("xmlbroker", master, jars=jars("spark"), settings=settings)
    rows = spark.range(8, numPartitions=8).mapInArrow(name_executor, "executor string").collect()
    known = spark._jvm.org.apache.spark.internal.config.ConfigEntry
    unknown = [name for name in settings if known.findEntry(name) is None]
    stop_spark(spark)
    print(json.dumps({"executors": sorted({row.executor for row in rows}), "unknown": unknown}))
"""


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    """What Spark is told in the driver's pod, except for what one machine has not."""
    own = json.loads(variables_of("spark-on-kubernetes")["XMLBROKER_JOB__SPARK"])
    told = as_run_gives_them(JobSettings(executor_memory="700m", spark=spark_settings() | own))
    ports = {name: "0" for name in told if name.endswith(".port")}
    return {
        **told,
        **ports,
        "spark.driver.host": "127.0.0.1",
        "spark.kubernetes.executor.podTemplateFile": str(SPARK / "executor.yaml"),
    }


def test_executors_work(image_root: Path, settings: dict[str, str], tmp_path: Path) -> None:
    with KubernetesApi(image_root, tmp_path / "pods", DRIVER) as api:
        ran = subprocess.run(
            [
                *(image_root / "venv" / "bin" / "python", "-c", textwrap.dedent(PROGRAM)),
                *(f"k8s://{api.address}", json.dumps(settings)),
            ],
            env={"PATH": search_path(), "XDG_CACHE_HOME": str(image_root / "cache")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        logs = {name: (tmp_path / "pods" / name / "log").read_text() for name in api.processes}
        made = dict(api.made)
    assert ran.returncode == 0, ran.stderr + "".join(logs.values())
    said = json.loads(ran.stdout)
    assert said["executors"] == ["1", "2"]
    assert said["unknown"] == []
    for log in logs.values():
        assert "Running task" not in log, "executors log warnings only"

    assert len(made) == int(settings["spark.executor.instances"])
    for pod in made.values():
        check_executor(pod, settings)

    (rule,) = find(BUILT["spark-on-kubernetes"], "Role", "xmlbroker-driver")["rules"]
    rights = {Asked(verb, resource) for verb in rule["verbs"] for resource in rule["resources"]}
    assert Asked("create", "pods") in api.asked
    assert api.asked <= rights


def check_executor(pod: dict[str, object], settings: dict[str, str]) -> None:
    """A pod as Spark made it of the template and the settings."""
    text = json.loads(json.dumps(pod))
    metadata, spec = text["metadata"], text["spec"]
    assert EXECUTOR["metadata"]["labels"].items() <= metadata["labels"].items()
    assert [each["uid"] for each in metadata["ownerReferences"]] == ["driver"]
    account = settings["spark.kubernetes.authenticate.executor.serviceAccountName"]
    assert spec["serviceAccountName"] == account
    assert spec["securityContext"].items() >= EXECUTOR["spec"]["securityContext"].items()
    (container,) = spec["containers"]
    assert container["image"] == settings["spark.kubernetes.container.image"]
    assert container["resources"]["requests"]["cpu"] == settings["spark.executor.cores"]
    (template,) = EXECUTOR["spec"]["containers"]
    assert container["securityContext"] == template["securityContext"]
    assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]

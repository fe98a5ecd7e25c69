"""The image: its build steps are run for real, outside Docker, and what they make is used."""

import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

from tests.deploy.dockerfile import (
    DOCKERFILE,
    environment,
    instructions,
    last,
    last_list,
)
from tests.deploy.project import (
    ROOT,
    USER,
    broker_variables,
    from_environment,
    health_server,
    parse_command,
    search_path,
    shown_settings,
)

SCRIPTS = ["build-image-root.sh", "check-prerequisites.sh", "spark-executor.sh"]
LOCKED = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


# Spark as the broker starts it, with Python workers and with the source that the jars are for.
STREAM = """
    from streaming_jobs.local.jars import jars
    from streaming_jobs.session import spark_session, stop_spark

    spark = spark_session("image", jars=jars("spark"))
    rows = spark.range(8).mapInArrow(lambda batches: batches, "id long").count()
    options = {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "messages"}
    source = spark.readStream.format("kafka").options(**options).load()
    print(f"{rows} rows; kafka streams: {source.isStreaming}")
    stop_spark(spark)
"""


def run_in_image(root: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the image's variables, without a home and without a network."""
    image = {
        name: value.replace("/opt/xmlbroker", str(root)) for name, value in environment().items()
    }
    image["PATH"] = image["PATH"].replace("$PATH", search_path())
    nowhere = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"
    image |= {"HOME": "/nonexistent", "JAVA_TOOL_OPTIONS": nowhere, **variables}
    return subprocess.run(
        command, env=image, cwd="/", capture_output=True, text=True, check=False, timeout=120
    )


def files(root: Path) -> set[tuple[Path, int]]:
    return {(each, each.lstat().st_mtime_ns) for each in root.rglob("*")}


def test_hadolint_has_nothing_to_say() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    said = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True, check=False)
    assert (said.stdout, said.returncode) == ("", 0)


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_shell(script: str) -> None:
    file = ROOT / "deploy" / script
    shell = file.read_text(encoding="ascii").splitlines()[0].removeprefix("#!")
    subprocess.run([shell, "-n", file], check=True)


def test_base_images_are_pinned() -> None:
    stages: set[str] = set()
    bases = []
    for each in instructions("FROM"):
        base, *name = each.value.split(" AS ")
        if base not in stages:
            bases.append(base)
        stages.update(name)
    assert bases
    for base in bases:
        assert re.fullmatch(r"[a-z]+:\d+\.\d+\.\d+-[a-z-]+", base)


def test_the_image_has_a_user_and_the_command_of_the_broker() -> None:
    assert last("USER") == f"{USER}:{USER}"
    assert any(f"--uid {USER} " in each.value for each in instructions("RUN"))
    assert last_list("ENTRYPOINT") == ["xmlbroker"]
    assert parse_command(last_list("CMD"))[0] == "run"


def test_its_variables_are_settings() -> None:
    ours = broker_variables(environment())
    assert len(ours) >= 4
    assert from_environment(shown_settings(ours)) == ours


def test_the_locks_agree() -> None:
    """The image has what the tests had."""
    everything = set(LOCKED.findall((ROOT / "requirements.lock").read_text()))
    runs = set(LOCKED.findall((ROOT / "deploy" / "requirements.lock").read_text()))
    builds = set(LOCKED.findall((ROOT / "deploy" / "build.lock").read_text()))
    assert runs | builds <= everything
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for lock, wanted in [
        (runs, project["project"]["dependencies"]),
        (builds, project["build-system"]["requires"]),
    ]:
        names = {re.split(r"[^a-z0-9-]", each)[0] for each in wanted}
        assert names <= {name for name, _ in lock}
    assert "pytest" not in dict(runs)


@pytest.mark.parametrize(("reason", "status"), [(None, 0), ("Kafka is away", 1)])
def test_the_health_check_asks_whether_it_is_ready(reason: str | None, status: int) -> None:
    command = last_list("HEALTHCHECK")
    assert command[0] == "python"
    with health_server(reason) as server:
        port = server.address.rpartition(":")[2]
        asked = subprocess.run(
            [sys.executable, *command[1:]],
            env={"XMLBROKER_JOB__METRICS_PORT": port},
            capture_output=True,
            check=False,
            timeout=30,
        )
    assert asked.returncode == status


def test_the_built_image_works_without_a_home_and_a_network(
    image_root: Path, tmp_path: Path
) -> None:
    before = files(image_root)
    asked = run_in_image(image_root, "xmlbroker", "--version")
    assert "xmlbroker, version" in asked.stdout, asked.stderr
    news = ROOT / "samples" / "news"
    query, document = str(news / "figures.xq"), str(news / "messages" / "morning.xml")
    made = run_in_image(image_root, "xmlbroker", "transform", "--query", query, document)
    assert made.stdout.startswith("<figures>"), made.stderr
    ran = run_in_image(image_root, "python", "-c", textwrap.dedent(STREAM), TMPDIR=str(tmp_path))
    assert ran.stdout == "8 rows; kafka streams: True\n", ran.stderr
    assert files(image_root) == before, "the root file system is read-only"


def test_the_built_image_has_nothing_that_it_does_not_need(image_root: Path) -> None:
    python = str(image_root / "venv" / "bin" / "python")
    for module in ("pip", "hatchling", "pytest", "saxonche"):
        tried = run_in_image(image_root, python, "-c", f"import {module}")
        assert f"No module named '{module}'" in tried.stderr
    jars = {each.name for each in image_root.glob("cache/xmlbroker/jars/*/*")}
    assert jars == {"spark"}
    assert shutil.which("spark-executor", path=str(image_root / "bin"))

"""`job.spark`: settings of Spark that the broker has no setting of its own for."""

from pathlib import Path

import pytest

from streaming_jobs.settings import JobSettings
from tests.unit.command_line.conftest import Run
from tests.unit.command_line.test_settings import shown
from xmlbroker.commands.run import checked, spark_settings


def test_from_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XMLBROKER_JOB__SPARK", '{"spark.executor.cores": "2"}')
    assert shown(run)["job.spark"] == ("{'spark.executor.cores': '2'}", "environment")


def test_a_name_that_is_not_sparks_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XMLBROKER_JOB__SPARK", '{"sprak.executor.cores": "2"}')
    ran = run("settings")
    assert ran.status == 2
    assert "sprak.executor.cores" in ran.err


def test_they_go_before_those_of_the_broker() -> None:
    assert spark_settings(JobSettings(executor_memory="2g")) == {"spark.executor.memory": "2g"}
    job = JobSettings(executor_memory="2g", spark={"spark.executor.memory": "3g", "spark.x": "y"})
    assert spark_settings(job) == {"spark.executor.memory": "3g", "spark.x": "y"}


def test_a_checkpoint_by_its_address() -> None:
    """On this machine it is guarded against a second job, however it is named."""
    assert JobSettings(checkpoint="file:///data/a%20b").checkpoint == Path("/data/a b")
    assert JobSettings(checkpoint="hdfs://host/c").checkpoint == "hdfs://host/c"
    named = checked(JobSettings(), checkpoint="file:///data/c", master=None)
    assert named.checkpoint == Path("/data/c"), "on the command line, too"
    assert named.master == JobSettings().master


def test_what_is_secret_is_told_by_its_name(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = '{"spark.hadoop.fs.s3a.secret.key": "s1", "spark.hadoop.fs.s3a.access.key": "s2"}'
    monkeypatch.setenv("XMLBROKER_JOB__SPARK", keys)
    value, _ = shown(run)["job.spark"]
    assert "spark.hadoop.fs.s3a.secret.key" in value
    assert "s1" not in value
    assert "s2" not in value

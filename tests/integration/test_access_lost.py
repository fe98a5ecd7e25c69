"""Output topics that the broker may not write to any more (F7): others get theirs, and those get
theirs again when it may.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from streaming_jobs.local.kafka_broker import EmbeddedKafka
from streaming_jobs.local.kafka_security import SUPER_USER, KafkaSecurity
from subscriptions.access import wanted_access
from subscriptions.access_admin import AccessAdmin
from subscriptions.access_file import parse_access
from subscriptions.access_plan import plan_access
from subscriptions.kafka_client import KafkaAdminClient, acls, open_client
from subscriptions.topics import TopicNames
from tests.faults.jobs import JobProcess
from tests.faults.traffic import wait_until
from tests.integration.guarded import FILE, PASSWORDS, Guarded
from tests.unit.command_line import conftest as command_line
from tests.unit.command_line.conftest import Run

run = command_line.run

PREFIX = "lost"
LOST = ("a", "ab")


def test_two_topics_are_forbidden_and_allowed_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    security = KafkaSecurity(PASSWORDS)
    with EmbeddedKafka(tmp_path / "kafka", security=security) as kafka:
        guarded = Guarded(kafka.bootstrap_servers, security.super_password)
        allow(guarded)

        def as_user(user: str) -> None:
            for name, value in guarded.environment(user, PREFIX).items():
                monkeypatch.setenv(name, value)

        log = tmp_path / "job.log"
        environment = guarded.environment("xb", PREFIX)
        with JobProcess(guarded.servers, PREFIX, tmp_path / "c", log, environment) as job:
            assert job.await_ready(), job.log()
            subscribe(run, as_user, tmp_path)
            forbid(guarded, is_forbidden=True)
            publish(run, as_user, tmp_path, 3)
            assert delivered(run, as_user, "c", 3) == ["<m/>"] * 3
            states = {key: status for key, status in listed(run, as_user).items() if key != "c/x"}
            assert {each["state"] for each in states.values()} == {"suspended"}
            for status in states.values():
                assert "no access rule lets us write to it" in json.dumps(status)
            assert_told(run, tmp_path)
            forbid(guarded, is_forbidden=False)
            wait_until(
                lambda: {each["state"] for each in listed(run, as_user).values()} == {"active"},
                "they are active again",
            )
            publish(run, as_user, tmp_path, 1)
            for subscriber in LOST:
                assert delivered(run, as_user, subscriber, 1) == ["<m/>"]
            assert len(delivered(run, as_user, "c", 4)) == 4
            assert job.stop() == 0, job.log()


def assert_told(run: Run, directory: Path) -> None:
    """An operator who asks why some got nothing is told."""
    checkpoint = ("--checkpoint", directory / "c")
    # There are two partitions, and the three messages are anywhere on them.
    traced = [
        json.loads(ran.out)
        for place in ("0/0", "1/0", "0/1", "1/1", "0/2", "1/2")
        if (ran := run("trace", f"{PREFIX}.messages/{place}", *checkpoint, "--json")).status == 0
    ]
    assert len(traced) == 3
    for each in traced:
        assert each["state"] == "suspended"
        rows = {row["subscription"]: row for row in each["results"]}
        assert rows["c/x"]["found"] is not None
        assert "error" not in rows["c/x"]
        for subscriber in LOST:
            assert rows[f"{subscriber}/x"]["error"] == "suspended"
            assert rows[f"{subscriber}/x"]["found"] is None
    file = directory / "access.toml"
    file.write_text(FILE, encoding="utf-8")
    said = run("admin", "apply", "--file", file, "--dry-run")
    for subscriber in LOST:
        denied = f"user xb: WRITE topic {PREFIX}.out.{subscriber}; it stays until"
        assert f"denied, whatever the file allows: {denied}" in said.err


def allow(guarded: Guarded) -> None:
    """Give all roles of the file their rights."""
    wanted = wanted_access(parse_access(FILE.encode()), TopicNames(PREFIX))
    with AccessAdmin(guarded.settings(SUPER_USER).client_settings()) as admin:
        admin.apply(plan_access(wanted, admin.found(wanted)).changes)


def forbid(guarded: Guarded, *, is_forbidden: bool) -> None:
    """Have a rule against writing to the topics of some subscribers, or have it no more."""
    kind = acls.ACL if is_forbidden else acls.ACLFilter
    rules = [
        kind(
            principal="User:xb",
            host="*",
            operation=acls.ACLOperation.WRITE,
            permission_type=acls.ACLPermissionType.DENY,
            resource_pattern=acls.ResourcePattern(
                acls.ResourceType.TOPIC,
                TopicNames(PREFIX).output(subscriber),
                acls.ACLResourcePatternType.LITERAL,
            ),
        )
        for subscriber in LOST
    ]
    admin = open_client(KafkaAdminClient, guarded.settings(SUPER_USER).client_settings())
    try:
        (admin.create_acls if is_forbidden else admin.delete_acls)(rules)
    finally:
        admin.close()


AsUser = Callable[[str], None]


def subscribe(run: Run, as_user: AsUser, directory: Path) -> None:
    query = directory / "q.xp"
    query.write_text("//m", encoding="utf-8")
    as_user("reg")
    for subscriber in (*LOST, "c"):
        ran = run("subscribe", f"{subscriber}/x", "--query", query, "--timeout", "60")
        assert ran.out.startswith(f"{subscriber}/x: active"), ran.err


def publish(run: Run, as_user: AsUser, directory: Path, count: int) -> None:
    message = directory / "m.xml"
    message.write_text("<m/>", encoding="utf-8")
    as_user("pub")
    for _ in range(count):
        assert run("publish", message).status == 0


def delivered(run: Run, as_user: AsUser, subscriber: str, count: int) -> list[str]:
    """The first results of a subscriber; repeated ones would be among them."""
    as_user("op")
    ran = run("consume", subscriber, "--from-start", "--count", str(count), "--timeout", "60")
    assert ran.status == 0, ran.err
    return ran.out.splitlines()


def listed(run: Run, as_user: AsUser) -> dict[str, dict[str, object]]:
    as_user("op")
    lines = [json.loads(line) for line in run("subscriptions", "--json").out.splitlines()]
    return {str(each["subscription"]): each for each in lines}

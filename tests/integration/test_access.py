"""Passwords and access rules on a Kafka that has both, and `xmlbroker admin` that makes the rules.

Nothing here asks our own tables who may do what: users try, and Kafka answers.
"""

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streaming_jobs.local.kafka_broker import EmbeddedKafka
from streaming_jobs.local.kafka_security import SUPER_USER, KafkaSecurity
from subscriptions.access import wanted_access
from subscriptions.access_admin import AccessAdmin
from subscriptions.access_file import parse_access
from subscriptions.access_plan import plan_access
from subscriptions.topics import TopicNames
from tests.faults.jobs import JobProcess
from tests.integration.guarded import FILE, PASSWORDS, Guarded
from tests.live import RunningKafka
from tests.unit.command_line import conftest as command_line
from tests.unit.command_line.conftest import Run
from xmlbroker import kafka_access

run = command_line.run


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    security = KafkaSecurity(PASSWORDS)
    with EmbeddedKafka(tmp_path_factory.mktemp("guarded"), security=security) as kafka:
        yield Guarded(kafka.bootstrap_servers, security.super_password)


As = Callable[..., None]


@pytest.fixture
def as_user(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> As:
    """Let the commands that follow be a user's."""

    def become(user: str, prefix: str, password: str | None = None) -> None:
        for name, value in guarded.environment(user, prefix, password).items():
            monkeypatch.setenv(name, value)

    return become


Apply = Callable[..., str]


@pytest.fixture
def apply(run: Run, as_user: As, tmp_path: Path) -> Apply:
    """Apply a file, as the super user if no other is named; what standard error says."""

    def apply_file(prefix: str, text: str = FILE, user: str = SUPER_USER) -> str:
        as_user(user, prefix)
        file = tmp_path / "access.toml"
        file.write_text(text, encoding="utf-8")
        ran = run("admin", "apply", "--file", file)
        assert ran.status == 0, ran.err
        return ran.err

    return apply_file


# What users can do


def test_what_each_user_can_do(guarded: Guarded, apply: Apply) -> None:
    apply("roles")
    names = {
        "roles.messages": "messages",
        "roles.subscriptions": "subscriptions",
        "roles.subscription-status": "status",
        "roles.dead-letters": "dead",
        "roles.out.a": "a",
        "roles.out.ab": "ab",
    }
    everything = set(names.values())
    expected: dict[str, tuple[set[str], set[str], set[str]]] = {
        # The first leaves a record in each for the others to find.
        "op": (everything, everything, everything),
        "xb": (everything, {"status", "dead", "a", "ab"}, {"messages", "subscriptions", "status"}),
        "reg": ({"subscriptions", "status"}, {"subscriptions"}, {"subscriptions", "status"}),
        "pub": ({"messages"}, {"messages"}, set()),
        "alice": ({"a"}, set(), {"a"}),
        "bob": ({"ab"}, set(), {"ab"}),
        "carol": (set(), set(), set()),
    }
    for user, (listed, written, read) in expected.items():
        did = guarded.attempts(user, list(names))
        assert (user, {names[topic] for topic in did.listed}) == (user, listed)
        assert (user, {names[topic] for topic in did.written}) == (user, written)
        assert (user, {names[topic] for topic in did.read}) == (user, read)


def test_consumer_groups_are_a_subscribers_own(guarded: Guarded, apply: Apply) -> None:
    apply("groups")
    groups = ["groups.out.a", "groups.out.a.b", "groups.out.ab", "groups.out.", "a", "x"]
    used = [group for group in groups if guarded.commits("alice", "groups.out.a", group)]
    assert used == ["groups.out.a", "groups.out.a.b"]


# Applying a file


def test_apply(run: Run, as_user: As, apply: Apply, guarded: Guarded, tmp_path: Path) -> None:
    as_user(SUPER_USER, "applied")
    file = tmp_path / "access.toml"
    file.write_text(FILE, encoding="utf-8")
    shown = run("admin", "apply", "--file", file, "--dry-run")
    assert shown.status == 0
    assert "create  topic applied.messages" in shown.out
    assert "READ topic applied.out.a " in shown.out
    assert "nothing was done" in shown.err
    nothing = guarded.found("applied")
    assert (dict(nothing.topics), nothing.rules) == ({}, frozenset())

    done = run("admin", "apply", "--file", file, "--json")
    assert done.status == 0
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert {"action": "allow", "what": "user bob", "detail": "READ topic applied.out.ab"} in lines
    assert f"{len(lines)} changes made" in done.err
    found = guarded.found("applied")
    messages = found.topics["applied.messages"]
    assert (messages.partitions, messages.configs["retention.ms"]) == (2, "86400000")
    assert found.topics["applied.subscriptions"].configs["cleanup.policy"] == "compact"
    assert found.quotas["alice"] == {"consumer_byte_rate": 50e6}

    for user in (SUPER_USER, "op"):
        assert "nothing to do" in apply("applied", FILE, user)


def test_apply_again_after_a_change_of_the_file(apply: Apply, guarded: Guarded) -> None:
    apply("changed")
    text = FILE.replace('ab = ["bob"]', 'c = ["carol"]').replace("partitions = 2", "partitions = 3")
    text = text.replace("86_400_000", "5_000_000")
    text = text.replace("consumer_byte_rate = 50_000_000", "request_percentage = 150.5")
    apply("changed", text, "op")
    found = guarded.found("changed")
    assert found.topics["changed.messages"].partitions == 3
    assert found.topics["changed.messages"].configs["retention.ms"] == "5000000"
    assert "bob" not in {rule.user for rule in found.rules}
    assert "bob" not in found.quotas
    assert found.quotas["alice"] == found.quotas["carol"] == {"request_percentage": 150.5}
    topics = ["changed.out.ab", "changed.out.c"]
    assert guarded.attempts("op", topics).read == set(topics)
    assert guarded.attempts("bob", topics).read == set()
    assert guarded.attempts("carol", topics).read == {"changed.out.c"}
    assert "nothing to do" in apply("changed", text, "op")


def test_apply_by_those_who_may_not(run: Run, as_user: As, apply: Apply, tmp_path: Path) -> None:
    apply("kept")
    file = tmp_path / "access.toml"
    for user in ("alice", "xb", "reg"):
        as_user(user, "kept")
        ran = run("admin", "apply", "--file", file)
        assert ran.status == 1
        assert ran.err.startswith(f"kafka-authorisation: the user `{user}` may not")
    as_user("op", "kept")
    file.write_text(FILE.replace('admins = ["op"]', ""), encoding="utf-8")
    ran = run("admin", "apply", "--file", file)
    assert ran.status == 1
    assert ran.err.startswith("locks-out: the file takes the rights of an admin away from `op`")
    assert "nothing to do" in apply("kept", FILE, "op")


def test_what_kafka_refuses_is_said(run: Run, as_user: As, apply: Apply, tmp_path: Path) -> None:
    apply("refusing")
    file = tmp_path / "access.toml"
    file.write_text(FILE.replace("86_400_000", '"soon"'), encoding="utf-8")
    ran = run("admin", "apply", "--file", file)
    assert ran.status == 1
    assert "access-refused: Kafka does not take the settings of refusing.messages" in ran.err
    assert "soon" in ran.err
    file.write_text("broker = ['*']", encoding="utf-8")
    ran = run("admin", "apply", "--file", file)
    assert (ran.status, ran.out) == (1, "")
    assert "bad-access-file: access.toml is refused:\n  broker[1]: `*`" in ran.err
    assert run("admin", "apply", "--file", tmp_path / "none.toml").status == 2


def test_a_kafka_without_rules(
    run: Run,
    kafka: RunningKafka,
    tmp_path: Path,
    topic_prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XMLBROKER_KAFKA__PREFIX", topic_prefix)
    file = tmp_path / "access.toml"
    file.write_text(FILE, encoding="utf-8")
    servers = ("--bootstrap-servers", kafka.bootstrap_servers)
    ran = run("admin", "apply", "--file", file, *servers)
    assert ran.status == 1
    assert ran.err.startswith("kafka-no-authorizer: this Kafka has no access rules")
    assert "--topics-only" in ran.err
    ran = run("admin", "apply", "--file", file, "--topics-only", *servers)
    assert ran.status == 0, ran.err
    assert f"create  topic {topic_prefix}.messages" in ran.out
    assert "allow" not in ran.out
    ran = run("admin", "apply", "--file", file, "--topics-only", *servers)
    assert "nothing to do" in ran.err
    file.write_text(FILE.replace("partitions = 2", "partitions = 3\nreplication = 3"))
    monkeypatch.setenv("XMLBROKER_KAFKA__PREFIX", f"{topic_prefix}x")
    ran = run("admin", "apply", "--file", file, "--topics-only", *servers)
    assert ran.status == 1
    assert "were made; apply it again when that is mended" in ran.err


# Passwords


def commands(directory: Path) -> list[tuple[str | Path, ...]]:
    (directory / "q.xp").write_text("//m", encoding="utf-8")
    (directory / "m.xml").write_text("<m/>", encoding="utf-8")
    (directory / "access.toml").write_text(FILE, encoding="utf-8")
    return [
        ("publish", directory / "m.xml"),
        ("subscribe", "a/x", "--query", directory / "q.xp"),
        ("subscriptions",),
        ("consume", "a"),
        ("dead-letters", "list"),
        ("admin", "apply", "--file", directory / "access.toml", "--dry-run"),
    ]


def test_a_wrong_password_is_a_clear_error(
    run: Run, guarded: Guarded, as_user: As, tmp_path: Path
) -> None:
    as_user("alice", "guarded", "wrong")
    for command in commands(tmp_path):
        ran = run(*command)
        assert (ran.status, ran.out) == (1, "")
        assert ran.err.startswith(
            f"kafka-authentication: Kafka at {guarded.servers} refuses the user `alice`: "
            "wrong password, or no such user.\nSee the settings kafka.sasl_username,"
        )
        assert "Traceback" not in ran.err
        assert len(ran.err.splitlines()) == 2


def test_other_ways_to_be_refused(
    run: Run, as_user: As, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = commands(tmp_path)[0]
    as_user("alice", "guarded")
    monkeypatch.setenv("XMLBROKER_KAFKA__SASL_USERNAME", "nobody")
    assert "refuses the user `nobody`: wrong password, or no such user" in run(*publish).err
    monkeypatch.setenv("XMLBROKER_KAFKA__SASL_MECHANISM", "SCRAM-SHA-256")
    assert "it does not check passwords by SCRAM-SHA-256" in run(*publish).err
    monkeypatch.delenv("XMLBROKER_KAFKA__SASL_PASSWORD")
    assert run(*publish).err.startswith("kafka-no-user: SASL_PLAINTEXT needs the settings")
    monkeypatch.setattr(kafka_access, "_ANSWER_SECONDS", 1)
    monkeypatch.setenv("XMLBROKER_KAFKA__SECURITY_PROTOCOL", "PLAINTEXT")
    assert "it may want a user or encryption" in run(*publish).err


def test_passwords_are_set(
    run: Run, as_user: As, apply: Apply, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    apply("passwords", FILE.replace('"pub"', '"pub", "new"'))

    def give(password: str) -> command_line.Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(password.encode())))
        return run("admin", "password", "new")

    as_user("op", "passwords")
    for password in ("first ü\n", "second"):
        ran = give(password)
        assert (ran.status, ran.err) == (0, "new has a password\n")
        monkeypatch.setenv("XMLBROKER_KAFKA__SASL_USERNAME", "new")
        monkeypatch.setenv("XMLBROKER_KAFKA__SASL_PASSWORD", password.rstrip())
        assert run(*commands(tmp_path)[0]).status == 0
        as_user("op", "passwords")
    monkeypatch.setenv("XMLBROKER_KAFKA__SASL_USERNAME", "new")
    monkeypatch.setenv("XMLBROKER_KAFKA__SASL_PASSWORD", "first ü")
    assert run(*commands(tmp_path)[0]).err.startswith("kafka-authentication")
    as_user("op", "passwords")
    assert give("").status == 2
    as_user("alice", "passwords")
    assert give("third").err.startswith("kafka-authorisation: the user `alice` may not")


# The broker


def test_the_broker_runs_with_the_rights_of_its_role(
    run: Run, guarded: Guarded, as_user: As, apply: Apply, tmp_path: Path
) -> None:
    apply("job")
    publish, *_ = commands(tmp_path)
    environment = guarded.environment("xb", "job")
    checkpoint, log = tmp_path / "checkpoint", tmp_path / "job.log"
    with JobProcess(guarded.servers, "job", checkpoint, log, environment) as job:
        assert job.await_ready(), job.log()
        as_user("reg", "job")
        for key in ("a/x", "ab/x", "late/x"):
            ran = run("subscribe", key, "--query", tmp_path / "q.xp", "--timeout", "30")
            assert ran.out.startswith(f"{key}: active"), ran.err
        as_user("pub", "job")
        (tmp_path / "poison.xml").write_text("no xml", encoding="utf-8")
        assert run(*publish, tmp_path / "poison.xml").status == 0

        def read(user: str, subscriber: str) -> command_line.Ran:
            as_user(user, "job")
            return run("consume", subscriber, "--from-start", "--count", "1", "--timeout", "30")

        assert read("alice", "a").out == "<m/>\n"
        assert read("bob", "ab").out == "<m/>\n"
        for user, subscriber in (("alice", "ab"), ("bob", "a"), ("alice", "late"), ("pub", "a")):
            ran = read(user, subscriber)
            assert (ran.status, ran.out) == (1, "")
            assert f"the user `{user}` may not do that with the topic job.out." in ran.err
        # The broker made this topic for somebody who was not in the file.
        apply("job", FILE.replace("[quotas", 'late = ["carol"]\n[quotas', 1), "op")
        assert read("carol", "late").out == "<m/>\n"
        assert read("alice", "late").status == 1
        as_user("op", "job")
        assert "not-well-formed" in run("dead-letters", "list", "--json").out
        assert job.stop() == 0
    assert "Traceback" not in job.log()
    assert PASSWORDS["xb"] not in job.log()


def test_a_job_with_a_wrong_password_ends_and_says_so(guarded: Guarded, tmp_path: Path) -> None:
    environment = guarded.environment("xb", "job", password="wrong")
    log = tmp_path / "job.log"
    with JobProcess(guarded.servers, "job", tmp_path / "checkpoint", log, environment) as job:
        assert not job.await_ready()
        assert job.await_end() == 1
    assert "\nkafka-authentication: Kafka at" in job.log()
    assert "refuses the user `xb`: wrong password" in job.log()
    assert "Traceback" not in job.log()


@pytest.mark.slow
def test_a_job_whose_password_is_changed_ends_and_says_so(tmp_path: Path) -> None:
    """When it has to connect again: it would wait for a Kafka that is away, but not for this."""
    data_dir, log = tmp_path / "kafka", tmp_path / "job.log"
    security = KafkaSecurity(PASSWORDS)
    with EmbeddedKafka(data_dir, security=security) as kafka:
        guarded = Guarded(kafka.bootstrap_servers, security.super_password)
        wanted = wanted_access(parse_access(FILE.encode()), TopicNames("job"))
        environment = guarded.environment("xb", "job")
        settings = guarded.settings(SUPER_USER).client_settings()
        with AccessAdmin(settings) as admin:
            admin.apply(plan_access(wanted, admin.found(wanted)).changes)
        with JobProcess(guarded.servers, "job", tmp_path / "c", log, environment) as job:
            assert job.await_ready(), job.log()
            with AccessAdmin(settings) as admin:
                admin.set_password("xb", "another")
            kafka.kill()
            # Passwords are in its data: it must not be told the old ones again.
            with EmbeddedKafka(data_dir, security=KafkaSecurity({})):
                assert job.await_end() == 1
    assert "\nkafka-authentication: Kafka refused the user or the password" in job.log()

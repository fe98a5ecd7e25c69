"""A Kafka with passwords and access rules, and users who try what they can do there."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import FetchRequest

from streaming_jobs.local.kafka_security import SUPER_USER
from subscriptions.access import wanted_access
from subscriptions.access_admin import AccessAdmin
from subscriptions.access_file import parse_access
from subscriptions.access_plan import FoundAccess
from subscriptions.connection import KafkaSettings
from subscriptions.kafka_client import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
    errors,
    open_client,
)
from subscriptions.topics import TopicNames

USERS = ("xb", "op", "reg", "pub", "alice", "bob", "carol")
PASSWORDS = {user: f'{user} "\\ secret' for user in USERS}

FILE = """
broker = ["xb"]
admins = ["op"]
registrars = ["reg"]
publishers = ["pub"]

[subscribers]
a = ["alice"]
ab = ["bob"]

[quotas.subscribers]
consumer_byte_rate = 50_000_000

[topics.messages]
partitions = 2
configs = { "retention.ms" = 86_400_000 }
"""


@dataclass(frozen=True)
class Guarded:
    """A Kafka that lets nobody in without a password, and do nothing without a rule."""

    servers: str
    super_password: str

    def settings(self, user: str, prefix: str = "guarded") -> KafkaSettings:
        is_super = user == SUPER_USER
        return KafkaSettings.model_validate(
            {
                "bootstrap_servers": self.servers,
                "prefix": prefix,
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN" if is_super else "SCRAM-SHA-512",
                "sasl_username": user,
                "sasl_password": self.super_password if is_super else PASSWORDS[user],
            }
        )

    def environment(self, user: str, prefix: str, password: str | None = None) -> dict[str, str]:
        """The settings as the commands have them."""
        settings = self.settings(user, prefix)
        assert settings.sasl_password is not None
        own = {
            "bootstrap_servers": settings.bootstrap_servers,
            "prefix": prefix,
            "security_protocol": settings.security_protocol,
            "sasl_mechanism": settings.sasl_mechanism,
            "sasl_username": user,
            "sasl_password": password or settings.sasl_password.get_secret_value(),
        }
        return {f"XMLBROKER_KAFKA__{name.upper()}": value for name, value in own.items()}

    def found(self, prefix: str) -> FoundAccess:
        """What there is of a prefix, by the super user."""
        wanted = wanted_access(parse_access(FILE.encode()), TopicNames(prefix))
        with AccessAdmin(self.settings(SUPER_USER).client_settings()) as admin:
            found = admin.found(wanted)
        ours = frozenset(rule for rule in found.rules if rule.name.startswith(f"{prefix}."))
        return FoundAccess(found.topics, ours, found.quotas)

    def attempts(self, user: str, topics: list[str]) -> "Attempts":
        """Let a user try to list, write and read topics."""
        settings = self.settings(user).client_settings()
        admin = open_client(KafkaAdminClient, settings)
        producer = open_client(KafkaProducer, settings, enable_idempotence=False)
        try:
            return Attempts(
                listed=set(admin.list_topics()) & set(topics),
                written={topic for topic in topics if _is_allowed(_write, producer, topic)},
                read={topic for topic in topics if _is_allowed(_read, admin, topic)},
            )
        finally:
            producer.close()
            admin.close()

    def commits(self, user: str, topic: str, group: str) -> bool:
        """Whether a user may use a consumer group."""
        settings = self.settings(user).client_settings()
        consumer = open_client(KafkaConsumer, settings, group_id=group, enable_auto_commit=False)
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        try:
            return _is_allowed(consumer.commit)
        finally:
            consumer.close()


@dataclass(frozen=True)
class Attempts:
    """What Kafka let a user do."""

    listed: set[str]
    written: set[str]
    read: set[str]


def _is_allowed(attempt: Callable[..., object], *arguments: object) -> bool:
    try:
        attempt(*arguments)
    except errors.AuthorizationError:
        return False
    return True


def _write(producer: Any, topic: str) -> None:  # noqa: ANN401 - kafka-python has no types
    producer.send(topic, key=b"k", value=b"v", partition=0).get(timeout=20)


def _read(admin: Any, topic: str) -> None:  # noqa: ANN401
    """Ask for records, of a topic that may be hidden: a consumer would not even ask."""
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1000
    )
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
        max_version=12,  # the last that goes by names
    )
    answer = admin._manager.run(admin._manager.send, request)
    (got,) = answer.responses[0].partitions
    if got.error_code:
        raise errors.for_code(got.error_code)
    assert got.records

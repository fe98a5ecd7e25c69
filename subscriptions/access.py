"""Who may do what on the broker's topics: rules, topics and quotas as the access file wants them.

| role | may |
| --- | --- |
| publisher | write the input topics, and see how large a message may be |
| subscriber | read its own output topic, with consumer groups of its own |
| registrar | write and read the subscription topic, read the statuses |
| broker | read inputs and subscriptions, write statuses, dead letters and outputs, make outputs |
| admin | all with the broker's topics and groups; rules and quotas of the whole Kafka |

Rules are for a topic's exact name: the prefix `out.a` would open `out.ab` too. Where a prefix is
used it ends with a dot, and no id has one.

A record of Kafka does not say who wrote it. So whoever may write the subscription topic can
register queries for every subscriber: that right is the boundary of trust, and subscribers don't
have it. Nor do they read the statuses, which show everybody's queries.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from subscriptions.access_file import AccessFile, ControlTopic, Topic
from subscriptions.errors import AccessFileError
from subscriptions.topic_names import TopicNames
from subscriptions.topics import (
    TopicSettings,
    message_settings,
    status_settings,
    subscription_settings,
)

Kind = Literal["topic", "group", "cluster"]
Pattern = Literal["literal", "prefixed"]

_USER = "User:"
CLUSTER = "kafka-cluster"
"""How Kafka calls itself in a rule."""

ADMIN_OPERATION = "ALL"
_ADMIN_CLUSTER_OPERATIONS = ("ALTER", "ALTER_CONFIGS")
"""Rules and passwords, and quotas. Each includes looking at the same."""


@dataclass(frozen=True, order=True, slots=True)
class Rule:
    """Somebody may do something. In Kafka's words an ACL; those that deny are not ours to make."""

    principal: str
    operation: str
    kind: Kind
    name: str
    pattern: Pattern = "literal"
    host: str = "*"

    @property
    def user(self) -> str | None:
        """The name of the one user that this is about, if it is about one."""
        name = self.principal.removeprefix(_USER)
        return None if name in ("*", self.principal) else name

    @property
    def who(self) -> str:
        """The principal for people."""
        return f"user {self.user}" if self.user is not None else self.principal

    @property
    def right(self) -> str:
        """What is allowed, for people."""
        what = f"{self.kind} {self.name}{'…' if self.pattern == 'prefixed' else ''}"
        host = "" if self.host == "*" else f" from {self.host}"
        return f"{self.operation} {'the cluster' if self.kind == 'cluster' else what}{host}"


@dataclass(frozen=True)
class WantedAccess:
    """What there has to be on Kafka."""

    topics: Mapping[str, TopicSettings]
    rules: frozenset[Rule]
    quotas: Mapping[str, Mapping[str, float]]
    """The limits of every user of the file, none for most."""
    prefix: str
    """Topics and groups whose names start so are ours, and so are the rules for them."""


def topics_alone(wanted: WantedAccess) -> WantedAccess:
    """The same topics on a Kafka without access rules: nobody's rights, nobody's limits."""
    return replace(wanted, rules=frozenset(), quotas={})


def wanted_access(
    file: AccessFile, names: TopicNames, inputs: tuple[str, ...] = ()
) -> WantedAccess:
    """What a file wants; `inputs` are the topics that the broker reads, if not `<prefix>.messages`.

    Raises `AccessFileError` where subscribers can't be kept apart and the file does not say that
    this is meant.
    """
    if names.shared and not file.share_outputs:
        raise AccessFileError(
            "shared-outputs",
            f"kafka.shared_topics is {names.shared}: subscribers share topics, and who reads one "
            "reads what others get. If that is meant, the file says `share_outputs = true`",
        )
    return WantedAccess(
        topics=dict(_topics(file, names)),
        rules=frozenset(_rules(file, names, names.inputs(inputs))),
        quotas=_quotas(file),
        prefix=f"{names.prefix}.",
    )


def _rules(file: AccessFile, names: TopicNames, inputs: Sequence[str]) -> Iterator[Rule]:
    for user in file.broker:
        yield from _broker_rules(f"{_USER}{user}", names, inputs)
    for user in file.admins:
        yield from _admin_rules(f"{_USER}{user}", names)
    for user in file.registrars:
        yield from _on_topic(f"{_USER}{user}", names.subscriptions, "READ", "WRITE")
        yield from _on_topic(f"{_USER}{user}", names.status, "READ")
    for user in file.publishers:
        for topic in inputs:
            # A message that is too large is refused before it is sent, with its name.
            yield from _on_topic(f"{_USER}{user}", topic, "WRITE", "DESCRIBE_CONFIGS")
    for subscriber, users in file.subscribers.items():
        for user in users:
            yield from _subscriber_rules(f"{_USER}{user}", subscriber, names)


def _broker_rules(principal: str, names: TopicNames, inputs: Sequence[str]) -> Iterator[Rule]:
    for topic in inputs:
        yield from _on_topic(principal, topic, "READ")
    if names.messages not in inputs:
        # It looks whether this is there even if it reads others.
        yield from _on_topic(principal, names.messages, "DESCRIBE")
    yield from _on_topic(principal, names.subscriptions, "READ")
    yield from _on_topic(principal, names.status, "READ", "WRITE")
    yield from _on_topic(principal, names.dead_letters, "WRITE", "DESCRIBE_CONFIGS")
    for operation in ("CREATE", "WRITE", "DESCRIBE_CONFIGS"):
        yield Rule(principal, operation, "topic", names.outputs, "prefixed")


def _subscriber_rules(principal: str, subscriber: str, names: TopicNames) -> Iterator[Rule]:
    """Its topic, and consumer groups that have a name of their own under the broker's prefix: other
    applications on this Kafka may have a group with the subscriber's name.
    """
    yield from _on_topic(principal, names.output(subscriber), "READ")
    group = f"{names.prefix}.out.{subscriber}"
    yield Rule(principal, "READ", "group", group)
    yield Rule(principal, "READ", "group", f"{group}.", "prefixed")


def _admin_rules(principal: str, names: TopicNames) -> Iterator[Rule]:
    yield Rule(principal, ADMIN_OPERATION, "topic", f"{names.prefix}.", "prefixed")
    yield Rule(principal, ADMIN_OPERATION, "group", f"{names.prefix}.", "prefixed")
    yield from admin_cluster_rules(principal)


def admin_cluster_rules(principal: str) -> Iterator[Rule]:
    """What an admin has beyond the broker's topics: who can give rights can give all."""
    for operation in _ADMIN_CLUSTER_OPERATIONS:
        yield Rule(principal, operation, "cluster", CLUSTER)


def _on_topic(principal: str, topic: str, *operations: str) -> Iterator[Rule]:
    for operation in operations:
        yield Rule(principal, operation, "topic", topic)


def _topics(file: AccessFile, names: TopicNames) -> Iterator[tuple[str, TopicSettings]]:
    wishes = file.topics

    def settings(wish: ControlTopic, needed: TopicSettings) -> TopicSettings:
        replication = wish.replication or wishes.replication or needed.replication
        partitions = wish.partitions if isinstance(wish, Topic) else None
        return TopicSettings(
            partitions or needed.partitions, replication, {**needed.configs, **wish.configs}
        )

    yield names.messages, settings(wishes.messages, message_settings())
    yield names.subscriptions, settings(wishes.subscriptions, subscription_settings())
    yield names.status, settings(wishes.status, status_settings())
    yield names.dead_letters, settings(wishes.dead_letters, TopicSettings())
    # As the broker makes them for subscribers who are not in the file.
    outputs = settings(wishes.outputs, TopicSettings(partitions=1))
    for subscriber in file.subscribers:
        yield names.output(subscriber), outputs


def _quotas(file: AccessFile) -> dict[str, dict[str, float]]:
    """The limits of each user. Of two roles the wider limit counts: each is a right."""
    quotas: dict[str, dict[str, float]] = {user: {} for user in _users(file)}
    limited = (
        (file.publishers, file.quotas.publishers),
        ([user for users in file.subscribers.values() for user in users], file.quotas.subscribers),
    )
    for users, quota in limited:
        for user in set(users):
            for name, limit in quota.limits().items():
                quotas[user][name] = max(limit, quotas[user].get(name, 0.0))
    for user, quota in file.quotas.users.items():
        quotas[user].update(quota.limits())
    return quotas


def _users(file: AccessFile) -> Iterable[str]:
    yield from (*file.broker, *file.admins, *file.registrars, *file.publishers)
    for users in file.subscribers.values():
        yield from users

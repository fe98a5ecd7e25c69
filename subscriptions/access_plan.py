"""What has to change on Kafka so that it is as the access file wants it. Pure: it asks nobody.

The file is all there is: a rule for a topic or group of ours that the file does not want is
removed, whoever made it. What is not ours stays, and is named where it opens a topic of ours.
Changes are in the order in which they are made: rights are given before any are taken.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from subscriptions.access import (
    ADMIN_OPERATION,
    Rule,
    WantedAccess,
    admin_cluster_rules,
)
from subscriptions.errors import AccessFileError
from subscriptions.topics import TopicSettings


@dataclass(frozen=True)
class FoundTopic:
    """A topic as it is."""

    partitions: int
    replication: int
    configs: Mapping[str, str] = field(default_factory=dict)
    """The values that hold, Kafka's defaults included."""


@dataclass(frozen=True)
class FoundAccess:
    """What there is on Kafka."""

    topics: Mapping[str, FoundTopic]
    rules: frozenset[Rule]
    """All that allow something, also those that are not ours."""
    quotas: Mapping[str, Mapping[str, float]]
    denials: frozenset[Rule] = frozenset()
    """All that deny something; Kafka looks at them first."""


@dataclass(frozen=True)
class CreateTopic:
    """A topic is missing."""

    topic: str
    settings: TopicSettings


@dataclass(frozen=True)
class AddPartitions:
    """A topic has too few partitions."""

    topic: str
    partitions: int
    before: int


@dataclass(frozen=True)
class SetConfigs:
    """A topic has other settings."""

    topic: str
    configs: Mapping[str, str]
    before: Mapping[str, str]


@dataclass(frozen=True)
class AddRule:
    """A user lacks a right."""

    rule: Rule


@dataclass(frozen=True)
class SetQuota:
    """A user has other limits."""

    user: str
    limits: Mapping[str, float]
    """Those to set."""
    removed: tuple[str, ...]


@dataclass(frozen=True)
class RemoveRule:
    """A user has a right that the file does not give."""

    rule: Rule


Change = CreateTopic | AddPartitions | SetConfigs | AddRule | SetQuota | RemoveRule


@dataclass(frozen=True)
class Plan:
    """All that is to be done, and what one should know that can't be or is not ours to do."""

    changes: tuple[Change, ...]
    notes: tuple[str, ...]


def plan_access(wanted: WantedAccess, found: FoundAccess) -> Plan:
    """The way from what is there to what is wanted; nothing, if it is there."""
    ours = frozenset(_our_rules(wanted, found.rules))
    changes = (
        *_topic_changes(wanted, found),
        *(AddRule(rule) for rule in sorted(wanted.rules - found.rules)),
        *_quota_changes(wanted, found, {rule.user for rule in ours if rule.user is not None}),
        *(RemoveRule(rule) for rule in sorted(ours - wanted.rules)),
    )
    notes = (
        *_topic_notes(wanted, found),
        *_open_doors(wanted, found.rules),
        *_denials(wanted, found.denials),
    )
    return Plan(changes, notes)


def refuse_lock_out(plan: Plan, user: str | None) -> None:
    """Raise `AccessFileError` if the user who applies a plan would end without the right to."""
    removed = [change.rule for change in plan.changes if isinstance(change, RemoveRule)]
    if user is not None and any(each.user == user and each.kind == "cluster" for each in removed):
        raise AccessFileError(
            "locks-out",
            f"the file takes the rights of an admin away from `{user}`, who applies it; "
            "let another admin do that, or a super user of Kafka",
        )


def _topic_changes(wanted: WantedAccess, found: FoundAccess) -> Iterator[Change]:
    for name, settings in wanted.topics.items():
        there = found.topics.get(name)
        if there is None:
            yield CreateTopic(name, settings)
            continue
        if settings.partitions > there.partitions:
            yield AddPartitions(name, settings.partitions, before=there.partitions)
        configs = {
            config: value
            for config, value in settings.configs.items()
            if there.configs.get(config) != value
        }
        if configs:
            yield SetConfigs(name, configs, there.configs)


def _topic_notes(wanted: WantedAccess, found: FoundAccess) -> Iterator[str]:
    for name, settings in wanted.topics.items():
        there = found.topics.get(name)
        if there is None:
            continue
        if 0 < settings.partitions < there.partitions:
            yield (
                f"topic {name} has {there.partitions} partitions and stays so: "
                f"Kafka can't make {settings.partitions} of them"
            )
        if settings.replication > 0 and settings.replication != there.replication:
            yield (
                f"topic {name} has {there.replication} copies and stays so: to have "
                f"{settings.replication}, its partitions have to be reassigned with Kafka's tools"
            )


def _our_rules(wanted: WantedAccess, rules: Iterable[Rule]) -> Iterator[Rule]:
    """The rules that are ours to remove: those for our names, and what an admin of ours has on the
    cluster. Who was an admin is told by the rule that only admins have.
    """
    rules = list(rules)
    admins = {
        rule.principal
        for rule in rules
        if (rule.operation, rule.kind, rule.name, rule.pattern)
        == (ADMIN_OPERATION, "topic", wanted.prefix, "prefixed")
    }
    of_admins = {rule for each in admins for rule in admin_cluster_rules(each)}
    for rule in rules:
        if rule in of_admins or (rule.kind != "cluster" and rule.name.startswith(wanted.prefix)):
            yield rule


def _open_doors(wanted: WantedAccess, rules: Iterable[Rule]) -> Iterator[str]:
    """Rules of others that open topics or groups of ours."""
    for rule in sorted(rules):
        if rule.kind == "cluster" or rule.name == wanted.prefix:
            continue
        shorter = rule.pattern == "prefixed" and wanted.prefix.startswith(rule.name)
        if shorter or (rule.pattern, rule.name) == ("literal", "*"):
            yield f"not ours, and opens our {rule.kind}s: {rule.who}: {rule.right}"


def _denials(wanted: WantedAccess, rules: Iterable[Rule]) -> Iterator[str]:
    """Rules that may take away what the file gives: not ours to make or to remove."""
    users = {rule.principal for rule in wanted.rules}
    for rule in sorted(rules):
        if rule.principal in users or rule.name.startswith(wanted.prefix) or rule.name == "*":
            yield (
                f"denied, whatever the file allows: {rule.who}: {rule.right}; "
                "it stays until someone removes it with Kafka's tools (kafka-acls)"
            )


def _quota_changes(
    wanted: WantedAccess, found: FoundAccess, users_before: set[str]
) -> Iterator[Change]:
    """Limits of all users of the file, and of those who had a rule of ours and left it."""
    for user in sorted({*wanted.quotas, *users_before}):
        limits, there = wanted.quotas.get(user, {}), found.quotas.get(user, {})
        new = {name: limit for name, limit in limits.items() if there.get(name) != limit}
        removed = tuple(sorted(there.keys() - limits.keys()))
        if new or removed:
            yield SetQuota(user, new, removed)


class ShownChange(NamedTuple):
    """A change as people read it."""

    action: str
    what: str
    detail: str


def show_change(change: Change) -> ShownChange:
    """A change in words."""
    match change:
        case CreateTopic(topic, settings):
            numbers = (("partitions", settings.partitions), ("copies", settings.replication))
            chosen = [f"{name}={number}" for name, number in numbers if number > 0]
            chosen += [f"{name}={value}" for name, value in settings.configs.items()]
            return ShownChange("create", f"topic {topic}", ", ".join(chosen))
        case AddPartitions(topic, partitions, before):
            return ShownChange("change", f"topic {topic}", f"partitions={partitions} (is {before})")
        case SetConfigs(topic, configs, before):
            listed = [
                f"{name}={value} (is {before.get(name, 'not set')})"
                for name, value in configs.items()
            ]
            return ShownChange("change", f"topic {topic}", ", ".join(listed))
        case AddRule(rule):
            return ShownChange("allow", rule.who, rule.right)
        case RemoveRule(rule):
            return ShownChange("remove", rule.who, rule.right)
        case SetQuota(user, limits, removed):
            listed = [f"{name}={limit:.10g}" for name, limit in sorted(limits.items())]
            listed += [f"no {name}" for name in removed]
            return ShownChange("limit", f"user {user}", ", ".join(listed))

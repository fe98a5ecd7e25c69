"""The broker's topics: their names, their settings, and making those that are missing."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Self

from subscriptions.errors import KafkaError, TopicError
from subscriptions.kafka_client import (
    ClientSettings,
    ConfigResource,
    KafkaAdminClient,
    errors,
    not_allowed,
    open_client,
    topic_missing,
    translated_errors,
)
from subscriptions.topic_names import TopicNames

__all__ = [
    "NO_LEADER",
    "Accepted",
    "TopicAdmin",
    "TopicNames",
    "TopicSettings",
    "message_settings",
    "status_settings",
    "subscription_settings",
    "why_no_topic",
]

_HOUR_MS = 60 * 60 * 1000
_DAY_MS = 24 * _HOUR_MS
_WEEK_MS = 7 * _DAY_MS
_TOPICS_A_REQUEST = 500
_LARGEST, _CLEANUP = "max.message.bytes", "cleanup.policy"
_NOT_ALLOWED = "no access rule lets us see it"
_NOT_WRITABLE = "no access rule lets us write to it"
NO_LEADER = "it has no leader: the Kafka brokers that hold it are away"
_ELECTION_SECONDS = 2.0
"""A leader that has gone is mostly replaced within this time."""

_COMPACTED = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """How a topic is made. What is left out is up to the Kafka broker's own defaults."""

    partitions: int = -1
    replication: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


def subscription_settings(replication: int = -1) -> TopicSettings:
    """One partition, since its offset is the version. A week of grace before compaction, so that a
    batch can be done again with the version it had.

    The timestamps are Kafka's: the week counts by them, and a subscriber's clock that is wrong
    would shorten it.
    """
    lag = {"min.compaction.lag.ms": str(_WEEK_MS), "message.timestamp.type": "LogAppendTime"}
    return TopicSettings(1, replication, {**_COMPACTED, **lag})


def message_settings(partitions: int = -1, replication: int = -1) -> TopicSettings:
    """Publishers say what time their messages have, and Kafka takes any number for it; Spark
    doesn't, and would fail at the same message for ever.
    """
    bounds = {"before": 200 * 365 * _DAY_MS, "after": _HOUR_MS}
    configs = {f"message.timestamp.{name}.max.ms": str(most) for name, most in bounds.items()}
    return TopicSettings(partitions, replication, configs)


def status_settings(replication: int = -1) -> TopicSettings:
    """The last status of each key is all that anyone needs."""
    return TopicSettings(1, replication, _COMPACTED)


class Accepted(NamedTuple):
    """What records a topic takes."""

    largest: int
    """How large they may be."""
    needs_keys: bool
    """Whether it is compacted, and takes none without a key."""


class TopicAdmin:
    """Makes what is missing, and leaves what exists as it is."""

    def __init__(
        self,
        client_settings: ClientSettings,
        names: TopicNames | None = None,
        *,
        outputs: TopicSettings | None = None,
    ) -> None:
        self.names = names if names is not None else TopicNames()
        self.outputs = outputs if outputs is not None else TopicSettings()
        """How the topics of subscribers are made."""
        self._settings = client_settings
        self._client: Any = open_client(KafkaAdminClient, client_settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection; more than once does no harm."""
        self._client.close()

    def control_topics(
        self, messages: TopicSettings | None = None, replication: int = -1
    ) -> dict[str, TopicSettings]:
        """The topics that there have to be before anything runs."""
        plain = TopicSettings(replication=replication)
        return {
            self.names.messages: messages or message_settings(replication=replication),
            self.names.subscriptions: subscription_settings(replication),
            self.names.status: status_settings(replication),
            self.names.dead_letters: plain,
        }

    def ensure(self, topics: Mapping[str, TopicSettings]) -> list[str]:
        """Make those that are missing; their names. Raises `TopicError` if one can't be made."""
        missing = self.missing(topics)
        for name, reason in missing.items():
            if reason == _NOT_ALLOWED:
                raise not_allowed(self._settings, name)
        failed = self._create({name: topics[name] for name in missing})
        for name, reason in failed.items():
            raise TopicError("topic-not-made", f"the topic {name} can't be made: {reason}")
        return list(missing)

    def ensure_outputs(self, subscribers: Iterable[str]) -> dict[str, str]:
        """Make the missing topics of many subscribers at once; the reasons for those whose topic
        can't be had.
        """
        owners: dict[str, list[str]] = {}
        for subscriber in subscribers:
            owners.setdefault(self.names.output(subscriber), []).append(subscriber)
        unwritable = self.unwritable(owners)
        refused = {topic: why for topic, why in unwritable.items() if why == _NOT_WRITABLE}
        leaderless = [topic for topic, why in unwritable.items() if why == NO_LEADER]
        missing = unwritable.keys() - refused.keys() - set(leaderless)
        failed = {
            **refused,
            **self._await(leaderless, _ELECTION_SECONDS),
            **self._create(dict.fromkeys(missing, self.outputs)),
        }
        return {owner: reason for topic, reason in failed.items() for owner in owners[topic]}

    def missing(self, topics: Iterable[str]) -> dict[str, str]:
        """Those that are not there for us, each with the reason."""
        reasons = {each["name"]: _why_missing(each) for each in self._describe(topics)}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def unwritable(self, topics: Iterable[str]) -> dict[str, str]:
        """Those that can't be written to, each with the reason."""
        reasons = {
            each["name"]: _why_missing(each) or _why_unwritable(each)
            for each in self._describe(topics)
        }
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def accepted(self, topics: Iterable[str]) -> dict[str, Accepted]:
        """What records topics take; those of which Kafka does not tell it are left out."""
        found: dict[str, Accepted] = {}
        asked = dict.fromkeys((_LARGEST, _CLEANUP))
        for part in _parts(topics):
            wanted = [ConfigResource("TOPIC", topic, asked) for topic in part]
            with suppress(errors.KafkaError):
                answer = self._client.describe_configs(wanted, config_filter="all")
                for topic, configs in answer.get("topic", {}).items():
                    if asked.keys() <= configs.keys():
                        largest, cleanup = (str(configs[each]["value"]) for each in asked)
                        found[topic] = Accepted(int(largest), "compact" in cleanup.split(","))
        return found

    def ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        """The ids of those that are there; None if this Kafka gives them none."""
        ids: dict[str, str | None] = {}
        for each in self._describe(topics):
            if errors.for_code(each["error_code"]) is not errors.UnknownTopicOrPartitionError:
                ids[each["name"]] = each.get("topic_id")
        return ids

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has, 0 if there is none. Raises if we may not know."""
        described = list(self._describe([topic]))
        for each in described:
            if errors.for_code(each["error_code"]) is errors.TopicAuthorizationFailedError:
                raise not_allowed(self._settings, topic)
        return sum(len(each["partitions"]) for each in described)

    def _describe(self, topics: Iterable[str]) -> Iterator[dict[str, Any]]:
        for part in _parts(topics):
            with translated_errors(self._settings):
                yield from self._client.describe_topics(part)

    def _create(self, topics: Mapping[str, TopicSettings]) -> dict[str, str]:
        """Make topics; the reasons for those that can't be made."""
        failed: dict[str, str] = {}
        for part in _parts(topics):
            request = {
                name: {
                    "num_partitions": topics[name].partitions,
                    "replication_factor": topics[name].replication,
                    "configs": dict(topics[name].configs),
                }
                for name in part
            }
            with translated_errors(self._settings):
                answer = self._client.create_topics(request, raise_errors=False)
            for topic in answer["topics"]:
                error = errors.for_code(topic["error_code"])
                if topic["error_code"] != 0 and error is not errors.TopicAlreadyExistsError:
                    failed[topic["name"]] = topic.get("error_message") or error.__name__
        made = [name for name in topics if name not in failed]
        return {**failed, **self._await(made)}

    def _await(self, topics: list[str], seconds: float = 10.0) -> dict[str, str]:
        """Wait until topics have leaders; the reasons for those that get none."""
        unready: dict[str, str] = {}
        for part in _parts(topics):
            with translated_errors(self._settings):
                try:
                    self._client.wait_for_topics(part, timeout_ms=seconds * 1000)
                except errors.KafkaTimeoutError:
                    unready.update(self.unwritable(part) or dict.fromkeys(part, NO_LEADER))
        return unready


def _why_missing(described: Mapping[str, Any]) -> str | None:
    """Why a topic can't be used at all; None if it can."""
    error = errors.for_code(described["error_code"])
    if error is errors.UnknownTopicOrPartitionError:
        return "there is no such topic"
    if error is errors.TopicAuthorizationFailedError:
        return _NOT_ALLOWED
    return error.__name__ if described["error_code"] != 0 else None


def _why_unwritable(described: Mapping[str, Any]) -> str | None:
    """Why a topic that is there can't be written to, if Kafka tells what we may do."""
    allowed = described.get("authorized_operations")
    if allowed and "WRITE" not in allowed:
        return _NOT_WRITABLE
    is_led = all(each["leader_id"] >= 0 for each in described["partitions"])
    return None if is_led else NO_LEADER


def why_no_topic(settings: ClientSettings, topic: str) -> KafkaError:
    """The error for a topic that does not show: Kafka hides those that one may not read."""
    with TopicAdmin(settings) as admin:
        hidden = admin.missing([topic]).get(topic) == _NOT_ALLOWED
    return not_allowed(settings, topic) if hidden else topic_missing(topic)


def _parts(names: Iterable[str]) -> Iterator[list[str]]:
    """Names in parts that fit into one request."""
    left = iter(names)
    while part := list(islice(left, _TOPICS_A_REQUEST)):
        yield part

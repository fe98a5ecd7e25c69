"""kafka-python, imported in one place: its clients opened, its errors in our words."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

with warnings.catch_warnings():
    # It reads its schemas by a function that Python 3.11 and 3.12 call deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import (
        KafkaAdminClient,
        KafkaConsumer,
        KafkaProducer,
        TopicPartition,
        errors,
    )
    from kafka.admin import ConfigResource
    from kafka.net.compat import KafkaNetClient

from subscriptions.errors import KafkaError, KafkaUnreachableError, TopicError

__all__ = [
    "ClientSettings",
    "ConfigResource",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "TopicPartition",
    "errors",
    "open_client",
    "servers_of",
    "topic_missing",
    "translated_errors",
]

_UNREACHABLE = (
    errors.KafkaTimeoutError,
    errors.KafkaConnectionError,
    errors.NodeNotReadyError,
    OSError,
)

ClientSettings = Mapping[str, object]
"""What all of kafka-python's clients take: `bootstrap_servers` and the security settings."""


def servers_of(settings: ClientSettings) -> str:
    """The addresses that the settings have, for an error to name."""
    servers = settings.get("bootstrap_servers", "localhost:9092")
    return servers if isinstance(servers, str) else ", ".join(map(str, _listed(servers)))


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]


def open_client(kind: Callable[..., Any], settings: ClientSettings, **own: object) -> Any:  # noqa: ANN401 - kafka-python has no types
    """A consumer, a producer or an administrator, connected.

    kafka-python 3.0 takes `allow_auto_create_topics` and forgets it: a question about a topic makes
    it, with settings that nobody chose. And a constructor that fails leaves its thread and sockets
    behind. Both are put right where the client makes its connections.
    """
    opened: list[Any] = []

    def connect(**configs: object) -> Any:  # noqa: ANN401
        client = KafkaNetClient(**configs)
        client.cluster.config["allow_auto_create_topics"] = False
        opened.append(client)
        return client

    with translated_errors(settings):
        try:
            return kind(**{**settings, **own, "kafka_client": connect})
        except BaseException:
            for client in opened:
                client.close()
            raise


@contextmanager
def translated_errors(settings: ClientSettings, topic: str | None = None) -> Iterator[None]:
    """Turn kafka-python's errors into ours."""
    try:
        yield
    except _UNREACHABLE as error:
        raise KafkaUnreachableError(servers_of(settings), str(error)) from error
    except errors.UnknownTopicOrPartitionError as error:
        raise topic_missing(topic or "?") from error
    except errors.KafkaError as error:
        where = "" if topic is None else f" ({topic})"
        raise KafkaError("kafka-error", f"{error}{where}") from error


def topic_missing(topic: str) -> TopicError:
    """The error for a topic that is not there."""
    return TopicError("topic-missing", f"there is no topic {topic}")

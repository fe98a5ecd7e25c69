"""kafka-python, imported in one place: its clients opened, its errors in our words."""

import socket
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

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
    from kafka import admin as acls
    from kafka.admin import ConfigResource
    from kafka.consumer.fetcher import Fetcher
    from kafka.net.compat import KafkaNetClient
    from kafka.net.inet import KafkaNetSocket
    from kafka.protocol.admin import client_quotas as quota_requests
    from kafka.protocol.admin import users as user_requests
    from kafka.record.default_records import DefaultRecord

from subscriptions.errors import (
    KafkaAuthenticationError,
    KafkaAuthorisationError,
    KafkaError,
    KafkaUnreachableError,
    TopicError,
)

__all__ = [
    "ClientSettings",
    "ConfigResource",
    "DefaultRecord",
    "Fetcher",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaNetSocket",
    "KafkaProducer",
    "TopicPartition",
    "acls",
    "errors",
    "not_allowed",
    "open_client",
    "quota_requests",
    "servers_of",
    "topic_missing",
    "translated_errors",
    "user_of",
    "user_requests",
]

_UNREACHABLE = (
    errors.KafkaTimeoutError,
    errors.KafkaConnectionError,
    errors.NodeNotReadyError,
    OSError,
)
_NOT_KNOWN = (
    errors.SaslAuthenticationFailedError,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
)

_connect_socket = KafkaNetSocket.sock_connect


async def _connect_or_close(
    self: Any,  # noqa: ANN401
    net: Any,  # noqa: ANN401
    sock: socket.socket,
    address: object,
    timeout_at: float | None = None,
) -> socket.socket:
    """Connect, and close the socket if that fails, or if the client is closed meanwhile."""
    try:
        connected: socket.socket = await _connect_socket(self, net, sock, address, timeout_at)
    except BaseException:  # also the end of a coroutine that is given up
        sock.close()
        raise
    return connected


# kafka-python leaves such sockets to the collector.
KafkaNetSocket.sock_connect = _connect_or_close

ClientSettings = Mapping[str, object]
"""What all of kafka-python's clients take: `bootstrap_servers` and the security settings."""


def servers_of(settings: ClientSettings) -> str:
    """The addresses that the settings have, for an error to name."""
    servers = settings.get("bootstrap_servers", "localhost:9092")
    return servers if isinstance(servers, str) else ", ".join(map(str, _listed(servers)))


def user_of(settings: ClientSettings) -> str | None:
    """The user that the settings name, if they name one."""
    user = settings.get("sasl_plain_username")
    return None if user is None else str(user)


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]


def open_client(kind: Callable[..., Any], settings: ClientSettings, **own: object) -> Any:  # noqa: ANN401 - kafka-python has no types
    """A consumer, a producer or an administrator, connected; a constructor that fails would leave
    its thread and sockets behind.
    """
    opened: list[_Connections] = []

    def connect(**configs: object) -> _Connections:
        opened.append(_Connections(**configs))
        return opened[-1]

    with translated_errors(settings):
        try:
            return kind(**{**settings, **own, "kafka_client": connect})
        except BaseException:
            for client in opened:
                client.close()
            raise


class _Connections(KafkaNetClient):  # type: ignore[misc] # kafka-python has no types
    """What a client makes its connections with, put right where kafka-python 3.0 errs.

    1. It takes `allow_auto_create_topics` and forgets it: a question about a topic makes it, with
       settings that nobody chose.
    2. It tries a wrong password again and again, and in the end says that nobody answered: it has a
       place for a refusal, which it looks at before it connects and never fills.
    3. Kafka refuses and hangs up at once: what is received together with the end is lost.
    4. A connection that is closed before all is sent is never closed.
    """

    def __init__(self, **configs: object) -> None:
        super().__init__(**configs)
        self.cluster.config["allow_auto_create_topics"] = False
        manager = self._manager
        self._build, self._connect = manager._build_transport, manager._connect  # noqa: SLF001
        manager._build_transport = self._build_patient  # noqa: SLF001
        manager._connect = self._connect_once  # noqa: SLF001
        self._transports: WeakSet[Any] = WeakSet()

    def close(self, node_id: object = None) -> None:
        """Close a connection, or all."""
        super().close(node_id)
        if node_id is None:
            for transport in self._transports:
                if transport._sock is not None:  # noqa: SLF001
                    transport._sock.close()  # noqa: SLF001

    async def _build_patient(self, *arguments: object, **options: object) -> Any:  # noqa: ANN401
        transport = await self._build(*arguments, **options)
        receive = transport._sock_recv  # noqa: SLF001

        def receive_first() -> tuple[bytes, Exception | None]:
            data, end = receive()
            return data, None if data else end  # the end is there to be met again

        transport._sock_recv = receive_first  # noqa: SLF001
        self._transports.add(transport)
        return transport

    async def _connect_once(self, node: Any, connection: Any, **options: object) -> None:  # noqa: ANN401
        manager = self._manager

        def note(refusal: Exception) -> None:
            if isinstance(refusal, _NOT_KNOWN) and manager.cluster.is_bootstrap(node.node_id):
                manager._auth_failures[node.node_id] = refusal  # noqa: SLF001

        await self._connect(node, connection, **options)
        # Not before: at its end, `connect` forgets what it may have been told.
        connection.init_future.add_errback(note)


@contextmanager
def translated_errors(settings: ClientSettings, topic: str | None = None) -> Iterator[None]:
    """Turn kafka-python's errors into ours."""
    try:
        yield
    except _UNREACHABLE as error:
        raise KafkaUnreachableError(servers_of(settings), str(error)) from error
    except _NOT_KNOWN as error:
        user, reason = user_of(settings), _why_not_known(error, settings)
        raise KafkaAuthenticationError(servers_of(settings), user, reason) from error
    except errors.AuthorizationError as error:
        raise not_allowed(settings, topic) from error
    except errors.UnknownTopicOrPartitionError as error:
        raise topic_missing(topic or "?") from error
    except errors.KafkaError as error:
        if error.retriable:  # a time-out, or another broker's turn
            raise KafkaUnreachableError(servers_of(settings), str(error)) from error
        where = "" if topic is None else f" ({topic})"
        raise KafkaError("kafka-error", f"{error}{where}") from error


def _why_not_known(error: Exception, settings: ClientSettings) -> str:
    if isinstance(error, errors.SaslAuthenticationFailedError):
        return "wrong password, or no such user"
    return f"it does not check passwords by {settings.get('sasl_mechanism')}"


def not_allowed(settings: ClientSettings, topic: str | None = None) -> KafkaAuthorisationError:
    """The error for what no access rule allows."""
    what = "do that on this Kafka" if topic is None else f"do that with the topic {topic}"
    return KafkaAuthorisationError(user_of(settings), what)


def topic_missing(topic: str) -> TopicError:
    """The error for a topic that is not there."""
    return TopicError("topic-missing", f"there is no topic {topic}")

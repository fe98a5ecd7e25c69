"""kafka-python's clients and errors, without a Kafka."""

import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from subscriptions.connection import KafkaSettings
from subscriptions.errors import (
    KafkaAuthenticationError,
    KafkaAuthorisationError,
    KafkaError,
    KafkaUnreachableError,
    RecordError,
    TopicError,
)
from subscriptions.kafka_client import (
    KafkaNetSocket,
    errors,
    open_client,
    servers_of,
    translated_errors,
)
from subscriptions.topics import TopicNames, status_settings, subscription_settings

SETTINGS: dict[str, object] = {"bootstrap_servers": "127.0.0.1:1"}


class FakeClient:
    """Opens its connections as kafka-python's clients do."""

    opened: list[Any] = []  # noqa: RUF012 - one list for all is meant

    def __init__(self, *, kafka_client: Any, fails: bool = False, **settings: object) -> None:  # noqa: ANN401
        self.connections = kafka_client(**settings)
        FakeClient.opened.append(self.connections)
        if fails:
            raise errors.KafkaTimeoutError("Unable to bootstrap")


def test_asking_for_a_topic_does_not_make_it() -> None:
    client = open_client(FakeClient, SETTINGS, allow_auto_create_topics=False)
    request = client.connections.cluster.metadata_request()
    client.connections.close()
    assert request.allow_auto_topic_creation is False


def test_a_client_that_fails_leaves_nothing_open() -> None:
    with pytest.raises(KafkaUnreachableError) as caught:
        open_client(FakeClient, SETTINGS, fails=True)
    assert "127.0.0.1:1" in caught.value.detail
    assert FakeClient.opened[-1]._manager.closed


class FakeLoop:
    """Waits for sockets as kafka-python's loop does: in its own time."""

    def __init__(self) -> None:
        self.waits_for: list[socket.socket] = []

    def wait_write(self, waiting: socket.socket, timeout_at: float | None = None) -> "FakeLoop":
        assert timeout_at is None
        self.waits_for.append(waiting)
        return self

    def __await__(self) -> Iterator[None]:
        yield


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_connection_that_is_given_up_leaves_no_socket_open(is_refused: bool) -> None:
    """A client may be closed while it connects to another broker than the one it asked first."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        if is_refused:
            server.close()
        loop = FakeLoop()
        connecting = KafkaNetSocket().connect(
            loop, (socket.AF_INET, socket.SOCK_STREAM, 0, "", address)
        )
        connecting.send(None)
        (waiting,) = loop.waits_for
        assert waiting.fileno() >= 0
        if is_refused:
            with pytest.raises(errors.KafkaConnectionError):
                connecting.send(None)
        else:
            connecting.close()
        assert waiting.fileno() == -1


def test_a_connection_that_is_closed_before_all_is_sent_is_closed() -> None:
    class Node(NamedTuple):
        host: str
        port: int

    with socket.create_server(("127.0.0.1", 0)) as server:
        connections = open_client(FakeClient, SETTINGS).connections
        loop = connections._net
        transport = loop.run(connections._manager._build_transport, Node(*server.getsockname()))
        used = transport._sock
        transport.writelines([bytes(100_000_000)])  # nobody reads them
        loop.poll(timeout_ms=100)
        transport.close()
        assert used.fileno() >= 0
        connections.close()
        assert used.fileno() == -1


@pytest.mark.parametrize(
    ("raised", "kind", "code"),
    [
        (errors.KafkaTimeoutError("x"), KafkaUnreachableError, "kafka-unreachable"),
        (errors.NodeNotReadyError("x"), KafkaUnreachableError, "kafka-unreachable"),
        (ConnectionRefusedError("x"), KafkaUnreachableError, "kafka-unreachable"),
        (errors.UnknownTopicOrPartitionError("x"), TopicError, "topic-missing"),
        (errors.TopicAuthorizationFailedError("x"), KafkaAuthorisationError, "kafka-authorisation"),
        (errors.ClusterAuthorizationFailedError(), KafkaAuthorisationError, "kafka-authorisation"),
        (errors.SaslAuthenticationFailedError(), KafkaAuthenticationError, "kafka-authentication"),
        (errors.UnsupportedSaslMechanismError(), KafkaAuthenticationError, "kafka-authentication"),
        (errors.OffsetOutOfRangeError("x"), KafkaError, "kafka-error"),
        (errors.RequestTimedOutError("x"), KafkaUnreachableError, "kafka-unreachable"),
        (errors.NotControllerError("x"), KafkaUnreachableError, "kafka-unreachable"),
    ],
)
def test_errors_in_our_words(raised: Exception, kind: type[KafkaError], code: str) -> None:
    with pytest.raises(KafkaError) as caught, translated_errors(SETTINGS, "some.topic"):
        raise raised
    assert type(caught.value) is kind
    assert caught.value.code == code


def test_refusals_name_the_user_and_never_the_password() -> None:
    settings = {**SETTINGS, "sasl_plain_username": "acme\x1b", "sasl_plain_password": "hidden"}
    for raised in (errors.SaslAuthenticationFailedError("x"), errors.AuthorizationError("x")):
        with pytest.raises(KafkaError) as caught, translated_errors(settings, "some.topic"):
            raise raised
        assert "the user `acme�`" in caught.value.detail
        assert "hidden" not in str(caught.value)
    with pytest.raises(KafkaError) as caught, translated_errors(SETTINGS, "some.topic"):
        raise errors.AuthorizationError
    assert "a client that names no user may not do that with the topic some.topic" in str(caught)


@pytest.mark.parametrize("given", [{}, {"sasl_username": "acme"}, {"sasl_password": "hidden"}])
def test_a_user_without_a_password_is_not_tried(given: dict[str, str]) -> None:
    settings = KafkaSettings.model_validate({"security_protocol": "SASL_SSL", **given})
    with pytest.raises(KafkaError) as caught:
        settings.client_settings()
    assert caught.value.code == "kafka-no-user"
    assert "hidden" not in str(caught.value)


def test_addresses_are_named() -> None:
    assert servers_of({"bootstrap_servers": ["a:1", "b:2"]}) == "a:1, b:2"
    assert servers_of({}) == "localhost:9092"


class TestTopics:
    def test_names(self) -> None:
        names = TopicNames("xmlbroker")
        assert names.messages == "xmlbroker.messages"
        assert names.subscriptions == "xmlbroker.subscriptions"
        assert names.status == "xmlbroker.subscription-status"
        assert names.dead_letters == "xmlbroker.dead-letters"
        assert names.output("acme") == "xmlbroker.out.acme"
        assert len(TopicNames("p" * 100).output("s" * 63)) < 249

    @pytest.mark.parametrize("subscriber", ["", "ACME", "a.b", "a_b", "../x", "a" * 64, "a\n"])
    def test_ids_are_refused_and_never_rewritten(self, subscriber: str) -> None:
        with pytest.raises(RecordError):
            TopicNames().output(subscriber)

    @pytest.mark.parametrize("prefix", ["", ".", "a b", "a/b", "ä", "a" * 101, "a\n"])
    def test_prefixes_that_are_none(self, prefix: str) -> None:
        with pytest.raises(TopicError):
            TopicNames(prefix)

    def test_a_version_is_an_offset_that_is_kept_for_a_week(self) -> None:
        settings = subscription_settings(replication=3)
        assert (settings.partitions, settings.replication) == (1, 3)
        assert settings.configs == {
            "cleanup.policy": "compact",
            "min.compaction.lag.ms": "604800000",
            "message.timestamp.type": "LogAppendTime",
        }
        assert status_settings().configs == {"cleanup.policy": "compact"}

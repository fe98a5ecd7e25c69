"""What the commands with Kafka share: whom they ask, and what their errors advise.

Nothing here imports Kafka's client, and commands import what does only when they run: the others
would start half a second later for it.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click
from rich.console import Console
from rich.table import Table

from broker.errors import printable
from subscriptions.connection import KafkaSettings
from subscriptions.errors import KafkaUnreachableError, RecordError, TopicError
from subscriptions.model import SubscriptionKey, is_id
from subscriptions.topic_names import TopicNames
from xmlbroker.context import Context

_ANSWER_SECONDS = 10
"""People wait for a command; programs that stay have the client's own, longer patience."""

_FILE_WIDTH = 200
"""How wide a table is where no terminal says it."""

BOOTSTRAP_SERVERS = click.option(
    "--bootstrap-servers",
    "servers",
    metavar="HOST:PORT,…",
    help="Kafka's address, in place of the setting kafka.bootstrap_servers.",
)


@dataclass(frozen=True)
class KafkaAccess:
    """A Kafka that a command asks, and the broker's names there."""

    settings: KafkaSettings

    @classmethod
    def of(cls, context: Context, servers: str | None) -> "KafkaAccess":
        """The Kafka of the settings, or the one that was named on the command line."""
        settings = context.settings.kafka
        if servers is not None:
            settings = settings.model_copy(update={"bootstrap_servers": servers})
        return cls(settings)

    def __post_init__(self) -> None:
        _check_addresses(self.settings.bootstrap_servers)

    @property
    def names(self) -> TopicNames:
        """The names of the broker's topics."""
        return self.settings.names

    @property
    def client_settings(self) -> dict[str, object]:
        """What Kafka's clients take, for a command that somebody waits for."""
        return {**self.settings.client_settings(), "bootstrap_timeout_ms": _ANSWER_SECONDS * 1000}

    @contextmanager
    def advised(self, missing_topic: str | None = None) -> Iterator[None]:
        """Let errors of Kafka say what to do about them; `missing_topic` is the command's advice
        where a topic is not there.
        """
        try:
            yield
        except KafkaUnreachableError as error:
            error.detail += (
                "\nStart one with `xmlbroker up`, or name another address with --bootstrap-servers "
                "or the setting kafka.bootstrap_servers. If one runs there, it may want a user or "
                "encryption (the setting kafka.security_protocol), or have a certificate that is "
                "not trusted (kafka.ssl_ca_file)."
            )
            raise
        except TopicError as error:
            if error.code == "topic-missing":
                error.detail += "\n" + (missing_topic or self._topics_are_made)
            raise

    @property
    def _topics_are_made(self) -> str:
        return (
            "The broker makes its topics when it starts: `xmlbroker up` or `xmlbroker run`. If it "
            f"runs, its setting kafka.prefix may be another than `{self.settings.prefix}`."
        )


def _check_addresses(servers: str) -> None:
    """The client takes half an address for a name to look up, and keeps looking."""
    for address in servers.split(","):
        host, colon, port = address.strip().rpartition(":")
        is_host = host and ("[" in host) == host.endswith("]")
        if not (is_host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise click.UsageError(f"`{address}` is no address of a Kafka broker: host:port")


def print_foreign_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Print what others wrote as a table: nothing in it is markup or moves the cursor."""
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(printable, row))
    console.print(table)


def subscriber_id(text: str) -> str:
    """The id of a subscriber, as an argument of a command."""
    if not is_id(text):
        raise click.BadParameter("an id is 1 to 63 of a-z, 0-9 and -, not a - first")
    return text


def subscription_key(text: str) -> SubscriptionKey:
    """The key of a subscription, as an argument of a command."""
    try:
        return SubscriptionKey.parse(text)
    except RecordError as error:
        raise click.BadParameter(error.detail) from None

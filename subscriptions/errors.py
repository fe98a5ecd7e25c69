"""Every error that this package raises on purpose, beside those of the broker.

BrokerError                  of `broker.errors`: has a stable `code`
├── RecordError              a record of the subscription topic is refused
├── VersionLostError         the subscriptions of an older version can't be had any more
├── AccessFileError          the file with users and access rules is refused
└── KafkaError               Kafka did not do what it was asked
    ├── KafkaUnreachableError     nobody answers
    ├── KafkaAuthenticationError  the user or the password is wrong
    ├── KafkaAuthorisationError   the user may not do this
    └── TopicError                a topic is missing, or is not what it has to be
"""

from broker.errors import BrokerError, QueryError, printable


class RecordError(BrokerError):
    """A record was refused; the subscription it was meant for stays as it was.

    A query that is refused brings its own code and its place in the query's text.
    """

    def __init__(self, code: str, detail: str, *, query_error: QueryError | None = None) -> None:
        super().__init__(code, detail)
        self.query_error = query_error

    @classmethod
    def of_query(cls, error: QueryError) -> "RecordError":
        """The refusal of a record because of its query."""
        return cls(error.code, error.detail, query_error=error)

    def __str__(self) -> str:
        return super().__str__() if self.query_error is None else str(self.query_error)

    def as_record(self) -> dict[str, object]:
        """The error for the status topic; that of a query with the line and a caret under it."""
        if self.query_error is None:
            return super().as_record()
        return {**self.query_error.as_record(), "shown": str(self.query_error)}


class VersionLostError(BrokerError):
    """The log no longer gives the subscriptions that a version had."""


class AccessFileError(BrokerError):
    """A file with users and access rules is refused, whole; the detail has every place."""


class KafkaError(BrokerError):
    """Kafka refused something or failed at it; the detail has its words."""


class KafkaUnreachableError(KafkaError):
    """No Kafka broker answers at the address that was given."""

    def __init__(self, servers: str, reason: str) -> None:
        super().__init__("kafka-unreachable", f"no Kafka broker answers at {servers}: {reason}")
        self.servers = servers


class KafkaAuthenticationError(KafkaError):
    """Kafka answers, but does not take the user for who it says it is."""

    def __init__(self, servers: str, user: str | None, reason: str) -> None:
        super().__init__(
            "kafka-authentication",
            f"Kafka at {servers} refuses {_named(user)}: {reason}.\nSee the settings "
            "kafka.sasl_username, kafka.sasl_password and kafka.sasl_mechanism: `xmlbroker "
            "settings` says where they come from",
        )
        self.user = user


class KafkaAuthorisationError(KafkaError):
    """Kafka knows the user and has no rule that allows this."""

    def __init__(self, user: str | None, what: str) -> None:
        super().__init__(
            "kafka-authorisation",
            f"{_named(user)} may not {what}.\nWho may do what is in the file that an administrator "
            "applies with `xmlbroker admin apply`",
        )
        self.user = user


class TopicError(KafkaError):
    """A topic is missing, or is not what it has to be."""


def _named(user: str | None) -> str:
    return "a client that names no user" if user is None else f"the user `{printable(user)}`"

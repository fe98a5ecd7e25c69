"""How to reach Kafka: one set of settings for kafka-python's clients and for Spark's.

What is secret is a `SecretStr`: it shows in no log and in no `settings` output.
"""

import ssl
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from subscriptions.errors import KafkaError
from subscriptions.topic_names import TopicNames


class KafkaSettings(BaseModel):
    """The address, the names of topics, and what proves who we are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bootstrap_servers: str = Field(
        default="localhost:9092", description="host:port of some Kafka brokers, with commas between"
    )
    prefix: str = Field(default="xmlbroker", description="what the names of all topics start with")
    shared_topics: int = Field(
        default=0,
        ge=0,
        description="so many output topics for all subscribers; 0: one for each",
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="whether connections are encrypted and authenticated"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="SCRAM-SHA-512", description="how the password is checked"
    )
    sasl_username: str | None = Field(default=None, description="the user of SASL")
    sasl_password: SecretStr | None = Field(default=None, description="the password of SASL")
    ssl_ca_file: str | None = Field(
        default=None, description="PEM file with the certificates that are trusted"
    )
    ssl_certificate_file: str | None = Field(
        default=None, description="PEM file with our certificate and its unencrypted key"
    )

    @property
    def names(self) -> TopicNames:
        """The names of all topics."""
        return TopicNames(self.prefix, self.shared_topics)

    def client_settings(self) -> dict[str, object]:
        """What kafka-python's clients take."""
        settings: dict[str, object] = {
            "bootstrap_servers": self.bootstrap_servers.split(","),
            "security_protocol": self.security_protocol,
        }
        if self._has_sasl:
            self._require_user()
            settings["sasl_mechanism"] = self.sasl_mechanism
            settings["sasl_plain_username"] = self.sasl_username
            settings["sasl_plain_password"] = self._password
        self._require_certificates()
        if self.ssl_ca_file is not None:
            settings["ssl_cafile"] = self.ssl_ca_file
        if self.ssl_certificate_file is not None:
            settings["ssl_certfile"] = settings["ssl_keyfile"] = self.ssl_certificate_file
        return settings

    def spark_options(self) -> dict[str, str]:
        """What Spark's source and sink take."""
        options = {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "kafka.security.protocol": self.security_protocol,
        }
        if self._has_sasl:
            module = "plain.Plain" if self.sasl_mechanism == "PLAIN" else "scram.Scram"
            options["kafka.sasl.mechanism"] = self.sasl_mechanism
            options["kafka.sasl.jaas.config"] = (
                f"org.apache.kafka.common.security.{module}LoginModule required "
                f"username={_quoted(self.sasl_username or '')} password={_quoted(self._password)};"
            )
        if self.ssl_ca_file is not None:
            options["kafka.ssl.truststore.type"] = "PEM"
            options["kafka.ssl.truststore.location"] = self.ssl_ca_file
        if self.ssl_certificate_file is not None:
            options["kafka.ssl.keystore.type"] = "PEM"
            options["kafka.ssl.keystore.location"] = self.ssl_certificate_file
        return options

    def _require_user(self) -> None:
        """The clients would go on without, to be refused for a reason that is none."""
        if not self.sasl_username or self.sasl_password is None:
            raise KafkaError(
                "kafka-no-user",
                f"{self.security_protocol} needs the settings kafka.sasl_username and "
                "kafka.sasl_password",
            )

    def _require_certificates(self) -> None:
        """The clients would take files that can't be read for a Kafka that does not answer."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for name, file, load in (
            ("ssl_ca_file", self.ssl_ca_file, context.load_verify_locations),
            ("ssl_certificate_file", self.ssl_certificate_file, context.load_cert_chain),
        ):
            if file is not None:
                try:
                    load(file)
                except OSError as error:
                    reason = "it has no such PEM" if isinstance(error, ssl.SSLError) else error
                    raise KafkaError(
                        "kafka-certificates", f"kafka.{name}, {file}: {reason}"
                    ) from None

    @property
    def _has_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    @property
    def _password(self) -> str:
        return "" if self.sasl_password is None else self.sasl_password.get_secret_value()


def _quoted(text: str) -> str:
    """A value as Java's login configuration has it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

"""Passwords and access rules for the embedded Kafka: what a company's Kafka has, on one machine.

Nobody may do anything without a rule that allows it. Users prove who they are by SCRAM-SHA-512, and
their passwords are in Kafka, as they are on a real cluster. The first of them has to come from
somewhere: a super user, known to the broker by its settings alone (by PLAIN), makes the others. It
is also who the broker is to its own controller.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka import KafkaAdminClient
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from broker.errors import BrokerError

SUPER_USER = "kafka"
LISTENER = "SASL_PLAINTEXT"
MECHANISM = "SCRAM-SHA-512"

_ITERATIONS = 4096
"""The least that Kafka takes: these passwords are for one machine."""


@dataclass(frozen=True)
class KafkaSecurity:
    """The users of an embedded Kafka with their passwords."""

    users: Mapping[str, str] = field(repr=False)
    super_password: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)

    def properties(self) -> dict[str, str]:
        """What `server.properties` has to have beside the addresses."""
        login = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{SUPER_USER}" password="{self.super_password}" '
            f'user_{SUPER_USER}="{self.super_password}";'
        )
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        listener = f"listener.name.{LISTENER.lower()}"
        return {
            "listener.security.protocol.map": f"{LISTENER}:{LISTENER},CONTROLLER:{LISTENER}",
            "inter.broker.listener.name": LISTENER,
            "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            f"{listener}.plain.sasl.jaas.config": login,
            f"{listener}.{MECHANISM.lower()}.sasl.jaas.config": scram,
            # SCRAM passwords are in the controller's log, which can't be read without the
            # controller: to it the broker has to prove itself in another way.
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": login,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": f"User:{SUPER_USER}",
        }

    def client_settings(self) -> dict[str, object]:
        """What lets kafka-python's clients be the super user."""
        return {
            "security_protocol": LISTENER,
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": SUPER_USER,
            "sasl_plain_password": self.super_password,
        }

    def add_users(self, bootstrap_servers: str) -> None:
        """Give the users their passwords; more than once does no harm."""
        passwords = [
            UserScramCredentialUpsertion(
                user, ScramMechanism.SCRAM_SHA_512, password, iterations=_ITERATIONS
            )
            for user, password in self.users.items()
        ]
        if not passwords:
            return
        settings = self.client_settings()
        with KafkaAdminClient(bootstrap_servers=bootstrap_servers, **settings) as admin:
            answer = admin.alter_user_scram_credentials(passwords)
        for user, refusal in answer.items():
            if refusal is not None:
                raise BrokerError("kafka-user", f"Kafka takes no password for {user}: {refusal}")

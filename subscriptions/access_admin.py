"""Access rules, quotas and topics on Kafka: what is there, and making it as it is wanted."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Self, TypeVar

from subscriptions.access import Kind, Pattern, Rule, WantedAccess
from subscriptions.access_plan import (
    AddPartitions,
    AddRule,
    Change,
    CreateTopic,
    FoundAccess,
    FoundTopic,
    RemoveRule,
    SetConfigs,
    SetQuota,
)
from subscriptions.errors import KafkaError
from subscriptions.kafka_client import (
    ClientSettings,
    ConfigResource,
    KafkaAdminClient,
    acls,
    errors,
    not_allowed,
    open_client,
    quota_requests,
    translated_errors,
    user_requests,
)
from subscriptions.topics import TopicAdmin

_A_REQUEST = 500
_ITERATIONS = 8192
"""How often a password is hashed: twice what Kafka asks for at least."""

_KINDS: Mapping[Kind, Any] = {
    "topic": acls.ResourceType.TOPIC,
    "group": acls.ResourceType.GROUP,
    "cluster": acls.ResourceType.CLUSTER,
}
_PATTERNS: Mapping[Pattern, Any] = {
    "literal": acls.ACLResourcePatternType.LITERAL,
    "prefixed": acls.ACLResourcePatternType.PREFIXED,
}
_KIND_NAMES = {value: name for name, value in _KINDS.items()}
_PATTERN_NAMES = {value: name for name, value in _PATTERNS.items()}

_ANY_NAME = 2
"""In a question about quotas: of whatever name, but named."""

_T = TypeVar("_T")


class AccessAdmin:
    """Asks as a user that has the right to: a super user of Kafka, or an admin of the file."""

    def __init__(self, client_settings: ClientSettings) -> None:
        self._settings = client_settings
        self._client: Any = open_client(KafkaAdminClient, client_settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._client.close()

    # What there is

    def found(self, wanted: WantedAccess) -> FoundAccess:
        """What there is of what matters to the wanted access."""
        with translated_errors(self._settings):
            if not wanted.rules:
                return FoundAccess(self._topics(wanted), frozenset(), {})
            return FoundAccess(
                self._topics(wanted),
                frozenset(self._rules(acls.ACLPermissionType.ALLOW)),
                self._quotas(),
                frozenset(self._rules(acls.ACLPermissionType.DENY)),
            )

    def _topics(self, wanted: WantedAccess) -> dict[str, FoundTopic]:
        found: dict[str, FoundTopic] = {}
        for part in _parts(wanted.topics):
            described = self._client.describe_topics(part)
            for each in described:
                error = errors.for_code(each["error_code"])
                if issubclass(error, errors.AuthorizationError):
                    raise not_allowed(self._settings, each["name"])
            there = [each for each in described if each["partitions"]]
            configs = self._configs([each["name"] for each in there])
            for each in there:
                partitions = each["partitions"]
                copies = min(len(partition["replica_nodes"]) for partition in partitions)
                found[each["name"]] = FoundTopic(len(partitions), copies, configs[each["name"]])
        return found

    def _configs(self, topics: list[str]) -> dict[str, dict[str, str]]:
        if not topics:
            return {}
        resources = [ConfigResource("TOPIC", topic) for topic in topics]
        answer = self._client.describe_configs(resources, config_filter="all")
        return {
            topic: {name: str(config["value"]) for name, config in configs.items()}
            for topic, configs in answer["topic"].items()
        }

    def _rules(self, permission: Any) -> Iterator[Rule]:  # noqa: ANN401 - kafka-python has no types
        everything = acls.ACLFilter(
            principal=None,
            host=None,
            operation=acls.ACLOperation.ANY,
            permission_type=permission,
            resource_pattern=acls.ResourcePatternFilter(
                acls.ResourceType.ANY, None, acls.ACLResourcePatternType.ANY
            ),
        )
        try:
            found, _ = self._client.describe_acls(everything)
        except errors.SecurityDisabledError as error:
            raise KafkaError(
                "kafka-no-authorizer",
                "this Kafka has no access rules: everybody may do everything. Its brokers' setting "
                "authorizer.class.name switches them on; with --topics-only the topics of the file "
                "are made without them",
            ) from error
        for each in found:
            pattern = each.resource_pattern
            if pattern.resource_type in _KIND_NAMES and pattern.pattern_type in _PATTERN_NAMES:
                yield Rule(
                    each.principal,
                    each.operation.name,
                    _KIND_NAMES[pattern.resource_type],
                    pattern.resource_name,
                    _PATTERN_NAMES[pattern.pattern_type],
                    each.host,
                )

    def _quotas(self) -> dict[str, dict[str, float]]:
        """The limits that users have as such, not with a certain client or from an address."""
        request = quota_requests.DescribeClientQuotasRequest
        component = request.ComponentData(entity_type="user", match_type=_ANY_NAME, match=None)
        answer = self._send(request(components=[component], strict=True))
        if answer.error_code:
            raise errors.for_code(answer.error_code)(answer.error_message)
        return {
            each.entity[0].entity_name: {limit.key: limit.value for limit in each.values}
            for each in answer.entries or ()
        }

    # What is done about it

    def apply(self, change: Iterable[Change]) -> None:
        """Make changes, those of a kind together. Raises `KafkaError` at the first that Kafka
        refuses; those before it are made, and the rest is in the next plan.
        """
        changes = list(change)
        with TopicAdmin(self._settings) as topics:
            topics.ensure(
                {each.topic: each.settings for each in changes if isinstance(each, CreateTopic)}
            )
        with translated_errors(self._settings):
            for each in changes:
                if isinstance(each, AddPartitions):
                    self._add_partitions(each)
                elif isinstance(each, SetConfigs):
                    self._set_configs(each)
            for part in _parts(each.rule for each in changes if isinstance(each, AddRule)):
                self._add(part)
            for quotas in _parts(each for each in changes if isinstance(each, SetQuota)):
                self._set_quotas(quotas)
            for part in _parts(each.rule for each in changes if isinstance(each, RemoveRule)):
                self._remove(part)

    def _add_partitions(self, change: AddPartitions) -> None:
        wanted = {change.topic: change.partitions}
        answer = self._client.create_partitions(wanted, raise_errors=False)
        for each in answer.results:
            self._check(each.error_code, each.error_message, f"the partitions of {change.topic}")

    def _set_configs(self, change: SetConfigs) -> None:
        resource = ConfigResource("TOPIC", change.topic, dict(change.configs))
        answer = self._client.alter_configs([resource], raise_on_unknown=False)
        said = answer["topic"][change.topic]
        if said != "OK":
            raise _refused(f"the settings of {change.topic}", said)

    def _add(self, rules: list[Rule]) -> None:
        answer = self._client.create_acls([_acl(rule) for rule in rules])
        for error in answer["failed"]:
            self._check(error.errno, None, f"some of the rules, {rules[0].right} among them")

    def _remove(self, rules: list[Rule]) -> None:
        answer = self._client.delete_acls([_acl(rule, of=acls.ACLFilter) for rule in rules])
        for rule, (_, _, error) in zip(rules, answer, strict=True):
            self._check(error.errno, None, f"the removal of {rule.right} from {rule.who}")

    def _set_quotas(self, changes: list[SetQuota]) -> None:
        request = quota_requests.AlterClientQuotasRequest
        entry, operation = request.EntryData, request.EntryData.OpData
        entries = [
            entry(
                entity=[entry.EntityData(entity_type="user", entity_name=each.user)],
                ops=[
                    *(operation(key=name, value=limit) for name, limit in each.limits.items()),
                    *(operation(key=name, value=0.0, remove=True) for name in each.removed),
                ],
            )
            for each in changes
        ]
        answer = self._send(request(entries=entries, validate_only=False))
        for each, said in zip(changes, answer.entries, strict=True):
            self._check(said.error_code, said.error_message, f"the limits of {each.user}")

    def set_password(self, user: str, password: str) -> None:
        """Give a user a password for SCRAM-SHA-512, the first or another one."""
        credential = acls.UserScramCredentialUpsertion(
            user, acls.ScramMechanism.SCRAM_SHA_512, password, iterations=_ITERATIONS
        )
        request = user_requests.AlterUserScramCredentialsRequest
        upsertion = request.ScramCredentialUpsertion(
            name=user,
            mechanism=credential.mechanism,
            iterations=credential.iterations,
            salt=credential.salt,
            salted_password=credential.salted_password,
        )
        with translated_errors(self._settings):
            # Not by the client's method, which drops the code of a refusal.
            answer = self._send(request(deletions=[], upsertions=[upsertion]))
            for each in answer.results:
                self._check(each.error_code, each.error_message, f"the password of {user}")

    def _check(self, code: int, message: str | None, what: str) -> None:
        error = errors.for_code(code)
        if issubclass(error, errors.AuthorizationError):
            raise error(message)
        if code:
            raise _refused(what, message or error.__name__)

    def _send(self, request: Any) -> Any:  # noqa: ANN401 - kafka-python has no types
        """Send a request that the client has no method for."""
        manager = self._client._manager  # noqa: SLF001
        return manager.run(manager.send, request)


def _refused(what: str, reason: str) -> KafkaError:
    return KafkaError("access-refused", f"Kafka does not take {what}: {reason}")


def _acl(rule: Rule, of: Any = acls.ACL) -> Any:  # noqa: ANN401
    """A rule as kafka-python has it, or a filter for this very rule."""
    return of(
        principal=rule.principal,
        host=rule.host,
        operation=acls.ACLOperation[rule.operation],
        permission_type=acls.ACLPermissionType.ALLOW,
        resource_pattern=acls.ResourcePattern(
            _KINDS[rule.kind], rule.name, _PATTERNS[rule.pattern]
        ),
    )


def _parts(items: Iterable[_T]) -> Iterator[list[_T]]:
    """Items in parts that fit into one request."""
    left = iter(items)
    while part := list(islice(left, _A_REQUEST)):
        yield part

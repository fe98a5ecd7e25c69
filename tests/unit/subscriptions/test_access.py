"""Who may do what, and what has to change for it: without a Kafka."""

from pathlib import Path

import pytest

from subscriptions.access import Rule, WantedAccess, wanted_access
from subscriptions.access_file import AccessFile, parse_access, read_access_file
from subscriptions.access_plan import (
    AddPartitions,
    AddRule,
    CreateTopic,
    FoundAccess,
    FoundTopic,
    Plan,
    RemoveRule,
    SetConfigs,
    SetQuota,
    plan_access,
    refuse_lock_out,
    show_change,
)
from subscriptions.errors import AccessFileError
from subscriptions.topic_names import TopicNames
from subscriptions.topics import TopicSettings, message_settings

EXAMPLE = Path(__file__).parents[3] / "deploy" / "kafka" / "access.toml"
NAMES = TopicNames("p")
TIMES = message_settings().configs
NOTHING = FoundAccess({}, frozenset(), {})

FILE = """
broker = ["xb"]
admins = ["op"]
registrars = ["reg"]
publishers = ["pub", "both"]

[subscribers]
a = ["alice", "both"]
ab = ["bob"]
"""


def wanted(text: str = FILE, names: TopicNames = NAMES, *inputs: str) -> WantedAccess:
    return wanted_access(parse_access(text.encode()), names, inputs)


def rules_of(user: str, access: WantedAccess) -> set[str]:
    return {rule.right for rule in access.rules if rule.user == user}


def found(access: WantedAccess, **changed: object) -> FoundAccess:
    """A Kafka that is as it is wanted, but for what is named."""
    topics = {
        name: FoundTopic(max(each.partitions, 1), max(each.replication, 1), each.configs)
        for name, each in access.topics.items()
    }
    there: dict[str, object] = {"topics": topics, "rules": access.rules, "quotas": access.quotas}
    return FoundAccess(**{**there, **changed})  # type: ignore[arg-type]


# Rules


@pytest.mark.parametrize(
    ("user", "rights"),
    [
        ("pub", {"WRITE topic p.messages", "DESCRIBE_CONFIGS topic p.messages"}),
        ("alice", {"READ topic p.out.a", "READ group p.out.a", "READ group p.out.a.…"}),
        ("bob", {"READ topic p.out.ab", "READ group p.out.ab", "READ group p.out.ab.…"}),
        (
            "both",
            {
                *("WRITE topic p.messages", "DESCRIBE_CONFIGS topic p.messages"),
                *("READ topic p.out.a", "READ group p.out.a", "READ group p.out.a.…"),
            },
        ),
        (
            "reg",
            {
                *("READ topic p.subscriptions", "WRITE topic p.subscriptions"),
                "READ topic p.subscription-status",
            },
        ),
        (
            "xb",
            {
                *("READ topic p.messages", "READ topic p.subscriptions"),
                *("READ topic p.subscription-status", "WRITE topic p.subscription-status"),
                *("WRITE topic p.dead-letters", "DESCRIBE_CONFIGS topic p.dead-letters"),
                *("CREATE topic p.out.…", "WRITE topic p.out.…", "DESCRIBE_CONFIGS topic p.out.…"),
            },
        ),
        (
            "op",
            {
                *("ALL topic p.…", "ALL group p.…"),
                *("ALTER the cluster", "ALTER_CONFIGS the cluster"),
            },
        ),
    ],
)
def test_what_each_role_may(user: str, rights: set[str]) -> None:
    assert rules_of(user, wanted()) == rights


def test_a_prefix_never_opens_the_name_of_another() -> None:
    """A prefixed rule ends with a dot, and no id has one: `p.out.a.` is no start of `p.out.ab`."""
    prefixed = [rule for rule in wanted().rules if rule.pattern == "prefixed"]
    assert prefixed
    assert all(rule.name.endswith(".") for rule in prefixed)
    subscribers = {"alice", "bob", "both", "pub", "reg"}
    assert not [rule for rule in prefixed if rule.kind == "topic" and rule.user in subscribers]


def test_other_input_topics() -> None:
    access = wanted(FILE, NAMES, "news", "sport")
    assert rules_of("pub", access) == {
        f"{operation} topic {topic}"
        for operation in ("WRITE", "DESCRIBE_CONFIGS")
        for topic in ("news", "sport")
    }
    reads = {right for right in rules_of("xb", access) if "messages" in right or "news" in right}
    assert reads == {"READ topic news", "DESCRIBE topic p.messages"}
    assert "news" not in access.topics  # another's to make


def test_shared_outputs_have_to_be_meant() -> None:
    shared = TopicNames("p", shared=1)
    with pytest.raises(AccessFileError, match="who reads one reads what others get") as caught:
        wanted(FILE, shared)
    assert caught.value.code == "shared-outputs"
    access = wanted("share_outputs = true\n" + FILE, shared)
    assert {"READ topic p.shared-out.0", "READ group p.out.a"} <= rules_of("alice", access)
    assert "WRITE topic p.shared-out.…" in rules_of("xb", access)


def test_topics() -> None:
    text = """
    [topics]
    replication = 3
    [topics.messages]
    partitions = 8
    configs = { "retention.ms" = 5, "unclean.leader.election.enable" = false }
    [topics.outputs]
    replication = 2
    configs = { "compression.type" = "zstd" }
    [topics.subscriptions]
    configs = { "min.compaction.lag.ms" = 9 }
    """
    topics = wanted(FILE + text).topics
    configs = {**TIMES, "retention.ms": "5", "unclean.leader.election.enable": "false"}
    assert topics["p.messages"] == TopicSettings(8, 3, configs)
    assert topics["p.out.a"] == TopicSettings(1, 2, {"compression.type": "zstd"})
    assert topics["p.subscriptions"] == TopicSettings(
        1,
        3,
        {
            "cleanup.policy": "compact",
            "min.compaction.lag.ms": "9",
            "message.timestamp.type": "LogAppendTime",
        },
    )
    assert topics["p.subscription-status"] == TopicSettings(1, 3, {"cleanup.policy": "compact"})
    assert topics["p.dead-letters"] == TopicSettings(-1, 3)
    assert set(wanted().topics) == {
        *("p.messages", "p.subscriptions", "p.subscription-status", "p.dead-letters"),
        *("p.out.a", "p.out.ab"),
    }


def test_quotas() -> None:
    text = """
    [quotas.publishers]
    producer_byte_rate = 100
    consumer_byte_rate = 7
    [quotas.subscribers]
    consumer_byte_rate = 200
    [quotas.users.bob]
    consumer_byte_rate = 5
    request_percentage = 12.5
    """
    assert wanted(FILE + text).quotas == {
        **{user: {} for user in ("xb", "op", "reg")},
        "pub": {"producer_byte_rate": 100.0, "consumer_byte_rate": 7.0},
        "alice": {"consumer_byte_rate": 200.0},
        "both": {"producer_byte_rate": 100.0, "consumer_byte_rate": 200.0},
        "bob": {"consumer_byte_rate": 5.0, "request_percentage": 12.5},
    }


# Plans


def test_an_empty_kafka_gets_everything() -> None:
    access = wanted()
    plan = plan_access(access, NOTHING)
    made = [type(change) for change in plan.changes]
    assert made == [CreateTopic] * len(access.topics) + [AddRule] * len(access.rules)
    assert plan.notes == ()


def test_a_kafka_that_is_as_wanted_is_left_alone() -> None:
    text = FILE + "[quotas.subscribers]\nconsumer_byte_rate = 1\n[topics.messages]\npartitions = 3"
    access = wanted(text)
    assert plan_access(access, found(access)) == Plan((), ())


def test_topics_that_differ() -> None:
    access = wanted(FILE + '[topics.messages]\npartitions = 4\nconfigs = { "retention.ms" = 9 }')
    there = found(access).topics
    others = {**TIMES, "retention.ms": "5", "segment.ms": "1"}
    messages = FoundTopic(2, 1, others)
    plan = plan_access(access, found(access, topics={**there, "p.messages": messages}))
    assert plan.changes == (
        AddPartitions("p.messages", 4, before=2),
        SetConfigs("p.messages", {"retention.ms": "9"}, others),
    )
    shown = [show_change(change) for change in plan.changes]
    assert shown[0] == ("change", "topic p.messages", "partitions=4 (is 2)")
    assert shown[1] == ("change", "topic p.messages", "retention.ms=9 (is 5)")


def test_what_kafka_cannot_change_is_said() -> None:
    access = wanted(FILE + "[topics.messages]\npartitions = 4\nreplication = 3")
    there = {**found(access).topics, "p.messages": FoundTopic(6, 1, TIMES)}
    plan = plan_access(access, found(access, topics=there))
    assert plan.changes == ()
    assert ["has 6 partitions and stays so" in plan.notes[0], len(plan.notes)] == [True, 2]
    assert "has 1 copies and stays so" in plan.notes[1]


def test_rules_of_ours_that_are_not_wanted_are_removed_last() -> None:
    access = wanted()
    old = {
        Rule("User:gone", "READ", "topic", "p.out.a"),
        Rule("User:alice", "READ", "topic", "p.out.ab"),
        Rule("User:*", "READ", "topic", "p.out.", "prefixed"),
        Rule("Group:all", "READ", "group", "p.out.a"),
        Rule("User:alice", "READ", "topic", "p.out.a", host="10.0.0.1"),
    }
    missing = Rule("User:bob", "READ", "topic", "p.out.ab")
    rules = (access.rules | old) - {missing}
    quotas = {**access.quotas, "gone": {"consumer_byte_rate": 1.0}}
    plan = plan_access(access, found(access, rules=rules, quotas=quotas))
    assert plan.changes == (
        AddRule(missing),
        SetQuota("gone", {}, ("consumer_byte_rate",)),
        *(RemoveRule(rule) for rule in sorted(old)),
    )
    assert show_change(plan.changes[1]) == ("limit", "user gone", "no consumer_byte_rate")
    assert "10.0.0.1" in " ".join(show_change(change).detail for change in plan.changes)


def test_rules_of_others_stay_and_are_named_where_they_open_ours() -> None:
    access = wanted()
    others = {
        Rule("User:x", "READ", "topic", "other"),
        Rule("User:x", "READ", "topic", "p2.messages"),
        Rule("User:x", "READ", "topic", "p"),
        Rule("User:x", "ALL", "topic", "p2.", "prefixed"),
        Rule("User:x", "ALTER", "cluster", "kafka-cluster"),
    }
    doors = {
        Rule("User:x", "READ", "topic", "*"),
        Rule("User:*", "READ", "group", "*"),
        Rule("User:y", "WRITE", "topic", "p", "prefixed"),
    }
    plan = plan_access(access, found(access, rules=access.rules | others | doors))
    assert plan.changes == ()
    assert sorted(note.partition(": ")[2] for note in plan.notes) == [
        "User:*: READ group *",
        "user x: READ topic *",
        "user y: WRITE topic p…",
    ]


def test_an_admin_who_is_none_any_more_loses_the_cluster_too() -> None:
    before, after = wanted(), wanted(FILE.replace('["op"]', "[]"))
    plan = plan_access(after, found(after, rules=before.rules))
    assert {change.rule.right for change in plan.changes if isinstance(change, RemoveRule)} == {
        *("ALL topic p.…", "ALL group p.…", "ALTER the cluster", "ALTER_CONFIGS the cluster")
    }
    refuse_lock_out(plan, "kafka")
    refuse_lock_out(plan, None)
    with pytest.raises(AccessFileError, match="away from `op`, who applies it"):
        refuse_lock_out(plan, "op")


def test_quotas_that_differ() -> None:
    access = wanted(FILE + "[quotas.subscribers]\nconsumer_byte_rate = 20_000_000")
    there = {
        **access.quotas,
        "alice": {"consumer_byte_rate": 1.0, "producer_byte_rate": 2.0},
        "bob": {},
        "stranger": {"consumer_byte_rate": 1.0},
    }
    plan = plan_access(access, found(access, quotas=there))
    assert plan.changes == (
        SetQuota("alice", {"consumer_byte_rate": 2e7}, ("producer_byte_rate",)),
        SetQuota("bob", {"consumer_byte_rate": 2e7}, ()),
    )
    assert show_change(plan.changes[1]).detail == "consumer_byte_rate=20000000"


# The file


def test_the_example_is_one() -> None:
    file = read_access_file(EXAMPLE)
    assert file.subscribers["archive"] == ("archive-loader", "archive-audit")
    access = wanted_access(file, TopicNames())
    assert rules_of("desk-app", access) == {
        *("READ topic xmlbroker.out.desk", "READ group xmlbroker.out.desk"),
        "READ group xmlbroker.out.desk.…",
    }


def test_only_the_broker_is_needed() -> None:
    assert parse_access(b'broker = ["xb"]') == AccessFile(broker=("xb",))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "broker: Field required"),
        ("broker = []", "broker: it has to have a user"),
        ('broker = "xb"', "broker: Input should be a valid list"),
        ("broker = [1]", "broker[1]: Input should be a valid string"),
        ('broker = ["*"]', "broker[1]: `*` would be every user"),
        ('broker = ["x", "anonymous"]', "broker[2]: this is who Kafka does not know"),
        ('broker = ["User:x"]', "broker[1]: a name without `User:`"),
        ('broker = [""]', "broker[1]: a name has 1 to 200"),
        ('broker = [" x"]', "broker[1]: a name has 1 to 200"),
        ('broker = ["x\\u001b"]', "broker[1]: a name has 1 to 200"),
        (f'broker = ["{"x" * 201}"]', "broker[1]: a name has 1 to 200"),
        ('broker = ["x"]\nreaders = ["y"]', "readers: Extra inputs are not permitted"),
        ('broker = ["x"]\npublishers = ["x"]', "broker: `x` has another role too"),
        ('broker = ["x"]\n[subscribers]\nA = ["y"]', "subscribers.A: an id is 1 to 63 of a-z"),
        ('broker = ["x"]\n[subscribers]\n"a.b" = ["y"]', "subscribers.a.b: an id is 1 to 63"),
        ('broker = ["x"]\n[subscribers]\na = ["*"]', "subscribers.a[1]: `*` would be every"),
        ('broker = ["x"]\n[subscribers]\na = "y"', "subscribers.a: Input should be a valid list"),
        (
            'broker = ["x"]\n[quotas.publishers]\nproducer_byte_rate = 0',
            "quotas.publishers.producer_byte_rate: Input should be greater than or equal to 1",
        ),
        (
            'broker = ["x"]\n[quotas.publishers]\nbytes = 1',
            "quotas.publishers.bytes: Extra inputs are not permitted",
        ),
        ('broker = ["x"]\n[quotas.users.y]', "quotas.users: `y` has no role"),
        (
            'broker = ["x"]\n[topics.messages]\npartitions = 0',
            "topics.messages.partitions: Input should be greater than or equal to 1",
        ),
        (
            'broker = ["x"]\n[topics.subscriptions]\npartitions = 2',
            "topics.subscriptions.partitions: Extra inputs are not permitted",
        ),
        (
            'broker = ["x"]\n[topics.status]\nconfigs = { "cleanup.policy" = "delete" }',
            "topics: status: the broker needs cleanup.policy as it makes it",
        ),
        (
            'broker = ["x"]\n[topics.messages.configs]\nretention.ms = 1',
            'topics.messages.configs: a name with dots has to be quoted: "retention.ms"',
        ),
        (
            'broker = ["x"]\n[topics.messages.configs]\n"a b" = 1',
            "topics.messages.configs: `a b` is no setting of a topic",
        ),
        (
            'broker = ["x"]\n[topics.messages.configs]\n"retention.ms" = 1.5',
            "the value of `retention.ms` is neither text nor number",
        ),
        ('broker = ["x"', "is no TOML: Unclosed array (at end of document)"),
        ("broker = x", "is no TOML: Invalid value (at line 1, column 10)"),
        ("a = " + "[" * 5000, "is no TOML"),
    ],
)
def test_files_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(AccessFileError) as caught:
        parse_access(text.encode(), "file.toml")
    assert caught.value.code == "bad-access-file"
    assert says in caught.value.detail
    assert caught.value.detail.startswith("file.toml ")
    assert "\x1b" not in str(caught.value)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(AccessFileError, match="not UTF-8"):
        parse_access(b"broker = ['\xff']")


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(AccessFileError) as caught:
        parse_access(b'broker = ["*"]\nadmins = ["User:x"]\nwrong = 1')
    assert [line.split(":")[0].strip() for line in caught.value.detail.splitlines()[1:]] == [
        *("broker[1]", "admins[1]", "wrong")
    ]

"""Messages that are read from their own text: never another answer than that of libxml2's tree."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from broker.documents import LabelPaths, Message, parse_message, scanning
from broker.documents.cutting import cut
from broker.documents.scanned_message import ScannedMessage
from broker.documents.tree_message import TreeMessage
from broker.errors import MessageError
from broker.limits import MessageLimits
from broker.names import ExpandedName
from tests.oracles.strategies import random_message
from tests.unit.documents.spellings import spelled_message

CASES = Path(__file__).parents[2] / "data" / "scanning.txt"
LIMITS = MessageLimits()
MUTATIONS = [
    *(b'<>/="&; \t\n\r\0!?-[]:x'[place : place + 1] for place in range(20)),
    *(b"'", b"</", b"/>", b"<a>", b"</a>", b"<a/>", b"<!--", b"-->", b"]]>", b"&lt;", b"&#0;"),
    *(b"xmlns=''", b' xmlns:p="u"', b"\xc3\xa9", b"\xc3", b"\xef\xbf\xbf", b"<![CDATA[", b"<?x ?>"),
]


def tree_of(data: bytes) -> TreeMessage:
    """The message as libxml2 reads it, or what is refused as the broker refuses it."""
    labels = LabelPaths()
    cut_away = labels.written = scanning.TagTable(labels)
    cut_away.charge(10**9)
    message = parse_message(data + b"<!-- never scanned -->", labels=labels)
    assert isinstance(message, TreeMessage)
    return message


def everything(message: Message) -> list[object]:
    """All that a message says of its nodes."""
    nodes = range(1, message.last + 1)
    labels = message.labels
    return [
        [labels.path(label) for label in message.label_paths],
        sorted(labels.path(label) for label in message.distinct_label_paths),
        message.parents,
        message.ends,
        [list(message.attribute_items(node)) for node in nodes],
        [list(message.attributes(node).items()) for node in nodes],
        [[kind.attributes for kind in message.kinds], list(message.values), message.value_ends],
        [[message.attribute_value(node, name) for node in nodes] for name in ("id", "{urn:p}id")],
        [message.texts(node) for node in nodes],
        [message.text_values(node) for node in nodes],
        [message.string_value(node) for node in range(message.last + 1)],
        [
            "" if kind.is_empty else text
            for node, (kind, text) in enumerate(zip(message.kinds, message.leaf_texts, strict=True))
            if node and message.ends[node] == node
        ],
        [message.has_default_namespace(node) for node in nodes],
        [
            message.attribute_prefix(node, name)
            for node in nodes
            for name in message.attributes(node)
            if name.namespace
        ],
        [tree_described(etree.fromstring(message.serialise(node))) for node in nodes],
    ]


def tree_described(element: etree._Element) -> object:
    children = [(tree_described(child), child.tail) for child in element]
    return (element.tag, element.items(), element.nsmap, element.text, children)


def assert_same(data: bytes, labels: LabelPaths, *, known: bool | None = None) -> None:
    """What is read with what was learned is what libxml2 says, refusals included."""
    try:
        expected = tree_of(data)
    except MessageError as refusal:
        code = refusal.code
    else:
        message = parse_message(data, labels=labels)
        if known is not None:
            assert isinstance(message, ScannedMessage) == known
        assert everything(message) == everything(expected)
        return
    with pytest.raises(MessageError) as caught:
        parse_message(data, labels=labels)
    assert caught.value.code == code


@given(st.randoms(use_true_random=False))
def test_the_second_time_a_message_is_scanned(rng: Random) -> None:
    data = random_message(rng) if rng.random() < 0.5 else spelled_message(rng)
    labels = LabelPaths()
    assert_same(data, labels)
    is_scannable = cut(data) is not None
    assert_same(data, labels, known=None if is_scannable else False)


@given(st.randoms(use_true_random=False))
def test_what_other_messages_taught_is_right(rng: Random) -> None:
    labels = LabelPaths()
    for _ in range(6):
        assert_same(spelled_message(rng), labels)


def test_many_messages_are_scanned() -> None:
    """Not too few: else the tests above would compare trees with trees."""
    rng = Random(7)
    labels = LabelPaths()
    for _ in range(1_000):
        parse_message(spelled_message(rng), labels=labels)
    later = [parse_message(spelled_message(rng), labels=labels) for _ in range(200)]
    assert sum(isinstance(each, ScannedMessage) for each in later) > 30


def mutated(data: bytes, rng: Random) -> bytes:
    """A message with something in the wrong place."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        place, other = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
        match rng.randrange(4):
            case 0:
                data = data[:place] + rng.choice(MUTATIONS) + data[place:]
            case 1:
                data = data[:place] + data[min(other, place + 3) :]
            case 2:
                data = data[:place] + rng.choice(MUTATIONS) + data[place + 1 :]
            case 3:
                end = min(len(data), other + rng.randint(1, 12))
                data = data[:place] + data[other:end] + data[place:]
    return data


@given(st.randoms(use_true_random=False))
def test_what_libxml2_refuses_is_refused(rng: Random) -> None:
    labels = LabelPaths()
    data = spelled_message(rng)
    for _ in range(2):
        parse_message(data, labels=labels)
    for _ in range(5):
        assert_same(mutated(data, rng), labels)


def cases() -> list[tuple[str, str]]:
    blocks = CASES.read_text(encoding="utf-8").split("\n\n")
    lines = [block.split("\n") for block in blocks if not block.startswith("#")]
    return [(each[0], line) for each in lines for line in each[1:] if line]


@pytest.mark.parametrize(("learned", "data"), cases())
def test_cases(learned: str, data: str) -> None:
    labels = LabelPaths()
    assert isinstance(parse_message(as_bytes(learned), labels=labels), ScannedMessage)
    for _ in range(2):
        assert_same(as_bytes(data), labels)


@pytest.mark.parametrize(
    "data",
    [
        b'<a xml:id="x"/>',  # libxml2 looks at its value
        b"<a k='1' l=\"2\"/>",
        b'<a k = "1"/>',
        b"<a k='xmlns=\"u\"'/>",
        b"<a k='\"'/>",
        b'<a xmlns="&amp;"/>',
        b"<a><!-- c --></a>",
        b"<a/><!-- c -->",
        b"<a><![CDATA[]]></a>",
        b"<a><?p i?></a>",
        b"<a>x > y</a>",
        b"<!DOCTYPE a><a/>",
        b"<%b/>" % (b"n" * 3_000),
    ],
)
def test_never_scanned(data: bytes) -> None:
    labels = LabelPaths()
    for _ in range(3):
        assert isinstance(parse_message(data, labels=labels), TreeMessage)


def as_bytes(text: str) -> bytes:
    return text.encode().decode("unicode_escape").encode("latin-1")


def test_every_part_of_a_limit_counts() -> None:
    data = b'<a b="1" xmlns:n="u"><c/></a>'
    labels = LabelPaths()
    assert isinstance(parse_message(data, labels=labels), ScannedMessage)
    for limits, code in [
        (MessageLimits(max_bytes=28), "too-large"),
        (MessageLimits(max_elements=1), "too-many-elements"),
        (MessageLimits(max_attributes=0), "too-many-attributes"),
        (MessageLimits(max_names=2), "too-many-names"),
        (MessageLimits(max_namespaces=0), "too-many-namespaces"),
        (MessageLimits(max_depth=1), "too-deep"),
        (MessageLimits(max_path_steps=2), "too-many-paths"),
        (MessageLimits(max_ancestors=2), "too-nested"),
    ]:
        with pytest.raises(MessageError) as caught:
            parse_message(data, limits, labels)
        assert caught.value.code == code


def test_a_table_of_tags_that_is_full_is_renewed_and_its_label_paths_stay() -> None:
    labels = LabelPaths()
    parse_message(b"<a><b/></a>", labels=labels)
    table = labels.written
    assert table is not None
    table.charge(10**9)
    message = parse_message(b"<a><b/></a>", labels=labels)
    assert labels.written is not table
    assert message.label_paths == [0, 1, 2]


def test_ways_between_tags_are_counted() -> None:
    """Places lead to all that follow them, so a few tags in all orders take memory of their own."""
    labels = LabelPaths()
    names = [b"<n%d/>" % number for number in range(60)]
    parse_message(b"<r>" + b"".join(names) + b"</r>", labels=labels)
    assert labels.written is not None
    before = labels.written._bytes
    rng = Random(1)
    for _ in range(30):
        rng.shuffle(names)
        parse_message(b"<r>" + b"".join(names) + b"</r>", labels=labels)
    assert labels.written._bytes > before + 1_000 * scanning._WAY_BYTES


def test_an_attribute_is_found_by_its_expanded_name() -> None:
    data = b'<p:a xmlns:p="urn:p" p:k="1" k="2" xml:lang="en"/>'
    labels = LabelPaths()
    parse_message(data, labels=labels)
    message = parse_message(data, labels=labels)
    assert isinstance(message, ScannedMessage)
    assert message.attribute(1, ExpandedName("urn:p", "k")) == "1"
    assert message.attribute(1, ExpandedName("", "k")) == "2"
    assert message.attribute_prefix(1, ExpandedName("urn:p", "k")) == "p"
    assert message.attribute(1, ExpandedName("urn:q", "k")) is None

"""Hostile messages: each is refused with its code, and the next one is parsed as if nothing was."""

import os
import threading
from pathlib import Path

import pytest
from lxml import etree

from broker.documents import LabelPaths, parse_message, parsing
from broker.errors import MessageError
from broker.limits import MessageLimits
from tests.integration.test_name_poisoning import hostile_message

BOMB = (
    b'<!DOCTYPE a [<!ENTITY x "xxxxxxxxxx"><!ENTITY y "&x;&x;&x;&x;&x;&x;&x;&x;">]>'
    b"<a b='&y;'>&y;</a>"
)


def nested(name: str, depth: int) -> bytes:
    """Elements in each other."""
    return f"<{name}>".encode() * depth + f"</{name}>".encode() * depth


REFUSED = {
    "empty": ("empty", b""),
    "white space": ("not-well-formed", b"  \n "),
    "not XML": ("not-well-formed", b"hello"),
    "JSON": ("not-well-formed", b'{"a": 1}'),
    "a tag open": ("not-well-formed", b"<a><b></a>"),
    "two roots": ("not-well-formed", b"<a/><b/>"),
    "NUL": ("not-well-formed", b"<a>\0</a>"),
    "an undeclared prefix": ("not-well-formed", b"<p:a/>"),
    "an attribute twice": ("not-well-formed", b"<a b='1' b='2'/>"),
    "an unknown entity": ("not-well-formed", b"<a>&nbsp;</a>"),
    "Latin-1 bytes": ("not-well-formed", "<a>é</a>".encode("latin-1")),
    "declared Latin-1": (
        "encoding-refused",
        b'<?xml version="1.0" encoding="ISO-8859-1"?><a>x</a>',
    ),
    "UTF-16": ("not-well-formed", "<a>x</a>".encode("utf-16")),
    "UTF-16 with a DOCTYPE": ("not-well-formed", BOMB.decode().encode("utf-16")),
    "UTF-7": ("encoding-refused", b'<?xml version="1.0" encoding="UTF-7"?>+ADw-a+AD4-'),
    "a bomb": ("doctype-refused", BOMB),
    "an internal subset": ("doctype-refused", b"<!DOCTYPE a []><a/>"),
    "an internal subset after comments": (
        "doctype-refused",
        b"\xef\xbb\xbf<?xml version='1.0'?><!-- > --><?p > ?>\n<!DOCTYPE a SYSTEM '>' [ ]><a/>",
    ),
    "an entity in text": ("entity-refused", b'<!DOCTYPE a SYSTEM "a.dtd"><a>&x;</a>'),
    "an entity in an attribute": ("entity-refused", b'<!DOCTYPE a SYSTEM "a.dtd"><a b="&x;"/>'),
    "too large": ("too-large", b"<a>" + b"x" * 5_000_000 + b"</a>"),
    "201 deep": ("too-deep", b"<a>" * 201 + b"</a>" * 201),
    "10,000 deep": ("too-deep", b"<a>" * 10_000 + b"</a>" * 10_000),
    "200,001 elements": ("too-many-elements", b"<a>" + b"<b/>" * 200_000 + b"</a>"),
    "10,001 names": (
        "too-many-names",
        b"<a>" + b"".join(b"<b%d/>" % n for n in range(10_000)) + b"</a>",
    ),
    "10,001 attribute names": (
        "too-many-names",
        b"<a " + b" ".join(b"b%d='1'" % n for n in range(10_000)) + b"/>",
    ),
    "200,001 attributes": ("too-many-attributes", b"<a>" + b"<b c='1'/>" * 200_001 + b"</a>"),
    "10,001 namespaces": ("too-many-namespaces", b"<a>" + b"<b xmlns='u'/>" * 10_001 + b"</a>"),
    "2,090 ways of 2 to 191 names": (
        "too-many-paths",
        b"<r>%s</r>" % b"".join(nested(f"a{n}", 190) for n in range(11)),
    ),
    "180,000 elements in 180 others": (
        "too-nested",
        b"<a>" * 180 + b"<b/>" * 180_000 + b"</a>" * 180,
    ),
    "200,001 comments": ("too-many-elements", b"<a>" + b"<!---->" * 200_000 + b"</a>"),
    "declared Latin-1 after a mark": (
        "encoding-refused",
        b'\xef\xbb\xbf<?xml version="1.0" encoding="ISO-8859-1"?><a/>',
    ),
    "declared Latin-1 after many spaces": (
        "encoding-refused",
        b'<?xml version="1.0"' + b" " * 300 + b'encoding="ISO-8859-1"?><a/>',
    ),
    "many ampersands": ("not-well-formed", b"<!DOCTYPE a><a>" + b"&" * 1_000_000 + b"</a>"),
    "many comments open": ("not-well-formed", b"<!DOCTYPE a><a>" + b"<!--" * 250_000),
    "many sections open": ("not-well-formed", b"<!DOCTYPE a><a>" + b"<![CDATA[" * 100_000),
}


@pytest.mark.parametrize(("code", "data"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_with_its_code(code: str, data: bytes) -> None:
    limits = MessageLimits(max_elements=200_000 if "elements" in code else 10**6)
    with pytest.raises(MessageError) as caught:
        parse_message(data, limits)
    assert caught.value.code == code, caught.value
    assert parse_message(b"<a>next</a>").string_value(1) == "next"


ACCEPTED = {
    "a byte order mark": b"\xef\xbb\xbf<a/>",
    "declared UTF-8": b'<?xml version="1.0" encoding="utf-8" standalone="yes"?><a/>',
    "a bare DOCTYPE": b'<!DOCTYPE a SYSTEM "a.dtd"><a>&amp;&#60;&lt;</a>',
    "a public DOCTYPE": b"<!DOCTYPE a PUBLIC '-//x//y' \"z>[\"><a/>",
    "DOCTYPE in a comment": b"<a><!-- <!DOCTYPE a [ --></a>",
    "an entity in CDATA": b'<!DOCTYPE a SYSTEM "a.dtd"><a><![CDATA[&x;]]><!-- &y; --></a>',
    "200 deep": b"<a>" * 200 + b"</a>" * 200,
}


@pytest.mark.parametrize("data", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(data: bytes) -> None:
    assert parse_message(data).name(1).local == "a"


def test_a_bare_doctype_can_be_refused() -> None:
    with pytest.raises(MessageError) as caught:
        parse_message(b'<!DOCTYPE a SYSTEM "a.dtd"><a/>', MessageLimits(doctype="refuse"))
    assert caught.value.code == "doctype-refused"


def test_every_limit_is_a_setting() -> None:
    data = b"<a b='1' xmlns:n='u'><c/></a>"
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
            parse_message(data, limits)
        assert caught.value.code == code
    assert parse_message(data).last == 2


def test_a_message_is_refused_alike_whatever_was_seen_before() -> None:
    """Ways from the root are counted while they are found, and found are those not known."""
    data = b"<r><a><b><c><d/></c></b></a></r>"
    limits = MessageLimits(max_path_steps=8, max_depth=3)
    labels = LabelPaths()
    for known in (b"<r/>", b"<r><a><b/></a></r>", data):
        parse_message(known, labels=labels)
        with pytest.raises(MessageError) as caught:
            parse_message(data, limits, labels)
        assert caught.value.code == "too-many-paths"


def test_no_file_is_opened(tmp_path: Path) -> None:
    """A named pipe that nobody writes to would hang the parser if it were opened."""
    pipe = tmp_path / "a.dtd"
    os.mkfifo(pipe)
    done = threading.Event()

    def parse() -> None:
        parse_message(f'<!DOCTYPE a SYSTEM "file:{pipe}"><a b="1">x</a>'.encode())
        done.set()

    thread = threading.Thread(target=parse, daemon=True)
    thread.start()
    assert done.wait(20)


def test_small_messages_with_new_names_wear_a_thread_too() -> None:
    seen = []

    def attack() -> None:
        for _ in range(4_000):
            parse_message(hostile_message(4_000))
        seen.append(parsing.thread_is_worn())

    thread = threading.Thread(target=attack)
    thread.start()
    thread.join()
    assert seen == [True]


def test_ordinary_messages_do_not_wear_a_thread() -> None:
    seen = []

    def work() -> None:
        for number in range(20_000):
            parse_message(b"<order id='%d'><item>%d</item><note/></order>" % (number, number))
        seen.append(parsing.thread_is_worn())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def test_a_full_dictionary_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """libxml2 says that it has no memory, on two threads even, and the message goes elsewhere."""
    parse = etree.fromstring
    worn = [threading.get_ident()]

    def full(data: bytes, parser: etree.XMLParser) -> etree._Element:  # a thread worn out
        if threading.get_ident() not in worn and len(worn) == 1:
            worn.append(threading.get_ident())
        if threading.get_ident() in worn:
            raise etree.XMLSyntaxError("unknown error", 2, 0, 0)
        return parse(data, parser)

    monkeypatch.setattr(etree, "fromstring", full)
    monkeypatch.setattr(parsing, "_wear", parsing._Wear())
    assert parse_message(b"<a><!-- not scanned -->x</a>").string_value(1) == "x"
    assert parsing.thread_is_worn()


def test_errors_are_the_same_on_a_worn_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing._wear, "is_worn", True)
    for code, data in REFUSED.values():
        if code == "not-well-formed":
            with pytest.raises(MessageError) as caught:
                parse_message(data)
            assert caught.value.code == code


def test_threads_do_not_disturb_each_other() -> None:
    """Callers that bring no label table have one each."""
    failures: list[BaseException] = []

    def parse_many(thread: int) -> None:
        try:
            for turn in range(20):
                names = b"".join(b"<n%d-%d-%d/>" % (thread, turn, n) for n in range(1000))
                message = parse_message(b"<r>" + names + b"</r>")
                assert message.name(1000).local == f"n{thread}-{turn}-998"
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=parse_many, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []

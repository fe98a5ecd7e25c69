"""Messages that are made to hurt, each with the code that its dead letter must have."""

from tests.faults.traffic import Message


def _bomb(levels: int) -> bytes:
    entities = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(levels))
    return f'<!DOCTYPE a [<!ENTITY e0 "boom">{entities}]><a>&e{levels};</a>'.encode()


def _nested(depth: int) -> bytes:
    return b"<a>" * depth + b"</a>" * depth


_UTF_16 = '<?xml version="1.0" encoding="UTF-16"?><a>text</a>'

POISON: dict[str, Message] = {
    "no value": Message(None, "no-value", key=b"k"),
    "empty": Message(b"", "empty"),
    "white space": Message(b" \n\t ", "not-well-formed"),
    "not XML": Message(b"hello, world", "not-well-formed"),
    "JSON": Message(b'{"a": 1}', "not-well-formed"),
    "random bytes": Message(bytes(range(256)) * 4, "not-well-formed"),
    "not closed": Message(b"<a><b></a>", "not-well-formed"),
    "cut short": Message(b"<a><b>text</b", "not-well-formed"),
    "two roots": Message(b"<a/><b/>", "not-well-formed"),
    "an attribute twice": Message(b"<a k='1' k='2'/>", "not-well-formed"),
    "an undeclared prefix": Message(b"<z:a/>", "not-well-formed"),
    "an undeclared entity": Message(b"<a>&nbsp;</a>", "not-well-formed"),
    "NUL": Message(b"<a>\0</a>", "not-well-formed"),
    "NUL by number": Message(b"<a>&#0;</a>", "not-well-formed"),
    "no UTF-8": Message(b"<a>\xe9</a>", "not-well-formed"),
    "half a surrogate pair": Message(b"<a>\xed\xa0\x80</a>", "not-well-formed"),
    "UTF-16 with its mark": Message(_UTF_16.encode("utf-16"), "not-well-formed"),
    "UTF-16 without": Message(_UTF_16.encode("utf-16-be"), "not-well-formed"),
    "UTF-7": Message(
        b'<?xml version="1.0" encoding="UTF-7"?>+ADw-a+AD4-+ADw-/a+AD4-', "encoding-refused"
    ),
    "Latin 1": Message(
        '<?xml version="1.0" encoding="ISO-8859-1"?><a>\xe9</a>'.encode("latin-1"),
        "encoding-refused",
    ),
    "a billion laughs": Message(_bomb(9), "doctype-refused"),
    "quadratic": Message(
        b'<!DOCTYPE a [<!ENTITY e "%s">]><a>%s</a>' % (b"x" * 50_000, b"&e;" * 5_000),
        "doctype-refused",
    ),
    "a bomb in an attribute": Message(
        b'<!DOCTYPE a [<!ENTITY e "x">]><a k="&e;"/>', "doctype-refused"
    ),
    "a file as entity": Message(
        b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/hostname">]><a>&e;</a>', "doctype-refused"
    ),
    "an entity of a DTD": Message(b'<!DOCTYPE a SYSTEM "a.dtd"><a>&e;</a>', "entity-refused"),
    "depth 201": Message(_nested(201), "too-deep"),
    "depth 10,000": Message(_nested(10_000), "too-deep"),
    "10 MB of text": Message(b"<a>%s</a>" % (b"x" * 10_000_000), "too-large"),
    "one byte too many": Message(b"<a>%s</a>" % (b"x" * (4 * 1024 * 1024 - 6)), "too-large"),
    "200,001 elements": Message(b"<a>%s</a>" % (b"<b/>" * 200_000), "too-many-elements"),
    "200,001 attributes": Message(
        b"<a>%s</a>" % (b"<b%s/>" % b"".join(b' k%d=""' % n for n in range(2_000)) * 101),
        "too-many-attributes",
    ),
    "10,001 names": Message(
        b"<a>%s</a>" % b"".join(b"<n%d/>" % n for n in range(10_000)), "too-many-names"
    ),
    "a name of a header with more bytes than characters": Message(
        b"no XML", "not-well-formed", headers=[("\N{EURO SIGN}" * 1_500_000, b"")]
    ),
    "10,001 namespaces": Message(
        b"<a>%s</a>" % b"".join(b'<b xmlns="u%d"/>' % n for n in range(10_001)),
        "too-many-namespaces",
    ),
}

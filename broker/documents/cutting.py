"""A message cut at its angle brackets into tags and texts, if there is no more to it.

Tags come out as they are written, but for what is in the quotes of their attributes, which comes
out apart: so the tags of a feed are the same strings again and again (`scanning.py`).
"""

import re
from typing import NamedTuple

_LARGEST = 9_000_000
"""Longer messages may have a text or a value that is too long for libxml2."""

DECLARED = "\x01"
"""Stands in tags for the quotes of namespaces, which stay: no message has this character."""

_UNREMARKABLE = bytes(
    each for each in range(256) if (each >= ord(" ") or each in b"\t\n") and each not in b"<>&"
)
"""All bytes but those that begin or end something, and those that XML forbids."""

_PROLOG = re.compile(
    rb"""(?:<\?xml[ \t\n]++version=(?:"1\.0"|'1\.0')"""
    rb"""(?:[ \t\n]++encoding=(?:"(?i:utf-8)"|'(?i:utf-8)'))?+"""
    rb"""(?:[ \t\n]++standalone=(?:"yes"|"no"|'yes'|'no'))?+[ \t\n]*+\?>)?+"""
    rb"""(?:[ \t\n]++|<!--[^-]*+(?:-[^-]++)*+-->)*+"""
)
"""What may be before the root element: a declaration, comments."""

_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_NO_CHARACTERS = (b"\xef\xbf\xbe", b"\xef\xbf\xbf")
"""U+FFFE and U+FFFF, the only ones above ASCII that UTF-8 has and XML forbids."""

_DECLARATION = re.compile(r"""(xmlns(?::[^\s="'<>]+)?=)(?:"([^"<>]*)"|'([^'"<>]*)')""")
_VALUE = {'"': re.compile(r'="([^"<>]*)"'), "'": re.compile(r"='([^'<>]*)'")}

_REFERENCE = re.compile(r"&(?:(lt|gt|amp|quot|apos)|#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6}));")
_PREDEFINED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_NORMALISED = str.maketrans("\t\n", "  ")


class Pieces(NamedTuple):
    """A message in pieces."""

    body: bytes
    """All from the root element on; line ends are as XML has them."""
    tags: list[str]
    """Without their brackets, and without what is in the quotes of attributes."""
    texts: list[str]
    """What is before the first tag, and after each; references are resolved."""
    values: list[str]
    """The values of all attributes, in the order of the tags."""
    comments: list[bytes]
    """Those before the root element."""


def cut(data: bytes) -> Pieces | None:
    """The pieces of a message; None if there is more to it than tags and text."""
    if len(data) > _LARGEST:
        return None
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not data.isascii() and any(each in data for each in _NO_CHARACTERS):
        return None
    comments: list[bytes] = []
    start = data[:2]
    if start in {b"<?", b"<!"} or start[:1] != b"<":
        prolog = _PROLOG.match(data)
        assert prolog is not None  # it may be empty
        if not _is_text(prolog[0]):
            return None
        comments = _COMMENT.findall(prolog[0])
        data = data[prolog.end() :]
    # Most messages have none of these characters, and one is found sooner than two.
    if (b"!" in data and b"<!" in data) or (b"?" in data and b"<?" in data):
        return None
    remarkable = data.translate(None, _UNREMARKABLE)
    has_references = b"&" in remarkable
    if has_references:
        remarkable = remarkable.replace(b"&", b"")
    tags = len(remarkable) // 2
    if not tags or remarkable != b"<>" * tags:
        return None
    try:
        body = data.decode()
    except UnicodeDecodeError:
        return None
    if has_references and not _are_characters(body):
        return None
    pieces = _cut(body, tags)
    if pieces is None or pieces.texts[0]:
        return None
    texts, values = pieces.texts, pieces.values
    if values:
        joined = "".join(values)
        if DECLARED in joined:
            return None  # a value looks like a declaration
        if "\n" in joined or "\t" in joined:
            values = [value.translate(_NORMALISED) for value in values]
    if has_references:
        texts, values = _resolved(texts), _resolved(values)
    return Pieces(data, pieces.tags, texts, values, comments)


class _Cut(NamedTuple):
    tags: list[str]
    texts: list[str]
    values: list[str]


def _cut(body: str, tags: int) -> _Cut | None:
    """Tags, texts and values of a body, as they are written."""
    marked, quote = body, '"'
    if "xmlns" in body:
        marked = _DECLARATION.sub(rf"\1{DECLARED}\2\3{DECLARED}", body)
    if '"' not in marked and "='" in marked:
        quote = "'"
    # Most texts have no quotes: then all that there are belong to tags.
    parts = marked.split(quote)
    found = _without_values(parts, '""', '"', tags) if len(parts) % 2 else None
    return found or _without_values(_VALUE[quote].split(marked), '=""', '=""', tags)


def _without_values(parts: list[str], empty: str, mark: str, tags: int) -> _Cut | None:
    """Cut what is left of a body without every second part, empty quotes in the place of those.

    None if some of it belongs to texts: those have the mark then, or brackets are missing.
    """
    pieces = empty.join(parts[::2]).replace(">", "<").split("<")
    texts = pieces[::2]
    if len(texts) != tags + 1:
        return None
    joined = "<".join(texts)
    if mark in joined or DECLARED in joined:
        return None
    return _Cut(pieces[1::2], texts, parts[1::2])


def _is_text(prolog: bytes) -> bool:
    """Whether there are no bytes that XML forbids."""
    try:
        prolog.decode()
    except UnicodeDecodeError:
        return False
    return not prolog.translate(None, _UNREMARKABLE).translate(None, b"<>&")


def _are_characters(body: str) -> bool:
    """Whether each ampersand begins a reference to a character that XML knows and allows."""
    found = _REFERENCE.findall(body)
    return len(found) == body.count("&") and all(
        name or _is_allowed(int(decimal) if decimal else int(hexadecimal, 16))
        for name, decimal, hexadecimal in found
    )


def _is_allowed(code: int) -> bool:
    if code < 0x20:
        return code in {0x9, 0xA, 0xD}
    return code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or 0x10000 <= code <= 0x10FFFF


def _resolved(texts: list[str]) -> list[str]:
    """Texts with the characters that are referred to."""
    return [_REFERENCE.sub(_character, text) if "&" in text else text for text in texts]


def _character(reference: re.Match[str]) -> str:
    name, decimal, hexadecimal = reference.groups()
    if name:
        return _PREDEFINED[name]
    return chr(int(decimal) if decimal else int(hexadecimal, 16))

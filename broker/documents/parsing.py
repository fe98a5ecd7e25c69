"""Bytes to an lxml tree, as hostile bytes have to be parsed.

Nothing outside the message is read: no DTD, no entity, no file, no network. Two things need more
than parser options:

- **DOCTYPE.** Entities that are used only in attributes leave no trace in the tree, so a DOCTYPE
  is judged by its text, before parsing.
- **Names.** libxml2 keeps every name that a thread ever parsed in a dictionary of that thread and
  never forgets one. Some hundred messages full of random names take a gigabyte, and then every
  message with a name not seen before fails, whoever sent it. So the names that traffic adds are
  estimated, by scanning a sample of it; a thread that has taken too many is *worn*, and from then
  on its messages are parsed on another thread, which is replaced when it is worn in turn.
"""

import random
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from lxml import etree

from broker.errors import MessageError
from broker.limits import MessageLimits

_DECLARATION = (b"<?xml", b"\xef\xbb\xbf<?xml")
_DECLARED_ENCODING = re.compile(rb"""[^>]*?\sencoding\s*+=\s*+["']([A-Za-z0-9._-]*+)["']""")
_ACCEPTED_ENCODINGS = frozenset((b"utf-8", b"utf8", b"us-ascii", b"ascii"))

_DOCTYPE = re.compile(
    rb"""\A(?:\xef\xbb\xbf)?+(?:\s++|<!--.*?-->|<\?.*?\?>)*+"""
    rb"""<!DOCTYPE(?:"[^"]*+"|'[^']*+'|[^"'\[>])*+(\[)?""",
    re.DOTALL,
)
_REFERENCE_OR_SECTION = re.compile(rb"&|<!--|<!\[CDATA\[|<\?")
_SECTION_ENDS = {b"<!--": b"-->", b"<![CDATA[": b"]]>", b"<?": b"?>"}
_REFERENCE = re.compile(rb"&([^\s;&<#]++);")
_KNOWN_ENTITIES = frozenset((b"lt", b"gt", b"amp", b"quot", b"apos"))

_NAMES = re.compile(
    rb"""<[^\s<>/="'!]++|\sxmlns[^\s=]*+\s*+=\s*+["'][^"']*+|\s[^\s<>/="'&;]++\s*+=(?=\s*+["'])"""
)
"""What libxml2 would keep: names of elements, instructions and attributes, and namespaces."""

_SAMPLE_BYTES = 524_288
"""One message for about so many bytes is scanned for names."""

_MOST_NAME_BYTES = 8_000_000
"""Bytes of new names after which a thread is worn. libxml2 fails at 100 million."""

_NO_MEMORY = 2
_RESOURCE_LIMIT = 114


def refuse_size(data: bytes, limits: MessageLimits) -> None:
    """Refuse a message that has too many bytes, or none."""
    if not data:
        raise MessageError("empty", "the message is empty")
    if len(data) > limits.max_bytes:
        raise MessageError(
            "too-large", f"the message has {len(data)} bytes, more than {limits.max_bytes}"
        )


def parse_tree(data: bytes, limits: MessageLimits) -> etree._Element:
    """The root element of a message, or a `MessageError` that says why it is refused."""
    if data.startswith(_DECLARATION):
        _refuse_encoding(data)
    if b"<!DOCTYPE" in data:
        _refuse_doctype(data, limits)
    wear = _wear
    if wear.is_worn:
        return _clean_thread.parse(data)
    wear.until_sample -= len(data)
    if wear.until_sample < 0:
        wear.sample(data)
    try:
        return etree.fromstring(data, wear.parser)
    except etree.XMLSyntaxError as error:
        if error.code != _NO_MEMORY:
            raise _refusal(error) from None
    wear.is_worn = True
    return _clean_thread.parse(data)


def thread_is_worn() -> bool:
    """Whether this thread has taken so many names that its messages are parsed on another one.

    That costs a hand-over for each message; a loop that can go on in a new thread should.
    """
    return _wear.is_worn


class _Wear(threading.local):
    """A thread's parser, and what its name dictionary has taken so far."""

    def __init__(self) -> None:
        self.parser = etree.XMLParser(
            # Not collect_ids=False: lxml then loads external DTDs in spite of load_dtd=False.
            encoding="utf-8",
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            huge_tree=False,
            recover=False,
        )
        self.is_worn = False
        self.name_bytes = 0
        self.names: set[bytes] = set()
        self.until_sample = 0
        self.random = random.Random()

    def sample(self, data: bytes) -> None:
        """Take the new names of a message for those of all messages since the last sample."""
        share = max(1.0, _SAMPLE_BYTES / len(data))
        # At random, so that no one can place names between two samples.
        self.until_sample = self.random.randrange(2 * _SAMPLE_BYTES) if share > 1 else 0
        new = set(_NAMES.findall(data)) - self.names
        self.names |= new
        self.name_bytes += int(share * sum(map(len, new)))
        if self.name_bytes > _MOST_NAME_BYTES:
            self.is_worn = True
            self.names = set()


class _CleanThread:
    """A thread of its own to parse on, replaced when it is worn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def parse(self, data: bytes) -> etree._Element:
        """Parse on a thread that is not worn; the hand-over costs more than a small message."""
        with self._lock:
            root, error = self._parse(data)
            if error is not None and error.code == _NO_MEMORY:
                root, error = self._parse(data)
        if error is not None:
            raise _refusal(error)
        assert root is not None
        return root

    def _parse(self, data: bytes) -> tuple[etree._Element | None, etree.XMLSyntaxError | None]:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="xmlbroker-parser")
        root, error, is_worn = self._executor.submit(self._parse_here, data).result()
        if is_worn:
            self._executor.shutdown(wait=False)
            self._executor = None
        return root, error

    @staticmethod
    def _parse_here(
        data: bytes,
    ) -> tuple[etree._Element | None, etree.XMLSyntaxError | None, bool]:
        _wear.until_sample -= len(data)
        if _wear.until_sample < 0:
            _wear.sample(data)
        try:
            return etree.fromstring(data, _wear.parser), None, _wear.is_worn
        except etree.XMLSyntaxError as error:
            return None, error, _wear.is_worn or error.code == _NO_MEMORY


_wear = _Wear()
_clean_thread = _CleanThread()


def _refuse_encoding(data: bytes) -> None:
    match = _DECLARED_ENCODING.match(data, 0, data.find(b">") + 1)
    if match and match.group(1).lower() not in _ACCEPTED_ENCODINGS:
        encoding = match.group(1).decode("ascii")
        raise MessageError("encoding-refused", f"messages are UTF-8; this one declares {encoding}")


def _refuse_doctype(data: bytes, limits: MessageLimits) -> None:
    match = _DOCTYPE.match(data)
    if match is None:
        return  # the characters stand in a comment or in text
    if limits.doctype == "refuse":
        raise MessageError("doctype-refused", "the message has a DOCTYPE")
    if match.group(1):
        raise MessageError("doctype-refused", "the message has a DOCTYPE with an internal subset")
    # Without its DTD an entity has no value: libxml2 keeps a node for it, or drops it silently.
    for name in _entities(data, match.end()):
        raise MessageError("entity-refused", f"the entity &{name}; is not declared")


def _entities(data: bytes, start: int) -> Iterator[str]:
    """The entities of a DTD that a message refers to, each byte looked at once."""
    while found := _REFERENCE_OR_SECTION.search(data, start):
        section_end = _SECTION_ENDS.get(found.group())
        if section_end is not None:
            end = data.find(section_end, found.end())
            if end < 0:
                return  # not well-formed, as the parser will say
            start = end + len(section_end)
            continue
        start = found.end()
        reference = _REFERENCE.match(data, found.start())
        if reference is not None and reference.group(1) not in _KNOWN_ENTITIES:
            yield reference.group(1).decode("utf-8", "replace")


def _refusal(error: etree.XMLSyntaxError) -> MessageError:
    detail = " ".join((error.msg or "unknown error").split())
    if error.code == _RESOURCE_LIMIT:
        if "depth" in detail:
            return MessageError("too-deep", "the message is deeper than any setting allows")
        return MessageError("too-large", detail)
    return MessageError("not-well-formed", detail)

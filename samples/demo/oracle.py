"""What should arrive, by an independent processor: Saxon runs each query as it is written."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lxml import etree
from saxonche import PySaxonApiError, PySaxonProcessor


@dataclass(frozen=True)
class Wanted:
    """A subscription as the oracle sees it."""

    name: str
    version: int
    query: str
    format: str = "xml"

    @cached_property
    def is_filter(self) -> bool:
        """Whether whole messages are wanted."""
        return " return " not in " ".join(self.query.split())

    @cached_property
    def xquery(self) -> str:
        """The query for Saxon: a filter asks whether there is anything."""
        if not self.is_filter:
            return self.query
        prolog, _, path = self.query.rpartition(";")
        return f"{prolog}{';' if prolog else ''} boolean({path})"


class Oracle:
    """Saxon, with each query compiled once."""

    def __init__(self) -> None:
        self._processor = PySaxonProcessor(license=False)
        self._compiled: dict[str, Any] = {}

    def wants(self, wanted: Wanted, message: bytes) -> bool:
        """Whether a subscription gets something of a message."""
        answer = self._run(wanted, message)
        if wanted.is_filter:
            return answer == "true"
        if wanted.query.lstrip().startswith("<"):
            # Saxon makes the element around all groups in any case; for no group we make nothing.
            return len(etree.fromstring(answer.encode())) > 0
        return bool(answer)

    def agrees(self, wanted: Wanted, message: bytes, delivered: bytes) -> bool:
        """Whether what was delivered is what it should be."""
        if wanted.is_filter:
            return delivered == message
        answer = self._run(wanted, message)
        if wanted.format == "groups":
            return _items(delivered) == _elements(answer)
        return _canonical(delivered) == _canonical(answer.encode())

    def is_refused(self, message: bytes) -> bool:
        """Whether a message is none: not well-formed, or with a document type of its own."""
        try:
            tree = etree.fromstring(
                message, etree.XMLParser(resolve_entities=False, encoding="utf-8")
            )
        except (etree.XMLSyntaxError, ValueError):
            return True
        return tree.getroottree().docinfo.internalDTD is not None

    def _run(self, wanted: Wanted, message: bytes) -> str:
        query = self._compiled.get(wanted.query)
        if query is None:
            query = self._processor.new_xquery_processor()
            query.set_property("!indent", "no")
            query.set_property("!omit-xml-declaration", "yes")
            query.set_query_content(wanted.xquery)
            self._compiled[wanted.query] = query
        node = self._processor.parse_xml(xml_text=message.decode())
        query.set_context(xdm_item=node)
        try:
            return query.run_query_to_string() or ""
        except PySaxonApiError:
            return ""


def _canonical(xml: bytes) -> bytes:
    """Fragments in a form in which equal ones are equal bytes."""
    body = xml.split(b"?>", 1)[1] if xml.startswith(b"<?xml") else xml
    root = etree.fromstring(b"<all>" + body + b"</all>")
    return etree.tostring(root, method="c14n", exclusive=True)


def _items(delivered: bytes) -> list[bytes]:
    """The elements of a delivery in groups, in turn."""
    record = json.loads(delivered)
    return [
        _canonical(item.encode()) for group in record["groups"] for items in group for item in items
    ]


def _elements(answer: str) -> list[bytes]:
    """The same elements as the template's XML has them: those within its own."""
    root = etree.fromstring(f"<all>{answer}</all>".encode())
    return [_canonical(etree.tostring(child, with_tail=False)) for made in root for child in made]

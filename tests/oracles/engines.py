"""The oracles: libxml2 through lxml, and Saxon."""

from functools import cache
from typing import Any

from lxml import etree
from saxonche import PySaxonApiError, PySaxonProcessor

from broker.documents import DOCUMENT, Message
from broker.results import AttributeNode, Node
from tests.oracles.translate import PREFIXES


@cache
def _saxon() -> Any:  # noqa: ANN401 - saxonche has no types
    return PySaxonProcessor(license=False)


class SaxonError(Exception):
    """Saxon refused the query, or its evaluation failed; `code` is XQuery's."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        words = detail.replace("\n", " ").split()
        self.code = next((word for word in words if len(word) == 8 and word[4:].isdigit()), "")


class SaxonDocument:
    """A document that Saxon has parsed, to run queries on."""

    def __init__(self, data: bytes) -> None:
        self.node = _saxon().parse_xml(xml_text=data.decode("utf-8"))

    def run(self, query: str) -> str:
        """The serialised result of a query whose context is the document."""
        processor = _saxon().new_xquery_processor()
        processor.set_context(xdm_item=self.node)
        processor.set_property("!indent", "no")
        processor.set_property("!omit-xml-declaration", "yes")
        processor.set_query_content(query)
        try:
            return processor.run_query_to_string() or ""
        except PySaxonApiError as error:
            raise SaxonError(str(error)) from None


class LxmlDocument:
    """A document for libxml2's XPath; tells the node ids of what it selects."""

    def __init__(self, data: bytes) -> None:
        self.root = etree.fromstring(data)
        elements = [each for each in self.root.iter() if isinstance(each.tag, str)]
        self.ids = {each: node for node, each in enumerate(elements, start=1)}

    def is_true(self, xpath: str) -> bool:
        return self.root.getroottree().xpath(xpath, namespaces=PREFIXES) is True

    def select(self, xpath: str) -> list[object]:
        """Nodes in a form that `comparable` gives ours too; the document node isn't shown."""
        found: Any = self.root.getroottree().xpath(xpath, namespaces=PREFIXES)
        return [self.describe(each) for each in found]

    def describe(self, found: Any) -> object:  # noqa: ANN401 - lxml's smart strings
        if not isinstance(found, str):
            return self.ids[found]
        parent = found.getparent()  # type: ignore[attr-defined]
        if found.is_attribute:  # type: ignore[attr-defined]
            return (self.ids[parent], found.attrname, str(found))  # type: ignore[attr-defined]
        if found.is_tail:  # type: ignore[attr-defined]
            # The text after an element or comment belongs to the parent of that.
            return (self.ids[parent.getparent()], str(found))
        return (self.ids[parent], str(found))


def comparable(nodes: list[Node]) -> list[object]:
    """Our nodes in the form of `LxmlDocument.select`."""
    described: list[object] = []
    for node in nodes:
        if isinstance(node, int):
            if node != DOCUMENT:
                described.append(node)
        elif isinstance(node, AttributeNode):
            described.append((node.owner, node.name.clark(), node.value))
        else:
            described.append((node.owner, node.value))
    return described


def saxon_path(message: Message, node: Node) -> str:
    """A node as XPath's `path()` writes it."""
    if not isinstance(node, int):
        owner = saxon_path(message, node.owner)
        if isinstance(node, AttributeNode):
            namespace, local = node.name
            return f"{owner}/@{f'Q{{{namespace}}}' if namespace else ''}{local}"
        return f"{owner}/text()[{node.number + 1}]"
    steps = []
    while node != DOCUMENT:
        namespace, local = message.name(node)
        steps.append(f"/Q{{{namespace}}}{local}[{message.position(node)}]")
        node = message.parent(node)
    return "".join(reversed(steps)) or "/"


def canonical(fragment: bytes | str, *, exclusive: bool = False) -> bytes:
    """A sequence of XML nodes in canonical form; exclusive: without namespaces not used."""
    text = fragment.encode("utf-8") if isinstance(fragment, str) else fragment
    root = etree.fromstring(b"<sequence>" + text + b"</sequence>")
    return etree.tostring(root, method="c14n", exclusive=exclusive)

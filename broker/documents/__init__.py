"""Messages as node tables, and DTDs as element graphs."""

from broker.documents.dtd import ElementGraph
from broker.documents.labels import LabelPaths
from broker.documents.message import DOCUMENT, Message, TextNode
from broker.documents.reading import parse_message

__all__ = ["DOCUMENT", "ElementGraph", "LabelPaths", "Message", "TextNode", "parse_message"]

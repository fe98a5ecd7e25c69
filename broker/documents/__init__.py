"""Messages as node tables, and DTDs as element graphs."""

from broker.documents.dtd import ElementGraph
from broker.documents.labels import LabelPaths
from broker.documents.message import DOCUMENT, Message, TextNode

__all__ = ["DOCUMENT", "ElementGraph", "LabelPaths", "Message", "TextNode"]

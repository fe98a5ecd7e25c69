"""Bytes to a node table, or the reason why a message is refused.

Whether a message is scanned or has a tree is decided by its bytes alone, not by those before it:
what is copied from it is spelled in one way or the other, and must be the same bytes each time.
"""

import re
import threading

from lxml import etree

from broker.documents.cutting import cut
from broker.documents.labels import LabelPaths
from broker.documents.message import Message
from broker.documents.parsing import parse_tree, refuse_size
from broker.documents.scanned_message import ScannedMessage
from broker.documents.scanning import TagTable
from broker.documents.tree_message import TreeMessage
from broker.errors import MessageError
from broker.limits import MessageLimits

_DEFAULT_LIMITS = MessageLimits()
_DECLARATION = re.compile(rb"\sxmlns[:=]")


class _OwnLabels(threading.local):
    """The table of callers that bring none, one for each thread."""

    def __init__(self) -> None:
        self.labels = LabelPaths()


_own = _OwnLabels()


def parse_message(
    data: bytes, limits: MessageLimits = _DEFAULT_LIMITS, labels: LabelPaths | None = None
) -> Message:
    """Parse a message and make its node table, or raise `MessageError`.

    Messages that are to be compared by label path must be given the same `labels`; a table belongs
    to one thread.
    """
    if labels is None:
        labels = _own.labels = _own.labels.renewed()
    refuse_size(data, limits)
    labels.begin(limits.max_path_steps)
    message: Message
    tags = _tags_of(labels)
    pieces = cut(data)
    trail = None if pieces is None else tags.scan(pieces)
    if pieces is not None and trail is not None:
        message = scanned = ScannedMessage(data, pieces, trail, labels)
        if len(data) > limits.uncounted_bytes:
            _refuse_excess_of_scanned(scanned, limits)
    else:
        root = parse_tree(data, limits)
        if len(data) > limits.uncounted_bytes:
            _refuse_excess_of_tree(data, root, limits)
        if pieces is not None:
            tags.learn(pieces.tags, root)
            trail = tags.scan(pieces)
        if pieces is not None and trail is not None:
            message = ScannedMessage(data, pieces, trail, labels)
        else:
            message = TreeMessage(data, root, labels)
    message.refuse_shape(limits)
    return message


def _tags_of(labels: LabelPaths) -> TagTable:
    """The tags that are known by a table of label paths."""
    tags = labels.written
    if tags is not None and tags.is_full:
        labels.renewals += 1
        tags = None
    if tags is None:
        tags = labels.written = TagTable(labels)
    return tags


def _refuse_excess_of_tree(data: bytes, root: etree._Element, limits: MessageLimits) -> None:
    """Refuse a message that has too much of something, before its table is made."""
    nodes = list(root.iter())
    _refuse_elements(len(nodes), limits)
    elements = [node for node in nodes if isinstance(node.tag, str)]
    _refuse_namespaces(data, limits)
    # Each attribute has its `=`, so counting those is enough for most messages.
    attributes = data.count(b"=")
    if attributes > limits.max_attributes:
        attributes = sum(len(element.attrib) for element in elements)
        _refuse_attributes(attributes, limits)
    if len(elements) + attributes > limits.max_names:
        names: set[object] = set()
        for element in elements:
            names.add(element.tag)
            names.update(element.keys())
        _refuse_names(len(names), limits)


def _refuse_excess_of_scanned(message: ScannedMessage, limits: MessageLimits) -> None:
    _refuse_elements(message.last, limits)
    _refuse_namespaces(message.data, limits)
    _refuse_attributes(len(message.values), limits)
    names = set(map(message.labels.tags.__getitem__, message.distinct_label_paths)) - {""}
    for kind in set(message.kinds):
        names.update(kind.attributes)
    _refuse_names(len(names), limits)


def _refuse_elements(count: int, limits: MessageLimits) -> None:
    most = limits.max_elements
    if count > most:
        what = "elements, comments and processing instructions"
        raise MessageError("too-many-elements", _too_many(count, what, most))


def _refuse_namespaces(data: bytes, limits: MessageLimits) -> None:
    count, most = sum(1 for _ in _DECLARATION.finditer(data)), limits.max_namespaces
    if count > most:
        raise MessageError("too-many-namespaces", _too_many(count, "namespace declarations", most))


def _refuse_attributes(count: int, limits: MessageLimits) -> None:
    most = limits.max_attributes
    if count > most:
        raise MessageError("too-many-attributes", _too_many(count, "attributes", most))


def _refuse_names(count: int, limits: MessageLimits) -> None:
    most = limits.max_names
    if count > most:
        raise MessageError("too-many-names", _too_many(count, "distinct names", most))


def _too_many(count: int, what: str, most: int) -> str:
    return f"the message has {count} {what}, more than {most}"

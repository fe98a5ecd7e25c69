"""DTDs made to fit random messages, and messages for which they are of use."""

from lxml import etree

from broker.documents import parse_message
from broker.documents.dtd import ElementGraph
from broker.names import ExpandedName


def dtd_of(data: bytes) -> ElementGraph:
    """A DTD that allows what a message does, and no more; prefixes stand for namespaces."""
    message = parse_message(data)
    children: dict[str, dict[str, None]] = {}
    for node in range(1, message.last + 1):
        name = lexical(message.name(node))
        children.setdefault(name, {})
        parent = message.parent(node)
        if parent > 0:
            children[lexical(message.name(parent))][name] = None
    models = [
        f"<!ELEMENT {name} ({' | '.join(names)})*>" if names else f"<!ELEMENT {name} EMPTY>"
        for name, names in children.items()
    ]
    models += [
        f'<!ATTLIST {name} xmlns:{name[0]} CDATA #FIXED "urn:{name[0]}">'
        for name in children
        if ":" in name
    ]
    return ElementGraph.parse("\n".join(models).encode(), roots=[message.name(1)])


def lexical(name: ExpandedName) -> str:
    prefix = name.namespace.removeprefix("urn:")
    return f"{prefix}:{name.local}" if prefix else name.local


def layered(data: bytes) -> bytes:
    """A message with other names at each depth, so that fewer of them are on loops."""
    root = etree.fromstring(data)
    for element in root.iter(etree.Element):
        depth = sum(1 for _ in element.iterancestors())
        element.tag = f"{element.tag!s}{min(depth, 3)}"  # also behind a namespace: {uri}name
    return etree.tostring(root)

"""Expanded names: what XML Namespaces takes a name to be."""

from typing import NamedTuple

XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"
"""The namespace of the prefix `xml`, which needs no declaration."""


class ExpandedName(NamedTuple):
    """A namespace and a local name; the namespace is "" for a name in none."""

    namespace: str
    local: str

    @classmethod
    def from_clark(cls, text: str) -> "ExpandedName":
        """The name that lxml writes as `{namespace}local`."""
        namespace, brace, local = text.rpartition("}")
        return cls(namespace[1:] if brace else "", local)

    def clark(self) -> str:
        """The name as lxml writes it: `{namespace}local`."""
        return f"{{{self.namespace}}}{self.local}" if self.namespace else self.local

    def __str__(self) -> str:
        return self.clark()

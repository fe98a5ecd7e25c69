"""What `where` clauses ask of the elements of each kind: mostly dictionaries to look values up in.

Elements of a kind have a label path and attributes of certain names (`documents/message.py`). So
what is asked of them is found out once, and values of messages are looked up without a question.
"""

from collections.abc import Callable, Iterable
from typing import Generic

from broker.documents import Message
from broker.documents.message import Kind
from broker.query.syntax import End, EndKind
from broker.runtime.constants import Constants, Entry, Member

Table = dict[str, Entry[Member]]
"""By a value, the first entry of those that compare with it."""


class Probe(Generic[Member]):
    """What to take of the elements of a name, and what to compare it with."""

    __slots__ = ("attribute", "constants", "is_text")

    def __init__(self, end: End | None) -> None:
        self.constants: Constants[Member] = Constants()
        self.is_text = end is not None and end.kind is EndKind.TEXT
        self.attribute = end.name.clark() if end is not None and end.name is not None else None

    def values(self, message: Message, node: int) -> list[str]:
        """What is to be compared of an element."""
        if self.is_text:
            return message.text_values(node)
        if self.attribute is None:
            return [message.string_value(node)]
        value = message.attribute_value(node, self.attribute)
        return [] if value is None else [value]


class Asked(dict[Kind, Table[Member]]):
    """For each kind, what the string values of its elements are looked up in, if they are leaves.

    A kind is asked about when it first comes, and then there is also what else is asked of it.
    """

    def __init__(self, ask: Callable[[Kind], tuple[Iterable[Probe[Member]], bool]]) -> None:
        super().__init__()
        self._ask = ask
        """Tells what there is for the elements of a kind, and whether they are known as leaves."""
        self.attributes: dict[Kind, tuple[Table[Member], ...]] = {}
        """What the values of the attributes are looked up in, of kinds that have some."""
        self.more: dict[Kind, tuple[Probe[Member], ...]] = {}
        """What more is asked than to look a value up as it is, of some kinds."""

    def __missing__(self, kind: Kind) -> Table[Member]:
        texts: Table[Member] = {}
        by_attribute: dict[str, Table[Member]] = {}
        more = []
        probes, is_leaf = self._ask(kind)
        for probe in probes:
            if probe.attribute is not None and probe.attribute not in kind.attributes:
                continue
            if not probe.constants.is_texts_alone or probe.is_text:
                more.append(probe)
            elif probe.attribute is not None:
                by_attribute[probe.attribute] = probe.constants.texts
            elif is_leaf:
                texts = probe.constants.texts
            else:
                more.append(probe)
        self.attributes[kind] = tuple([by_attribute.get(name, {}) for name in kind.attributes])
        if more:
            self.more[kind] = tuple(more)
        self[kind] = texts
        return texts

    def clear(self) -> None:
        """Ask again."""
        super().clear()
        self.attributes.clear()
        self.more.clear()

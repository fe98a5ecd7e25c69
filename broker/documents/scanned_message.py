"""A message that is read from its own text, tag by tag (`scanning.py`); lxml is not asked."""

from bisect import bisect_right
from collections.abc import Collection, Iterator
from itertools import compress

import numpy as np

from broker.documents.cutting import Pieces
from broker.documents.labels import NO_ELEMENT, LabelPaths
from broker.documents.made_once import made_once
from broker.documents.message import DOCUMENT, Message, TextNode
from broker.documents.scanning import Place
from broker.names import ExpandedName

_IS_BRACKET = bytes(each in b"<>" for each in range(256))


class ScannedMessage(Message):
    """A message whose texts and attributes are parts of its text.

    Tags are numbered from 1, as they come; 0 is before all of them, and the document's.
    """

    __slots__ = ("_begins", "_pieces", "_trail", "kinds", "label_paths")

    kinds: list[Place]

    def __init__(self, data: bytes, pieces: Pieces, trail: list[Place], labels: LabelPaths) -> None:
        super().__init__(data, labels)
        self._pieces = pieces
        self._trail = trail
        self._begins = begins = [place.begins for place in trail]
        """Whether each tag begins a node."""
        self.kinds = kinds = list(compress(trail, begins))
        """The kind of each node: the place that its tag leads to."""
        self.label_paths = [kind.label for kind in kinds]

    # Structure

    @made_once
    def tags(self) -> list[int]:
        """The tag that each node begins with."""
        return list(compress(range(len(self._trail)), self._begins))

    @property
    def distinct_label_paths(self) -> set[int]:
        """The label paths that the message has, that of the document among them."""
        labels = {place.label for place in set(self._trail)}
        labels.discard(NO_ELEMENT)
        return labels

    def _end(self, node: int) -> int:
        """The tag that an element ends with."""
        tag = self.tags[node]
        ended = self._trail[tag].ended
        return tag if ended is None else self._trail.index(ended, tag + 1)

    # Values

    @property
    def leaf_texts(self) -> Iterator[str]:
        """The string value of each element that may have content, but has no elements in it."""
        return compress(self._pieces.texts, self._begins)

    @property
    def values(self) -> list[str]:
        """The values of all attributes, element by element, as their kinds number them."""
        return self._pieces.values

    def attribute_items(self, node: int) -> list[tuple[str, str]]:
        """The attributes of an element, by their names as lxml writes them."""
        names = self.kinds[node].attributes
        end = self.value_ends[node]
        return list(zip(names, self._pieces.values[end - len(names) : end], strict=True))

    def attribute_value(self, node: int, name: str) -> str | None:
        """The value of one of those, or None."""
        names = self.kinds[node].attributes
        number = names.get(name)
        if number is None:
            return None
        return self._pieces.values[self.value_ends[node] - len(names) + number]

    def texts(self, node: int) -> list[TextNode]:
        """The text nodes of a node itself, not those of elements in it."""
        if node == DOCUMENT:
            return []
        found: list[TextNode] = []
        for tag in self._own(node):
            value = self._pieces.texts[tag]
            if value:
                before = bisect_right(self.tags, tag) - 1
                found.append(TextNode(node, len(found), value, before))
        return found

    def text_values(self, node: int) -> list[str]:
        """What the text nodes of an element say, without where they stand."""
        texts = self._pieces.texts
        return [texts[tag] for tag in self._own(node) if texts[tag]]

    def _own(self, node: int) -> list[int]:
        """The tags that leave a reader right inside an element: what follows them is its own."""
        start, end = self.tags[node], self._end(node)
        trail = self._trail
        element = trail[start].element
        return [tag for tag in range(start, end) if trail[tag].element is element]

    def string_value(self, node: int) -> str:
        """All text below a node, in order."""
        start, end = self.tags[max(node, 1)], self._end(max(node, 1))
        texts = self._pieces.texts
        return texts[start] if end == start + 1 else "".join(texts[start:end])

    # Copies

    def copies(self, nodes: Collection[int], most: int) -> list[bytes]:
        """Elements as they are written in the message, with the namespaces that they inherit."""
        body, brackets = self._pieces.body, self._brackets
        tags, trail = self.tags, self._trail
        copies = []
        size = 0
        for node in nodes:
            tag = last = tags[node]
            kind = trail[tag]
            ended = kind.ended
            if ended is not None:
                last += 1
                if trail[last] is not ended:
                    last = trail.index(ended, last)
            # The first tag has the number 1, and the first two brackets.
            copy = body[brackets[tag + tag - 2] : brackets[last + last - 1] + 1]
            if kind.inherited:
                name = b"<" + kind.name.encode()
                copy = b"%b%b%b" % (name, kind.inherited.encode(), copy[len(name) :])
            elif node == DOCUMENT:
                copy = b"".join([*self._pieces.comments, self.serialise(1)])
            copies.append(copy)
            size += len(copy)
            if size > most:
                break
        return copies

    @made_once
    def _brackets(self) -> memoryview:
        """Where the angle brackets are; they alternate."""
        # No list: that would take longer to make than all the rest.
        is_bracket = np.frombuffer(self._pieces.body.translate(_IS_BRACKET), np.bool_)
        return is_bracket.nonzero()[0].data

    def has_default_namespace(self, node: int) -> bool:
        """Whether names without prefix are in a namespace at this node."""
        return "" in self.kinds[node].scope

    def around_root(self) -> tuple[list[bytes], list[bytes]]:
        """The comments before the root element; what has some after it is not read so."""
        return self._pieces.comments, []

    def attribute_prefix(self, node: int, name: ExpandedName) -> str:
        """The prefix that an attribute in a namespace has in the message."""
        kind = self.kinds[node]
        return kind.written[kind.attributes[name.clark()]].partition(":")[0]

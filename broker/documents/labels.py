"""Label paths: the names from the root down to an element, as one small integer.

Two elements with the same label path are reached by the same steps of every query, so what is
known about one holds for the other: automaton states, plans and checks hang on this number.
"""

import sys
from typing import TYPE_CHECKING

from broker.errors import MessageError
from broker.names import ExpandedName

if TYPE_CHECKING:
    from broker.documents.scanning import TagTable

ROOT_LABEL = 0
"""The label path of the document itself: no names."""

NO_ELEMENT = -1
"""In the place of a label path, for comments and processing instructions: they are no nodes."""


class LabelKind:
    """The elements with a label path and certain attributes (`message.py`, `Kind`)."""

    __slots__ = ("attributes", "is_empty", "label", "width")

    def __init__(self, label: int, names: tuple[str, ...]) -> None:
        self.label = label
        self.is_empty = False
        self.attributes = {name: number for number, name in enumerate(names)}
        self.width = len(names)


class LabelPaths:
    """A dictionary of label paths that grows as messages show new ones.

    `children[label]` maps the name of a child, as lxml spells it (`{namespace}local`), to the
    child's label path; `add` makes one for a name not seen before. Messages keep the table that
    coded them. Feeds repeat their shapes, so a table stays small; hostile messages can fill one,
    so past `limit` the owner goes on with `renewed()`.
    """

    __slots__ = (
        "_kinds",
        "_markup",
        "_most",
        "_names",
        "_steps",
        "children",
        "deepest",
        "depths",
        "limit",
        "parents",
        "renewals",
        "tags",
        "written",
    )

    def __init__(self, limit: int = 100_000) -> None:
        self.limit = limit
        self.parents = [-1]
        self.tags = [""]
        self.depths = [0]
        self.deepest = 0
        self._steps = 0
        """The names in all label paths."""
        self._most = sys.maxsize
        """How many there may be when the message is read that is being read."""
        self.children: list[dict[object, int]] = [{}]
        self._names: dict[int, ExpandedName] = {}
        self._kinds: dict[tuple[int, tuple[str, ...]], LabelKind] = {}
        self._markup: dict[int, tuple[bytes, bytes, bytes] | None] = {}
        self.renewals = 0
        """How often a full table, or a full table of tags, was left for the collector."""
        self.written: TagTable | None = None
        """The tags that elements were seen to be written with."""

    def __len__(self) -> int:
        return len(self.tags)

    def renewed(self) -> "LabelPaths":
        """The table itself while there is room in it, else an empty one."""
        if len(self.tags) <= self.limit:
            return self
        empty = LabelPaths(self.limit)
        empty.renewals = self.renewals + 1
        return empty

    def begin(self, most_steps: int) -> None:
        """A message is read whose label paths may have so many names: label paths that it brings
        are not added beyond that.
        """
        self._most = self._steps + most_steps

    def has_at_most(self, steps: int) -> bool:
        """Whether any message's label paths have at most so many names."""
        return self._steps <= steps

    def add(self, parent: int, tag: object) -> int:
        """The label path of a child that `children[parent]` hasn't got; a `MessageError` if the
        message has too many.
        """
        if not isinstance(tag, str):
            return NO_ELEMENT
        label = len(self.tags)
        depth = self.depths[parent] + 1
        if self._steps + depth > self._most:
            raise too_many_paths()
        self._steps += depth
        self.parents.append(parent)
        self.tags.append(tag)
        self.depths.append(depth)
        self.deepest = max(self.deepest, depth)
        self.children.append({})
        self.children[parent][tag] = label
        return label

    def name(self, label: int) -> ExpandedName:
        """The name of the elements with this label path."""
        name = self._names.get(label)
        if name is None:
            name = self._names[label] = ExpandedName.from_clark(self.tags[label])
        return name

    def kind(self, label: int, names: tuple[str, ...]) -> LabelKind:
        """The kind of elements with a label path and attributes of some names."""
        kind = self._kinds.get((label, names))
        if kind is None:
            if len(self._kinds) > self.limit:
                self._kinds.clear()
            kind = self._kinds[label, names] = LabelKind(label, names)
        return kind

    def markup(self, label: int) -> tuple[bytes, bytes, bytes] | None:
        """The start tag, the end tag and the empty element for a label path, without attributes;
        None if the name is in a namespace, which would have to be declared.
        """
        try:
            return self._markup[label]
        except KeyError:
            tag = self.tags[label]
            name = tag.encode()
            made = (b"<%b>" % name, b"</%b>" % name, b"<%b/>" % name)
            self._markup[label] = None if tag.startswith("{") else made
            return self._markup[label]

    def path(self, label: int) -> tuple[ExpandedName, ...]:
        """The names from the root down, as explanations show them."""
        names = []
        while label != ROOT_LABEL:
            names.append(self.name(label))
            label = self.parents[label]
        return tuple(reversed(names))


def too_many_paths() -> MessageError:
    """The error of a message whose shape is not that of any feed: what is known of label paths
    can't be of use, and to find it out takes longer the deeper they are.
    """
    return MessageError(
        "too-many-paths",
        "the message has too many different ways from the root down to its elements",
    )

"""Reading messages by what libxml2 said of the tags of earlier ones.

Messages of a feed consist of the same tags over and over, and asking lxml for names, parents, texts
and attributes, one element after the other, takes longer than parsing does. So a message is cut at
its angle brackets, and its tags are looked up one after the other: each leads from one *place* to
the next, and a place knows the label path of the element that its tag begins. A message with a tag
that is not known yet is parsed by libxml2, and what it makes of the tags is learned from its tree.

This must never accept what libxml2 refuses, nor read it in another way. It does not, since

1. a message is cut only if it is UTF-8 without characters that XML forbids, its angle brackets
   alternate, there is no section, comment or instruction in or after its root element, and each
   `&` begins a reference to a character: then each pair of brackets is a tag, and all else is text;
2. a tag is known by its exact characters, but for those in the quotes of its attributes, which have
   no meaning for what is outside them: neither the quote itself nor `<` is among them. What is in
   the quotes of namespace declarations does count. Tags with `xml:id`, the one attribute whose
   value libxml2 looks at, are never known;
3. it is known in the same place: inside the same open elements, with the same namespaces in scope;
   so names mean the same there, and an end tag is that of the innermost element;
4. a message ends with the end of its root element and white space.

Most messages of most feeds are read so (`docs/decisions/0009-scanning.md`).
"""

import re
from collections.abc import Sequence
from itertools import accumulate
from operator import getitem

from lxml import etree

from broker.documents.cutting import DECLARED, Pieces
from broker.documents.labels import NO_ELEMENT, ROOT_LABEL, LabelPaths

_LONGEST_TAG = 2_000
"""Longer tags are not learned; what is in quotes doesn't count."""

_TAG_BYTES = 800
_WAY_BYTES = 100
"""About what it takes to know a tag, and to know where it leads from one more place."""

_MOST_BYTES = 48_000_000
"""What a table takes at most, before an empty one takes its place: hostile messages may fill it."""

_WHITE_SPACE = " \t\n"

_NAME = rf"""[^\s/="'{DECLARED}]+"""
_ATTRIBUTE = re.compile(rf'\s({_NAME})=(?:""|{DECLARED}([^{DECLARED}]*){DECLARED})')
_START_TAG = re.compile(rf"({_NAME})((?:\s*{_ATTRIBUTE.pattern})*)\s*(/?)")


class UnknownTagError(Exception):
    """A tag that has not been learned, or can't be."""


class Place(dict[str, "Place"]):
    """Where a reader stands after a tag: by the tags that may come next, where they lead.

    Places in the same element lead to the same ones, and differ in the tag that led to them. So a
    tag that is not found is looked for in the element, and kept.
    """

    __slots__ = (
        "attributes",
        "begins",
        "element",
        "ended",
        "inherited",
        "is_empty",
        "label",
        "name",
        "scope",
        "width",
        "written",
    )

    def __init__(self, element: "OpenElement", label: int) -> None:
        super().__init__()
        self.element = element
        """The innermost element that is open here."""
        self.label = label
        """The label path of the element that the tag begins; NO_ELEMENT if it ends one."""
        self.begins = label != NO_ELEMENT
        """Whether it begins one."""
        self.is_empty = False
        """Whether it ends that element, too."""
        self.name = ""
        """The name of that element, as it is written."""
        self.ended: Place | None = None
        """Where its end tag leads; None if there is none."""
        self.attributes: dict[str, int] = {}
        """The names of its attributes, as lxml has them, and their number among the values."""
        self.width = 0
        """How many those are."""
        self.written: tuple[str, ...] = ()
        """The same names, as they are written."""
        self.scope = element.scope
        """The namespaces in scope there, by prefix."""
        self.inherited = ""
        """The declarations of those that the tag doesn't declare itself: what a copy needs."""

    # A place is the one it is, whatever it leads to. All six: with one of dict's left among them,
    # Python would call the others in a slow way, and lists of places are searched.
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __lt__ = object.__dict__["__lt__"]
    __le__ = object.__dict__["__le__"]
    __gt__ = object.__dict__["__gt__"]
    __ge__ = object.__dict__["__ge__"]
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __missing__(self, tag: str) -> "Place":
        place = self.element.tags.get(tag)
        if place is None:
            raise UnknownTagError
        if self.element.table.charge(_WAY_BYTES):
            self[tag] = place
        return place


class OpenElement:
    """An element as the tags in it see it: of one label path, one spelling and one scope."""

    __slots__ = ("_inner", "back", "label", "outer", "scope", "table", "tags")

    def __init__(
        self,
        table: "TagTable",
        outer: "OpenElement | None",
        *,
        label: int = ROOT_LABEL,
        name: str = "",
        scope: dict[str, str] | None = None,
    ) -> None:
        self.table = table
        self.outer = outer
        self.label = label
        self.scope = scope or {}
        self.back = Place(self, NO_ELEMENT)
        """Where the reader stands when an element in this one has ended."""
        self.tags: dict[str, Place] = {}
        """The tags that may stand here, and where they lead."""
        self._inner: dict[tuple[str, tuple[tuple[str, str], ...]], OpenElement] = {}
        if outer is not None:
            self.tags[f"/{name}"] = outer.back

    def learn(self, tag: str, element: etree._Element | None) -> Place:
        """Where a tag leads that libxml2 has accepted here, as the start of an element or an end.

        An `UnknownTagError` says that it can't be learned.
        """
        if len(tag) > _LONGEST_TAG or "xml:id" in tag:
            raise UnknownTagError
        if element is None:
            assert self.outer is not None
            place = self.outer.back
        else:
            place = self._begin(tag, element)
        self.tags[tag] = place
        self.table.charge(_TAG_BYTES + len(tag))
        return place

    def _begin(self, tag: str, element: etree._Element) -> Place:
        """The place that a start tag leads to."""
        parts = _START_TAG.fullmatch(tag)
        if parts is None:
            raise UnknownTagError
        name, attributes, slash = parts[1], parts[2], parts[5]
        declared: dict[str, str] = {}
        written: list[str] = []
        for each in _ATTRIBUTE.finditer(attributes):
            prefix = _prefix(each[1])
            if (prefix is None) != (each[2] is None):
                raise UnknownTagError
            if prefix is None:
                written.append(each[1])
            else:
                declared[prefix] = each[2]
        scope = self.scope
        if declared:
            scope = {prefix: uri for prefix, uri in {**scope, **declared}.items() if uri}
        # What was made of the tag here must be what libxml2 made of it.
        names = [str(each) for each in element.keys()]  # noqa: SIM118 - no dictionary
        is_understood = {prefix or "": uri for prefix, uri in element.nsmap.items()} == scope
        if not is_understood or len(names) != len(written):
            raise UnknownTagError
        label = self.table.label_of(self.label, str(element.tag))
        place = Place(self._inside(name, label, scope, is_empty=bool(slash)), label)
        place.name = name
        place.is_empty = bool(slash)
        place.ended = None if slash else self.back
        place.attributes = {each: number for number, each in enumerate(names)}
        place.width = len(names)
        place.written = tuple(written)
        place.scope = scope
        place.inherited = "".join(
            [
                f' xmlns:{prefix}="{uri}"' if prefix else f' xmlns="{uri}"'
                for prefix, uri in scope.items()
                if prefix not in declared
            ]
        )
        return place

    def _inside(
        self, name: str, label: int, scope: dict[str, str], *, is_empty: bool
    ) -> "OpenElement":
        """The innermost element that is open after a tag."""
        if is_empty:
            return self.back.element
        key = (name, tuple(sorted(scope.items())))
        inner = self._inner.get(key)
        if inner is None:
            inner = OpenElement(self.table, self, label=label, name=name, scope=scope)
            self._inner[key] = inner
        return inner


class TagTable:
    """The tags that are known, from the root element down. It belongs to one thread."""

    __slots__ = ("_bytes", "_end", "_start", "labels")

    def __init__(self, labels: LabelPaths) -> None:
        self.labels = labels
        self._bytes = 0
        document = OpenElement(self, None)
        # When the root element has ended, there is no tag that may follow.
        document.back = Place(OpenElement(self, None), NO_ELEMENT)
        self._start = Place(document, ROOT_LABEL)
        self._end = document.back.element

    def charge(self, size: int) -> bool:
        """Count what is kept; False if there is no room for more."""
        self._bytes += size
        return self._bytes <= _MOST_BYTES

    @property
    def is_full(self) -> bool:
        """Whether to go on with an empty one."""
        return self._bytes > _MOST_BYTES

    def label_of(self, parent: int, tag: str) -> int:
        """The label path of an element below another one."""
        label = self.labels.children[parent].get(tag)
        return self.labels.add(parent, tag) if label is None else label

    def scan(self, pieces: Pieces) -> list[Place] | None:
        """Where the tags of a message lead, from the place before all of them.

        None if there is one that is not known where it stands, or no end.
        """
        try:
            trail = list(accumulate(pieces.tags, getitem, initial=self._start))
        except UnknownTagError:
            return None
        is_whole = trail[-1].element is self._end and not pieces.texts[-1].strip(_WHITE_SPACE)
        return trail if is_whole else None

    def learn(self, tags: Sequence[str], root: etree._Element) -> None:
        """Take what libxml2 made of the tags of a message; as many as can be learned."""
        elements = root.iter()
        place = self._start
        try:
            for tag in tags:
                element = None if tag[0] == "/" else next(elements)
                try:
                    place = place[tag]
                except UnknownTagError:
                    place = place.element.learn(tag, element)
        except UnknownTagError:
            pass


def _prefix(name: str) -> str | None:
    """The prefix that an attribute declares, "" for the default; None if it declares none."""
    if name == "xmlns":
        return ""
    return name[6:] if name.startswith("xmlns:") else None

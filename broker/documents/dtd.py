"""A DTD as a graph: which element may stand in which.

The claims and rewritings of BROKER 4 and 5.1 ask three things of it: whether an element is on a
loop (can contain itself), whether one element can be below another, and whether there is only one
way down between two. A message need not conform, so a fourth is: which of its edges is not there.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers import expat
from xml.parsers.expat import model as model_types

from broker.documents.labels import ROOT_LABEL, LabelPaths
from broker.documents.message import DOCUMENT, Message
from broker.errors import DtdError
from broker.names import XML_NAMESPACE, ExpandedName

_MOST_PARENTHESES = 20_000

_Model = tuple[int, int, str | None, tuple[Any, ...]]
"""A content model as expat gives it: type, quantifier, name, parts."""


class Edge(NamedTuple):
    """An element in its parent; the parent is None for the root element."""

    parent: ExpandedName | None
    child: ExpandedName


class ElementGraph:
    """Elements and the elements that may be their children.

    `roots` are the elements that a message may begin with: those given, or else those that
    stand in no other element.
    """

    def __init__(
        self,
        children: dict[ExpandedName, frozenset[ExpandedName]],
        roots: Iterable[ExpandedName] = (),
    ) -> None:
        self.children = children
        contained = frozenset[ExpandedName]().union(*children.values())
        self.roots = frozenset(roots) or frozenset(children) - contained or frozenset(children)
        self._descendants: dict[ExpandedName, frozenset[ExpandedName]] = {}
        self._checked: tuple[LabelPaths, dict[int, bool]] | None = None

    @classmethod
    def load(cls, path: Path, roots: Iterable[ExpandedName] = ()) -> "ElementGraph":
        """Read a DTD file; its parameter entities may refer to other files of its directory."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DtdError("dtd-not-found", f"{path}: {error.strerror}") from None
        return cls(_DtdReader(path.parent).read(data), roots)

    @classmethod
    def parse(cls, data: bytes, roots: Iterable[ExpandedName] = ()) -> "ElementGraph":
        """Read the text of a DTD that refers to no other file."""
        return cls(_DtdReader(None).read(data), roots)

    def __contains__(self, name: object) -> bool:
        return name in self.children

    def allows(self, edge: Edge) -> bool:
        """Whether the edge is in the graph."""
        if edge.parent is None:
            return edge.child in self.roots
        return edge.child in self.children.get(edge.parent, ())

    def descendants(self, name: ExpandedName) -> frozenset[ExpandedName]:
        """All elements that may be below one, at any depth."""
        known = self._descendants.get(name)
        if known is None:
            found: set[ExpandedName] = set()
            pending = [name]
            while pending:
                for child in self.children.get(pending.pop(), ()):
                    if child not in found:
                        found.add(child)
                        pending.append(child)
            known = self._descendants[name] = frozenset(found)
        return known

    def on_loop(self, name: ExpandedName) -> bool:
        """Whether an element can be below another of the same name."""
        return name in self.descendants(name)

    def loops(self) -> frozenset[ExpandedName]:
        """All elements that are on a loop."""
        return frozenset(name for name in self.children if self.on_loop(name))

    def only_path(
        self, above: ExpandedName | None, below: ExpandedName
    ) -> tuple[ExpandedName, ...] | None:
        """The names on the way down from one element to another, if there is only one way.

        `above` is left out of the answer, `below` is its last name. None for `above` is the
        document. No way, several, or a loop on the way: None.
        """
        between = self._between(below)
        path: list[ExpandedName] = []
        here = above
        while here != below or not path:
            steps = self.roots if here is None else self.children.get(here, frozenset())
            ways = steps & between
            if len(ways) != 1:
                return None
            (here,) = ways
            if here in path or here == above:
                return None
            path.append(here)
        # A way on from `below` back to itself would make longer ways of the same steps.
        return None if self.on_loop(below) else tuple(path)

    def _between(self, below: ExpandedName) -> frozenset[ExpandedName]:
        """The elements from which one can get down to `below`, and it itself."""
        above = {name for name in self.children if below in self.descendants(name)}
        return frozenset(above | ({below} if below in self.children else set()))

    def foreign_edges(self, message: Message) -> Iterator[tuple[int, Edge]]:
        """The nodes of a message whose edge to their parent is not in the graph, in order."""
        foreign = self._foreign_labels(message.labels)
        labels = message.labels
        for node in range(DOCUMENT + 1, message.last + 1):
            label = message.label_paths[node]
            is_foreign = foreign.get(label)
            if is_foreign is None:
                is_foreign = foreign[label] = not self.allows(_edge(labels, label))
            if is_foreign:
                yield node, _edge(labels, label)

    def conforms(self, message: Message) -> bool:
        """Whether all edges of a message are in the graph; each label path is checked once."""
        return next(self.foreign_edges(message), None) is None

    def _foreign_labels(self, labels: LabelPaths) -> dict[int, bool]:
        if self._checked is None or self._checked[0] is not labels:
            self._checked = (labels, {})
        return self._checked[1]


def _edge(labels: LabelPaths, label: int) -> Edge:
    parent = labels.parents[label]
    return Edge(None if parent == ROOT_LABEL else labels.name(parent), labels.name(label))


class _DtdReader:
    """Reads the element and attribute declarations of a DTD with expat.

    lxml's DTD objects lose the prefixes in content models, and so can't tell `o:item` from
    `item`.
    """

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self.models: dict[str, _Model] = {}
        self.namespaces: dict[str, str] = {"": "", "xml": XML_NAMESPACE}

    def read(self, data: bytes) -> dict[ExpandedName, frozenset[ExpandedName]]:
        """The children of each element."""
        self._parse(data)
        if not self.models:
            raise DtdError("dtd-empty", "the DTD declares no element")
        declared = [self._name(name) for name in self.models]
        graph: dict[ExpandedName, frozenset[ExpandedName]] = {}
        for name, model in zip(declared, self.models.values(), strict=True):
            if model[0] == model_types.XML_CTYPE_ANY:
                graph[name] = frozenset(declared)
            else:
                graph[name] = frozenset(self._name(each) for each in _names_in(model))
        # Elements that are named but not declared can't be valid anywhere, yet they are names.
        for child in sorted(frozenset[ExpandedName]().union(*graph.values()) - set(graph)):
            graph[child] = frozenset()
        return graph

    def _parse(self, data: bytes) -> None:
        parser = expat.ParserCreate()
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
        parser.ElementDeclHandler = self.models.setdefault
        parser.AttlistDeclHandler = self._declare_attribute
        parsers = [parser]
        files = ["the DTD"]

        def read_external(
            context: str, _base: str | None, system_id: str | None, _public_id: str | None
        ) -> int:
            # The first is the DTD itself, which stands in the place of an external subset.
            is_first = len(parsers) == 1
            text = data if is_first else self._external(system_id or "")
            if text.count(b"(") > _MOST_PARENTHESES:
                # expat descends into content models by recursion in C.
                raise DtdError("dtd-too-deep", f"more than {_MOST_PARENTHESES} parentheses")
            parsers.append(parsers[-1].ExternalEntityParserCreate(context))
            files.append(files[0] if is_first else system_id or "")
            parsers[-1].Parse(text, True)
            parsers.pop()
            files.pop()
            return 1

        parser.ExternalEntityRefHandler = read_external
        try:
            parser.Parse(b'<!DOCTYPE dtd SYSTEM "dtd"><dtd/>', True)
        except expat.ExpatError as error:
            place = f"{files[-1]}, line {error.lineno}, column {error.offset + 1}"
            reason = expat.ErrorString(error.code)
            raise DtdError("dtd-not-readable", f"{place}: {reason}") from None
        except (LookupError, ValueError) as error:  # an encoding that Python doesn't know
            raise DtdError("dtd-not-readable", f"{files[-1]}: {error}") from None

    def _external(self, system_id: str) -> bytes:
        directory = self.directory
        if directory is not None:
            try:
                path = (directory / system_id).resolve()
                if path.is_relative_to(directory.resolve()) and path.is_file():
                    return path.read_bytes()
            except (OSError, ValueError):
                pass  # no name that a file can have: said below
        raise DtdError(
            "dtd-external",
            f"the DTD refers to {system_id[:200]!r}, which is no file of its directory",
        )

    def _declare_attribute(
        self, element: str, name: str, _type: str, default: str | None, _required: int
    ) -> None:
        """DTDs know no namespaces; namespaced ones declare `xmlns` attributes with a value."""
        if default is None or not (name == "xmlns" or name.startswith("xmlns:")):
            return
        prefix = name.removeprefix("xmlns").removeprefix(":")
        known = self.namespaces.get(prefix)
        if known is not None and known != default and (prefix or known):
            raise DtdError(
                "dtd-prefix",
                f"{name} is {known!r} and, on {element}, {default!r}: a graph needs one",
            )
        self.namespaces[prefix] = default

    def _name(self, text: str) -> ExpandedName:
        prefix, _, local = text.rpartition(":")
        namespace = self.namespaces.get(prefix)
        if namespace is None:
            raise DtdError(
                "dtd-prefix",
                f"the prefix of {text} has no namespace; declare it in the DTD: "
                f'<!ATTLIST {text} xmlns:{prefix} CDATA #FIXED "…">',
            )
        return ExpandedName(namespace, local)


def _names_in(model: _Model) -> Iterator[str]:
    """The element names in a content model."""
    pending = [model]
    while pending:
        _, _, name, parts = pending.pop()
        if name is not None:
            yield name
        pending.extend(parts)

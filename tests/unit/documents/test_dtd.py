"""DTDs as element graphs."""

from pathlib import Path

import pytest

from broker.documents import ElementGraph, parse_message
from broker.documents.dtd import Edge
from broker.errors import DtdError
from broker.names import ExpandedName

BOOK = b"""
<!ENTITY % text "#PCDATA | em">
<!ELEMENT book (title, author*, section+)>
<!ELEMENT title (%text;)*>
<!ELEMENT author (#PCDATA)>
<!ELEMENT section (title, (p | figure | section)*)>
<!ELEMENT figure (title, image)>
<!ELEMENT p (%text;)*>
<!ELEMENT em (#PCDATA)>
<!ELEMENT image EMPTY>
"""


def name(text: str) -> ExpandedName:
    return ExpandedName("", text)


def path(graph: ElementGraph, above: str | None, below: str) -> list[str] | None:
    found = graph.only_path(name(above) if above else None, name(below))
    return [each.local for each in found] if found is not None else None


def test_edges_and_roots() -> None:
    graph = ElementGraph.parse(BOOK)
    assert graph.roots == {name("book")}
    assert graph.allows(Edge(name("section"), name("figure")))
    assert graph.allows(Edge(name("title"), name("em")))
    assert not graph.allows(Edge(name("book"), name("figure")))
    assert graph.allows(Edge(None, name("book")))
    assert not graph.allows(Edge(None, name("section")))
    assert name("image") in graph
    assert name("video") not in graph


def test_loops() -> None:
    graph = ElementGraph.parse(BOOK)
    assert graph.loops() == {name("section")}
    assert graph.on_loop(name("section"))
    assert not graph.on_loop(name("title"))
    assert name("em") in graph.descendants(name("book"))


@pytest.mark.parametrize(
    ("above", "below", "expected"),
    [
        (None, "book", ["book"]),
        (None, "author", ["book", "author"]),
        ("book", "author", ["author"]),
        ("figure", "image", ["image"]),
        ("figure", "em", ["title", "em"]),
        ("p", "em", ["em"]),
        ("book", "title", None),  # of the book, of a section, of a figure
        ("book", "section", None),  # a section in a section
        ("section", "figure", None),  # through any number of sections
        ("section", "section", None),
        ("author", "title", None),  # no way
        ("book", "video", None),  # no such element
    ],
)
def test_only_path(above: str | None, below: str, expected: list[str] | None) -> None:
    assert path(ElementGraph.parse(BOOK), above, below) == expected


def test_a_loop_beside_the_way_does_not_count() -> None:
    graph = ElementGraph.parse(
        b"<!ELEMENT a (b, c)><!ELEMENT b (b?)><!ELEMENT c (d)><!ELEMENT d EMPTY>"
    )
    assert path(graph, "a", "d") == ["c", "d"]


def test_a_loop_above_the_start_does_not_count() -> None:
    graph = ElementGraph.parse(b"<!ELEMENT a (a?, b)><!ELEMENT b (c)><!ELEMENT c EMPTY>")
    assert path(graph, "b", "c") == ["c"]
    assert path(graph, "a", "b") is None


def test_any_content_allows_all_elements() -> None:
    graph = ElementGraph.parse(b"<!ELEMENT a ANY><!ELEMENT b EMPTY>")
    assert graph.allows(Edge(name("a"), name("a")))
    assert graph.allows(Edge(name("a"), name("b")))
    assert graph.roots == {name("a"), name("b")}  # each stands in another, so none is the root


def test_foreign_edges_of_a_message() -> None:
    graph = ElementGraph.parse(BOOK)
    good = parse_message(
        b"<book><title/><section><title/><section><title/></section></section></book>"
    )
    assert graph.conforms(good)
    bad = parse_message(
        b"<book><section><p/><image/><video/></section><title><image/></title></book>"
    )
    assert not graph.conforms(bad)
    assert [
        (node, str(edge.parent), str(edge.child)) for node, edge in graph.foreign_edges(bad)
    ] == [
        (4, "section", "image"),
        (5, "section", "video"),
        (7, "title", "image"),
    ]
    other_root = parse_message(b"<section/>")
    assert list(graph.foreign_edges(other_root)) == [(1, Edge(None, name("section")))]


def test_roots_can_be_given() -> None:
    graph = ElementGraph.parse(BOOK, roots=[name("section")])
    assert graph.conforms(parse_message(b"<section><title/></section>"))


def test_names_in_namespaces() -> None:
    graph = ElementGraph.parse(
        b'<!ELEMENT o:order (o:item, note)*><!ATTLIST o:order xmlns:o CDATA #FIXED "urn:orders">'
        b"<!ELEMENT o:item (#PCDATA)><!ELEMENT note (#PCDATA)>"
    )
    order = ExpandedName("urn:orders", "order")
    assert graph.children[order] == {ExpandedName("urn:orders", "item"), name("note")}
    message = parse_message(b'<x:order xmlns:x="urn:orders"><x:item/><note/></x:order>')
    assert graph.conforms(message)


def test_files_beside_the_dtd_are_read(tmp_path: Path) -> None:
    (tmp_path / "main.dtd").write_bytes(
        b'<!ENTITY % inline SYSTEM "inline.mod">%inline;<!ELEMENT a (%inline.class;)*>'
    )
    (tmp_path / "inline.mod").write_bytes(b'<!ENTITY % inline.class "b | c"><!ELEMENT b EMPTY>')
    graph = ElementGraph.load(tmp_path / "main.dtd")
    assert graph.children[name("a")] == {name("b"), name("c")}


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        (b"", "dtd-empty", "declares no element"),
        (b"<!-- nothing -->", "dtd-empty", "declares no element"),
        (b"<!ELEMENT a (b>", "dtd-not-readable", "line 1"),
        (b"<!ELEMENT a EMPTY>\n<!ELEMENT b %c;>", "dtd-not-readable", "line 2"),
        (b"<a/>", "dtd-not-readable", "line 1"),
        (b"<!ELEMENT q:a EMPTY>", "dtd-prefix", "xmlns:q"),
        (b'<!ENTITY % x SYSTEM "/etc/passwd">%x;', "dtd-external", "/etc/passwd"),
        (b"<!ELEMENT a " + b"(" * 400_000 + b"b" + b")" * 400_000 + b">", "dtd-too-deep", "paren"),
        (b'<?xml version="1.0" encoding="foo"?><!ELEMENT a (b)>', "dtd-not-readable", "foo"),
        (b'<?xml version="1.0" encoding="utf-7"?><!ELEMENT a (b)>', "dtd-not-readable", "DTD"),
        (
            b'<!ELEMENT p:a (p:b)><!ATTLIST p:a xmlns:p CDATA "u"><!ATTLIST p:b xmlns:p CDATA "v">',
            "dtd-prefix",
            "a graph needs one",
        ),
    ],
)
def test_what_is_no_dtd_is_refused(data: bytes, code: str, says: str) -> None:
    with pytest.raises(DtdError) as caught:
        ElementGraph.parse(data)
    assert caught.value.code == code
    assert says in caught.value.detail


def test_files_elsewhere_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"<!ELEMENT b EMPTY>")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "a.dtd").write_bytes(b'<!ENTITY % x SYSTEM "../secret">%x;<!ELEMENT a (b)>')
    with pytest.raises(DtdError) as caught:
        ElementGraph.load(inner / "a.dtd")
    assert caught.value.code == "dtd-external"
    (inner / "long.dtd").write_bytes(b'<!ENTITY % x SYSTEM "' + b"x" * 5000 + b'">%x;')
    with pytest.raises(DtdError) as caught:
        ElementGraph.load(inner / "long.dtd")
    assert caught.value.code == "dtd-external"
    (inner / "bad.mod").write_bytes(b"<!ELEMENT")
    (inner / "bad.dtd").write_bytes(b'<!ENTITY % x SYSTEM "bad.mod">%x;')
    with pytest.raises(DtdError) as caught:
        ElementGraph.load(inner / "bad.dtd")
    assert "bad.mod, line 1" in caught.value.detail
    with pytest.raises(DtdError) as caught:
        ElementGraph.load(tmp_path / "none.dtd")
    assert caught.value.code == "dtd-not-found"


def test_nitf_loads(nitf: Path) -> None:
    graph = ElementGraph.load(nitf / "nitf-2-5.dtd")
    assert len(graph.children) == 123
    assert graph.roots == {name("nitf")}
    assert path(graph, None, "docdata") == ["nitf", "head", "docdata"]
    assert graph.on_loop(name("block"))
    for document in sorted((nitf / "documents").glob("*.xml")):
        assert graph.conforms(parse_message(document.read_bytes()))

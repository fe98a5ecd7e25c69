"""The node table: ids, structure, values, label paths, copies."""

from hypothesis import given
from lxml import etree

from broker.documents import DOCUMENT, LabelPaths, parse_message
from broker.names import ExpandedName
from tests.oracles.strategies import messages

NEWS = b"""<?xml version="1.0" encoding="UTF-8"?>
<!-- before -->
<news id="7" xmlns:m="urn:media"><item><title>One</title>text<!-- in -->more<m:photo m:size="2"/>
</item><item/><?do it?></news><!-- after -->"""


def test_ids_are_in_document_order() -> None:
    message = parse_message(NEWS)
    assert [message.name(node).local for node in range(1, message.last + 1)] == [
        "news",
        "item",
        "title",
        "photo",
        "item",
    ]
    assert message.parents == [-1, 0, 1, 2, 2, 1]
    assert message.ends == [5, 5, 4, 3, 4, 5]
    assert [message.depth(node) for node in range(message.last + 1)] == [0, 1, 2, 3, 3, 2]
    assert message.children(1) == [2, 5]
    assert len(message) == 5


def test_values() -> None:
    message = parse_message(NEWS)
    assert message.attributes(1) == {ExpandedName("", "id"): "7"}
    assert message.attribute(4, ExpandedName("urn:media", "size")) == "2"
    assert message.attribute(4, ExpandedName("", "size")) is None
    assert message.name(4) == ("urn:media", "photo")
    assert [text.value for text in message.texts(2)] == ["text", "more", "\n"]
    assert message.string_value(2) == "Onetextmore\n"
    assert message.string_value(DOCUMENT) == "Onetextmore\n"
    assert message.position(5) == 2
    assert message.attributes(DOCUMENT) == {}
    assert message.texts(DOCUMENT) == []


def test_comments_and_instructions_are_no_nodes_and_are_copied() -> None:
    message = parse_message(NEWS)
    assert b"<!-- in -->" in message.serialise(2)
    assert message.serialise(1).endswith(b"<?do it?></news>")
    assert message.serialise(DOCUMENT).startswith(b"<!-- before --><news")
    assert message.serialise(DOCUMENT).endswith(b"</news><!-- after -->")


def test_copies_have_their_namespaces_and_no_tail() -> None:
    message = parse_message(NEWS)
    assert message.serialise(4) == b'<m:photo xmlns:m="urn:media" m:size="2"/>'
    assert message.serialise(3) == b'<title xmlns:m="urn:media">One</title>'


def test_equal_paths_of_names_have_equal_labels() -> None:
    labels = LabelPaths()
    one = parse_message(NEWS, labels=labels)
    assert one.label_paths[2] == one.label_paths[5]
    assert len(set(one.label_paths)) == 5
    other = parse_message(b"<news><other/><item><title/></item></news>", labels=labels)
    assert other.label_paths[3] == one.label_paths[2]
    assert other.label_paths[4] == one.label_paths[3]
    assert other.label_paths[2] not in one.label_paths
    assert [name.local for name in labels.path(other.label_paths[4])] == ["news", "item", "title"]


def test_a_label_table_that_is_full_is_renewed() -> None:
    labels = LabelPaths(limit=3)
    assert labels.renewed() is labels
    message = parse_message(b"<a><b/><c/><d/></a>", labels=labels)
    renewed = labels.renewed()
    assert renewed is not labels
    assert len(renewed) == 1
    assert message.name(4).local == "d"


@given(messages())
def test_table_agrees_with_the_tree(data: bytes) -> None:
    message = parse_message(data)
    root = etree.fromstring(data)
    elements = [element for element in root.iter() if isinstance(element.tag, str)]
    ids = {element: node for node, element in enumerate(elements, start=1)}
    assert message.last == len(elements)
    string_of = etree.XPath("string()")
    for element, node in ids.items():
        parent = element.getparent()
        assert message.parent(node) == (ids[parent] if parent is not None else DOCUMENT)
        assert message.name(node).clark() == element.tag
        assert message.depth(node) == len(list(element.iterancestors())) + 1
        below = [ids[each] for each in element.iter() if isinstance(each.tag, str)]
        assert below == list(range(node, message.ends[node] + 1))
        assert message.string_value(node) == string_of(element)
        assert [text.value for text in message.texts(node)] == element.xpath("text()")
        attributes = {name.clark(): value for name, value in message.attributes(node).items()}
        assert attributes == dict(element.attrib)


@given(messages())
def test_copies_parse_to_equal_trees(data: bytes) -> None:
    message = parse_message(data)
    root = etree.fromstring(data)
    elements = [element for element in root.iter() if isinstance(element.tag, str)]
    for node, element in enumerate(elements, start=1):
        copy = etree.fromstring(message.serialise(node))
        assert described(copy) == described(element)
        assert copy.nsmap == element.nsmap


def described(element: etree._Element) -> object:
    """All that a tree holds, without what follows it."""
    children = [(described(child), child.tail) for child in element]
    return (str(element.tag), dict(element.attrib), element.text, children)
